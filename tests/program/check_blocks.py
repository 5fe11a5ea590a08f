"""check_blocks.py PROGRAM SOURCE [FILE...]: what README.md and docs/*.md show of the program is what the program does.

- A YAML block that begins with `version:` is checked by `semel check FILE.md`; every other one is taken for a part of
  `inboxes:` and is checked as such.
- A block of the kind `console` is typed at a terminal, line by line ("$ " marks a line, a backslash continues it), in a
  directory of its own for each document, and what appears is compared with what the document shows. Times, ids,
  durations, versions and process ids may be others. "# exit N" is the exit status, 0 if not shown; "..." stands for any
  lines; where ^C stands, Ctrl-C is typed once all before it has appeared. A `console` block that has no "$ " is not
  typed. The hint how to publish, which `semel run` gives if nothing was handled yet, may come or not.
- The first YAML block that begins with `version:` is semel.yaml in that directory.
"""
import fcntl
import glob
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time

DEADLINE_S = 120
failures = []


def blocks(path):
    """(kind, line, lines) of each fenced block."""
    kind, start, held = None, 0, []
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        line = line.rstrip("\n")
        if line.startswith("```") and kind is None:
            kind, start, held = line[3:].strip(), number, []
        elif line.startswith("```"):
            yield kind, start, held
            kind = None
        elif kind is not None:
            held.append(line)


def complain(path, line, text):
    failures.append(f"{os.path.basename(path)}:{line}: {text}")


# --- YAML ---------------------------------------------------------------------------------------------------------

def begins_with_version(lines):
    shown = [line for line in lines if line.strip() and not line.startswith("#")]
    return bool(shown) and shown[0].startswith("version:")


def check_fragment(semel, scratch, path, start, lines):
    name = os.path.join(scratch, "part.md")  # secrets in Markdown need not exist
    with open(name, "w", encoding="utf-8") as file:
        file.write("```yaml\nversion: 1\nstore: sqlite:shop.db\nqueues: { orders: store, shipping: store }\ninboxes:\n")
        file.writelines(f"  {line}\n" for line in lines)
        file.write("```\n")
    done = subprocess.run([semel, "check", "--offline", name], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        complain(path, start, "this part of a config is not valid:\n" + done.stdout + done.stderr)


def check_yaml(semel, scratch, path):
    found = [(start, lines) for kind, start, lines in blocks(path) if kind == "yaml"]
    whole = [lines for _, lines in found if begins_with_version(lines)]
    for start, lines in found:
        if not begins_with_version(lines):
            check_fragment(semel, scratch, path, start, lines)
    if whole:
        done = subprocess.run([semel, "check", "--offline", path], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            complain(path, 1, "semel check says:\n" + done.stdout + done.stderr)
    return whole[0] if whole else None


# --- console ------------------------------------------------------------------------------------------------------

VARYING = [
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "ID"),
    (r"\b\d\d:\d\d:\d\d\.\d\d\d\b", "TIME"),
    (r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b( to \d\d:\d\d:\d\d\b)?", "DATE"),
    (r"\b\d+[smhd] ago\b", "AGE ago"),
    (r"\b[\w-]+@[\w.-]+(?=  )", "WHO"),
    (r"\b\d+(\.\d+)?(ms|s|m|h)?( \d+s| ms| s)\b", "DURATION"),
    (r"\bsemel \d+\.\d+\.\d+", "semel VERSION"),
    (r"\bpid \d+", "pid PID"),
    (r"\b\d+ in progress", "N in progress"),
    (r"\b\d+[smhd] ago\b", "AGE ago"),
    (r"\b[\w-]+@[\w.-]+", "WHO"),
    (r"\bkilled at \d+ points", "killed at N points"),
    (r"\s+", " "),
]
HINT = r"TIME no messages handled yet|\s*semel publish .*"


def plain(lines):
    """Lines as they are compared."""
    text = []
    for line in lines:
        line = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line).replace("\r", "").replace("^C", "")
        for pattern, replacement in VARYING:
            line = re.sub(pattern, replacement, line)
        if line.strip() and not re.match(HINT, line):
            text.append(line.strip())
    return text


def matches(wanted, got):
    if not wanted:
        return not got
    if wanted[0] == "...":
        return any(matches(wanted[1:], got[i:]) for i in range(len(got) + 1))
    return bool(got) and wanted[0] == got[0] and matches(wanted[1:], got[1:])


def steps(lines):
    """(command, status, shown) of each line that is typed."""
    found = []
    continues = False
    for line in lines:
        if continues:
            found[-1][0] += "\n" + line
        elif line.startswith("$ "):
            found.append([line[2:], 0, []])
        elif found:
            found[-1][2].append(line)
        continues = bool(found) and not found[-1][2] and line.endswith("\\")
    for step in found:
        status = re.search(r"\s+# exit (\d+)$", step[0])
        if status:
            step[0], step[1] = step[0][: status.start()], int(status.group(1))
    return found


class Terminal:
    """A command at a terminal of its own."""

    def __init__(self, command, directory, environment):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))  # as wide as the documents
            os.chdir(directory)
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
            # Ctrl-C is for the command: the shell waits for it. What a trap catches is not ignored by commands.
            os.execve("/bin/sh", ["sh", "-c", "trap : INT\n" + command], environment)
        self.text = b""
        self.is_late = False
        self.end = time.monotonic() + DEADLINE_S

    def lines(self):
        return plain(self.text.decode("utf-8", "replace").split("\n"))

    def read(self):
        """Returns false at the end, or when the time is over."""
        if not select.select([self.fd], [], [], max(0, self.end - time.monotonic()))[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the other end is closed
            return False
        self.text += data
        return bool(data)

    def interrupt_after(self, wanted):
        while not matches(wanted + ["..."], self.lines()):
            if not self.read():
                return
        os.write(self.fd, b"\x03")

    def finish(self):
        """The exit status. The terminal ends with the last process that has it: what goes on must write elsewhere."""
        while self.read():
            pass
        self.is_late = time.monotonic() >= self.end
        if self.is_late:
            os.kill(self.pid, 9)
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.fd)
        return status


def type_step(command, shown, directory, environment):
    terminal = Terminal(command, directory, environment)
    if "^C" in shown:
        terminal.interrupt_after(plain(shown[: shown.index("^C")]))
    status = terminal.finish()
    return status, terminal.lines() + ([f"(not over after {DEADLINE_S} s)"] if terminal.is_late else [])


def check_console(path, directory, environment):
    for kind, start, lines in blocks(path):
        if kind != "console":
            continue
        for command, status, shown in steps(lines):
            got_status, got = type_step(command, shown, directory, environment)
            wanted = plain(shown)
            if got_status != status:
                complain(path, start, f"$ {command}\nexits with {got_status}, not {status}")
            if not matches(wanted, got):
                complain(path, start, f"$ {command}\nshows\n" + "\n".join(got) + "\nand not\n" + "\n".join(wanted))


def main():
    semel, source = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    files = sys.argv[3:] or [f"{source}/README.md"] + sorted(glob.glob(f"{source}/docs/*.md"))
    environment = {"PATH": f"{os.path.dirname(semel)}:/usr/bin:/bin", "TERM": "dumb", "LC_ALL": "C.UTF-8"}
    os.umask(0o022)
    for path in files:
        with tempfile.TemporaryDirectory() as scratch:
            config = check_yaml(semel, scratch, path)
            directory = os.path.join(scratch, "typed")
            os.mkdir(directory)
            if config:
                with open(os.path.join(directory, "semel.yaml"), "w", encoding="utf-8") as file:
                    file.write("\n".join(config) + "\n")
            check_console(path, directory, {**environment, "HOME": scratch})
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
