"""interrupt.py FILE TEXT COMMAND...: runs a command at a terminal, with its output in FILE, and types Ctrl-C once TEXT
has appeared. Its exit status is that of the command."""
import os
import pty
import select
import sys

DEADLINE_S = 60


def main():
    name, text, command = sys.argv[1], sys.argv[2].encode(), sys.argv[3:]
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(command[0], command)
    seen, typed = b"", False
    with open(name, "wb") as file:
        while select.select([fd], [], [], DEADLINE_S)[0]:
            try:
                data = os.read(fd, 65536)
            except OSError:  # the other end is closed
                break
            seen += data
            file.write(data)
            if text in seen and not typed:
                typed = os.write(fd, b"\x03") > 0
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    sys.exit(main())
