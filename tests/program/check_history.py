#!/usr/bin/python3
"""check_history.py PROGRAM [CHECK...]: what `semel run` records of deliveries, how `inbox show` shows it, and that
nothing else depends on it. Those checks whose names end in _on_servers need SEMEL_TEST_SERVERS."""
import json
import os
import signal
import subprocess
import time

from live_kit import prepare, start, stats, wait_for
from program_kit import DEADLINE_S, expect, expect_true, main, publish_lines, semel, servers, wait_until, write
from store_kit import place

PROCESSED, DUPLICATE, FAILED, DEAD = 2, 3, 9, 10
RECEIVED, SENT, GAP = 1, 2, 3
KEY = {"sqlite": "hex(key)", "postgres": "upper(encode(key, 'hex'))", "mariadb": "hex(`key`)"}


def rows(store, where="kind = 1"):
    return store.ask(f"SELECT name, outcome, attempt FROM semel_history WHERE {where} ORDER BY id")


def number(store, query):
    return int(store.ask(query)[0][0])


def wait_rows(store, count, where="kind = 1"):
    query = f"SELECT count(*) FROM semel_history WHERE {where}"
    wait_until(lambda: number(store, query) >= count, lambda: f"{count} rows where {where}: {rows(store, where)}")


def publish(n, *options):
    publish_lines("orders", [f'{{"n": {n}}}'], "--type", "paid", *options)


def outcomes_of(inbox, key):
    out = semel("inbox", "show", str(key), "--inbox", inbox, "--json")[0]
    return json.loads(out.splitlines()[0])["deliveries"]


# --- what is recorded ----------------------------------------------------------------------------


def copies(kind="sqlite"):
    """Three copies: one is processed and two are duplicates, and what was sent because of them is tied to the key."""
    with place(kind) as store:
        prepare(store=store.url)
        run = start()
        publish(7, "--copies", "3")
        wait_rows(store, 3, "name = 'payments'")
        wait_rows(store, 1, "kind = 2")
        found = sorted(rows(store, "name = 'payments'"))
        expect(f"copies on {kind}", [("payments", "2", "1"), ("payments", "3", "0"), ("payments", "3", "0")], found)
        expect("the body is kept once", [('{"n": 7}',)] if kind != "postgres" else [("7b226e223a20377d",)],
               store.ask({"sqlite": "SELECT CAST(body AS TEXT)", "mariadb": "SELECT CONVERT(body USING utf8mb4)",
                          "postgres": "SELECT encode(body, 'hex')"}[kind] +
                         " FROM semel_history WHERE kept = 1 AND name = 'payments'"))
        shown = outcomes_of("payments", 7)
        expect("in JSON", ["duplicate", "duplicate", "processed", "processed"], sorted(one["outcome"] for one in shown))
        expect("what was sent", ["shipping"], [one["outbox"] for one in shown if one["what"] == "sent"])
        expect("how many", [1], [one["sent"] for one in shown if "sent" in one])
        people = semel("inbox", "show", "7", "--inbox", "payments")[0]
        expect_true("\ndeliveries:\nWHEN " in people and "1 message sent" in people and "to shipping" in people, people)
        expect("duplicates shown", 2, people.count("duplicate"))
        run.stop()
        processes = {one["process"] for one in shown}
        expect("one process wrote them", 1, len(processes))


def failures():
    """Each attempt with its error, the letter, and a copy of it."""
    with place("sqlite") as store:
        prepare()
        run = start()
        publish_lines("orders", ['"fail"'], "--type", "mail")
        wait_rows(store, 2, "name = 'mail.receipt'")
        expect("attempts", [("mail.receipt", str(FAILED), "1"), ("mail.receipt", str(DEAD), "2")],
               rows(store, "name = 'mail.receipt'"))
        errors = store.ask("SELECT error LIKE '%no mailbox%', letter, retry_ms > 0 FROM semel_history ORDER BY id")
        expect("errors", [("1", "0", "1"), ("1", "1", "0")], errors)
        letter = json.loads(semel("dead", "ls", "--json")[0].splitlines()[0])
        out = semel("inbox", "show", letter["key"])[0]
        expect_true("failed" in out and "no mailbox" in out and "letter 1" in out, out)
        run.stop()


def options():
    """Off by an option, on by a reload; a body of 0 bytes keeps no messages; a store without rows shows none."""
    with place("sqlite") as store:
        prepare(more="history: false\n")
        run = start()
        publish(1, "--copies", "2")
        wait_for("payments", processed=1, duplicates=1)
        expect_true("deliveries" not in semel("inbox", "show", "1")[0], "there is no timeline")
        expect_true("deliveries" not in json.loads(semel("inbox", "show", "1", "--json")[0].splitlines()[0]), "in JSON")
        prepare(more="history: { body: 0B, age: 1h }\n")
        run.send(signal.SIGHUP)
        run.says("reload: done")
        publish(2)
        wait_rows(store, 1)
        expect("no message is kept", 0, number(store, "SELECT sum(kept) + count(body) FROM semel_history"))
        expect("nothing from before", 0, number(store, "SELECT count(*) FROM semel_history WHERE key = x'31'"))
        run.stop()


def bounded():
    """As many rows as are to be kept, and a tenth more; and none that is too old."""
    with place("sqlite") as store:
        prepare(more="history: { rows: 100, age: 1h }\n")
        run = start()
        for part in range(4):
            publish_lines("orders", [f'{{"n": {n}}}' for n in range(part * 100, part * 100 + 100)], "--type", "paid")
            wait_for("payments", processed=part * 100 + 100)
        wait_until(lambda: number(store, "SELECT coalesce(max(id), 0) FROM semel_history") > 150,
                   "more than fit were written")
        wait_until(lambda: number(store, "SELECT count(*) FROM semel_history") <= 110, "it was trimmed")
        store.ask("UPDATE semel_history SET at_ms = 1")
        publish_lines("orders", [f'{{"n": {n}}}' for n in range(1000, 1011)], "--type", "paid")
        wait_until(lambda: number(store, "SELECT count(*) FROM semel_history WHERE at_ms = 1") == 0, "old ones go")
        run.stop()


def final_flush():
    """A clean stop writes what is left, with --once, too; it does not wait for the next second."""
    with place("sqlite") as store:
        prepare()
        publish(1, "--copies", "2")
        semel("run", "--once")
        expect("rows", 2, number(store, "SELECT count(*) FROM semel_history WHERE name = 'payments'"))


def overload():
    """More than the budget: each row is recorded or counted, failures are recorded, and it is said once."""
    with place("sqlite") as store:
        prepare(more="history: { rows: 100 }\n")
        publish_lines("orders", [f'{{"n": {n % 500}}}' for n in range(9000)], "--type", "paid")
        publish_lines("orders", ['"fail"'], "--type", "mail")
        run = start()
        wait_for("payments", processed=500, duplicates=8500)
        wait_for("mail.receipt", dead=1)
        run.stop()
        expect("it is said once", 1, run.text().count("not all deliveries are recorded"))
        last = number(store, "SELECT coalesce(max(id), 0) FROM semel_history")
        gaps = number(store, "SELECT coalesce(sum(number), 0) FROM semel_history WHERE kind = 3")
        expect_true(gaps > 0 and last < 9000, f"{gaps} are in gaps, {last} rows were written")


def killed():
    """What was not written yet is missing, and nothing else happens."""
    with place("sqlite") as store:
        prepare()
        run = start()
        publish_lines("orders", [f'{{"n": {n}}}' for n in range(50)], "--type", "paid")
        wait_for("payments", processed=50)
        run.send(signal.SIGKILL)
        run.ends(-signal.SIGKILL)
        before = number(store, "SELECT count(*) FROM semel_history")
        run = start()
        publish_lines("orders", ['{"n": 3}', '{"n": 77}'], "--type", "paid")
        wait_rows(store, 1, f"name = 'payments' AND outcome = {DUPLICATE}")
        wait_rows(store, 1, "key = x'3737'")
        run.stop()
        expect("effects", 51, number(store, "SELECT count(*) FROM ledger"))
        expect_true(number(store, "SELECT count(*) FROM semel_history") >= before + 2, "rows go on")


# --- on servers ----------------------------------------------------------------------------------


def copies_on_servers():
    for kind in ("postgres", "mariadb"):
        copies(kind)


def locked_on_servers():
    """A history that cannot be written holds no message up; what is lost is a gap when it can be again."""
    with place("postgres") as store:
        prepare(store="{ url: \"" + store.url + "\", busy: 500ms }")
        run = start()
        holder = subprocess.Popen(["psql", "-qXAt", store.url, "-c",
                                   "BEGIN; LOCK TABLE semel_history IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(300)"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        holders = "pg_locks WHERE relation = 'semel_history'::regclass AND mode = 'AccessExclusiveLock'"
        wait_until(lambda: store.ask(f"SELECT count(*) FROM {holders} AND granted") == [("1",)], "it is locked")
        publish_lines("orders", [f'{{"n": {n}}}' for n in range(20)], "--type", "paid", "--copies", "2")
        wait_for("payments", processed=20, duplicates=20)
        run.says("deliveries cannot be recorded")
        store.ask(f"SELECT pg_terminate_backend(pid) FROM {holders}")
        holder.wait(DEADLINE_S)
        wait_rows(store, 1, "kind = 3")
        publish(99)
        wait_rows(store, 1, "kind = 1 AND key = '99'")
        expect("it is said once", 1, run.text().count("deliveries cannot be recorded"))
        began = time.monotonic()
        run.stop()
        expect_true(time.monotonic() - began < DEADLINE_S, "it stops")
        expect("effects", 21, number(store, "SELECT count(*) FROM ledger"))


def many_on_servers():
    """Two processes write to one history, and keep it as short as it is to be."""
    for kind in ("postgres", "mariadb"):
        with place(kind) as store:
            prepare(store=store.url, more="history: { rows: 200 }\n")
            runs = [start(), start()]
            publish_lines("orders", [f'{{"n": {n}}}' for n in range(600)], "--type", "paid", "--copies", "2")
            wait_until(lambda: number(store, "SELECT count(*) FROM ledger") == 600, f"all are handled, on {kind}")
            for run in runs:
                run.stop()
            run = start()  # what both have left is too long now and then
            publish_lines("orders", [f'{{"n": {n}}}' for n in range(30)], "--type", "paid")
            wait_until(lambda: number(store, "SELECT count(*) FROM semel_history") <= 260, f"it is trimmed, on {kind}")
            expect_true(len(store.ask("SELECT DISTINCT process FROM semel_history")) <= 3, "by id")
            run.stop()


CHECKS = [copies, failures, options, bounded, final_flush, overload, killed]
if "SEMEL_TEST_SERVERS" in os.environ:
    CHECKS += [copies_on_servers, locked_on_servers, many_on_servers]
if __name__ == "__main__":
    main(*CHECKS)
