#!/bin/sh
# check_exec.sh SEMEL: semel exec as it is typed: statuses, messages, streams, signals, copies at once, and calls that
# are killed.
# shellcheck disable=SC2016 # it is the command that is to expand them
set -eu
semel=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
unset SEMEL_STORE SEMEL_CONFIG
export XDG_STATE_HOME="$scratch/state" TZ=UTC

fail() {
    echo "$*" >&2
    sed 's/^/  | /' out err >&2
    exit 1
}

# expect STATUS COMMAND...: what it prints is in out and err.
expect() {
    wanted=$1
    shift
    status=0
    "$@" >out 2>err || status=$?
    [ "$status" = "$wanted" ] || fail "$*: exit $status, not $wanted"
}

# says FILE TEXT: the whole file, with times replaced.
says() {
    sed -E 's/[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}/TIME/g' "$1" >seen
    printf '%s' "$2" | cmp -s - seen || fail "$1 is not: $2"
}

# until COMMAND...: waits a minute for it to succeed.
until_true() {
    for _ in $(seq 600); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.1
    done
    fail "in vain: $*"
}

newline='
'

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

# --- signals ----------------------------------------------------------------------------------------------------------
cat >term.sh <<'END'
trap 'echo "got TERM" >got; exit 3' TERM
touch ready
while :; do sleep 0.1; done
END
"$semel" exec --key signals -- sh term.sh 2>err &
pid=$!
until_true test -e ready
kill "$pid"
status=0
wait "$pid" || status=$?
if [ "$status" != 3 ] || ! grep -q "got TERM" got; then fail "TERM was not passed on: $status"; fi

# A terminal: duplicates are reported, the command reads the terminal, Ctrl-C reaches it once.
cat >terminal.py <<'END'
import os, pty, sys, time
def run(keys, *arguments):
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(sys.argv[1], ["semel", "exec", *arguments])
    text, pressed = b"", 0
    try:
        while True:
            data = os.read(fd, 4096)
            if not data:
                break
            text += data
            if keys and text.count(b"ready") > pressed:
                os.write(fd, keys)
                pressed += 1
    except OSError:
        pass
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(fd)
    return status, text.decode().replace("\r\n", "\n")
status, text = run(b"", "--key", "rent-2026-03", "--", "true")
assert status == 0 and "was already done at" in text, (status, text)
status, text = run(b"secret\n", "--key", "tty", "--", "sh", "-c", "echo ready; read x; echo got $x")
assert status == 0 and "got secret" in text, (status, text)
counts = """
import os, signal, time
reader, writer = os.pipe()
os.set_blocking(writer, False)
signal.set_wakeup_fd(writer) # one byte for each signal, however close they are
signal.signal(signal.SIGINT, lambda *_: None)
count = 0
for _ in range(10):
    print("ready", flush=True)
    count += len(os.read(reader, 100))
    time.sleep(0.1)
os.set_blocking(reader, False)
try:
    count += len(os.read(reader, 100))
except BlockingIOError:
    pass
print("interrupts", count, "in all")
raise SystemExit(9)
"""
status, text = run(b"\x03", "--key", "int", "--", sys.executable, "-c", counts)
assert status == 9 and "interrupts 10 in all" in text, (status, text)
# Not sh: between `echo ready` and `sleep`, dash itself loses a Ctrl-C now and then, with semel and without.
dies = "import signal, time; signal.signal(2, signal.SIG_DFL); print('ready', flush=True); time.sleep(600)"
status, text = run(b"\x03", "--key", "int2", "--", sys.executable, "-c", dies)
assert status == 130 and "was ended by signal 2 (INT)" in text, (status, text)
END
python3 terminal.py "$semel" >out 2>err || fail "terminal"

# --- copies at once ---------------------------------------------------------------------------------------------------
for _ in 1 2 3 4 5 6; do
    ("$semel" exec --wait 60s --key at-once -- sh -c 'echo run >>runs; sleep 1'; echo $? >>statuses) &
done
wait
[ "$(cat runs)" = run ] || fail "the command ran $(grep -c . runs) times"
[ "$(sort statuses | uniq -c | tr -s ' ')" = " 6 0" ] || fail "statuses: $(cat statuses)"

"$semel" exec --key busy -- sh -c 'touch running; while [ ! -e finish ]; do sleep 0.1; done' &
until_true test -e running
expect 75 "$semel" exec --wait 0s --key busy -- true
says err "semel exec: busy is being run by another call, whose lease ends at TIME unless it is renewed; not run$newline"
expect 75 "$semel" exec --wait 300ms --key busy -- true
touch finish
wait
expect 0 "$semel" exec -v --key busy -- false

# Longer than the lease: it is renewed.
"$semel" exec --lease 6s --key long -- sh -c 'echo run >>long; sleep 14' &
until_true test -e long
expect 0 "$semel" exec --lease 1s --wait 60s -v --key long -- sh -c 'echo run >>long'
wait
[ "$(cat long)" = run ] || fail "the lease was not renewed"

# The store is locked for longer than semel waits when the command has succeeded: its success is recorded later.
cat >lock.py <<'END'
import sqlite3, sys, time
store = sqlite3.connect(sys.argv[1], isolation_level=None)
store.execute("BEGIN IMMEDIATE")
open("locked", "w").close()
time.sleep(8)
END
expect 0 "$semel" exec --lease 60s --key insist -- sh -c 'python3 lock.py state/semel/exec.db >lock.out 2>&1 &
    while [ ! -e locked ]; do sleep 0.1; done; echo run >>insisted'
expect 0 "$semel" exec -v --wait 60s --key insist -- sh -c 'echo run >>insisted'
[ "$(cat insisted)" = run ] || fail "a success was not recorded"

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
