#!/usr/bin/python3
"""check_top.py PROGRAM [CHECK...]: `semel top` on a terminal and in a pipe."""
import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import sys
import termios

from live_kit import fixed, prepare, start, wait_for
from program_kit import Failed, Run, environment, expect, expect_true, main, publish_lines, semel, wait_until

ENTERS, LEAVES = "\x1b[?1049h", "\x1b[?1049l"
XTERM = {"TERM": "xterm"}


class Screen:
    """What a terminal shows after it was sent these bytes: of the sequences, only those that semel uses."""

    def __init__(self, text, rows, columns):
        self.lines = [""] * rows
        self.row = self.column = 0
        self.columns = columns
        for part in re.findall(r"\x1b\[[?0-9;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+|\x1b", text):
            self.take(part)

    def take(self, part):
        if part == "\r":
            self.column = 0
        elif part == "\n":
            self.row += 1
        elif part in ("\x1b[H", "\x1b[?25l", "\x1b[?25h"):
            self.row, self.column = (0, 0) if part == "\x1b[H" else (self.row, self.column)
        elif part in (ENTERS, LEAVES, "\x1b[2J"):
            self.lines = [""] * len(self.lines)
        elif part == "\x1b[K":
            self.lines[self.row] = self.lines[self.row][:self.column]
        elif part == "\x1b[J":
            self.lines[self.row:] = [self.lines[self.row][:self.column]] + [""] * (len(self.lines) - self.row - 1)
        elif re.fullmatch(r"\x1b\[\d+;1H", part):
            self.row, self.column = int(part[2:-3]) - 1, 0
        elif part.startswith("\x1b"):
            raise AssertionError(f"a sequence that no terminal was asked for: {part!r}")
        else:
            self.put(part)

    def put(self, text):
        line = self.lines[self.row].ljust(self.column)
        self.lines[self.row] = line[:self.column] + text + line[self.column + len(text):]
        self.column += len(text)
        expect_true(self.column <= self.columns, f"a line is wider than the screen: {self.lines[self.row]!r}")


class Top(Run):
    def __init__(self, *arguments, rows=30, columns=100, env=None):
        super().__init__(*arguments, "--every", "200ms", terminal=True, env={**XTERM, **(env or {})}, command="top")
        self.resize(rows, columns)

    def resize(self, rows, columns):
        """What was drawn before has another size, and is not looked at."""
        self.rows, self.columns = rows, columns
        fcntl.ioctl(self.keyboard, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def screen(self):
        """The last frame that is complete."""
        frames = self.text().replace("\n", "\r\n").split("\x1b[H")
        drawn = [frame for frame in frames if re.search(r"\x1b\[\d+;1H.", frame) and frame.endswith("\x1b[K")]
        return "\n".join(Screen("\x1b[H" + drawn[-1], self.rows, self.columns).lines) if drawn else ""

    def shows(self, *words):
        def on_screen():
            shown = last(self)
            return all(word in shown for word in words)
        wait_until(on_screen, lambda: f"shows {words}:\n{last(self)}")

    def press(self, keys):
        os.write(self.keyboard, keys.encode())


def last(top):
    """Frames of another size, from before the terminal was resized, are no error."""
    try:
        return top.screen()
    except (AssertionError, IndexError, Failed):
        return ""


def modes(top):
    return termios.tcgetattr(top.keyboard)[3] & (termios.ICANON | termios.ECHO)


def begin():
    prepare()
    run = start()
    publish_lines("orders", ['{"n": 1}', '{"order": 2}'], "--type", "paid")
    wait_for("payments", processed=1, dead=1)
    wait_for("parcels", processed=1)
    return run


# --- in a pipe -----------------------------------------------------------------------------------


def blocks(words, *arguments):
    """The first block that is printed and has the words: a process that a stalled machine kept from answering in time
    is not in the first of all."""
    top = Run(*arguments, command="top")

    def found():
        return [block for block in re.split(r"\n\n(?=semel top)", top.text())[:-1]
                if words in block and "not reachable from here" not in block]
    wait_until(found, lambda: f"a block with {words!r}, and another one:\n{top.text()}")
    top.stop(status=-signal.SIGTERM)
    return fixed(re.sub(r"\b\d+\.\d+\b(?! ms| s)", "RATE", found()[0])) + "\n"


def block_in_a_pipe():
    run = begin()
    block = blocks("1 process ", "--every", "100ms")
    lines = re.sub(r" (TOOK|-) (TOOK|-) ", " P50 P99 ", block).splitlines()
    expect_true(re.fullmatch(r"semel top semel\.yaml sqlite:shop\.db 1 process \d\d:\d\d:\d\d", lines[0]), lines[0])
    expect("the rest", ["processed RATE/s duplicates suppressed RATE/s failed RATE/s dead letters 1 unsent 0", "",
                        "INBOX DONE/S DUPL/S FAIL/S P50 P99 IN PROGRESS DEAD",
                        "payments RATE RATE RATE P50 P99 0 1", "parcels RATE RATE RATE P50 P99 0 0",
                        "idle: mail.receipt"], lines[1:7])
    expect("queues and outboxes", "QUEUE IN/S WAITING OLDEST OUTBOX SENT/S WAITING OLDEST", lines[7])
    expect("the last ones", ["orders RATE 0 - shipping RATE 0 -", "shipping RATE 0 -"], lines[8:10])
    block = blocks("payments", "--every", "100ms", "--inbox", "pay*")
    expect_true("parcels" not in block, f"only those that are asked for:\n{block}")
    run.stop()
    block = blocks("no process is running semel.yaml; showing data from the store only:\n", "--every", "100ms")
    expect_true("payments - " in block or "payments RATE" in block, block)


def complete(top):
    return [json.loads(line) for line in top.text().split("\n")[:-1]]


def answered(top):
    return next((now for now in complete(top) if now["processes"] and not now["unreachable"]), None)


def json_lines():
    """One object for each interval, on a terminal too; rates right after the start of a process."""
    run = begin()
    for terminal in (False, True):
        top = Run("--json", "--every", "100ms", command="top", terminal=terminal, env=XTERM)
        wait_until(lambda shown=top: len(complete(shown)) > 1 and answered(shown),
                   lambda shown=top: f"two lines, and one in which the process has answered:\n{shown.text()}")
        top.stop(status=-signal.SIGTERM)
        now = answered(top)
        expect("totals", (1, 0, 1, 0), tuple(now[name] for name in ("processes", "unreachable", "dead", "unsent")))
        expect_true(now["processed_per_s"] > 0, f"two were processed since it started: {now}")
        expect_true("oldest_unsent_ms" not in now and "error" not in now, f"what is not known is left out: {now}")
        inboxes = {row["inbox"]: row for row in now["inboxes"]}
        expect("inboxes", ["payments", "mail.receipt", "parcels"], list(inboxes))
        expect("of one", (1, 0), tuple(inboxes["payments"][name] for name in ("dead", "in_progress")))
        expect_true(inboxes["payments"]["processed_per_s"] > 0 and inboxes["payments"]["p99_ms"] > 0, f"{inboxes}")
        expect("of one that has nothing to do", (0, 0), (inboxes["mail.receipt"]["processed_per_s"],
                                                         inboxes["mail.receipt"]["dead"]))
        expect_true("p50_ms" not in inboxes["mail.receipt"], f"no handler ran: {inboxes}")
        expect("queues", [("orders", 0), ("shipping", 0)], [(row["queue"], row["waiting"]) for row in now["queues"]])
        expect("outboxes", [("shipping", 0)], [(row["outbox"], row["waiting"]) for row in now["outboxes"]])
        expect_true(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", now["at"]), now["at"])
    run.stop()
    lines = Run("--json", "--every", "100ms", "--inbox", "pay*", command="top")
    lines.says("}\n")
    now = json.loads(lines.text().splitlines()[0])
    expect("without a process", (0, ["payments"]), (now["processes"], [row["inbox"] for row in now["inboxes"]]))


def rates_of_a_young_process():
    """Of all that it has counted, and at once after it was started again; what a process that ended had counted is
    gone."""
    run = begin()
    top = Run("--every", "100ms", command="top")

    def rate():
        found = re.findall(r"^payments +(\S+)", top.text().rpartition("\n\nsemel top")[0], flags=re.M)
        return float(found[-1]) if found and found[-1] != "-" else 0
    wait_until(lambda: rate() > 0, lambda: f"a rate:\n{top.text()}")
    run.stop()
    start()
    wait_until(lambda: rate() == 0, lambda: f"a new process has counted nothing:\n{top.text()}")
    publish_lines("orders", ['{"n": 11}'], "--type", "paid")
    wait_until(lambda: rate() > 0, lambda: f"a rate again:\n{top.text()}")


def mistakes():
    begin()
    expect_true("100ms or more" in semel("top", "--every", "1ms", status=2)[1], "not too often")
    expect_true('did you mean "payments"' in semel("top", "--inbox", "payment", status=4)[1], "no such inbox")
    done = subprocess.run(["sh", "-c", f"'{sys.argv[1]}' top --every 100ms | head -n 1"], stdout=subprocess.PIPE,
                          env=environment(), check=True)
    expect_true(done.stdout.startswith(b"semel top"), "ends with its reader")


# --- on a terminal -------------------------------------------------------------------------------


def keys():
    begin()
    top = Top(columns=120)
    top.shows("semel top  semel.yaml  sqlite:shop.db  1 process", "DONE/S", "payments", "idle: mail.receipt",
              "quit q   pause p   sort s   filter /   dead letters d   help ?")
    expect("raw while it runs", 0, modes(top))
    top.press("?")
    top.shows("how long handlers took", "back ?")
    top.press("?")
    top.press("d")
    top.shows("CAUSE", "payments", "refused by the inbox: missing key", "back d")
    top.press("d")
    top.shows("DONE/S")
    top.press("s")
    top.shows("sort s (rate)")
    top.press("/ma\x7fail\n")
    top.shows("filter / mail")
    wait_until(lambda: "payments" not in last(top) and "idle: mail.receipt" in last(top), lambda: last(top))
    top.press("/\n")
    top.shows("payments")
    top.press("/xyz\x1b")
    top.shows("payments", "quit q")
    top.press("p")
    top.shows("1 process  paused")
    publish_lines("orders", ['{"order": 3}'], "--type", "paid")
    wait_for("payments", dead=2)
    expect_true("dead letters 1" in last(top), "a pause is a pause")
    top.press("p")
    top.shows("dead letters 2")
    expect("no second screen is entered", 1, top.text().count(ENTERS))
    top.press("q")
    top.ends(0)
    restored(top)


def restored(top):
    expect_true(top.text().endswith("\x1b[?25h" + LEAVES), repr(top.text()[-60:]))
    expect("the terminal's own mode", termios.ICANON | termios.ECHO, modes(top))


def resized():
    begin()
    top = Top(rows=30, columns=120)
    top.shows("QUEUE     IN/S  WAITING  OLDEST      OUTBOX")
    top.resize(16, 40)
    wait_until(lambda: "OUTBOX" in last(top) and "OLDEST      OUTBOX" not in last(top), lambda: last(top))
    expect_true(all(len(line) <= 40 for line in last(top).splitlines()), last(top))
    top.resize(20, 60)
    heads = r"^INBOX +DONE/S +DUPL/S +FAIL/S( +P99)? +IN PROGRESS +DEAD$"
    wait_until(lambda: re.search(heads, last(top), flags=re.M) and "dead letters 1" in last(top) and
               "unsent 0" in last(top), lambda: last(top))
    top.resize(20, 40)
    wait_until(lambda: re.search(r"^INBOX +DONE/S +DUPL/S +FAIL/S +DEAD$", last(top), flags=re.M), lambda: last(top))
    top.resize(3, 10)
    top.shows("semel top", "quit q")
    top.press("q")
    top.ends(0)
    restored(top)


def signals():
    begin()
    for keys_or_signal, status in (("\x03", 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), ("\x1c", 131)):
        top = Top()
        top.shows("DONE/S")
        if isinstance(keys_or_signal, str):
            top.press(keys_or_signal)
        else:
            top.send(keys_or_signal)
        top.ends(status)
        restored(top)


def stopped_and_continued():
    """Ctrl-Z gives the terminal back to the shell; fg takes it again."""
    begin()
    command = f"set -m; '{sys.argv[1]}' top --every 200ms; echo \"first $?\"; stty -a; fg; echo \"second $?\""
    shell = Run(command, terminal=True, env=XTERM, command="-c", program="/bin/bash")
    shell.says("DONE/S")
    os.write(shell.keyboard, b"\x1a")
    shell.says("first 148")
    shell.says(" echo ")
    text = shell.text()
    expect_true(LEAVES in text[:text.index("first 148")], "the terminal is given back first")
    wait_until(lambda: shell.text().count(ENTERS) == 2, lambda: repr(shell.text()[-300:]))
    wait_until(lambda: "DONE/S" in shell.text().rsplit(ENTERS, 1)[1], "it draws again")
    os.write(shell.keyboard, b"q")
    shell.says("second 0")
    shell.ends(0)


def plain_on_a_terminal():
    begin()
    for arguments, env in ((("--plain",), XTERM), ((), {"TERM": "dumb"})):
        top = Run("--every", "100ms", *arguments, terminal=True, env=env, command="top")
        top.says("DONE/S")
        expect_true("\x1b" not in top.text(), "no sequences")
        top.stop(signal.SIGINT, status=-signal.SIGINT)


if __name__ == "__main__":
    main(block_in_a_pipe, json_lines, rates_of_a_young_process, mistakes, keys, resized, signals,
         stopped_and_continued, plain_on_a_terminal)
