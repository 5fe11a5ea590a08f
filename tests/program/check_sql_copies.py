#!/usr/bin/python3
"""check_sql_copies.py PROGRAM PEER WORKER EXAMPLES [CHECK...]: copies of the same messages, received by SQL and by C at
the same time, while both are killed. PEER is sql_peer, WORKER sql_worker.py, EXAMPLES the directory examples/sql.

In the end each message has had its effect once: one row, and one message in the outbox."""
import json
import os
import random
import shutil
import subprocess
import sys

import program_kit
from program_kit import DEADLINE_S, Failed, expect, wait_until

PEER, WORKER, EXAMPLES = sys.argv[2:5]
sys.argv[2:5] = []
from sql_kit import LEVELS, MariaDB, Postgres, SQLite  # noqa: E402

KEYS = 24       # hot: all connections are at about the same one
THREADS = 16    # in each of four processes
KILLS = 5       # at each level
PYTHON_KILLS = int(os.environ.get("SEMEL_SQL_KILLS", "100"))


class Process:
    """One that reads ids or messages from a pipe and prints those that it has settled."""

    def __init__(self, words, lines):
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        program_kit.RUNNING.append(self)
        self.lines = lines
        self.feeder = program_kit.threading.Thread(target=self._feed, daemon=True)
        self.feeder.start()
        self.settled = []
        self.reader = program_kit.threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _feed(self):
        try:
            for line in self.lines:
                self.process.stdin.write(line + "\n")
                self.process.stdin.flush()
            self.process.stdin.close()
        except (BrokenPipeError, ValueError):
            pass  # it was killed

    def _read(self):
        for line in self.process.stdout:
            self.settled.append(line.strip())

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join(DEADLINE_S)

    def ends_well(self):
        expect("the status of a process that was not killed", 0, self.process.wait(4 * DEADLINE_S))


def copies(ids, times):
    """So many copies of each, all of them near each other."""
    found = []
    for at in range(0, len(ids), 4):
        some = ids[at:at + 4] * times
        random.shuffle(some)
        found += some
    return found


def where(server):
    return server.dsn if isinstance(server, Postgres) else f"{server.at['host']},{server.at['port']},{server.database}"


def expect_once(server, ids):
    rows = dict(server.run("SELECT order_id, COUNT(*) FROM charge GROUP BY order_id"))
    expect("messages whose effect is not there once", {}, {one: rows.get(one, 0) for one in ids if rows.get(one) != 1})
    sent = server.value("SELECT COUNT(*) FROM semel_outbox o JOIN semel_scope s ON s.id = o.outbox"
                        " WHERE s.name = %s", ["receipts"])
    expect("messages sent", len(rows), sent)


def mixed(server):
    """64 connections, half of them SQL's and half of them C's; processes of both kinds are killed."""
    kind = "postgres" if isinstance(server, Postgres) else "mariadb"
    everything = []
    for number, level in enumerate(LEVELS):
        ids = [f"{number}-{n}" for n in range(KEYS)]
        everything += ids
        mode = random.choice(("transaction", "queued"))
        commands = [[PEER, server.at_level(level), f"mixed{number}", str(THREADS), mode],
                    ["/usr/bin/python3", WORKER, kind, where(server), f"mixed{number}", str(THREADS), level]] * 2
        running = [Process(words, copies(ids, THREADS)) for words in commands]
        seen = 0
        for _ in range(KILLS):
            def goes_on():
                now = server.value("SELECT COUNT(*) FROM charge")
                return now > seen and now or all(p.process.poll() is not None for p in running)
            seen = wait_until(goes_on, "effects appear")
            one = random.randrange(len(running))
            running[one].kill()
            running[one] = Process(commands[one], copies(ids, THREADS))
        for process in running:
            process.ends_well()
    expect_once(server, everything)


def mixed_on_postgres():
    mixed(Postgres())


def mixed_on_mariadb():
    mixed(MariaDB())


# --- the examples, killed ----------------------------------------------------------------------------------------

def killed(server, words, kills, url=None, env=None):
    """An example and sql_peer work on the same messages; the example is killed again and again. What it has not
    acknowledged is delivered again, and of the rest some copies."""
    batch, made, pending = 6, 0, []
    peer_ids = []

    def new_messages():
        nonlocal made
        some = [f"order-{made + n}" for n in range(batch)]
        made += batch
        return some

    for number in range(kills + 1):
        fresh = new_messages()
        again = [f"order-{random.randrange(made)}" for _ in range(2)]
        deliveries = pending + copies(fresh, 2) + again
        lines = [json.dumps({"id": one, "cents": 990}) for one in deliveries]
        example = Process(words, lines)
        peer_ids += random.sample(fresh, batch // 2)
        if number % 10 == 0:
            peer = Process([PEER, url or server.url, "payments", "4", "transaction"], peer_ids + fresh)
            peer_ids = []
        if number == kills:
            example.ends_well()
        else:
            enough = random.randrange(1, len(deliveries))
            wait_until(lambda: len(example.settled) >= enough or example.process.poll() is not None,
                       lambda: f"{enough} messages are settled; {len(example.settled)} are")
            example.kill()
        if number % 10 == 9 or number == kills:
            peer.ends_well()
        pending = deliveries[len(example.settled):]
    expect("deliveries that are left", [], pending)
    expect_once(server, [f"order-{n}" for n in range(made)])


def python_on_postgres():
    server = Postgres()
    killed(server, ["/usr/bin/python3", f"{EXAMPLES}/postgres.py", server.dsn], PYTHON_KILLS)


def python_on_mariadb():
    server = MariaDB()
    words = [str(word) for word in (server.at["host"], server.at["port"], "root", server.database)]
    killed(server, ["/usr/bin/python3", f"{EXAMPLES}/mariadb.py", *words], PYTHON_KILLS // 6)


def python_on_sqlite():
    server = SQLite()
    killed(server, ["/usr/bin/python3", f"{EXAMPLES}/sqlite.py", server.file], PYTHON_KILLS // 6)


def node_on_postgres():
    server = Postgres()
    done = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--silent", "pg"], check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240)
    if done.returncode:
        raise Failed(f"npm cannot install pg:\n{done.stdout.decode()}")
    shutil.copy(f"{EXAMPLES}/postgres.js", ".")  # modules are looked for beside it
    killed(server, ["node", "postgres.js", server.url], PYTHON_KILLS // 16)


program_kit.main(mixed_on_postgres, mixed_on_mariadb, python_on_postgres, python_on_mariadb, python_on_sqlite,
                 node_on_postgres)
