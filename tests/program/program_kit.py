"""What the check_*.py here share: `semel` as a user types it, and `semel run` as a process that is watched.

Nothing waits for a fixed time: every wait is for a condition, with a deadline that a stalled machine can keep."""
import fcntl
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import struct
import threading
import time
import traceback

DEADLINE_S = 60
SEMEL = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else "semel"


class Failed(Exception):
    """A check that does not hold."""


def expect(what, wanted, got):
    if wanted != got:
        raise Failed(f"{what}\n  expected: {wanted!r}\n  got:      {got!r}")


def expect_true(holds, what):
    if not holds:
        raise Failed(what)


def wait_until(condition, what, deadline_s=DEADLINE_S):
    """The condition's value, as soon as it is true; `what` may be a function that describes how far it came."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failed(f"after {deadline_s} s still not: {what() if callable(what) else what}")
        time.sleep(0.02)


def write(path, text, mode=0o600):
    """In one step: a program that reads the file meanwhile sees all of the old text or all of the new."""
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(f"{path}.new", mode)
    os.replace(f"{path}.new", path)


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):  # in /proc, of a process that has just ended
        return ""


def environment(more=None):
    own = {name: value for name, value in os.environ.items()
           if not name.startswith("SEMEL_") and name != "NOTIFY_SOCKET"}
    return {**own, "TZ": "UTC", "LC_ALL": "C.UTF-8", "TERM": "dumb", **(more or {})}


def semel(*arguments, status=0, stdin=b"", env=None):
    """Runs a command to its end; its standard output and error output, as texts."""
    done = subprocess.run([SEMEL, *arguments], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=environment(env), timeout=DEADLINE_S, check=False)
    out, err = done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    if done.returncode != status:
        words = b" ".join(os.fsencode(word) for word in arguments)
        raise Failed(f"semel {words[:300]!r} ended with {done.returncode}, not {status}:\n{out}{err}")
    return out, err


class Run:
    """`semel run`, with its error output in a pipe or, with terminal=True, all of it on a terminal."""

    def __init__(self, *arguments, terminal=False, env=None, command="run", program=None, rows=50):
        words = [program or SEMEL, command, *arguments]
        self.bytes = bytearray()
        if terminal:
            self.keyboard, theirs = pty.openpty()
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 250, 0, 0))
            self.process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment(env),
                                            start_new_session=True, preexec_fn=own_terminal)
            os.close(theirs)
            self.output = self.keyboard
        else:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                            stderr=subprocess.STDOUT, env=environment(env), start_new_session=True)
            self.output = self.process.stdout.fileno()
        self.pid = self.process.pid
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        RUNNING.append(self)

    def _read(self):
        while True:
            try:
                some = os.read(self.output, 65536)
            except OSError:  # a terminal whose last process has ended
                return
            if not some:
                return
            self.bytes.extend(some)

    def text(self):
        return bytes(self.bytes).decode("utf-8", "replace").replace("\r\n", "\n")

    def says(self, words, deadline_s=DEADLINE_S):
        def said():
            return words in self.text() or self.process.poll() is not None
        wait_until(said, lambda: f"says {words!r}:\n{self.text()}", deadline_s)
        wait_until(lambda: words in self.text() or not self.reader.is_alive(), "the output is read")
        if words not in self.text():
            raise Failed(f"ended with {self.process.returncode} without saying {words!r}:\n{self.text()}")

    def send(self, number):
        os.kill(self.pid, number)

    def ends(self, status, deadline_s=DEADLINE_S):
        try:
            got = self.process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise Failed(f"does not end:\n{self.text()}") from None
        self.reader.join(DEADLINE_S)
        if got != status:
            raise Failed(f"semel run ended with {got}, not {status}:\n{self.text()}")
        return self.text()

    def stop(self, number=signal.SIGTERM, status=0):
        self.send(number)
        return self.ends(status)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


RUNNING = []


def own_terminal():
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def children_of(pid):
    """All descendants, by /proc."""
    found, parents = [], {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            stat = read(f"/proc/{entry}/stat")
            if stat:
                parents[int(entry)] = int(stat.rsplit(")", 1)[1].split()[1])
    todo = [pid]
    while todo:
        parent = todo.pop()
        mine = [child for child, of in parents.items() if of == parent]
        found += mine
        todo += mine
    return found


def is_gone(pid):
    stat = read(f"/proc/{pid}/stat")
    return not stat or stat.rsplit(")", 1)[1].split()[0] in "ZX"


def publish_lines(queue, bodies, *options, env=None):
    """The ids under which they were published."""
    text = "".join(body + "\n" for body in bodies).encode()
    return semel("publish", queue, "--lines", *options, stdin=text, env=env)[0].split()


def servers():
    """The addresses of the servers of a test run: POSTGRES_URL, RABBITMQ_URL, MARIADB_URL."""
    found = {}
    for line in read(os.environ["SEMEL_TEST_SERVERS"]).splitlines():
        match = re.match(r"(?:export )?(\w+)=['\"]?([^'\"]*)['\"]?$", line)
        if match:
            found[match[1]] = match[2]
    return found


def main(*checks):
    """Each check in an empty directory of its own; all of them, or those named on the command line."""
    wanted = sys.argv[2:]
    failed = 0
    unknown = set(wanted) - {check.__name__ for check in checks}
    if unknown:
        sys.exit(f"there is no check {', '.join(sorted(unknown))}")
    for check in checks:
        if wanted and check.__name__ not in wanted:
            continue
        scratch = tempfile.mkdtemp(prefix="semel-")
        os.chdir(scratch)
        began = time.monotonic()
        try:
            check()
            print(f"ok    {check.__name__} ({time.monotonic() - began:.1f} s)", flush=True)
        except Exception as problem:  # the next check is run all the same
            failed += 1
            print(f"FAIL  {check.__name__} ({time.monotonic() - began:.1f} s): {problem}", flush=True)
            if not isinstance(problem, Failed):
                traceback.print_exc()
        finally:
            for run in RUNNING:
                run.kill()
            RUNNING.clear()
            os.chdir("/")
            shutil.rmtree(scratch, ignore_errors=True)
    sys.exit(1 if failed else 0)
