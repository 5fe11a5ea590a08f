#!/usr/bin/python3
"""check_sql.py PROGRAM PEER [CHECK...]: what the SQL functions of docs/SQL.md answer, on PostgreSQL and on MariaDB;
that they and the library (PEER, which is sql_peer) take each other's keys for handled; and which rights they need."""
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import program_kit
from program_kit import Run, expect, expect_true, semel, wait_until, write

PEER = sys.argv[2]
sys.argv[2:3] = []
import psycopg2  # noqa: E402
import pymysql  # noqa: E402
from sql_kit import LEVELS, MariaDB, Postgres, SQLite  # noqa: E402

DAY_MS = 86400000


def on_both(check):
    """The check, for each of the servers."""
    def on_postgres():
        check(Postgres())

    def on_mariadb():
        check(MariaDB())
    on_postgres.__name__ = check.__name__ + "_on_postgres"
    on_mariadb.__name__ = check.__name__ + "_on_mariadb"
    CHECKS.extend((on_postgres, on_mariadb))
    return check


CHECKS = []


def receive(server, inbox, key, level=None):
    return bool(server.value("SELECT semel_receive(%s, %s)", [inbox, key], level))


def outcome(server, inbox, key, fingerprint=None, made_ms=None):
    return server.value(*outcome_call(server, inbox, key, fingerprint, made_ms))


def outcome_call(server, inbox, key, fingerprint=None, made_ms=None):
    made = "to_timestamp(%s / 1000.0)" if isinstance(server, Postgres) else "%s"
    return f"SELECT semel_receive_outcome(%s, %s, %s, {made})", [inbox, key, fingerprint, made_ms]


def peer(server, inbox, *ids):
    subprocess.run([PEER, server.url, inbox, "1", "transaction"], input="".join(f"{one}\n" for one in ids).encode(),
                   stdout=subprocess.DEVNULL, check=True, timeout=60)


def charges(server):
    return server.value("SELECT COUNT(*) FROM charge")


def now_ms():
    return int(time.time() * 1000)


# --- receiving ----------------------------------------------------------------------------------------------------

@on_both
def first_and_copies(server):
    expect("first", [True, False, False], [receive(server, "shop", "a") for _ in range(3)])
    expect("the same bytes", False, receive(server, "shop", server.blob(b"a")))
    expect("another inbox", True, receive(server, "store-2.b_c", "a"))
    expect("bytes that are no text", [True, False],
           [receive(server, "shop", server.blob(b"\x00\xfe\xff")) for _ in "12"])
    expect("case and spaces", [True, True], [receive(server, "shop", key) for key in ("A", "a ")])
    expect("words", ["claimed", "duplicate"], [outcome(server, "shop", "b") for _ in "12"])


@on_both
def a_rollback_forgets(server):
    db = server.connect()
    for _ in range(2):
        with db.cursor() as sql:
            sql.execute("SELECT semel_receive('fresh', 'k'), semel_send('fresh', 't', 'b')")
            expect("first", 1, int(sql.fetchone()[0]))
        db.rollback()
    db.close()
    expect("nothing is left", 0, server.value("SELECT COUNT(*) FROM semel_scope WHERE name = 'fresh'"))
    expect("first", True, receive(server, "fresh", "k"))


@on_both
def keys_of_the_library(server):
    peer(server, "both", "c-1", "c-2")
    expect("charges", 2, charges(server))
    expect("handled by C", [False, False], [receive(server, "both", one) for one in ("c-1", "c-2")])
    expect("new", [True, True], [receive(server, "both", one) for one in ("s-1", "s-2")])
    peer(server, "both", "s-1", "s-2", "c-1", "c-3")
    expect("charges", 3, charges(server))
    expect("an inbox that SQL made", True, receive(server, "sql-first", "k"))
    peer(server, "sql-first", "k", "l")
    expect("charges", 4, charges(server))


@on_both
def long_keys(server):
    for key in ("x" * 255, "x" * 256, "ä" * 128, "x" * 5000):
        expect(f"{len(key)} characters", [True, False], [receive(server, "long", key) for _ in "12"])
    expect("begins with 0xff", [True, False], [receive(server, "long", server.blob(b"\xffx")) for _ in "12"])
    stored = {bytes(row[0]) for row in server.run(f"SELECT {server.key_column} FROM semel_marker m JOIN semel_scope s"
                                                  " ON s.id = m.inbox WHERE s.name = 'long'")}
    wanted = {b"x" * 255} | {b"\xff" + hashlib.sha256(key).digest()
                             for key in (b"x" * 256, "ä".encode() * 128, b"x" * 5000, b"\xffx")}
    expect("stored as the library stores them", wanted, stored)


@on_both
def wrong_arguments(server):
    for values in (["in", ""], ["in", None], ["", "k"], [None, "k"], ["a b", "k"], ["n" * 256, "k"], ["a\n", "k"]):
        expect(f"{values}", server.invalid, server.refusal("SELECT semel_receive(%s, %s)", values))
    names = [row[0] for row in server.run("SELECT name FROM semel_scope ORDER BY id")]
    expect("nothing is left", ["exec", "semel.exec.retention"],
           [name.decode() if isinstance(name, bytes) else name for name in names])


def set_marker(server, key, columns):
    receive(server, "states", key)
    words = ", ".join(f"{name} = {value}" for name, value in columns.items())
    server.run(f"UPDATE semel_marker SET {words} WHERE {server.key_column} = %s", [server.blob(key.encode())])


@on_both
def states_of_a_marker(server):
    later, before = now_ms() + DAY_MS, now_ms() - 1000
    set_marker(server, "live", {"state": 1, "attempts": 1, "token": 7, "lease_until_ms": later})
    set_marker(server, "ended", {"state": 1, "attempts": 3, "token": 7, "lease_until_ms": before, "error": "'why'"})
    set_marker(server, "failed", {"state": 1, "attempts": 2})
    set_marker(server, "dead", {"state": 2, "attempts": 5})
    expect("live", server.busy, server.refusal(*outcome_call(server, "states", "live")))
    expect("live", server.busy, server.refusal("SELECT semel_receive('states', 'live')"))
    expect("a lease that has ended", "claimed", outcome(server, "states", "ended", 5))
    expect("attempts that failed", True, receive(server, "states", "failed"))
    expect("dead", ["dead", False], [outcome(server, "states", "dead"), receive(server, "states", "dead")])
    for key, fingerprint in (("ended", 5), ("failed", None)):
        row = server.run("SELECT state, attempts, token, lease_until_ms, error, fingerprint, first_ms <= at_ms FROM"
                         f" semel_marker WHERE {server.key_column} = %s", [server.blob(key.encode())])[0]
        expect("taken over", (0, None, None, None, None, fingerprint, 1), (*row[:6], int(row[6])))
        expect("and is done", "duplicate", outcome(server, "states", key))


# --- fingerprints -------------------------------------------------------------------------------------------------

def siphash(data, k0=0x73656D656C207631, k1=0x66696E6765727072):
    """SipHash-2-4 with the library's key, as a number with a sign."""
    mask = (1 << 64) - 1
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def rotate(x, n):
        return (x << n | x >> (64 - n)) & mask

    def turn():
        v[0], v[2] = v[0] + v[1] & mask, v[2] + v[3] & mask
        v[1], v[3] = rotate(v[1], 13) ^ v[0], rotate(v[3], 16) ^ v[2]
        v[0], v[2] = rotate(v[0], 32) + v[3] & mask, v[2] + v[1] & mask
        v[3], v[1] = rotate(v[3], 21) ^ v[0], rotate(v[1], 17) ^ v[2]
        v[2] = rotate(v[2], 32)

    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at:at + 8], "little")
        v[3] ^= word
        turn(), turn()
        v[0] ^= word
    v[2] ^= 255
    for _ in range(4):
        turn()
    found = v[0] ^ v[1] ^ v[2] ^ v[3] or 1
    return found - (1 << 64) if found >> 63 else found


@on_both
def fingerprints(server):
    for length in (*range(18), 255, 256, 1000):
        kind, body = "t" * random.randrange(20), bytes(random.randrange(256) for _ in range(length))
        expect(f"type {kind!r}, body {body.hex()}", siphash(len(kind).to_bytes(8, "little") + kind.encode() + body),
               server.value("SELECT semel_fingerprint(%s, %s) AS f", [kind, server.blob(body)]))
    known = server.value("SELECT semel_fingerprint('order', %s)", [server.blob(b"")])
    peer(server, "prints", "c")
    expect("the library's own", "duplicate", outcome(server, "prints", "c", known))
    expect("another one", server.mismatch, server.refusal(*outcome_call(server, "prints", "c", known + 1)))
    expect("none", "duplicate", outcome(server, "prints", "c"))
    expect("first", ["claimed", "claimed"], [outcome(server, "prints", "s", known), outcome(server, "prints", "n")])
    expect("of one without", "duplicate", outcome(server, "prints", "n", 5))
    peer(server, "prints", "s", "n")  # the same content: a copy, not a mismatch
    expect("charges", 1, charges(server))
    server.run("UPDATE semel_marker SET state = 2 WHERE fingerprint = %s", [known])
    expect("dead, and other content", server.mismatch, server.refusal(*outcome_call(server, "prints", "s", 5)))


# --- what retention has removed -----------------------------------------------------------------------------------

@on_both
def forgotten_keys(server):
    expect("no note", "claimed", outcome(server, "old", "a", None, now_ms() - 100 * DAY_MS))
    box = server.value("SELECT id FROM semel_scope WHERE kind = 1 AND name = 'old'")
    server.run("DELETE FROM semel_note")
    server.run("INSERT INTO semel_note (inbox, note, number, text) VALUES (%s, 2, %s, NULL), (%s, 3, %s, 'ms')",
               [box, now_ms() - 10 * DAY_MS, box, 7 * DAY_MS])
    for level in LEVELS:
        expect("older than what was removed", server.stale,
               server.refusal(*outcome_call(server, "old", "b", None, now_ms() - 11 * DAY_MS), level))
    expect("younger than that", "claimed", outcome(server, "old", "b", None, now_ms() - 9 * DAY_MS))
    expect("younger than the horizon", "claimed", outcome(server, "old", "c", None, now_ms()))
    expect("a copy is a copy", "duplicate", outcome(server, "old", "a", None, now_ms() - 11 * DAY_MS))
    expect("no time", True, receive(server, "old", "d"))


@on_both
def forgotten_meanwhile(server):
    """A sweep commits after the snapshot: its note counts all the same."""
    for made_by_sweep in (False, True):
        inbox = f"swept{int(made_by_sweep)}"
        receive(server, inbox, "a")
        box = server.value("SELECT id FROM semel_scope WHERE kind = 1 AND name = %s", [inbox])
        if not made_by_sweep:
            server.run("INSERT INTO semel_note (inbox, note) VALUES (%s, 2)", [box])
        db = server.connect("repeatable read")
        with db.cursor() as sql:
            sql.execute("SELECT COUNT(*) FROM semel_note")
            server.run("DELETE FROM semel_marker WHERE inbox = %s", [box])
            server.run("INSERT INTO semel_note (number, inbox, note) VALUES (%s, %s, 2)" if made_by_sweep else
                       "UPDATE semel_note SET number = %s WHERE inbox = %s", [now_ms(), box])
            try:
                sql.execute(*outcome_call(server, inbox, "a", None, now_ms() - 11 * DAY_MS))
                code = sql.fetchall()
            except (psycopg2.Error, pymysql.err.Error) as problem:
                code = server.code(problem)
        db.close()
        expect_true(code in (server.stale, *server.retry), f"{inbox}: {code}")


# --- isolation ----------------------------------------------------------------------------------------------------

@on_both
def a_copy_after_the_snapshot(server):
    for level in LEVELS:
        db = server.connect(level)
        with db.cursor() as sql:
            sql.execute("SELECT COUNT(*) FROM charge")
            expect("first", True, receive(server, "late", level))
            try:
                sql.execute("SELECT semel_receive('late', %s)", [level])
                answer = bool(sql.fetchone()[0])
            except (psycopg2.Error, pymysql.err.Error) as problem:
                answer = server.code(problem)
        db.close()
        expect_true(answer is False or answer in server.retry, f"{level}: {answer}")


@on_both
def a_copy_waits(server):
    """For the commit, and for the rollback, of the first copy."""
    for level in LEVELS:
        for end in ("commit", "rollback"):
            key, first, answers = f"{level} {end}", server.connect(level), []
            with first.cursor() as sql:
                sql.execute("SELECT semel_receive('waits', %s)", [key])
                expect("first", 1, int(sql.fetchone()[0]))

            def second():
                try:
                    answers.append(receive(server, "waits", key, level))
                except (psycopg2.Error, pymysql.err.Error) as problem:
                    answers.append(server.code(problem))
            thread = threading.Thread(target=second)
            thread.start()
            wait_until(lambda: is_waiting(server) or answers, "the second copy waits")
            expect("before the end of the first", [], answers)
            getattr(first, end)()
            first.close()
            thread.join()
            if end == "rollback":
                expect(key, [True], answers)
            else:
                expect_true(answers[0] is False or answers[0] in server.retry, f"{key}: {answers}")
                expect(key, False, receive(server, "waits", key))


def is_waiting(server):
    """MariaDB's list of transactions that wait is a copy, which is not renewed while it is read often."""
    return server.value("SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database()"
                        " AND wait_event_type = 'Lock'" if isinstance(server, Postgres) else
                        "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND time_ms > 200"
                        " AND command = 'Query' AND id <> CONNECTION_ID()")


@on_both
def a_name_is_made_once(server):
    for number in range(5):
        answers, begin = [], threading.Barrier(8)

        def use(which, number=number, answers=answers, begin=begin):
            begin.wait()
            while True:
                try:
                    answers.append(receive(server, f"race{number}", f"k{which % 4}"))
                    return
                except (psycopg2.Error, pymysql.err.Error) as problem:
                    if server.code(problem) not in server.retry:
                        raise
        threads = [threading.Thread(target=use, args=[n]) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expect("first copies", 4, sum(answers))


def whatever_the_session_is_on_mariadb():
    """Neither LAST_INSERT_ID of the caller, which it keeps, nor how it counts rows makes a difference."""
    server = MariaDB()
    for flag in (0, pymysql.constants.CLIENT.FOUND_ROWS):
        for before in (0, 1, 2):
            db = pymysql.connect(user="root", database=server.database, client_flag=flag, **server.at)
            with db.cursor() as sql:
                def ask(statement, *values, sql=sql):
                    sql.execute(statement, values)
                    return sql.fetchone()[0]
                ask("SELECT LAST_INSERT_ID(%s)", before)
                inbox = f"session-{flag}-{before}"
                expect(inbox, [1, 0, 1, 0], [ask("SELECT semel_receive(%s, %s)", inbox, key) for key in "aabb"])
                expect(inbox, before, ask("SELECT LAST_INSERT_ID()"))
            db.commit()
            db.close()


def do_hides_errors_on_mariadb():
    """It is the server that does: docs/SQL.md says so."""
    server = MariaDB()
    for call, wanted in (("semel_receive('in', '')", server.invalid),
                         ("semel_send('out', REPEAT('t', 1025), 'b')", server.invalid),
                         ("semel_set_result('in', 'k', '')", server.unknown)):
        expect("an error", [wanted] * 2, [server.refusal(f"{word} {call}") for word in ("SELECT", "SET @answer =")])
        expect("none", None, server.refusal(f"DO {call}"))
    expect("nothing is left", 0, server.value("SELECT COUNT(*) FROM semel_outbox"))


def a_name_that_is_rolled_back_on_mariadb():
    """Even at READ UNCOMMITTED a call waits for the transaction that has just made the name of its inbox or outbox."""
    server, level = MariaDB(), "read uncommitted"
    calls = {"receive": "SELECT semel_receive('fresh', 'k')",
             "outcome": "SELECT semel_receive_outcome('fr', 'k', 1, 1)",
             "send": "SELECT semel_send('fresh', 't', 'b')"}
    for name, call in calls.items():
        maker, answers = server.connect(), []
        maker.cursor().execute(call.replace("'k'", "'other'"))
        thread = threading.Thread(target=lambda: answers.append(server.value(call, level=level)))
        thread.start()
        wait_until(lambda: is_waiting(server) or answers, "the second one waits")
        expect(f"{name}: before the end of the first", [], answers)
        maker.rollback()
        maker.close()
        thread.join()
    expect("a copy", [0, "duplicate"], [server.value(calls[name]) for name in ("receive", "outcome")])
    expect("in an outbox that is there", 1, server.value("SELECT COUNT(*) FROM semel_outbox o JOIN semel_scope s"
                                                         " ON s.id = o.outbox AND s.name = 'fresh'"))
    holder = server.connect()  # a name that is there is not waited for, where it need not be
    holder.cursor().execute("SELECT * FROM semel_scope WHERE name = 'fresh' FOR UPDATE")
    for level in LEVELS[:2]:
        expect(level, True, receive(server, "fresh", level, level))
    holder.close()


@on_both
def an_error_in_the_middle(server):
    """The loop of docs/SQL.md, around work whose second half fails the first time: all of it happens, once."""
    set_marker(server, "live", {"state": 1, "attempts": 1, "token": 7, "lease_until_ms": now_ms() + DAY_MS})
    tries = []

    def handle(db, message):
        tries.append(message)
        with db.cursor() as sql:
            sql.execute("BEGIN" if isinstance(server, MariaDB) else "SELECT 1")  # psycopg2 begins by itself
            sql.execute("SELECT semel_receive('halves', %s)", [message])
            if sql.fetchone()[0]:
                sql.execute("INSERT INTO charge VALUES (%s, 1)", [message])
                if len(tries) == 1:
                    sql.execute("SELECT semel_receive('states', 'live')")  # busy
                sql.execute("INSERT INTO charge VALUES (%s, 2)", [message])
        db.commit()
    connection = server.connect()
    names = {"handle": handle, "connection": connection, "message": "m", "time": time, "code": server.code,
             "TRY_AGAIN": server.retry, "Error": (psycopg2.Error, pymysql.err.MySQLError)}
    exec(block("loop", "python"), names)
    connection.close()
    expect("tries", 2, len(tries))
    expect("both halves", [(1,), (2,)], sorted(server.run("SELECT cents FROM charge")))


# --- results ------------------------------------------------------------------------------------------------------

@on_both
def results(server):
    expect("unknown", server.unknown, server.refusal("SELECT semel_set_result('res', 'a', 'r')"))
    expect("none", None, server.value("SELECT semel_result('res', 'a')"))
    server.run("SELECT semel_receive('res', 'a'), semel_set_result('res', 'a', 'r')")
    expect("stored", b"r", bytes(server.value("SELECT semel_result('res', 'a')")))
    server.run("SELECT semel_set_result('res', 'a', %s)", [server.blob(bytes(1048576))])
    expect("too long", server.invalid, server.refusal("SELECT semel_set_result('res', 'a', %s)",
                                                      [server.blob(bytes(1048577))]))
    if isinstance(server, Postgres):
        server.run("SELECT semel_set_result('res', 'a', '{\"ok\": true}')")
        first = server.run("SELECT * FROM semel_receive_result('res', 'b')")[0]
        again = server.run("SELECT * FROM semel_receive_result('res', 'a')")[0]
        expect("first", (True, None), first)
        expect("a copy", (False, b'{"ok": true}'), (again[0], bytes(again[1])))


# --- sending ------------------------------------------------------------------------------------------------------

def send(server, outbox, kind, body, **more):
    """A call with the same names for both servers."""
    delay_ms = more.pop("delay_ms", None)
    if isinstance(server, Postgres):
        names = "".join(f", {name} => %s" for name in more)
        delay = "" if delay_ms is None else f", delay => make_interval(secs => {delay_ms / 1000})"
        return f"SELECT semel_send(%s, %s, %s{names}{delay})", [outbox, kind, body, *more.values()]
    order = ("id", "source", "topic", "grp", "correlation_id", "content_type", "headers")
    return ("SELECT semel_send_message(" + ", ".join(["%s"] * 11) + ")",
            [outbox, kind, body, *(more.get(name) for name in order), delay_ms])


@on_both
def wrong_messages(server):
    for more in ({"id": "x" * 1025}, {"grp": "ä" * 513}, {"headers": "[]"}, {"headers": '"x"'},
                 {"headers": json.dumps({f"h{n}": "v" for n in range(129)})}, {"headers": '{"": "v"}'},
                 {"headers": json.dumps({"h": "v" * 8192})}, {"delay_ms": -1}, {"delay_ms": 50 * DAY_MS}):
        expect(f"{str(more)[:60]}", server.invalid, server.refusal(*send(server, "out", "t", "b", **more)))
    expect("name", server.invalid, server.refusal("SELECT semel_send('a b', 't', 'b')"))
    expect("nothing is left", 0, server.value("SELECT COUNT(*) FROM semel_outbox"))


CONFIG = """\
version: 1
store: {url}
queues: {{ receipts: store }}
inboxes:
  receipts:
    from: receipts
    sql: "INSERT INTO got VALUES (:id, :type, :body, :{{header:a}}, :{{correlation-id}})"
outboxes: {{ receipts: {{ poll: {poll} }} }}
"""


@on_both
def messages_reach_a_relay(server):
    server.run("CREATE TABLE got (id VARCHAR(100), type VARCHAR(20), body VARCHAR(200), a VARCHAR(99), c VARCHAR(99))")
    write("semel.yaml", CONFIG.format(url=server.url, poll="30s" if isinstance(server, Postgres) else "100ms"))
    ids = [server.value("SELECT semel_send('receipts', 'one', '{\"n\": 1}')"),
           server.value(*send(server, "receipts", "two", "body", id="my-id", source="s", topic="receipts", grp="g",
                              correlation_id="c", content_type="text/plain", headers='{"a": "ü\\"", "n": null}')),
           server.value(*send(server, "receipts", "late", "b", delay_ms=300, headers='{"a": [1], "semeldue": "5"}')),
           server.value(*send(server, "receipts", "bytes", server.blob("ß".encode())))]
    run = Run()
    wanted = len(ids)

    def arrived():
        expect_true(run.process.poll() is None, f"it runs:\n{run.text()}")
        return server.value("SELECT COUNT(*) FROM got") >= wanted
    wait_until(arrived, "all have arrived")
    rows = {row[1]: row for row in server.run("SELECT * FROM got")}
    ids = [one if isinstance(one, str) else bytes(one).decode() for one in ids]
    expect("as sent", (ids[0], "one", '{"n": 1}'), rows["one"][:3])
    expect("as sent", ("my-id", "two", "body", 'ü"', "c"), rows["two"])
    expect("as sent", "[1]", rows["late"][3].replace(" ", ""))
    expect("as sent", "ß", rows["bytes"][2])
    if isinstance(server, Postgres):  # a relay that polls every 30 s hears of it
        wanted += 2
        began = time.monotonic()
        server.run("SELECT semel_send('receipts', 'heard', 'x'), semel_send('receipts', 'heard', 'y')")
        wait_until(arrived, "it was heard", 20)
        expect_true(time.monotonic() - began < 20, "by a notification")
    run.stop()


# --- rights -------------------------------------------------------------------------------------------------------

def rights_on_postgres():
    server = Postgres()
    role = f"{server.database}_app"
    server.manage(f"CREATE ROLE {role} LOGIN")
    try:
        db = server.connect(user=role)
        db.autocommit = True
        sql = db.cursor()
        work = "SELECT semel_receive('i', %s), semel_set_result('i', %s, 'r'), semel_send('o', 't', 'b')"
        try:
            sql.execute(work, ["a", "a"])
            raise program_kit.Failed("works without any rights")
        except psycopg2.errors.InsufficientPrivilege:
            pass
        for grant in shown("rights: postgres"):
            server.run(grant.replace("app", role))
        sql.execute(work, ["a", "a"])
        sql.execute("SELECT semel_receive('i', 'b', 7, now())")
        for level in LEVELS:
            sql.execute(f"BEGIN ISOLATION LEVEL {level}")
            sql.execute("SELECT semel_receive('i', %s, 7, now()), semel_result('i', 'a')", [level])
            sql.execute("COMMIT")
        db.close()
        hijack(server, role)
    finally:
        server.run(f"DROP OWNED BY {role}")
        server.manage(f"DROP ROLE {role}")


def hijack(server, role):
    """Functions and tables of the same names that come first in the search path are not used."""
    server.run(f"CREATE SCHEMA evil; GRANT USAGE ON SCHEMA evil TO {role};"
               "CREATE TABLE evil.semel_marker (); CREATE TABLE evil.semel_scope ();"
               "CREATE FUNCTION evil.length(bytea) RETURNS integer LANGUAGE sql AS 'SELECT 1 / 0';"
               "CREATE FUNCTION evil.no(integer, integer) RETURNS boolean LANGUAGE sql AS 'SELECT 1 / 0 = 1';"
               "CREATE FUNCTION evil.no(smallint, integer) RETURNS boolean LANGUAGE sql AS 'SELECT 1 / 0 = 1';"
               "CREATE FUNCTION evil.no(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT 1 / 0 = 1';"
               "CREATE FUNCTION evil.no(bigint, integer) RETURNS boolean LANGUAGE sql AS 'SELECT 1 / 0 = 1';"
               "CREATE OPERATOR evil.> (FUNCTION = evil.no, LEFTARG = integer, RIGHTARG = integer);"
               "CREATE OPERATOR evil.< (FUNCTION = evil.no, LEFTARG = integer, RIGHTARG = integer);"
               "CREATE OPERATOR evil.= (FUNCTION = evil.no, LEFTARG = smallint, RIGHTARG = integer);"
               "CREATE OPERATOR evil.= (FUNCTION = evil.no, LEFTARG = text, RIGHTARG = text);"
               "CREATE OPERATOR evil.<> (FUNCTION = evil.no, LEFTARG = bigint, RIGHTARG = integer);"
               "CREATE FUNCTION evil.convert_to(text, name) RETURNS bytea LANGUAGE sql AS 'SELECT NULL::bytea'")
    db = server.connect(user=role)
    sql = db.cursor()
    sql.execute("SET search_path = evil, pg_catalog, public")
    sql.execute("SELECT public.semel_receive('i', 'h', 5), public.semel_send('o', 't', 'b', headers => '{\"a\": 1}'),"
                " public.semel_fingerprint('t', 'b')")
    expect("first", True, sql.fetchone()[0])
    sql.execute("SELECT public.semel_receive('i', 'h', 5)")
    expect("a copy", False, sql.fetchone()[0])
    db.close()


def block(what, language="sql"):
    """A block of docs/SQL.md."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/SQL.md")
    return program_kit.read(path).split(f"<!-- {what} -->")[1].split(f"```{language}\n")[1].split("```")[0]


def shown(what):
    """The statements of a block."""
    return [statement.strip() for statement in block(what).split(";") if statement.strip()]


def rights_on_mariadb():
    server = MariaDB()
    user = f"app_{os.getpid()}"
    server.manage(f"CREATE USER {user}@'127.0.0.1'")
    try:
        for grant in shown("rights: mariadb"):
            server.run(grant.replace("shop.", f"{server.database}.").replace("app@'%'", f"{user}@'127.0.0.1'"))
        db = server.connect(user=user)
        sql = db.cursor()
        sql.execute("SELECT semel_receive('i', 'a'), semel_set_result('i', 'a', 'r'), semel_send('o', 't', 'b'),"
                    " semel_receive_outcome('i', 'b', 7, 5), semel_result('i', 'a')")
        db.commit()
        db.close()
    finally:
        server.manage(f"DROP USER {user}@'127.0.0.1'")


def binary_log_on_mariadb():
    """With a binary log the server forbids functions to users without SUPER: the tables come without them, and the
    functions later, when they are allowed."""
    home = tempfile.mkdtemp(prefix="semel-sql-", dir="/dev/shm")
    user = ["--user=mysql"] if os.geteuid() == 0 else []
    if user:
        shutil.chown(home, "mysql")
        os.chmod(home, 0o755)
    socket, quiet = f"{home}/socket", {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(["mariadb-install-db", "--no-defaults", *user, f"--datadir={home}/data", "--skip-test-db",
                    "--auth-root-authentication-method=normal"], check=True, timeout=60, **quiet)
    process = subprocess.Popen(["mariadbd", "--no-defaults", *user, f"--datadir={home}/data", f"--socket={socket}",
                                "--skip-networking", f"--log-bin={home}/data/log", "--innodb-log-file-size=8M"],
                               **quiet)

    def root(statement):
        db = pymysql.connect(unix_socket=socket, user="root")
        with db.cursor() as sql:
            sql.execute(statement)
            rows = sql.fetchall()
        db.commit()
        db.close()
        return rows

    def answers():
        try:
            return root("SELECT 1")
        except pymysql.err.OperationalError:
            return None

    try:
        wait_until(answers, "the server answers")
        for statement in ("CREATE DATABASE shop", "CREATE USER app@localhost", "GRANT ALL ON shop.* TO app@localhost"):
            root(statement)
        functions = "SELECT COUNT(*) > 5 FROM information_schema.routines WHERE routine_schema = 'shop'"
        store = ["exec", "--store", f"mariadb://app@localhost/shop?socket={socket}", "--key"]
        semel(*store, "a", "--", "true")
        expect("functions", 0, root(functions)[0][0])
        expect("steps", 7, root("SELECT MAX(version) FROM shop.semel_schema")[0][0])
        url = ["--store", store[2]]
        expect_true("pending" not in semel("migrate", "status", *url)[0], "semel's own tables are current")
        _, err = semel("migrate", "up", *url)
        expect_true(err.startswith("step 5 is incomplete; to see what is missing: semel doctor --store '"), err)
        mended = re.search(r"warning  schema      functions for SQL are missing: semel_stored_key, .*\n *fix +"
                           r"(SET GLOBAL log_bin_trust_function_creators = 1;) then semel migrate up",
                           semel("doctor", *url)[0])
        root(mended[1])
        semel(*store, "b", "--", "true")
        expect("functions", 1, root(functions)[0][0])
        expect("a copy", 0, root("SELECT shop.semel_receive('exec', 'b')")[0][0])
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(home, ignore_errors=True)


# --- SQLite: the statements of the document -----------------------------------------------------------------------

class Shown:
    """An application that does what docs/SQL.md says."""

    def __init__(self, server):
        self.db = server.connect()
        self.db.isolation_level = None

    def receive(self, inbox, key):
        given = {"inbox": inbox, "key": key}
        first = [self.db.execute(statement, given).fetchall() for statement in shown("sqlite: receive")][-1]
        return "first" if first else self.db.execute(shown("sqlite: state")[0], given).fetchone()[0]

    def send(self, outbox, kind, body, **more):
        given = {"outbox": outbox, "type": kind, "body": body, "id": "i", "grp": None, "topic": None,
                 "content_type": None, **more}
        for statement in shown("sqlite: send"):
            self.db.execute(statement, given)


def statements_on_sqlite():
    server = SQLite()
    app = Shown(server)
    app.db.execute("BEGIN IMMEDIATE")
    expect("first, copy", ["first", 0], [app.receive("payments", "a") for _ in "12"])
    app.db.execute("ROLLBACK")
    app.db.execute("BEGIN IMMEDIATE")
    expect("after a rollback", ["first", 0, "first"], [app.receive("payments", key) for key in ("a", b"a", b"\x00")])
    app.send("receipts", "charged", "body", grp="g", topic="t")
    app.db.execute("COMMIT")
    peer(server, "payments", "a", "c")
    expect("charges of C", 1, charges(server))
    expect("handled by C", 0, app.receive("payments", "c"))
    now = now_ms()
    for key, columns in (("live", f"state = 1, token = 5, lease_until_ms = {now + DAY_MS}"), ("dead", "state = 2"),
                         ("failed", "state = 1, attempts = 3, error = 'why'")):
        app.receive("payments", key)
        server.run(f"UPDATE semel_marker SET {columns} WHERE key = CAST(%s AS BLOB)", [key])
    expect("states", [1, 2, "first", 0], [app.receive("payments", key) for key in ("live", "dead", "failed", "failed")])
    near = server.value("SELECT max(abs(m.at_ms - c.store_ms)) FROM semel_marker m, semel_clock c")
    expect_true(near < DAY_MS, f"the time of a marker is {near} ms off the store's clock")
    app.db.close()
    server.run("CREATE TABLE got (id, type, body, grp)")
    write("semel.yaml", RELAY.format(url=server.url))
    run = Run()
    wait_until(lambda: server.run("SELECT * FROM got WHERE id = 'i'"), lambda: f"the message arrives:\n{run.text()}")
    expect("as sent", [("i", "charged", "body", "g")], server.run("SELECT * FROM got WHERE id = 'i'"))
    run.stop()


RELAY = """\
version: 1
store: {url}
queues: {{ receipts: store }}
inboxes:
  receipts: {{ from: receipts, sql: "INSERT INTO got VALUES (:id, :type, :body, :group)" }}
outboxes: {{ receipts: {{ poll: 50ms }} }}
"""


program_kit.main(*CHECKS, whatever_the_session_is_on_mariadb, do_hides_errors_on_mariadb,
                 a_name_that_is_rolled_back_on_mariadb, statements_on_sqlite, binary_log_on_mariadb,
                 rights_on_postgres, rights_on_mariadb)
