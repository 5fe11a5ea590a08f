#!/bin/sh
# check_run_target.sh PROGRAM SOURCE: what `make run` does: dev/run, in a pipe and at a terminal, ended by itself, by
# Ctrl-C and by SIGTERM. Copies are suppressed where one can see it, and nothing is left behind.
set -eu
program=$1
source=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export TMPDIR="$scratch/tmp"
mkdir "$TMPDIR"

fail() {
    echo "check_run_target: $*" >&2
    cat "$scratch/out" >&2
    exit 1
}
# Every process of dev/run has its directory below TMPDIR as its working directory, or has TMPDIR in its environment.
left_behind() {
    [ -z "$(ls -A "$TMPDIR")" ] || return 0
    find /proc/[0-9]*/cwd -maxdepth 0 -lname "$TMPDIR/*" 2>/dev/null | grep -q .
}
check() { # check HOW
    grep -qE '^ +http://127\.0\.0\.1:[0-9]+/.?$' "$scratch/out" || fail "$1: it does not say where its page is"
    grep -q 'payments  .* processed' "$scratch/out" || fail "$1: no order was charged"
    grep -q 'payments  .* duplicate' "$scratch/out" || fail "$1: no copy was suppressed"
    grep -qE 'stopped after .* 0 failed, 0 dead letters' "$scratch/out" || fail "$1: it did not stop by itself"
    ! left_behind || fail "$1: something was left behind: $(ls "$TMPDIR")"
}
sees_a_duplicate() {
    end=$(($(date +%s) + 60))
    until grep -q 'payments  .* duplicate' "$scratch/out"; do
        [ "$(date +%s)" -lt $end ] || fail 'after 60 s no copy was suppressed'
        sleep 0.1
    done
}

SEMEL_RUN_SECONDS=5 "$source/dev/run" "$program" >"$scratch/out" 2>&1 || fail 'in a pipe: it failed'
grep -q '[0-9] mails were sent' "$scratch/out" || fail 'it does not say what was done'
check 'in a pipe'

"$source/dev/run" "$program" >"$scratch/out" 2>&1 &
run=$!
sees_a_duplicate
kill -TERM $run
status=0
wait $run || status=$?
[ $status = 143 ] || fail "SIGTERM: the exit status is $status"
check SIGTERM

: >"$scratch/out"
export TERM=dumb # without colour
/usr/bin/python3 "$source/tests/program/interrupt.py" "$scratch/out" '  duplicate' "$source/dev/run" "$program" ||
    fail 'Ctrl-C: it failed'
check Ctrl-C
