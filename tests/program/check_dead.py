#!/usr/bin/python3
"""check_dead.py PROGRAM [CHECK...]: `semel dead` as an operator types it, on every store: what it shows, to the letter
but for times and ids; retries and discards that are killed, interrupted, and made by two operators at once; a letter
that kills its process; hostile content in every field."""
import json
import os
import re
import signal
import subprocess
import time

from program_kit import (DEADLINE_S, SEMEL, Failed, Run, environment, expect, expect_true, main, publish_lines, read,
                         semel, wait_until, write)
from store_kit import STORES, place

CONFIG = """\
version: 1
store: {store}
setup:
  - CREATE TABLE IF NOT EXISTS gate (opened INTEGER)
  - CREATE TABLE IF NOT EXISTS effect (n INTEGER NOT NULL, opened INTEGER NOT NULL)
queues:
  orders: store
  bills: store
  parcels: store
  sent: store
inboxes:
  "*": {{ attempts_max: 1, key: "json:/n" }}
  payments:                   # fails as long as the gate has no row
    from: orders
    sql: "INSERT INTO effect (n, opened) VALUES (:json/n, (SELECT opened FROM gate))"
  invoices:                   # fails as long as the file rates is not there
    from: bills
    exec: [./invoice.sh]
    timeout: 20s
    lease: 1s
  parcels: {{ from: parcels, send: {{ to: sent }} }}
  sent: {{ from: sent, key: id, sql: "INSERT INTO effect (n, opened) VALUES (:json/n, 2)" }}
drain: 2s
"""

INVOICE = """\
#!/bin/sh
body=$(cat)
[ ! -e slow ] || sleep 0.1
[ ! -e endless ] || sleep 1000
[ ! -e fatal ] || kill -9 $PPID
if [ -e rates ]; then echo "$SEMEL_KEY $SEMEL_IDEMPOTENCY_KEY" >>invoices.txt; exit 0; fi
if [ -e error ]; then cat error >&2; else echo "no tax rate for order $SEMEL_KEY" >&2; fi
exit 65
"""

ID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def plain(text):
    text = re.sub("#[0-9a-f]{16}", "#DIGEST", re.sub(ID, "ID", text))
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "TIME", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d( to (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d)?", "TIME", text)
    text = re.sub(r"(\"took_ms\":)\d+", r"\1N", text)
    text = re.sub(r"\b\d+[smhd] ago", "AGE ago", text)
    text = re.sub(r"\d+(\.\d+)? (ms|s)\b|\d+m \d+s", "DURATION", text)
    return re.sub(r"\b\w+@[\w.-]+", "WHO", text)


def golden(what, wanted, *arguments, status=0):
    """Standard output and error output, one behind the other."""
    expect(what, wanted, plain("".join(semel("dead", *arguments, status=status))))


def set_up(kind, store):
    write("semel.yaml", CONFIG.format(store=store.url))
    write("invoice.sh", INVOICE, 0o700)
    Run("--once").ends(0)  # makes the tables


def make_letters(queue, numbers, *options):
    publish_lines(queue, [json.dumps({"n": n}) for n in numbers], "--type", "order.placed", *options)
    Run("--once").ends(0)


def letters(*options):
    return [json.loads(line) for line in semel("dead", "ls", "--json", *options)[0].splitlines()]


def on(kinds, check):
    def run():
        for kind in kinds:
            for name in os.listdir("."):
                os.remove(name)
            with place(kind) as store:
                try:
                    set_up(kind, store)
                    check(kind, store)
                except Exception as problem:
                    raise Failed(f"on {kind}: {problem}") from problem
                finally:
                    for name in ("slow", "fatal", "rates", "error", "endless"):
                        if os.path.exists(name):
                            os.remove(name)
    run.__name__ = check.__name__
    return run


def on_each(check):
    return on(STORES, check)


def on_sqlite(check):
    return on(("sqlite",), check)


# --- what is shown ---------------------------------------------------------------------------------

GROUPS = """\
CAUSE     INBOX     LETTERS  FIRST                LAST                 ERROR
CAUSE  invoices        3  TIME  TIME  exit 65: no tax rate for order <n>
"""

LIST = """\
LETTER  INBOX     KEY  TYPE          ATTEMPTS  DEAD SINCE           ERROR
     1  invoices  41   order.placed         1  TIME  exit 65: no tax rate for order 41
     2  invoices  42   order.placed         1  TIME  exit 65: no tax rate for order 42
     3  invoices  43   order.placed         1  TIME  exit 65: no tax rate for order 43
"""

SHOWN = """\
letter    2, inbox invoices, dead since TIME (AGE ago), after 1 attempt
error     exit 65: no tax rate for order 42
similar   3 letters: semel dead ls --cause CAUSE
key       42 (json:/n); passed on as ID
message   ID, order.placed, source shop, group g, from queue bills, TIME
headers   trace: abc
body      {"n": 42}
next: semel dead retry 2
"""

SHOWN_JSON = """\
{"letter":2,"inbox":"invoices","key":"42","type":"order.placed","message_id":"ID","attempts":1,"at":"TIME",\
"cause":"CAUSE","error":"exit 65: no tax rate for order 42","message":{"id":"ID","type":"order.placed",\
"source":"shop","topic":"bills","group":"g","content_type":"application/json","time":"TIME",\
"headers":[{"name":"trace","value":"abc"}],"body":{"n": 42}}}
"""

DRY = """\
  1  41  exit 65: no tax rate for order 41
  2  42  exit 65: no tax rate for order 42
would retry 3 letters in invoices, TIME:
1 more; nothing was changed
"""


@on_each
def shown(_kind, _store):
    golden("no groups", "no matching dead letters\n", "groups")
    golden("no letters", "no matching dead letters\n", "ls", "--inbox", "invoices")
    golden("nothing to retry", "no matching dead letters\n", "retry", "--inbox", "invoices", "--yes")
    golden("nothing to discard", "no matching dead letters\n", "discard", "--inbox", "*", "--yes")
    golden("nothing to export", "no matching dead letters\n", "export")
    make_letters("bills", (41, 42, 43), "--group", "g", "--source", "shop", "--header", "trace=abc")
    cause = letters()[0]["cause"]
    expect("groups", GROUPS.replace("CAUSE  inv", f"{cause}  inv"), plain(semel("dead", "groups")[0]))
    expect("groups in JSON", {"cause": cause, "inbox": "invoices", "letters": 3, "first_at": "TIME", "last_at": "TIME",
                              "error": "exit 65: no tax rate for order <n>"},
           json.loads(plain(semel("dead", "groups", "--json")[0])))
    golden("ls", LIST, "ls")
    golden("ls by a cause", LIST, "ls", "--cause", cause, "--type", "order.*", "--inbox", "inv*", "--error", "TAX RATE")
    golden("a page of ls", "".join(LIST.splitlines(True)[:2]) + f"2 more: semel dead ls --cause {cause} --after 1\n",
           "ls", "--limit", "1", "--cause", cause)
    golden("the next page", "".join(LIST.splitlines(True)[:1] + LIST.splitlines(True)[2:]), "ls", "--after", "1")
    golden("by key", "".join(LIST.splitlines(True)[:1] + LIST.splitlines(True)[2:3]), "ls", "--key", "42")
    golden("up to", "".join(LIST.splitlines(True)[:2]), "ls", "--up-to", "1")
    golden("none of the type", "no matching dead letters\n", "ls", "--type", "order.p")
    golden("none of that time", "no matching dead letters\n", "groups", "--until", "2020-01-01")
    golden("show", SHOWN.replace("CAUSE", cause), "show", "2")
    golden("show in JSON", SHOWN_JSON.replace("CAUSE", cause), "show", "2", "--json")
    golden("the body", '{"n": 42}', "show", "2", "--body")
    golden("a page of all groups", plain(semel("dead", "groups")[0]), "groups", "--limit", "1")
    golden("a dry run", DRY, "retry", "--inbox", "invoices", "--dry-run")
    golden("letters after a dry run", LIST, "ls")


USAGE = (("dead", "expected groups, ls, show, retry, discard or export", ()),
         ("dead", 'there is no command "lz"; did you mean "ls"?', ("lz",)),
         ("dead ls", "unknown option --sinse; did you mean --since?", ("ls", "--sinse", "2h")),
         ("dead ls", 'it takes filters, not "7"', ("ls", "7")),
         ("dead show", "it takes one letter", ("show",)),
         ("dead show", '"x" is no letter: letters are numbers', ("show", "x")),
         ("dead retry", "give letters or filters; for all letters: --inbox '*'", ("retry",)),
         ("dead discard", "give letters or filters; for all letters: --inbox '*'", ("discard", "--yes")),
         ("dead retry", "give letters or filters, not both", ("retry", "1", "--inbox", "payments")),
         ("dead ls", '--cause: "xyz" is not a cause; see semel dead groups', ("ls", "--cause", "xyz")))


def mistakes():
    with place("sqlite") as store:
        set_up("sqlite", store)
        for caller, why, words in USAGE:
            out, err = semel("dead", *words, status=2)
            expect(f"dead {words}", ("", f"semel {caller}: {why}"), (out, err.splitlines()[0]))
        golden("an unknown inbox", 'semel dead ls: inbox "payment" does not exist; did you mean "payments"?\n',
               "ls", "--inbox", "payment", status=4)
        golden("an unknown letter", "semel dead show: letter 7 does not exist (any more)\n", "show", "7", status=4)
        make_letters("bills", (41,))
        golden("without a config", "semel dead retry: --here needs a config, which says what the handlers are\n"
               "try: semel help dead\n", "retry", "1", "--here", "--store", store.url, status=2)


# --- retries ---------------------------------------------------------------------------------------


@on_each
def retried(_kind, store):
    """By a running process, here, and when no process is running."""
    make_letters("bills", (41, 42, 43), "--group", "g")
    golden("no process", "no process is running invoices; 1 letter is marked, and retried when semel run starts; "
           "to retry now: --here\n", "retry", "1")
    expect("what ls says of it", [(1, "asked"), (2, None), (3, None)],
           [(one["letter"], one.get("retry")) for one in letters()])
    golden("here, and it fails", "2 invoices 42: failed again, DURATION: exit 65: no tax rate for order 42 (audit 2)\n",
           "retry", "2", "--here", status=1)
    expect("attempts", (2, "failed"), (letters()[1]["attempts"], letters()[1]["retry"]))
    Run("--once").ends(0)  # takes what is marked
    expect("letter 1, tried by semel run --once", (2, "failed"), (letters()[0]["attempts"], letters()[0]["retry"]))
    write("rates", "")
    golden("here, and it works", "2 invoices 42: processed, DURATION (audit 3)\n", "retry", "2", "--here")
    golden("gone", "semel dead retry: letter 2 no longer exists: root retried it AGE ago (audit 3)\n".replace(
        "root", semel_user()), "retry", "2", status=4)
    run = Run()
    run.says('"event":"ready"')
    wait_until(lambda: count(store, "semel_process"), "the row of the process")
    golden("by the process", "1 invoices 41: processed, DURATION (audit 4)\n", "retry", "1")
    golden("in JSON", '{"letter":3,"inbox":"invoices","key":"43","outcome":"processed","took_ms":N,"audit":5}\n'
           "1 of 1: 1 processed, 0 failed again, DURATION (audit 5)\n",
           "retry", "--inbox", "invoices", "--yes", "--json")
    run.stop()
    expect("invoices, each once", ["41", "42", "43"], sorted(line.split()[0] for line in
                                                             read("invoices.txt").splitlines()))
    golden("nothing is left", "no matching dead letters\n", "ls")


def semel_user():
    return subprocess.run(["id", "-un"], stdout=subprocess.PIPE, check=True).stdout.decode().strip()


@on_sqlite
def forgotten(_kind, store):
    """A key stays dead when its letter is discarded, unless it is forgotten."""
    make_letters("orders", (7, 8), "--group", "g")
    store.ask("INSERT INTO gate VALUES (1)")
    golden("discard", "1 of 1 discarded (audit 1)\n", "discard", "1", "--yes")
    golden("discard and forget", "1 of 1 discarded (audit 2)\n", "discard", "2", "--forget", "--yes")
    make_letters("orders", (7, 8))
    expect("only the key that was forgotten has run", [("8",)], store.ask("SELECT n FROM effect"))
    golden("gone", f"semel dead discard: letter 1 no longer exists: {semel_user()} discarded it AGE ago (audit 1)\n",
           "discard", "1", "--yes", status=4)


@on_sqlite
def duplicates(_kind, store):
    """A copy was handled meanwhile: the letter has nothing left to do, and goes."""
    make_letters("bills", (41, 42), "--group", "g")
    store.ask("DELETE FROM semel_marker WHERE state = 2")
    write("rates", "")
    publish_lines("bills", ['{"n": 41}', '{"n": 42}'])
    Run("--once").ends(0)
    golden("here", "1 invoices 41: duplicate, DURATION (audit 1)\n", "retry", "1", "--here")
    run = Run()
    run.says('"event":"ready"')
    wait_until(lambda: count(store, "semel_process"), "the row of the process")
    golden("by the process", "2 invoices 42: duplicate, DURATION (audit 2)\n", "retry", "2")
    run.stop()
    expect("invoices, each once", 2, len(read("invoices.txt").splitlines()))


UNROUTED = """\
version: 1
store: sqlite:shop.db
setup:
  - CREATE TABLE IF NOT EXISTS effect (n INTEGER)
queues: {{ orders: store }}
inboxes:
  payments: {{ from: orders, types: [{types}], key: "json:/n", sql: "INSERT INTO effect (n) VALUES (:json/n)" }}
"""


def unrouted():
    """A message that no inbox accepts; a new config accepts it, and a running process retries it through its route."""
    with place("sqlite") as store:
        write("semel.yaml", UNROUTED.format(types="other"))
        make_letters("orders", (7,))
        golden("here", "1 unrouted 7#DIGEST: failed again, DURATION: without a route it needs a running semel: "
               "leave --here out (audit 1)\n", "retry", "1", "--here", status=1)
        write("semel.yaml", UNROUTED.format(types="other, order.placed"))
        run = Run()
        run.says('"event":"ready"')
        wait_until(lambda: count(store, "semel_process"), "the row of the process")
        golden("by the process", "1 unrouted 7#DIGEST: processed, DURATION (audit 2)\n", "retry", "1")
        run.stop()
        expect("effects", [("7",)], store.ask("SELECT n FROM effect"))


# --- killed ----------------------------------------------------------------------------------------


def start(*words):
    return subprocess.Popen([SEMEL, "dead", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=environment())


def count(store, what):
    return int(store.ask(f"SELECT count(*) FROM {what}")[0][0])


@on_each
def killed_half_way(kind, store):
    """A thousand letters; the command is killed, then semel run, and both are started again: each effect once."""
    wanted = 1000 if kind == "sqlite" else 250
    make_letters("orders", range(wanted))
    expect("letters", wanted, count(store, "semel_dead"))
    store.ask("INSERT INTO gate VALUES (1)")
    run = Run()
    run.says('"event":"ready"')
    wait_until(lambda: count(store, "semel_process"), "the row of the process")
    command = start("retry", "--inbox", "payments", "--yes")
    wait_until(lambda: count(store, "effect") >= wanted // 10, "the first effects")
    command.kill()
    command.communicate()
    command = start("retry", "--inbox", "payments", "--yes")
    wait_until(lambda: count(store, "semel_audit") == 2, "the second command has begun")
    run.kill()
    command.kill()
    command.communicate()
    run = Run()
    run.says('"event":"ready"')
    # What was asked for is retried without the command, too. If that has come to its end before, there is less to see.
    out, err = semel("dead", "retry", "--inbox", "payments", "--yes")
    expect("the last command", "", out)
    left = "no matching dead letters" not in err
    expect_true(not left or " 0 failed again" in err, err)
    run.stop()
    expect("letters in the end", 0, count(store, "semel_dead"))
    expect("effects: each once", (wanted, wanted), (count(store, "effect"), int(store.ask(
        "SELECT count(DISTINCT n) FROM effect")[0][0])))
    entries = store.ask("SELECT what FROM semel_audit")
    expect("entries of the audit", [("dead retry --inbox payments",)] * (3 if left else 2), entries)


SLOW = """\
#!/bin/sh
case $SEMEL_KEY in 3) exec sleep 1000 ;; *) sleep 1.1 ;; esac
"""


def audit_of_a_slow_step():
    """The entry of a command that is killed in the middle of a step has what was done before."""
    with place("sqlite") as store:
        set_up("sqlite", store)
        make_letters("bills", (1, 2, 3))
        write("invoice.sh", SLOW, 0o700)
        write("semel.yaml", read("semel.yaml").replace("timeout: 20s", "timeout: 100s"))
        command = start("retry", "--inbox", "invoices", "--here", "--yes")
        wait_until(lambda: store.ask("SELECT result, count FROM semel_audit") == [("2 processed", "2")],
                   lambda: f"two are in the audit: {store.ask('SELECT result FROM semel_audit')}")
        expect("the command is still at its third letter", None, command.poll())
        command.kill()
        command.communicate()
        expect("the audit", "2 processed", json.loads(semel("audit", "--json")[0])["result"])


def number(pattern, text):
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


@on_each
def two_operators(_kind, store):
    """One retries and another discards the same letters at the same time, and two retry them."""
    make_letters("orders", range(60))
    store.ask("INSERT INTO gate VALUES (1)")
    commands = [start("retry", "--inbox", "payments", "--here", "--yes")]
    wait_until(lambda: count(store, "effect"), "a first effect")
    commands.append(start("discard", "--inbox", "payments", "--yes"))
    said = [command.communicate(timeout=DEADLINE_S)[1].decode() for command in commands]
    expect("exit statuses", [0, 0], [command.returncode for command in commands])
    processed = number(r": (\d+) processed", said[0])
    discarded = number(r"(\d+) of \d+ discarded", said[1])
    expect("effects", processed, count(store, "effect"))
    expect(f"processed and discarded: {said}", 60, processed + discarded)
    expect("letters", 0, count(store, "semel_dead"))
    store.ask("DELETE FROM gate")
    make_letters("orders", range(200, 240))
    store.ask("INSERT INTO gate VALUES (1)")
    commands = [start("retry", "--inbox", "payments", "--here", "--yes") for _ in range(2)]
    said = [command.communicate(timeout=DEADLINE_S)[1].decode() for command in commands]
    expect(f"letters: {said}", 0, count(store, "semel_dead"))
    expect(f"effects of both, each once: {said}", 40, count(store, "effect WHERE n >= 200"))


def kills_its_process():
    """The letter stays as begun, and no process takes it by itself again; a person may ask once more."""
    with place("sqlite") as store:
        set_up("sqlite", store)
        make_letters("bills", (41,))
        write("fatal", "")
        semel("dead", "retry", "1")
        run = Run()
        expect("how the process ends", -signal.SIGKILL, run.process.wait(DEADLINE_S))
        os.remove("fatal")
        write("rates", "")
        expect("the state", [(1, "begun")], [(one["letter"], one["retry"]) for one in letters()])
        expect_true("begun and not ended" in semel("dead", "show", "1")[0], "show says so")
        expect_true("[retry begun]" in semel("dead", "ls")[0], "ls says so")
        Run("--once").ends(0)
        expect("not taken by itself", [(1, "begun")], [(one["letter"], one["retry"]) for one in letters()])
        out, _ = semel("dead", "retry", "1", "--here")
        expect("asked once more", "1 invoices 41: processed, DURATION (audit 2)\n", plain(out))


def drained():
    """A retry that is running when semel run stops goes on until the time for draining is over, and is asked for
    again: the letter is what it was."""
    with place("sqlite") as store:
        set_up("sqlite", store)
        make_letters("bills", (41,))
        before = letters()
        write("endless", "")
        semel("dead", "retry", "1")
        run = Run()
        wait_until(lambda: letters()[0].get("retry") == "begun", "the retry has begun")
        run.stop()
        after = letters()
        expect("what is different", ["at", "retry"],
               sorted(name for name in {**before[0], **after[0]} if before[0].get(name) != after[0].get(name)))
        expect("the state", "asked", after[0]["retry"])
        os.remove("endless")
        write("rates", "")
        Run("--once").ends(0)
        expect("letters", [], letters())
        expect("retries that nothing has left behind", 0, count(store, "semel_marker WHERE state <> 0"))


def reloaded():
    """After a reload letters are retried with the new handlers."""
    with place("sqlite") as store:
        set_up("sqlite", store)
        make_letters("bills", (41, 42), "--group", "g")
        run = Run()
        run.says('"event":"ready"')
        wait_until(lambda: count(store, "semel_process"), "the row of the process")
        expect_true("failed again" in semel("dead", "retry", "1", status=1)[0], "with the old handler")
        write("better.sh", "#!/bin/sh\ncat >/dev/null\necho \"$SEMEL_KEY\" >>better.txt\n", 0o700)
        write("semel.yaml", read("semel.yaml").replace("./invoice.sh", "./better.sh"))
        run.send(signal.SIGHUP)
        run.says("1 changed")
        golden("with the new one", "1 invoices 41: processed, DURATION (audit 2)\n", "retry", "1")
        run.stop()
        expect("what the new handler did", "41\n", read("better.txt"))


@on_sqlite
def put_back(_kind, store):
    """A letter of an outbox goes back into the outbox, without a running process, and from there to its queue."""
    make_letters("orders", (7, 8), "--group", "g")
    store.ask("UPDATE semel_dead SET origin = 2, name = 'sent' WHERE dead_id = 1")
    expect("its place", ("sent", None), (letters()[0].get("outbox"), letters()[0].get("inbox")))
    golden("retry", "1 sent 7: put back, DURATION (audit 1)\n", "retry", "1")
    expect("letters of the outbox", [], letters("--outbox", "sent"))
    Run("--once").ends(0)
    expect("it was sent and handled", [("7",)], store.ask("SELECT n FROM effect"))


def interrupted():
    """Ctrl-C: what is done is done, the rest is as before, and the command says how to go on."""
    with place("sqlite") as store:
        set_up("sqlite", store)
        make_letters("bills", range(25))
        write("slow", "")
        write("rates", "")
        run = Run("retry", "--inbox", "invoices", "--here", terminal=True, command="dead")
        run.says("retry them? [y/N] ")
        os.write(run.keyboard, b"y\n")
        wait_until(lambda: len(read("invoices.txt").splitlines()) >= 11, "some are done")
        os.write(run.keyboard, b"\x03")
        said = run.ends(130)
        again = re.search(r"To continue: semel (dead retry --inbox invoices --up-to 25 --here)\n", said)
        expect_true(again, f"says how to go on:\n{said}")
        counts = re.search(r"(\d+) of 25: (\d+) processed, 0 failed again\n", said)
        expect_true(counts, f"says how many are done:\n{said}")
        done = int(counts[2])
        expect("done", done, len(read("invoices.txt").splitlines()))
        expect("letters that are left, and their states", [None] * (25 - done),
               [one.get("retry") for one in letters()])
        _, err = semel(*again[1].split(), "--yes")
        expect_true(f"{25 - done} of {25 - done}: {25 - done} processed, 0 failed again" in err, err)
        expect("invoices", 25, len({line.split()[0] for line in read("invoices.txt").splitlines()}))
        expect("each once", 25, len(read("invoices.txt").splitlines()))
        expect("audit", 2, count(store, "semel_audit"))


def prompts():
    with place("sqlite") as store:
        set_up("sqlite", store)
        make_letters("bills", range(12))
        golden("no terminal", "semel dead discard: discarding 12 letters needs confirmation, but there is no terminal; "
               "pass --yes\n", "discard", "--inbox", "invoices", status=2)
        run = Run("discard", "--inbox", "invoices", terminal=True, command="dead")
        run.says("permanently discard 12 letters in invoices? Type 12 to confirm: ")
        os.write(run.keyboard, b"y\n")
        expect_true("nothing was changed" in run.ends(1), "y is no number")
        run = Run("retry", "--inbox", "invoices", terminal=True, command="dead")
        run.says("exit 65: no tax rate for order <n>\nretry them? [y/N] ")
        os.write(run.keyboard, b"\n")
        expect_true("nothing was changed" in run.ends(1), "the default is no")
        expect("letters", 12, len(letters()))
        run = Run("discard", "--inbox", "invoices", terminal=True, command="dead")
        run.says("to confirm: ")
        os.write(run.keyboard, b"12\n")
        expect_true("12 of 12 discarded (audit 1)" in run.ends(0), run.text())
        make_letters("bills", range(12))
        expect("copies of dead keys stay dead", [], letters())


HOSTILE = "\x1b[31m\x07\x08\u202e\r\nX: y\u0085\u2028'; DROP TABLE effect; --\x7f"


def hostile():
    """Nothing that a message, an error or a name contains reaches the output as more than text."""
    with place("sqlite") as store:
        set_up("sqlite", store)
        write("error", HOSTILE.replace("\n", " "))
        odd = "odd\x1b[2J"
        body = json.dumps({"n": HOSTILE}).encode() + b"\n\x1b]0;title\x07"
        semel("publish", "bills", "--type", odd, "--id", "odd", "--source", odd, "--group", odd, "--header",
              f"x-y={odd}", stdin=body)
        semel("publish", "bills", "--type", "t", stdin=b"\xff\x00\x1b")
        semel("publish", "bills", "--type", "t", stdin=json.dumps({"n": HOSTILE}).encode())
        Run("--once").ends(0)
        store.ask("UPDATE semel_dead SET id = x'6f64641b5b324a' WHERE id = x'6f6464'")  # as others send it
        found = letters()
        expect_true(len(found) >= 2, f"letters: {found}")
        for words in (["groups"], ["ls"], ["groups", "--json"], ["ls", "--json"], ["retry", "--inbox", "*", "-n"],
                      *(["show", str(one["letter"])] for one in found),
                      *(["show", str(one["letter"]), "--json"] for one in found)):
            text = "".join(semel("dead", *words))
            expect_true(not re.search("[\x00-\x09\x0b-\x1f\x7f]", text), f"control characters in {words}: {text!r}")
        for one in found:
            run = Run("show", str(one["letter"]), "--body", terminal=True, command="dead")
            expect_true(not re.search("[\x00-\x09\x0b-\x1f\x7f]", run.ends(0)), f"--body: {run.text()!r}")
        out = subprocess.run([SEMEL, "dead", "show", str(found[-1]["letter"]), "--body"], stdout=subprocess.PIPE,
                             env=environment(), check=True).stdout
        expect("the bytes in a pipe", json.dumps({"n": HOSTILE}).encode(), out)
        out, err = semel("dead", "export", status=1)  # control characters are not allowed in an id of a CloudEvent
        expect("the end of an export", [f"{len(out.splitlines())} letters", "1 letter could not be exported"],
               [line for line in err.splitlines() if "letter" in line and not line.startswith("semel")])
        store.ask("UPDATE semel_dead SET headers = x'ff00ff' WHERE dead_id = 1")
        expect_true("damaged" in semel("dead", "show", "1")[0], "a damaged letter says so")
        expect("a damaged letter hides no other", len(found), len(letters()))


def exported():
    """What is exported can be published again."""
    with place("sqlite") as store:
        set_up("sqlite", store)
        publish_lines("bills", ['{"n":41}', '{"n":42}'], "--type", "order.placed", "--header", "trace=abc")
        Run("--once").ends(0)
        out, err = semel("dead", "export", "--inbox", "invoices")
        expect("said", "2 letters\n", err)
        events = [json.loads(line) for line in out.splitlines()]
        expect("events", [({"n": 41}, "order.placed", "abc"), ({"n": 42}, "order.placed", "abc")],
               [(event["data"], event["type"], event["trace"]) for event in events])
        semel("dead", "discard", "1", "2", "--forget", "--yes")
        write("rates", "")
        semel("publish", "bills", "--cloudevents", "--lines", stdin=out.encode())
        Run("--once").ends(0)
        expect("invoices", ["41", "42"], sorted(line.split()[0] for line in read("invoices.txt").splitlines()))


def exported_without_names():
    """Type and source that a message did not have come back as none; an attribute says so, and is taken away."""
    with place("sqlite") as store:
        write("semel.yaml", CONFIG.format(store=store.url).replace("json:/n", "id"))
        write("invoice.sh", INVOICE, 0o700)
        for number, names in enumerate(((), ("--type", "t"), ("--source", "s"), ("--type", "t", "--source", "s"))):
            semel("publish", "bills", "--id", f"m{number}", "--header", "trace=abc", *names, "{}")
        Run("--once").ends(0)
        out, _ = semel("dead", "export")
        events = [json.loads(line) for line in out.splitlines()]
        expect("what was unsaid", ["both", "source", "type", None], [event.get("semelunsaid") for event in events])
        expect_true(all(event["type"] and event["source"] for event in events), "each is a CloudEvent")
        before = store.ask("SELECT id, type, source, headers FROM semel_dead ORDER BY id")
        expect("what it had", [("None", "None"), ("t", "None"), ("None", "s"), ("t", "s")],
               [row[1:3] for row in before])
        semel("publish", "sent", "--cloudevents", "--lines", stdin=out.encode())
        expect("what comes back", before, store.ask("SELECT id, type, source, headers FROM semel_outbox ORDER BY id"))


def pages_of_groups():
    """--limit takes those that happened last, and says how many more there are."""
    with place("sqlite") as store:
        set_up("sqlite", store)
        for number, error in enumerate(("one", "two", "three", "four")):
            write("error", f"it is {error}")
            make_letters("bills", (number,))
        os.remove("error")
        every = semel("dead", "groups")[0].splitlines(True)
        expect("groups", 5, len(every))
        expect("two of them", ("".join(every[:3]), "2 more groups, with older letters\n"),
               semel("dead", "groups", "--limit", "2"))
        expect("three of them", ("".join(every[:4]), "1 more group, with older letters\n"),
               semel("dead", "groups", "--limit", "3"))
        expect("all of them", ("".join(every), ""), semel("dead", "groups", "--limit", "4"))
        expect("in JSON, of a type", 2, len(semel("dead", "groups", "--limit", "2", "--json", "--type",
                                                  "order.*")[0].splitlines()))


BODIES = (b'{"n":1}', b'{ "n": 2,\n "a": "\\u00e4\\/", "big": 1.50 }\n', b'{"n":3,"twice":1,"twice":2}', b'{"n":4}\r\n',
          '{"n":5,"a":"\u00e4"}'.encode(), b'"text"', b"no JSON", b"\xff\x00", b"1e2", b" ")


def exported_bodies():
    """A body comes back byte for byte: a fingerprint of the default kind is made of it."""
    with place("sqlite") as store:
        write("semel.yaml", CONFIG.format(store=store.url).replace("json:/n", "id"))
        write("invoice.sh", INVOICE, 0o700)
        for number, body in enumerate(BODIES):
            for kind in ((), ("--content-type", "application/json"), ("--content-type", "text/plain")):
                semel("publish", "bills", "--type", "t", "--id", f"{number}{kind}", *kind, stdin=body)
        Run("--once").ends(0)
        out, err = semel("dead", "export")
        expect("all are exported", f"{3 * len(BODIES)} letters\n", err)
        before = dict(store.ask("SELECT id, body FROM semel_dead"))
        expect_true('"data":{"n":1}' in out, "what comes back as it was stays legible")
        semel("publish", "sent", "--cloudevents", "--lines", stdin=out.encode())
        expect("the bodies", before, dict(store.ask("SELECT id, body FROM semel_outbox")))


main(shown, mistakes, retried, forgotten, put_back, duplicates, unrouted, killed_half_way, two_operators,
     kills_its_process, drained, reloaded, interrupted, prompts, hostile, exported, exported_without_names,
     pages_of_groups, exported_bodies, audit_of_a_slow_step)
