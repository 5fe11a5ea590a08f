#!/bin/sh
# check_exec_copies.sh SEMEL: semel exec with signals, on a terminal, in several copies at once, for longer than a
# lease, and on a store that is locked.
# shellcheck disable=SC2016 # it is the command that is to expand them
# shellcheck source=tests/program/exec_kit.sh
. "$(dirname "$0")/exec_kit.sh"

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
status, text = run(b"", "--key", "again", "--", "true")
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
expect 0 "$semel" exec --key again -- true
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

# Longer than the lease: it is renewed. Meanwhile the next one, on a store of its own.
"$semel" exec --lease 6s --key long -- sh -c 'echo run >>long; sleep 14' &
until_true test -e long

# The store is locked for longer than semel waits when the command has succeeded: its success is recorded later, when
# the lease has ended.
cat >lock.py <<'END'
import sqlite3, sys, time
store = sqlite3.connect(sys.argv[1], isolation_level=None)
store.execute("BEGIN IMMEDIATE")
open("locked", "w").close()
time.sleep(8)
END
insist() {
    expect 0 "$semel" exec --store "sqlite:$scratch/locked.db" "$1" --key insist -v -- sh -c "$2"
}
insist --lease=20s 'python3 lock.py locked.db >lock.out 2>&1 & while [ ! -e locked ]; do sleep 0.1; done
    echo run >>insisted'
insist --wait=60s 'echo run >>insisted'
[ "$(cat insisted)" = run ] || fail "a success was not recorded"

expect 0 "$semel" exec --lease 1s --wait 60s -v --key long -- sh -c 'echo run >>long'
wait
[ "$(cat long)" = run ] || fail "the lease was not renewed"
echo ok
