#!/bin/sh
# check_exec_killed.sh SEMEL: calls of semel exec that are killed.
# shellcheck disable=SC2016 # it is the command that is to expand them
# shellcheck source=tests/program/exec_kit.sh
. "$(dirname "$0")/exec_kit.sh"

# --- killed -----------------------------------------------------------------------------------------------------------
# The command dies with semel, and the next call is the second attempt, once the lease has ended.
"$semel" exec --lease 1s --key orphan -- sh -c 'echo $$ >orphan; exec sleep 1000' &
pid=$!
until_true test -s orphan
kill -9 "$pid"
wait "$pid" 2>err || true
until_true sh -c '! kill -0 "$(cat orphan)"'
expect 0 "$semel" exec --lease 30s --wait 60s --key orphan -- sh -c 'test "$SEMEL_ATTEMPT" = 2'

# At random moments, several keys at once: no two runs overlap, attempts are counted, and one run completes.
cat >work.sh <<'END'
exec 9>"lock.$1"
flock -n 9 || echo "$1" >>overlaps
echo "$SEMEL_ATTEMPT" >>"begun.$1"
sleep 0.2
echo "$SEMEL_ATTEMPT" >>"ended.$1"
END
torment() {
    for pause in 0.00 0.05 0.11 0.20 0.30; do
        "$semel" exec --lease 1s --wait 60s --key "$1" -- sh work.sh "$1" &
        pid=$!
        sleep "$pause"
        kill -9 "$pid" 2>/dev/null || true
        status=0
        wait "$pid" 2>/dev/null || status=$?
        [ "$status" != 0 ] || echo "$1" >>completed
    done
    "$semel" exec --lease 30s --wait 60s --key "$1" -- sh work.sh "$1"
    "$semel" exec --lease 30s --wait 60s --key "$1" -- touch "again.$1"
}
for key in k1 k2 k3 k4; do
    torment "$key" >/dev/null 2>&1 &
done
wait
[ ! -e overlaps ] || fail "runs overlap: $(cat overlaps)"
for key in k1 k2 k3 k4; do
    [ ! -e "again.$key" ] || fail "$key was run again"
    [ -s "ended.$key" ] || fail "$key was never completed"
    sort -nu "begun.$key" | cmp -s - "begun.$key" || fail "attempts of $key: $(tr '\n' ' ' <"begun.$key")"
    # A run that has ended and was not recorded was followed by another; the last one was recorded.
    [ "$(tail -n 1 "begun.$key")" = "$(tail -n 1 "ended.$key")" ] || fail "$key: a run after the completed one"
done
echo ok
