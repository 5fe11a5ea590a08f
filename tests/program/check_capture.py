#!/usr/bin/python3
"""check_capture.py PROGRAM [CHECK...]: tables of other outboxes, whose rows semel sends by a trigger (docs/SQL.md): on
SQLite, PostgreSQL and MariaDB, each row once, also those from before the trigger, also when `semel run` is killed;
what `check`, `doctor` and `migrate sql` say of the trigger; mistakes."""
import json
import os
import random
import signal
import sqlite3
import subprocess
import threading

import program_kit
from program_kit import Run, expect, expect_true, semel, wait_until, write
from sql_kit import LEVELS, MariaDB, Postgres, SQLite

CHECKS = []


def on_each(check):
    """The check, for each kind of store."""
    for kind in (SQLite, Postgres, MariaDB):
        def on_store(kind=kind):
            check(kind())
        on_store.__name__ = f"{check.__name__}_on_{kind.__name__.lower()}"
        CHECKS.append(on_store)
    return check


TABLES = """\
version: 1
store: {url}
queues: {{ events: store }}
inboxes:
  events: {{ from: events, sql: "INSERT INTO got VALUES (:id, :type, :body, :topic, :group)" }}
outboxes:
  events: {{ table: {table}, poll: 100ms }}
"""
GOT = "CREATE TABLE got (id VARCHAR(99), type VARCHAR(99), body VARCHAR(99), topic VARCHAR(99), grp VARCHAR(99))"
DEBEZIUM = {Postgres: "CREATE TABLE outboxevent (id uuid NOT NULL PRIMARY KEY, aggregatetype varchar(255) NOT NULL,"
                      " aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb)",
            SQLite: "CREATE TABLE outboxevent (id TEXT NOT NULL PRIMARY KEY, aggregatetype TEXT NOT NULL,"
                    " aggregateid TEXT NOT NULL, type TEXT NOT NULL, payload TEXT)",
            MariaDB: "CREATE TABLE outboxevent (id UUID NOT NULL PRIMARY KEY, aggregatetype VARCHAR(255) NOT NULL,"
                     " aggregateid VARCHAR(255) NOT NULL, type VARCHAR(255) NOT NULL, payload JSON)"}


def insert_event(server, number, then="commit", db=None):
    one = f"00000000-0000-4000-8000-{number:012}"
    own = db or server.connect()
    mark = "?" if isinstance(server, SQLite) else "%s"
    sql = own.cursor()
    sql.execute(f"INSERT INTO outboxevent VALUES ({mark}, 'order', {mark}, 'OrderCreated', {mark})",
                [one, f"c{number % 50}", json.dumps({"n": number})])
    if then == "delete":  # as Debezium's users do: the insertion is what counts
        sql.execute(f"DELETE FROM outboxevent WHERE id = {mark}", [one])
    sql.close()
    own.rollback() if then == "rollback" else own.commit()
    if not db:
        own.close()
    return one


@on_each
def debezium_table(server):
    server.run(DEBEZIUM[type(server)])
    server.run(GOT)
    before, first = insert_event(server, 1), None
    write("semel.yaml", TABLES.format(url=server.url, table="{ name: outboxevent, preset: debezium }"))
    for start in range(2):  # the second start changes nothing
        run = Run()
        wait_until(lambda: trigger_is_there(server), lambda: run.text())
        expect("it runs", None, run.process.poll())
        some = [insert_event(server, 10 + 3 * start), insert_event(server, 11 + 3 * start, "delete")]
        first = first or some[0]
        insert_event(server, 12 + 3 * start, "rollback")
        wait_until(lambda: {row[0] for row in server.run("SELECT id FROM got")} >= set(some), lambda: run.text())
        run.stop()
    rows = sorted(server.run("SELECT * FROM got"))
    numbers = [int(row[0][-2:]) for row in rows]
    expect("sent, each once", [1, 10, 11, 13, 14], numbers)
    expect("as Debezium routes it", [(before, "OrderCreated", '{"n": 1}', "outbox.event.order", "c1"),
                                     (first, "OrderCreated", '{"n": 10}', "outbox.event.order", "c10")], rows[:2])


def said_by_run():
    """Of a config that is wrong, in JSON."""
    return semel("run", status=3)[1].replace('\\"', '"')


def trigger_is_there(server):
    return server.value({Postgres: "SELECT COUNT(*) FROM pg_trigger WHERE tgname = 'semel_capture'",
                         MariaDB: "SELECT COUNT(*) FROM information_schema.triggers WHERE trigger_schema = DATABASE()",
                         SQLite: "SELECT COUNT(*) FROM sqlite_master WHERE type = 'trigger'"}[type(server)])


@on_each
def a_table_by_its_columns(server):
    server.run("CREATE TABLE mine (kind VARCHAR(9), data VARCHAR(99))")
    server.run(GOT)
    write("semel.yaml", TABLES.format(url=server.url, table="{ name: mine, preset: columns, type: kind, body: data }"))
    run = Run()
    wait_until(lambda: trigger_is_there(server), lambda: run.text())
    server.run("INSERT INTO mine VALUES ('k', 'text')")
    wait_until(lambda: server.value("SELECT COUNT(*) FROM got"), lambda: run.text())
    run.stop()
    expect("sent", [("k", "text")], server.run("SELECT type, body FROM got"))
    missing = "{ name: mine, preset: columns, type: nothing, body: data }"
    write("semel.yaml", TABLES.format(url=server.url, table=missing))
    expect_true('the table mine has no column "nothing" (type)' in said_by_run(), f"it is named: {said_by_run()}")
    for wrong in ("\"a'b\"", "{ name: mine, body: 'x y' }", "{ name: mine, preset: columns }"):
        write("semel.yaml", TABLES.format(url=server.url, table=wrong))
        semel("check", "--offline", status=3)


ROWS = "CREATE TABLE mine (kind VARCHAR(9), data VARCHAR(99), grp VARCHAR(9))"
COLUMNS = "{ name: mine, preset: columns, type: kind, body: data, group: grp }"


def rows_committed_while_run_waits_on_postgres():
    """A row is committed while `semel run`, twice at an isolation that is stricter, waits for the table. It is sent,
    and so is the one from before: each once. Without an id every copy of it would arrive."""
    server = Postgres()
    for statement in (ROWS, GOT, "INSERT INTO mine VALUES ('k', 'before', 'g')",
                      "INSERT INTO semel_scope (kind, name) VALUES (2, 'events')"):
        server.run(statement)
    db = server.connect()
    db.cursor().execute("INSERT INTO mine VALUES ('k', 'early', 'g')")
    write("semel.yaml", TABLES.format(url=server.at_level("repeatable read"), table=COLUMNS))
    runs = [Run(), Run()]
    wait_until(lambda: is_waiting(server) == 2, lambda: runs[0].text() + runs[1].text())
    db.commit()
    db.close()
    for run in runs:
        run.says("ready")
    server.run("INSERT INTO mine VALUES ('k', 'late', 'g')")
    wait_until(lambda: server.value("SELECT COUNT(*) FROM got WHERE body = 'late'"), lambda: runs[0].text())
    for run in runs:
        run.stop()
    expect("each once", ["before", "early", "late"],
           [row[0] for row in server.run("SELECT body FROM got ORDER BY body")])
    for level in LEVELS[1:]:
        expect(level, "0A000", server.refusal("SELECT semel_capture_table('events', 'mine')", level=level))


def a_refused_reload_on_postgres():
    """Whatever the new config is refused for, the trigger stays that of the old one, or becomes it again."""
    server = Postgres()
    for statement in (ROWS, ROWS.replace("mine", "other"), GOT):
        server.run(statement)
    good = TABLES.format(url=server.url, table=COLUMNS) + f"  last: {{ table: {COLUMNS.replace('mine', 'other')} }}\n"
    good = good.replace("events: store", "events: store, last: store")
    write("semel.yaml", good)
    run = Run()
    run.says('"ready"')
    arguments = "SELECT tgargs FROM pg_trigger WHERE tgname = 'semel_capture' ORDER BY tgrelid"
    before = [bytes(row[0]) for row in server.run(arguments)]
    expect("triggers", 2, len(before))
    changed = good.replace("name: mine, preset: columns", "name: mine, preset: debezium, id: kind, topic: kind")
    wrong = (("INTO got VALUES", "INTO gone VALUES"),  # a statement
             ("name: other, preset: columns, type: kind", "name: other, type: no"),  # a table, after another one
             ("from: events,", "from: events, key: type,"))  # found when the pipeline is opened
    for number, (old, new) in enumerate(wrong):
        expect_true(old in changed, f"{old} is in the config")
        write("semel.yaml", changed.replace(old, new))
        run.send(signal.SIGHUP)
        wait_until(lambda wanted=number + 1: run.text().count('"reload_refused"') == wanted, lambda: run.text())
        wait_until(lambda: before == [bytes(row[0]) for row in server.run(arguments)],
                   lambda what=new: f"{what}: the trigger of the old config:\n{run.text()}")
    write("semel.yaml", changed)
    run.send(signal.SIGHUP)
    wait_until(lambda: before[0] != bytes(server.run(arguments)[0][0]), lambda: f"a good one is used:\n{run.text()}")
    expect("refused", 3, run.text().count('"reload_refused"'))
    run.stop()


def triggers_that_differ_on_postgres():
    server = Postgres()
    server.run(ROWS)
    capture = ("SELECT {}.semel_capture_table('events', 'mine', id => '', type => 'kind', grp => 'grp', topic => '',"
               " body => 'data', prefix => '')")
    server.run("CREATE SCHEMA two")
    semel("exec", "--store", f"{server.url}?schema=two", "--key", "tables", "--", "true")
    server.run("INSERT INTO mine VALUES ('k', 'before', 'g')")
    expect("rows from before", [1, 0, 0], [server.value(capture.format(name)) for name in ("two", "two", "public")])
    server.run("INSERT INTO mine VALUES ('k', 'after', 'g')")
    expect("where they are sent", [1, 1], [server.value(f"SELECT COUNT(*) FROM {name}.semel_outbox")
                                           for name in ("two", "public")])
    write("semel.yaml", TABLES.format(url=server.url, table=COLUMNS))
    server.run(GOT)
    for how in ("DISABLE", "ENABLE REPLICA"):
        server.run(f"ALTER TABLE mine {how} TRIGGER semel_capture")
        expect(how, "55000", server.refusal(capture.format("public")))
        said = semel("run", status=1)
        expect_true("ALTER TABLE public.mine ENABLE TRIGGER semel_capture" in said[1], f"{how}: {said}")
    server.run("ALTER TABLE mine ENABLE ALWAYS TRIGGER semel_capture")
    expect("enabled", 0, server.value(capture.format("public")))


def a_trigger_that_differs_on_mariadb():
    """One that was made by hand, as docs/SQL.md shows it, is as good as semel's own; others are refused and stay."""
    server = MariaDB()
    for statement in (DEBEZIUM[MariaDB], GOT, shown("capture: mariadb")):
        server.run(statement)
    good = TABLES.format(url=server.url, table="{ name: outboxevent, preset: debezium }")
    body = "SELECT action_statement FROM information_schema.triggers WHERE trigger_schema = DATABASE()"
    before = server.run(body)
    write("semel.yaml", good)
    run = Run()
    run.says('"ready"')
    run.stop()
    for old, new in (("debezium", "debezium, prefix: Outbox.event."), ("debezium", "debezium, body: type"),
                     ("{ events: store }", "{ events: store, else: store }")):
        text = good.replace(old, new)
        write("semel.yaml", text.replace("  events: { table", "  else: { table") if "else" in new else text)
        said = semel("run", status=1)
        expect_true("semel_capture_outboxevent" in said[1] and "semel migrate sql" in said[1], f"{new}: {said}")
    expect("the trigger", before, server.run(body))
    server.run("DROP TRIGGER semel_capture_outboxevent")
    server.run("CREATE TABLE other (id INT)")
    server.run("CREATE TRIGGER semel_capture_outboxevent AFTER INSERT ON other FOR EACH ROW SET @a = 1")
    write("semel.yaml", good)
    semel("run", status=1)


# --- killed -------------------------------------------------------------------------------------------------------

# Without an id, each copy of a row would have another one, and arrive.
WITHOUT_ID = "{ name: outboxevent, preset: debezium, id: '' }"


class Writer(threading.Thread):
    """Inserts rows until it is told to stop. Some are rolled back; some are deleted at once, which changes nothing as
    soon as there is a trigger."""

    def __init__(self, server, first):
        super().__init__(daemon=True)
        self.server, self.number, self.written, self.problem = server, first, [], None
        self.stops, self.deletes = threading.Event(), threading.Event()
        self.start()

    def run(self):
        db = self.server.connect()
        try:
            while not self.stops.is_set():
                deletes = self.deletes.is_set() and self.number % 5 == 0
                then = "rollback" if self.number % 7 == 0 else "delete" if deletes else "commit"
                insert_event(self.server, self.number, then, db)
                if then != "rollback":
                    self.written.append(self.number)
                self.number += 1
                self.stops.wait(0.002)
        except Exception as problem:  # pylint: disable=broad-except
            self.problem = problem
        db.close()

    def end(self):
        self.stops.set()
        self.join()
        if self.problem:
            raise self.problem
        return self.written


def numbers_that_arrived(server):
    return sorted(json.loads(row[0])["n"] for row in server.run("SELECT body FROM got"))


def insert_many(server, numbers):
    db = server.connect()
    for number in numbers:
        insert_event(server, number, db=db)
    db.close()
    return list(numbers)


@on_each
def killed_while_rows_come(server):
    server.run(DEBEZIUM[type(server)])
    server.run(GOT)
    before = insert_many(server, range(1, 201))
    short = TABLES.replace("events: store", "events: {{ url: store, lease: 1s }}").replace("poll:", "lease: 1s, poll:")
    write("semel.yaml", short.format(url=server.url, table=WITHOUT_ID))
    writer = Writer(server, 1000)
    for _ in range(8):
        run = Run()
        try:
            run.process.wait(random.uniform(0.01, 0.4))
            raise program_kit.Failed(f"it ended:\n{run.text()}")
        except subprocess.TimeoutExpired:
            run.kill()
        if trigger_is_there(server):
            writer.deletes.set()
    run = Run()
    run.says('"ready"')
    writer.deletes.set()
    more = len(writer.written) + 20
    wait_until(lambda: len(writer.written) > more or writer.problem, "rows are written while it runs")
    wanted = before + writer.end()
    all_arrived(server, run, len(wanted))
    run.stop()
    expect("each once", wanted, numbers_that_arrived(server))


def script(status=0):
    """The statements that semel migrate sql prints for a database administrator."""
    text, said = semel("migrate", "sql", status=status)
    lines = [line for line in text.splitlines() if line and not line.startswith("--")]
    return [line.rstrip(";") for line in lines], text, said


def clear(server):
    name = "semel_capture" if isinstance(server, Postgres) else "semel_capture_outboxevent"
    on = " ON outboxevent" if isinstance(server, Postgres) else ""
    for statement in (f"DROP TRIGGER IF EXISTS {name}{on}", "DELETE FROM outboxevent", "DELETE FROM got"):
        server.run(statement)


def run_some(server, statements):
    """As a process that dies behind the last of them. On MariaDB each is committed, as the server itself does it before
    it creates a trigger."""
    db = server.connect()
    if isinstance(server, SQLite):
        db.isolation_level = None
    elif isinstance(server, Postgres):
        db.autocommit = True
    else:
        db.autocommit(True)
    sql = db.cursor()
    for statement in statements:
        sql.execute(statement)
    db.close()


def all_arrived(server, run, count):
    """Also what should not: outbox and queue are empty."""
    wait_until(lambda: server.value("SELECT COUNT(*) FROM got") >= count and
               not server.value("SELECT COUNT(*) FROM semel_outbox"), lambda: run.text())


@on_each
def dead_behind_each_statement(server):
    """The script dies behind each of its statements, a row comes, and semel run begins anew."""
    server.run(DEBEZIUM[type(server)])
    server.run(GOT)
    write("semel.yaml", TABLES.format(url=server.url, table=WITHOUT_ID))
    statements = script()[0]
    expect_true(len(statements) >= 3, f"a script: {statements}")
    for count in range(len(statements) + 1):
        clear(server)
        insert_many(server, range(1, 6))
        run_some(server, statements[:count])
        insert_event(server, 6)
        run = Run()
        run.says('"ready"')
        insert_event(server, 7)
        all_arrived(server, run, 7)
        run.stop()
        expect(f"each once, dead behind {statements[:count][-1:]}", [1, 2, 3, 4, 5, 6, 7], numbers_that_arrived(server))
    insert_event(server, 8)
    run_some(server, statements)  # the script may be run again
    semel("run", "--once")
    expect("each once", [1, 2, 3, 4, 5, 6, 7, 8], numbers_that_arrived(server))
    groups = server.run("SELECT grp, body FROM got")
    expect("groups", True, all(row[0] == f"c{json.loads(row[1])['n']}" for row in groups))


# --- what is said of the trigger ----------------------------------------------------------------------------------

def found_by_doctor():
    text = subprocess.run([program_kit.SEMEL, "doctor", "--check", "tables", "--json"], check=False,
                                      stdout=subprocess.PIPE, env=program_kit.environment()).stdout
    rows = [json.loads(line) for line in text.decode().splitlines()]
    return [(row["result"], row["msg"], row.get("fix")) for row in rows if row["check"] == "tables"]


@on_each
def what_is_said(server):
    server.run(DEBEZIUM[type(server)])
    server.run(GOT)
    good = TABLES.format(url=server.url, table="{ name: outboxevent, preset: debezium }")
    write("semel.yaml", good)
    expect_true("is missing" in semel("check")[1] and "semel run makes it" in semel("check")[1], "check: missing")
    semel("check", "--strict", status=3)
    expect("doctor: missing", ["warning"], [row[0] for row in found_by_doctor()])
    statements, text, _ = script()
    expect_true("-- needs: " in text and "-- locks: " in text, f"locks and rights: {text}")
    as_json = [json.loads(line) for line in semel("migrate", "sql", "--json")[0].splitlines()]
    expect("as JSON", [None, "trigger of the table outboxevent for the outbox events"],
           [as_json[-1].get("version"), as_json[-1]["contents"]])
    run_some(server, statements)
    expect("doctor", ["ok"], [row[0] for row in found_by_doctor()])
    expect("nothing to print", [], script()[0])
    expect_true("trigger" not in semel("check", "--strict")[1], "check: as it should be")

    write("semel.yaml", good.replace("debezium }", "debezium, group: type }"))
    is_refused = isinstance(server, MariaDB)
    result, said, fix = found_by_doctor()[0]
    expect("doctor: differs", "error" if is_refused else "warning", result)
    expect_true("other columns" in said and "semel migrate sql" in fix, f"{said} {fix}")
    expect_true("other columns" in semel("check", status=3 if is_refused else 0)[1], "check: differs")
    if is_refused:
        semel("run", "--once", status=1)
        run_some(server, script()[0])
    semel("run", "--once")
    expect("doctor: replaced", ["ok"], [row[0] for row in found_by_doctor()])
    insert_event(server, 3)
    semel("run", "--once")
    expect("the other column", [("OrderCreated",)], server.run("SELECT grp FROM got"))
    left_behind(server, good)


def left_behind(server, good):
    write("semel.yaml", good.replace("table: { name: outboxevent, preset: debezium }, ", ""))
    result, said, fix = found_by_doctor()[0]
    expect("doctor: left", "warning", result)
    expect_true("still puts rows" in said and "DROP TRIGGER" in fix, f"{said} {fix}")
    expect_true("still puts rows" in semel("run", "--once")[1], "run says it")
    server.run(fix.split(": ")[1])
    expect("doctor: nothing left", [], found_by_doctor())


def a_disabled_trigger_on_postgres():
    server = Postgres()
    server.run(DEBEZIUM[Postgres])
    server.run(GOT)
    write("semel.yaml", TABLES.format(url=server.url, table="outboxevent"))
    semel("run", "--once")
    server.run("ALTER TABLE outboxevent DISABLE TRIGGER semel_capture")
    result, said, fix = found_by_doctor()[0]
    expect("doctor", ("error", True), (result, "disabled" in said))
    server.run(fix)
    expect("mended", ["ok"], [row[0] for row in found_by_doctor()])


@on_each
def mistakes(server):
    server.run(DEBEZIUM[type(server)])
    server.run(GOT)
    for table, words in (("{ name: outboxevent, body: paylod }", 'no column "paylod" (body); did you mean "payload"?'),
                         ("{ name: outboxevent, topic: aggregate_type }",
                          'no column "aggregate_type" (topic); did you mean "aggregatetype"?'),
                         ("{ name: got }", 'the table got has no column "aggregateid" (group)'),
                         ("outboxevents", 'the store has no table "outboxevents"')):
        write("semel.yaml", TABLES.format(url=server.url, table=table))
        said = semel("check", status=3)[1]
        expect_true(words in said and "semel.yaml:7:" in said, f"check with {table}: {said}")
        expect_true(words in said_by_run(), f"run with {table}: {said_by_run()}")
        rows = found_by_doctor()
        expect_true(rows and rows[0][0] == "error" and words in rows[0][1], f"doctor with {table}: {rows}")
    expect("no trigger", 0, trigger_is_there(server))
    twice = TABLES.format(url=server.url, table="outboxevent") + "  more: { table: OutboxEvent, to: events }\n"
    write("semel.yaml", twice)
    expect_true("has this table already" in semel("check", status=3)[1], "a table of two outboxes")
    if not isinstance(server, Postgres):
        write("semel.yaml", TABLES.format(url=server.url, table="other.outboxevent"))
        expect_true("without a dot" in semel("check", "--offline", status=3)[1], "a table of another database")


@on_each
def a_table_of_setup(server):
    """It is not there before the first start: check and doctor know it from `setup`."""
    setup = json.dumps([DEBEZIUM[type(server)].replace("TABLE", "TABLE IF NOT EXISTS"),
                        GOT.replace("TABLE", "TABLE IF NOT EXISTS")])
    write("semel.yaml", TABLES.format(url=server.url, table="outboxevent") + f"setup: {setup}\n")
    if not isinstance(server, MariaDB):  # its CREATE cannot be rolled back
        semel("check", "--strict")
    semel("run", "--once")
    insert_event(server, 1)
    semel("run", "--once")
    expect("sent", [1], numbers_that_arrived(server))


def ids_of_other_types_on_mariadb():
    """The same before and behind the trigger."""
    server = MariaDB()
    server.run("CREATE TABLE mine (number INT PRIMARY KEY, id UUID, data VARCHAR(99), grp BINARY(2))")
    server.run("CREATE TABLE other (id CHAR(36) PRIMARY KEY, data BLOB, grp INT)")
    server.run(GOT)
    table = "{ name: mine, preset: columns, id: id, body: data, group: grp }"
    write("semel.yaml", TABLES.format(url=server.url, table=table)
          + "  more: { table: { name: other, preset: columns, id: id, body: data, group: grp }, to: events }\n")
    one = "00000000-0000-4000-8000-00000000000"
    for turn in "12":
        server.run(f"INSERT INTO mine VALUES (1{turn}, '{one}{turn}', 'mine', 'ab'), (2{turn}, NULL, 'none', NULL)")
        server.run(f"INSERT INTO other VALUES ('{turn}', 'other', 0), ('', 'empty {turn}', 7)")
        semel("run", "--once")
        server.run("DELETE FROM other WHERE id = ''")
    rows = server.run("SELECT id, body, grp FROM got ORDER BY body, id")
    expect("ids", [("empty 1", "7"), ("empty 2", "7"), ("mine", "ab"), ("mine", "ab"), ("none", None), ("none", None),
                   ("other", "0"), ("other", "0")], [row[1:] for row in rows])
    expect("text", [f"{one}1", f"{one}2", "1", "2"], [rows[place][0] for place in (2, 3, 6, 7)])
    expect("new ones", {36}, {len(rows[place][0]) for place in (0, 1, 4, 5)})
    expect("each another one", len(rows), len({row[0] for row in rows}))


def hostile_rows_on_sqlite():
    """Conflict clauses, empty ids, bytes and long texts; tables without a rowid."""
    server = SQLite()
    server.run("CREATE TABLE mine (id PRIMARY KEY, kind TEXT, data, grp) WITHOUT ROWID")
    server.run(GOT)
    table = "{ name: mine, preset: columns, id: id, type: kind, body: data, group: grp }"
    write("semel.yaml", TABLES.format(url=server.url, table=table))
    server.run("INSERT INTO mine VALUES ('a', 'k', 'before', 7)")
    semel("run", "--once")
    for statement in ("INSERT OR REPLACE INTO mine VALUES ('b', 'k', 'new', 'g')",
                      "INSERT OR IGNORE INTO mine VALUES ('b', 'k', 'ignored', 'g')",
                      "INSERT INTO mine VALUES ('b', 'k', 'updated', 'g') ON CONFLICT DO UPDATE SET data = 'x'",
                      "INSERT OR REPLACE INTO mine VALUES ('', NULL, x'00ff', '')",
                      "INSERT INTO mine VALUES (12, 'k', 3.5, NULL)"):
        server.run(statement)
    try:
        server.run("INSERT INTO mine VALUES ('c', %s, 'long', NULL)", ["k" * 1025])
        raise program_kit.Failed("a long text is taken")
    except sqlite3.IntegrityError as problem:
        expect_true("at most 1024 bytes" in str(problem), f"{problem}")
    semel("run", "--once")
    rows = server.run("SELECT id, type, body, grp FROM got ORDER BY typeof(body) DESC, body")
    expect("each insertion",
           [("12", "k", "3.5", None), ("a", "k", "before", "7"), ("b", "k", "new", "g"), (None, b"\x00\xff", None)],
           [*rows[:3], rows[3][1:]])
    expect_true(len(rows[3][0]) == 36 and rows[3][0][14] == "7", f"a new id: {rows[3]}")


def is_waiting(server):
    return server.value("SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database()"
                        " AND wait_event_type = 'Lock'")


def shown(what):
    """The first statement of a block of docs/SQL.md."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/SQL.md")
    return program_kit.read(path).split(f"<!-- {what} -->")[1].split("```sql\n")[1].split(";")[0]


program_kit.main(*CHECKS, rows_committed_while_run_waits_on_postgres, a_refused_reload_on_postgres,
                 triggers_that_differ_on_postgres, a_trigger_that_differs_on_mariadb, a_disabled_trigger_on_postgres,
                 ids_of_other_types_on_mariadb, hostile_rows_on_sqlite)
