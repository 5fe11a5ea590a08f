#!/usr/bin/python3
"""check_five_minutes.py PROGRAM: the first five minutes with semel, as a user types them, on a terminal. What is shown
is compared to the letter, with times, ids, durations, versions and numbers of processes replaced."""
import json
import os
import re
import signal
import sqlite3

from program_kit import Run, expect, expect_true, main, read, semel, wait_until, write

ID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"

CHECK = """\
orders -> payments      sql   once per json:/order_id, retention 14d  exactly-once effects
orders -> mail.receipt  exec  once per id, retention 7d               effectively once
semel.yaml is valid: 1 queue, 2 inboxes, 1 test
"""

TEST = """\
ok    three copies charge once: 1 processed, 2 duplicates; same result when killed at N points
1 test, 1 passed, DURATION (temporary SQLite store; exec, http and worker handlers stubbed, not called)
"""

RUN_BEGIN = """\
TIME  semel VERSION, semel.yaml, pid PID
TIME  store sqlite:shop.db: survives power loss
TIME  orders -> payments       sql   exactly-once effects
TIME  orders -> mail.receipt   exec  effectively once
TIME  ready in DURATION; press Ctrl-C to finish work in progress and stop
TIME  no messages handled yet; in a second terminal, run:
              semel publish orders --type order.placed --copies 2 '{"order_id": 1042, "amount": 1250}'
"""

OUTCOMES = """\
TIME  mail.receipt  ID  duplicate
TIME  mail.receipt  ID  processed  DURATION
TIME  payments      1042                                  duplicate
TIME  payments      1042                                  processed  DURATION
"""

RUN_END = """\
TIME  stopping: not accepting new messages, 0 in progress (Ctrl-C again to stop now)
TIME  stopped after DURATION: 2 processed, 2 duplicates suppressed, 0 failed, 0 dead letters
"""

FAILING = """\
FAIL  three copies charge once                                                      semel.yaml:LINE
      payments  expected processed, duplicate, duplicate; got nothing: inbox accepts order.paid, not order.placed
      sql       SELECT count(*) FROM ledger: expected 1, got 0
1 test, 1 failed, DURATION
"""


def plain(text):
    text = re.sub(ID, "ID", text)
    text = re.sub(r"^\d\d:\d\d:\d\d\.\d{3}", "TIME", text, flags=re.M)
    text = re.sub(r"semel \d+\.\d+\.\d+\S*,", "semel VERSION,", text)
    text = re.sub(r"pid \d+", "pid PID", text)
    text = re.sub(r"killed at \d+ points", "killed at N points", text)
    text = re.sub(r"semel\.yaml:\d+$", "semel.yaml:LINE", text, flags=re.M)
    return re.sub(r" *\b(\d+(\.\d+)? (ms|s)|\d+m \d+s)\b", lambda found: re.match(" *", found[0])[0].rstrip(" ")
                  + ("  DURATION" if found[0].startswith("  ") else " DURATION"), text)


def both(*arguments, status=0):
    """What a person sees: the standard output, and what else is said."""
    out, err = semel(*arguments, status=status)
    return plain(out + err)


def first_five_minutes():
    expect("semel init", "wrote semel.yaml      a SQLite queue, a sql and an exec handler, one test\n"
           "wrote send-email.sh   the exec handler; appends a line to mail.txt\n"
           "next: semel check && semel test && semel run\n", both("init"))
    expect("the files", ["semel.yaml", "send-email.sh"], sorted(os.listdir(".")))
    expect("semel check", CHECK, both("check"))
    expect("semel test", TEST, both("test"))
    expect("what check and test leave behind", ["semel.yaml", "send-email.sh"], sorted(os.listdir(".")))

    run = Run(terminal=True)
    run.says("second terminal")
    run.says("1250}'\n")
    expect("semel run, at its start", RUN_BEGIN, plain(run.text()))
    began = len(run.text())
    out, err = semel("publish", "orders", "--type", "order.placed", "--copies", "2",
                     '{"order_id": 1042, "amount": 1250}')
    expect("semel publish", ("ID\n", 'published 2 copies to "orders"\n'), (plain(out), err))
    wait_until(lambda: run.text()[began:].count("\n") >= 4, lambda: f"four outcomes:\n{run.text()}")
    outcomes = plain(run.text()[began:]).splitlines(keepends=True)
    expect("semel run, the outcomes", OUTCOMES, "".join(sorted(outcomes)))
    began = len(run.text())
    os.write(run.keyboard, b"\x03")
    expect("semel run, at its end", "^C\n" + RUN_END, plain(run.ends(0)[began:]))

    with sqlite3.connect("shop.db") as shop:
        expect("the ledger", [(1042, 1250)], shop.execute("SELECT * FROM ledger").fetchall())
    expect("mail.txt", f"mail.receipt {out.strip()} attempt 1\n", read("mail.txt"))
    expect("semel init again", "semel init: semel.yaml already exists; nothing was written\n", both("init", status=5))

    run = Run(terminal=True)  # what was handled is remembered, and the hint is not needed any more
    run.says("press Ctrl-C")
    semel("publish", "orders", "--type", "order.placed", "--id", out.strip(), '{"order_id": 1042, "amount": 1250}')
    wait_until(lambda: run.text().count("duplicate") == 2, lambda: f"two duplicates:\n{run.text()}")
    expect("the hint of a second run", False, "second terminal" in run.stop(signal.SIGINT))
    expect("mail.txt", f"mail.receipt {out.strip()} attempt 1\n", read("mail.txt"))


def failing_test():
    semel("init")
    write("semel.yaml", read("semel.yaml").replace("types: [order.placed]", "types: [order.paid]"))
    expect("semel test", FAILING, both("test", status=1))
    expect("what it leaves behind", ["semel.yaml", "send-email.sh"], sorted(os.listdir(".")))


def in_a_pipe():
    """JSON lines and no hint; --log-format and -q are obeyed; standard output stays empty."""
    semel("init")
    run = Run()
    run.says('"event":"ready"')
    semel("publish", "orders", "--type", "order.placed", '{"order_id": 1, "amount": 1}')
    wait_until(lambda: read("mail.txt"), "the message is handled")
    lines = run.stop().splitlines()
    expect("lines that are no JSON object", [], [line for line in lines if not line.startswith('{"ts":"')])
    expect("hints", [], [line for line in lines if "second terminal" in line])
    expect("lines of a quiet run", "", Run("--once", "-q").ends(0))
    text = Run("--once", "--log-format", "text").ends(0)
    expect("lines as text", 0, text.count("{"))


def published():
    """Ids are one line each, and safe on a terminal; what is said comes behind what is printed."""
    semel("init")
    words = ("publish", "orders", "--type", "order.placed", '{"order_id": 1}')
    for wrong, why in (("", "must not be empty"), *((f"a{c}b", "must not have control characters")
                                                    for c in "\n\x1b\x7f\u0085")):
        expect(f"--id {wrong!r}", ("", f"semel publish: --id {why}\ntry: semel help publish\n"),
               semel(*words, "--id", wrong, status=2))
    expect("no control character", "\u00e4 \u00a0\n", semel(*words, "--id", "\u00e4 \u00a0")[0])
    expect("raw in a pipe", "\u202e\n", semel(*words, "--id", "\u202e")[0])
    shown = Run(*words[1:], "--id", "a\u202e", command="publish", terminal=True).ends(0)
    expect("on a terminal", (False, True), ("\u202e" in shown, shown.startswith("a\\x")))
    expect("both in one pipe", 'i-1\npublished 3 copies to "orders"\n',
           Run(*words[1:], "--id", "i-1", "--copies", "3", command="publish").ends(0))
    expect("JSON", '{"id":"i \\"2\\"","queue":"orders","copies":2}\n',
           semel(*words, "--id", 'i "2"', "--copies", "2", "--json")[0])
    out = semel("publish", "orders", "--json", "--lines", stdin=b"{}\n{}\n")[0]
    expect("JSON of lines", [("orders", 1)] * 2,
           [(one["queue"], one["copies"]) for one in map(json.loads, out.splitlines())])


def in_json():
    semel("init")
    one, total = map(json.loads, semel("test", "--json")[0].splitlines())
    expect("a test that passes",
           ("three copies charge once", "passed", "semel.yaml", "1 processed, 2 duplicates", True),
           (one["name"], one["result"], one["file"], one["outcomes"], one["kills"] > 1 and "differences" not in one))
    expect("the total", (1, 1, 0), (total["tests"], total["passed"], total["failed"]))
    expect("check -q", ("", ""), semel("check", "-q"))
    write("semel.yaml", read("semel.yaml").replace("types: [order.placed]", "types: [order.paid]"))
    one, total = map(json.loads, semel("test", "--json", status=1)[0].splitlines())
    expect("a test that fails", ("failed", [line.strip() for line in FAILING.splitlines()[1:-1]]),
           (one["result"], one["differences"]))
    expect("the total", (1, 0, 1), (total["tests"], total["passed"], total["failed"]))
    write("semel.yaml", "version: 2")
    expect_true(semel("check", "-q", status=3)[1], "check -q says what is wrong")
    version = semel("version")[0].split()[1]
    expect("version --json", {"version": version}, json.loads(semel("version", "--json")[0]))


main(first_five_minutes, failing_test, in_a_pipe, published, in_json)
