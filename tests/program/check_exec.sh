#!/bin/sh
# check_exec.sh SEMEL: semel exec as it is typed: statuses, messages, keys, stores, streams.
# shellcheck disable=SC2016 # it is the command that is to expand them
# shellcheck source=tests/program/exec_kit.sh
. "$(dirname "$0")/exec_kit.sh"

# --- as in the manual -------------------------------------------------------------------------------------------------
cat >transfer.sh <<'END'
#!/bin/sh
[ "$1" != fail ] || { echo "transfer.sh: no response from the bank" >&2; exit 1; }
echo "transfer 4c19 sent"
END
chmod +x transfer.sh
expect 0 "$semel" exec --replay --key rent-2026-03 -- ./transfer.sh 900
says out "transfer 4c19 sent$newline"
says err ""
expect 0 "$semel" exec -v --replay --key rent-2026-03 -- ./transfer.sh 900
says out "transfer 4c19 sent$newline"
says err "semel exec: rent-2026-03 was already done at TIME; output replayed$newline"
expect 0 "$semel" exec -v --key rent-2026-03 -- ./transfer.sh 900
says out ""
says err "semel exec: rent-2026-03 was already done at TIME; not run again$newline"
expect 1 "$semel" exec --key rent-2026-04 -- ./transfer.sh fail
says err "transfer.sh: no response from the bank
semel exec: ./transfer.sh exited with 1; rent-2026-04 is not done; the next call runs it again, as attempt 2$newline"

# Silent where cron would send a mail.
expect 0 "$semel" exec --key rent-2026-03 -- ./transfer.sh 900
says err ""
expect 5 "$semel" exec --fail-on-duplicate --key rent-2026-03 -- ./transfer.sh 900

# --- statuses ---------------------------------------------------------------------------------------------------------
for code in 0 1 2 5 65 75 124 255; do
    expect "$code" "$semel" exec --key "code-$code" -- sh -c "exit $code"
done
expect 137 "$semel" exec --key killed -- sh -c 'kill -9 $$'
says err "semel exec: sh was ended by signal 9 (KILL); killed is not done; the next call runs it again, as \
attempt 2$newline"
expect 127 "$semel" exec --key gone -- ./nothing.sh
says err "semel exec: ./nothing.sh does not exist$newline"
echo true >plain.sh
expect 126 "$semel" exec --key gone -- ./plain.sh
says err "semel exec: ./plain.sh is not executable$newline"
chmod +x plain.sh
printf '\177ELF' >plain.sh
expect 126 "$semel" exec --key gone -- ./plain.sh
expect 0 "$semel" exec --key gone -- sh -c 'test "$SEMEL_ATTEMPT" = 1' # what was not run was no attempt
expect 0 "$semel" exec -v --key gone -- ./nothing.sh                   # done is done
for wrong in "--key x" "-- true" "--key x --ky y -- true" "--key x true" "--key= -- true" "--key hex:zz -- true" \
    "--key x --wait 5 -- true" "--key x --store nonsense: -- true" "--key x -c nothing.yaml -- true" \
    "--key x --inbox a/b -- true" "--key x --replay=yes -- true"; do
    # shellcheck disable=SC2086 # words
    expect 125 "$semel" exec $wrong
    if [ -s out ] || [ ! -s err ]; then fail "$wrong: no complaint"; fi
done
expect 125 "$semel" exec --store postgres://shop:canary@127.0.0.1:1/shop --key x -- true
grep -q 'can read a password in an argument' err || fail "--store with a password is accepted"
if grep -q canary err; then fail "--store: the password is shown"; fi
expect 125 "$semel" exec --sinse 2h --key x -- true
expect 125 "$semel" exec --rety --key x -- true
expect 125 "$semel" exec --replai --key x -- true
says err "semel exec: unknown option --replai; did you mean --replay?
try: semel help exec$newline"
expect 0 "$semel" help exec
grep -q 'flock(1) for effects' out

# --- keys and scopes --------------------------------------------------------------------------------------------------
expect 0 "$semel" exec --key 'hex:00ff3a' -- true
expect 0 "$semel" exec -v --key 'base64:AP86' -- false
says err "semel exec: hex:00ff3a was already done at TIME; not run again$newline"
expect 0 "$semel" exec --key 'text:hex:1' -- sh -c 'test "$SEMEL_KEY" = text:hex:1'
expect 0 "$semel" exec --key "$(printf '$(touch pwned)\nLD_PRELOAD=/x')" -- \
    sh -c '! env | grep -q ^LD_PRELOAD && test ! -e pwned'
expect 0 "$semel" exec --inbox other --key rent-2026-03 -- touch ran-in-other
[ -e ran-in-other ]
expect 0 "$semel" exec --inbox short --retention 1d --key a -- true
expect 125 "$semel" exec --retention 1d --key b -- true
expect 125 "$semel" exec --inbox short --key b -- true
says err "semel exec: inbox \"short\" remembers its keys for 1d, as its first use said, and not forever; for another \
retention, choose another --inbox$newline"

# --- stores -----------------------------------------------------------------------------------------------------------
[ "$(stat -c %a state/semel)" = 700 ] || fail "the directory is open to others"
expect 0 "$semel" exec --store "sqlite:$scratch/own.db" --key s -- true
expect 0 env SEMEL_STORE="sqlite:$scratch/own.db" "$semel" exec -v --key s -- false
expect 0 env NAME=own "$semel" exec --store 'sqlite:${NAME}.db' -v --key s -- false
printf 'version: 1\nstore: sqlite:own.db\nqueues: { q: store }\ninboxes: { i: { from: q, exec: [cat] } }\n' >semel.yaml
chmod 600 semel.yaml
expect 0 "$semel" exec -c semel.yaml -v --key s -- false
grep -q 'already done' err || fail "-c: another store"
expect 1 "$semel" exec --key s -- false # ./semel.yaml is not looked for
chmod 777 state/semel
expect 125 "$semel" exec --key s -- true
chmod 700 state/semel
expect 0 env -u XDG_STATE_HOME HOME="$scratch/home" "$semel" exec --key h -- true
[ -e home/.local/state/semel/exec.db ]
expect 125 env -u XDG_STATE_HOME -u HOME "$semel" exec --key h -- true

# --- streams ----------------------------------------------------------------------------------------------------------
head -c 3000000 /dev/urandom >random
expect 0 sh -c '"$1" exec --key in -- cat <random >copy' - "$semel"
cmp random copy
expect 0 sh -c '"$1" exec --replay --key in2 -- cat <random >copy' - "$semel"
cmp random copy
says err "semel exec: the output is larger than 1 MiB; it was not stored$newline"
head -c 1048576 random >mebi
expect 0 sh -c '"$1" exec --replay --key in3 -- cat <mebi >copy' - "$semel"
expect 0 sh -c '"$1" exec --replay --key in3 -- false >again' - "$semel"
cmp mebi copy
cmp mebi again
# A slow reader gets everything, and one that leaves does not end the command.
expect 0 sh -c '"$1" exec --replay --key slow -- cat random | { sleep 2; cat; } >copy' - "$semel"
cmp random copy
# Also what still lies in the pipe when the command has long ended.
for size in 140000 180000 210000 240000; do
    ("$semel" exec --replay --key "l-$size" -- head -c "$size" random | { sleep 3; wc -c; } >"late-$size") &
done
wait
for size in 140000 180000 210000 240000; do
    [ "$(cat "late-$size")" = "$size" ] || fail "of $size bytes, $(cat "late-$size") came through"
done
expect 0 sh -c '"$1" exec --replay --key left -- sh -c "cat random; touch to-the-end" | head -c 10' - "$semel"
until_true test -e to-the-end
# What the command leaves running does not hold the call, and goes on.
expect 0 "$semel" exec --replay --key daemon -- sh -c 'echo up; (sleep 3; touch still-alive) & exit 0'
says out "up$newline"
until_true test -e still-alive
# No descriptor but three.
expect 0 sh -c 'exec 7<random; "$1" exec --key fds -- sh -c "ls /proc/\$\$/fd" >fds' - "$semel"
! grep -qx 7 fds || fail "a descriptor leaks"
echo ok
