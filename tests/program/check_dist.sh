#!/bin/sh
# check_dist.sh PROGRAM SOURCE: what dev/dist makes of the program. The manual pages are rendered without a warning and
# name every command and every option; the completion of bash completes; the example is valid.
set -eu
program=$1
source=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
dist=$scratch/dist
"$source/dev/dist" "$program" "$dist"

fail() {
    echo "check_dist: $*" >&2
    exit 1
}

# --- manual pages -------------------------------------------------------------------------------------------------

! grep -n '@[A-Z]*@' "$dist/semel.1" "$dist/semel.yaml.5" || fail 'something was not filled in'
for page in semel.1 semel.yaml.5; do
    command -v groff >/dev/null || continue
    groff -man -ww -Tutf8 "$dist/$page" 2>"$scratch/warnings" >/dev/null
    [ ! -s "$scratch/warnings" ] || fail "$page: $(cat "$scratch/warnings")"
done

"$program" help | sed -n 's/^  .........\([a-z][a-z]*\)  .*/\1/p' >"$scratch/commands"
[ "$(wc -l <"$scratch/commands")" -ge 10 ] || fail 'the commands are not found in semel help'
while read -r name; do
    grep -qx "\.SS $name" "$dist/semel.1" || fail "semel.1 does not have the command $name"
    "$program" help "$name" | sed 's/-/\\-/g' | grep -oE '(^|[ [])\\-\\-[a-z\\-]+' | tr -d ' [' \
        >"$scratch/options" || true
    while read -r option; do
        grep -qF -e "$option" "$dist/semel.1" || fail "semel.1 does not have the option $option of $name"
    done <"$scratch/options"
done <"$scratch/commands"
# shellcheck disable=SC2016 # those of Markdown
"$program" config reference | sed -n 's/^| `\([a-z_]*\)` .*/\1/p' | sort -u >"$scratch/names"
[ "$(wc -l <"$scratch/names")" -ge 50 ] || fail 'the options are not found in semel config reference'
while read -r name; do
    grep -qx "\.B $name" "$dist/semel.yaml.5" || fail "semel.yaml.5 does not have the option $name"
done <"$scratch/names"

# --- completion ---------------------------------------------------------------------------------------------------

# What bash offers for the last of the words: offered WORD…
offered() {
    bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _semel; echo "${COMPREPLY[*]}"' \
        offered "$dist/semel.bash" "$@"
}
expect() { # expect WANTED WORD…
    wanted=$1
    shift
    [ "$(offered "$@")" = "$wanted" ] || fail "bash completes \"$*\" to \"$(offered "$@")\", not to \"$wanted\""
}
if command -v bash >/dev/null; then
    expect publish semel pub
    expect '--version' semel --v
    expect '--copies --content-type --config --color' semel publish orders --co
    expect 'dump explain reference' semel config ''
    expect 'bash zsh fish' semel completion ''
    expect 'ls show forget purge' semel inbox ''
    expect 'ls show lag requeue skip' semel outbox ''
    expect '--state --since --store --set' semel inbox ls --s
    expect '--dry-run' semel outbox requeue shipping --dr
    expect 'run' semel help ru
    expect '' semel run '' # files, by -o default
fi
! command -v zsh >/dev/null || zsh -n "$dist/semel.zsh" || fail 'zsh does not read its completion'
! command -v fish >/dev/null || fish -n "$dist/semel.fish" || fail 'fish does not read its completion'
for shell in zsh fish; do
    while read -r name; do
        grep -q "$name" "$dist/semel.$shell" || fail "$shell does not know $name"
    done <"$scratch/commands"
done
status=0
"$program" completion tcsh 2>/dev/null || status=$?
[ "$status" = 2 ] || fail 'semel completion tcsh is accepted'

# --- the example --------------------------------------------------------------------------------------------------

"$program" check "$dist/examples/semel.yaml" >/dev/null 2>&1 || fail 'the example is not valid'
[ -x "$dist/examples/send-email.sh" ] || fail 'the handler of the example cannot be executed'
