"""check_migrate.py PROGRAM [CHECK...]: `semel migrate` on SQLite, PostgreSQL and MariaDB: what it shows, that its
script makes the same tables as `up`, that both may be repeated, and what becomes of tables that a newer semel has
changed."""
import json
import os
import re
import signal
import sqlite3
import subprocess

from program_kit import DEADLINE_S, SEMEL, Failed, Run, expect, expect_true, semel, wait_until, write
from admin_kit import Mariadb, Postgres, main_of_groups

CONTENTS = ["markers, outbox, dead letters", "groups of the outbox that wait",
            "notes of inboxes, details of markers, sent messages",
            "causes and retries of dead letters, audit, running processes",
            "functions for receiving and sending in SQL",
            "which versions of semel may use the tables, dead letters by inbox and outbox"]


class Sqlite:
    """A file; `name` tells one from the other."""
    name = "sqlite"

    def __init__(self, name):
        self.path = f"{name}.db"
        self.url = f"sqlite:{self.path}"

    def run(self, script):
        return subprocess.run(["sqlite3", self.path], input=script, capture_output=True, text=True, check=False)

    def catalogue(self):
        with sqlite3.connect(self.path) as db:
            return (db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY 1, 2").fetchall(),
                    db.execute("SELECT version, name, needs FROM semel_schema ORDER BY 1").fetchall())

    def insert_version(self, version, needs=None):
        """As a semel to come would record a step."""
        with sqlite3.connect(self.path) as db:
            db.execute("INSERT INTO semel_schema (version, name, applied_ms, needs) VALUES (?, 'future', 1, ?)",
                       (version, needs))

    def table(self, name):
        return f"semel_{name}"

    def ask(self, statement):
        with sqlite3.connect(self.path, timeout=DEADLINE_S) as db:
            return str(db.execute(statement).fetchone()[0])

    def close(self):
        pass


def steps(store):
    return [json.loads(line) for line in semel("migrate", "status", "--json", "--store", store.url)[0].splitlines()]


def states(store):
    return [step["state"] for step in steps(store)]


def go_up(store):
    """One step, then the others, then nothing."""
    count = len(steps(store))
    expect("nothing is there", ["pending"] * count, states(store))
    out, err = semel("migrate", "up", "--dry-run", "--store", store.url)
    expect("a dry run", count, out.count("pending  "))
    expect("says so", f"{count} pending; nothing was changed\n", err)
    expect("did nothing", ["pending"] * count, states(store))
    out, _ = semel("migrate", "up", "--to", "1", "--store", store.url)
    expect_true(out.startswith(f"applied  1  {CONTENTS[0]} ("), out)
    expect("one step", ["applied"] + ["pending"] * (count - 1), states(store))
    out, err = semel("migrate", "status", "--store", store.url)
    expect("a heading", ["VERSION", "CONTENTS", "STATE", "LOCKS"], out.splitlines()[0].split())
    expect_true(out.splitlines()[1].endswith("applied  -"), out)
    hint = "next: semel migrate up --store (.+), or for a DBA: semel migrate sql --store \\1\n"
    expect_true(re.fullmatch(hint, err), f"the hint: {err}")
    out, _ = semel("migrate", "up", "--store", store.url)
    expect("the other steps", [str(n) for n in range(2, count + 1)], [line.split()[1] for line in out.splitlines()])
    expect("again", ("", "semel's tables are current: nothing to do\n"), semel("migrate", "up", "--store", store.url))
    expect("no script", ("", "semel's tables are current: nothing to do\n"),
           semel("migrate", "sql", "--store", store.url))
    out, err = semel("migrate", "status", "--store", store.url)
    expect("no hint", "", err)
    return count


def step_texts(store):
    found = steps(store)
    for number, step in enumerate(found):
        expect("versions count from 1", number + 1, step["version"])
        if number < len(CONTENTS):
            expect("what it brings", CONTENTS[number], step["contents"])
        expect_true("applied_at" in step and "locks" not in step, f"an applied step is {step}")


def by_script(store, like, twice_fails):
    """The script on an empty database, in two parts, and all of it again."""
    part, _ = semel("migrate", "sql", "--to", "2", "--store", store.url)
    whole, _ = semel("migrate", "sql", "--store", store.url)
    expect_true(whole.startswith(part.rstrip("\n")), "the first steps of the script are the script of the first steps")
    for script, wanted in ((part, 2), (semel("migrate", "sql", "--store", store.url)[0], None)):
        done = store.run(script if wanted else semel("migrate", "sql", "--store", store.url)[0])
        if done.returncode != 0:
            raise Failed(f"the script fails: {done.stderr}")
        expect("steps taken", wanted or len(steps(store)), states(store).count("applied"))
    expect("the same tables", like.catalogue(), store.catalogue())
    done = store.run(whole)
    expect("twice", twice_fails, done.returncode != 0)
    expect("nothing was changed by it", like.catalogue(), store.catalogue())


def wrong_calls(store, count):
    _, err = semel("migrate", "up", "--to", str(count + 1), "--store", store.url, status=4)
    expect("no such version", f"semel migrate up: there is no version {count + 1} of semel's tables; "
           f"this semel knows 1 to {count}\n", err)
    expect_true('did you mean "status"?' in semel("migrate", "statsu", status=2)[1], "the nearest word")
    semel("migrate", status=2)


CONFIG = """version: 1
store: {store}
queues:
  orders: store
inboxes:
  payments: {{ from: orders, exec: [./handler.sh] }}
"""
HANDLER = "#!/bin/sh\necho >started\nwhile [ ! -e go ]; do sleep 0.05; done\n"


def run_once(store, status=0):
    """What `semel run` logs, with one message to handle."""
    write("newer.yaml", CONFIG.format(store=store.url))
    write("handler.sh", HANDLER, mode=0o700)
    write("go", "")
    if status == 0:
        semel("publish", "-c", "newer.yaml", "orders", "{}")
    _, err = semel("run", "-c", "newer.yaml", "--once", "--log-format", "json", status=status)
    return [json.loads(line) for line in err.splitlines()]


def doctor_finds(store, status):
    out, _ = semel("doctor", "--store", store.url, "--json", status=status)
    return [one for one in map(json.loads, out.splitlines()) if one["check"] == "schema"]


def newer_and_usable(store, count):
    """A step of a semel to come says that this one may use the tables: it does, and says so once."""
    store.insert_version(count + 1, count)
    notice = f"semel's tables are of version {count + 1}; this semel knows up to {count} and may use them"
    out, err = semel("migrate", "status", "--store", store.url)
    expect("its row", [str(count + 1), "future", "newer", "-"], out.splitlines()[-1].split())
    expect("the notice", notice + "; upgrade it, too\n", err)
    expect("no step of ours has changed", list(range(1, count + 2)), [one["version"] for one in steps(store)])
    expect("what it needs", (count, "newer"), (steps(store)[-1]["needs"], steps(store)[-1]["state"]))
    expect("nothing to do", ("", notice + "; upgrade it, too\n"), semel("migrate", "up", "--store", store.url))
    expect("no script", "", semel("migrate", "sql", "--store", store.url)[0])
    semel("migrate", "up", "--to", str(count + 1), "--store", store.url, status=4)
    found = doctor_finds(store, 0)
    expect("doctor", [("warning", notice)], [(one["result"], one["msg"]) for one in found])
    lines = run_once(store)
    said = [(one["level"], one["version"], one["known"]) for one in lines if one["event"] == "schema"]
    expect("run says it once", [("warning", count + 1, count)], said)
    expect("and works", [1], [one["processed"] for one in lines if one["event"] == "stopped"])
    expect("other commands say nothing", "", semel("inbox", "ls", "payments", "--store", store.url, "-q")[1])


def goes_on(store):
    """A process that runs when the tables become too new for it works on, and does not reload."""
    os.remove("go")
    os.remove("started")
    for _ in range(2):
        semel("publish", "-c", "newer.yaml", "orders", "{}")
    running = Run("-c", "newer.yaml", "--log-format", "text")
    wait_until(lambda: os.path.exists("started"), lambda: f"the handler is started:\n{running.text()}")
    store.insert_version(60)
    running.send(signal.SIGHUP)
    running.says("keeping the old config")
    expect_true("semel's tables in version 60" in running.text(), running.text())
    write("go", "")
    wait_until(lambda: store.ask(f"SELECT COUNT(*) FROM {store.table('outbox')};").strip() == "0",
               lambda: f"both are handled:\n{running.text()}")
    expect_true(": 2 processed, " in running.stop(), running.text())


def newer(store, count):
    """Tables of a semel to come that need it are shown as far as they are known, and left alone."""
    newer_and_usable(store, count)
    goes_on(store)
    refused = f"in version 60, for programs that know version 60 or later, and this libsemel knows up to {count}: " \
              "upgrade semel"
    out, err = semel("migrate", "status", "--store", store.url, status=1)
    expect_true(refused in err, err)
    expect_true("pending" not in out and "\n     60  future" in out, out)
    for words in (("migrate", "up"), ("migrate", "sql"), ("inbox", "ls")):
        _, err = semel(*words, "--store", store.url, status=1)
        expect_true(refused in err, f"{words}: {err}")
    expect_true(refused in semel("exec", "--store", store.url, "--key", "a", "--", "true", status=125)[1], "exec")
    expect_true(any(refused in one["msg"] for one in run_once(store, status=1)), "run refuses")
    expect("doctor", ["error"], [one["result"] for one in doctor_finds(store, 1)])


def all_of_it(one, other, twice_fails=False):
    try:
        count = go_up(one)
        step_texts(one)
        by_script(other, one, twice_fails)
        wrong_calls(one, count)
        newer(other, count)
    finally:
        one.close()
        other.close()


def on_sqlite():
    # The shell says of a second run that the step was taken already, and stops there.
    semel("migrate", "status", "--store", "sqlite:none.db")
    semel("migrate", "sql", "--store", "sqlite:none.db")
    semel("migrate", "up", "--dry-run", "--store", "sqlite:none.db")
    expect("looking makes no file", [], os.listdir("."))
    all_of_it(Sqlite("one"), Sqlite("other"), twice_fails=True)


def on_postgres():
    all_of_it(Postgres("migrate_one"), Postgres("migrate_other"))


def an_index_that_was_built_before():
    """The step takes it, and builds it anew if building was interrupted."""
    like, store = Postgres("migrate_like"), Postgres("migrate_index")
    number = f"'{store.schema}.semel_dead_name'::regclass"
    build = f"CREATE INDEX CONCURRENTLY semel_dead_name ON {store.table('dead')} (origin, name, dead_id);"
    try:
        semel("migrate", "up", "--store", like.url)
        semel("migrate", "up", "--to", "5", "--store", store.url)
        expect_true(build in semel("migrate", "sql", "--store", store.url)[0].replace('"', ""), "the script says how")
        store.ask(build)
        before = store.ask(f"SELECT {number}::oid;")
        semel("migrate", "up", "--store", store.url)
        expect("the index is the same", before, store.ask(f"SELECT {number}::oid;"))
        expect("the same tables", like.catalogue(), store.catalogue())
        store.ask(f"DELETE FROM {store.table('schema')} WHERE version = 6;"
                  f"ALTER TABLE {store.table('schema')} DROP COLUMN needs;"
                  f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = {number};")
        script, _ = semel("migrate", "sql", "--store", store.url)
        store.ask(script)
        expect("it is valid", "t\n", store.ask(f"SELECT indisvalid FROM pg_index WHERE indexrelid = {number};"))
        expect_true(before != store.ask(f"SELECT {number}::oid;"), "it is another one")
    finally:
        like.close()
        store.close()


def on_mariadb():
    all_of_it(Mariadb("migrate_one"), Mariadb("migrate_other"))


def killed():
    """`up` killed at random moments and begun anew ends with the same tables."""
    like = Sqlite("like")
    semel("migrate", "up", "--store", like.url)
    one = Sqlite("killed")
    for pause in range(2 * len(CONTENTS)):
        process = subprocess.Popen([SEMEL, "migrate", "up", "--to", str(pause // 2 + 1),
                                    "--store", one.url], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if pause % 2 == 0:
            process.kill()
        process.wait()
    semel("migrate", "up", "--store", one.url)
    expect("the same tables", like.catalogue(), one.catalogue())


if __name__ == "__main__":
    main_of_groups({"on_files": [on_sqlite, killed],
                    "on_servers": [on_postgres, an_index_that_was_built_before, on_mariadb]})
