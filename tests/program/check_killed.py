#!/usr/bin/python3
"""check_killed.py PROGRAM [on_sqlite|on_servers] [SECONDS]: `semel run` is killed with SIGKILL about every second while
messages come in, each of them one to three times, and a sql, an exec, a worker and an http handler work on each of
them.

In the end: each effect of sql exactly once, each key completed once in each inbox, nothing lost, nothing dead, the
order of each group kept; exec, worker and http were called at least once for each message, and each repetition had the
same idempotency key. SECONDS says how long it is killed: a minute unless told."""
import collections
import http.server
import json
import os
import random
import subprocess
import sqlite3
import sys
import threading
import time

from program_kit import (DEADLINE_S, Failed, Run, expect, expect_true, main, publish_lines, read, semel, servers,
                         wait_until, write)

KILL_S = float(sys.argv.pop()) if sys.argv[-1].isdigit() else 60
GROUPS = 6
BATCH = 5  # messages that are published by one command
INBOXES = ("charge", "script", "work", "web")

CONFIG = """\
version: 1
store: {store}
setup:
  - CREATE TABLE IF NOT EXISTS effect (seq {serial}, part TEXT, n INTEGER)
  - CREATE TABLE IF NOT EXISTS announced (n INTEGER)
queues:
  orders: {{ url: "{orders}", order: group, workers: 4, backoff: 50ms, backoff_max: 500ms{queue_lease} }}
  paid: {{ url: "{paid}"{queue_lease} }}
inboxes:
  "*": {{ key: "json:/n", attempts_max: 1000, lease: 500ms, wait: 1s }}
  charge:
    from: orders
    sql: "INSERT INTO effect (part, n) VALUES (:json/part, :json/n)"
    send: {{ to: paid }}
  script: {{ from: orders, exec: [./script.sh] }}
  work: {{ from: orders, worker: {{ command: [/usr/bin/python3, work.py], processes: 2 }} }}
  web: {{ from: orders, http: "http://127.0.0.1:{port}/" }}
  announce: {{ from: paid, sql: "INSERT INTO announced VALUES (:json/n)" }}
outboxes:
  paid: {{ lease: 1s, poll: 100ms }}
drain: 10s
"""

# Each handler goes on for a moment after its effect, so that it is often killed between the two.
SCRIPT = """#!/bin/sh
body=$(cat)
echo "$SEMEL_IDEMPOTENCY_KEY $SEMEL_KEY $SEMEL_MESSAGE_ID $body" >>script.log
sleep 0.02
"""

WORK = """\
import json, os, random, sys, time
log = os.open("work.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
for line in sys.stdin:
    message = json.loads(line)
    text = json.dumps(message["body"])
    os.write(log, f"{message['idempotency_key']} {message['key']} {message['id']} {text}\\n".encode())
    time.sleep(random.uniform(0, 0.03))
    print(json.dumps({"id": message["id"]}), flush=True)
"""


class Web(http.server.BaseHTTPRequestHandler):
    """Records each request before it is answered."""
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        key = self.headers["Idempotency-Key"].strip('"')
        with open("web.log", "a", encoding="utf-8") as log:
            log.write(f"{key} {json.loads(body)['n']} {self.headers['ce-id']} {body}\n")
        time.sleep(random.uniform(0, 0.03))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


class WebServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """A client that was killed."""


class Publisher(threading.Thread):
    """Publishes batches, each in one group, until it is told to stop. A number is a key; it rises within a group."""

    def __init__(self):
        super().__init__()
        self.stopped = threading.Event()
        self.published = 0
        self.problem = None

    def publish(self, bodies, part):
        """Again if the store was busy: those that were published already are copies then."""
        end = time.monotonic() + DEADLINE_S
        while True:
            try:
                return publish_lines("orders", bodies, "--group", part, "--copies", str(random.randint(1, 3)))
            except Failed:
                if time.monotonic() > end:
                    raise

    def run(self):
        try:
            while not self.stopped.is_set():
                part = f"part-{random.randrange(GROUPS)}"
                numbers = range(self.published, self.published + BATCH)
                self.publish([json.dumps({"n": n, "part": part}) for n in numbers], part)
                self.published += BATCH
                self.stopped.wait(0.1)
        except Exception as problem:  # of the thread that joins this one
            self.problem = problem

    def stop(self):
        self.stopped.set()
        self.join()
        if self.problem:
            raise self.problem


# --- what is found in the end ---------------------------------------------------------------------


def calls(name):
    """Of a handler: (idempotency key, key, id, body) in the order of the calls. A last line may be cut by a kill."""
    return [line.split(" ", 3) for line in read(name + ".log").splitlines() if line.endswith("}")]


def check_calls(name, count):
    keys, seen, order = collections.defaultdict(set), set(), collections.defaultdict(list)
    for key, number, _, body in calls(name):
        keys[number].add(key)
        if number not in seen:
            order[json.loads(body)["part"]].append(int(number))
        seen.add(number)
    expect(f"{name}: messages that never came", set(), set(map(str, range(count))) - seen)
    expect(f"{name}: messages whose repetitions had another idempotency key", {},
           {number: some for number, some in keys.items() if len(some) != 1})
    expect(f"{name}: different idempotency keys", count, len(set().union(*keys.values())))
    for part, numbers in order.items():
        expect(f"{name}: the order of {part}", sorted(numbers), numbers)


def check_numbers(what, numbers, count):
    """Each from 0 on, once."""
    times = collections.Counter(numbers)
    expect(f"{what}: lost", [], [n for n in range(count) if n not in times])
    expect(f"{what}: more than once", {}, {n: often for n, often in times.items() if often > 1})
    expect(f"{what}: never published", [], [n for n in times if n >= count])


def check_effects(ask, count):
    effects = ask("SELECT part, n FROM effect ORDER BY seq")
    check_numbers("effects of sql", [int(n) for _, n in effects], count)
    for part in {part for part, _ in effects}:
        numbers = [int(n) for of, n in effects if of == part]
        expect(f"effects of sql: the order of {part}", sorted(numbers), numbers)
    check_numbers("messages that were sent on", [int(n) for (n,) in ask("SELECT n FROM announced")], count)
    done = ask("SELECT s.name, m.state, count(*) FROM semel_marker m JOIN semel_scope s ON s.id = m.inbox "
               "WHERE s.kind = 1 GROUP BY s.name, m.state ORDER BY s.name")
    wanted = sorted((name, "0", str(count)) for name in (*INBOXES, "announce"))
    expect("keys: all completed, each once", wanted, [tuple(map(str, row)) for row in done])
    expect("dead letters", [], ask("SELECT name, error FROM semel_dead"))


# --- the story -----------------------------------------------------------------------------------


def kill_for_a_while():
    kills, end = 0, time.monotonic() + KILL_S
    while time.monotonic() < end:
        run = Run()
        run.says('"event":"ready"')
        run_for = time.monotonic() + random.uniform(0.2, 1.5)
        wait_until(lambda: time.monotonic() > run_for or run.process.poll() is not None, "a moment")
        expect_true(run.process.poll() is None, f"ended by itself: {run.text()}")
        run.kill()
        kills += 1
    return kills


def start_web():
    web = WebServer(("127.0.0.1", 0), Web)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    return web


def story(ask, settings):
    web = start_web()
    write("semel.yaml", CONFIG.format(port=web.server_address[1], **settings))
    write("script.sh", SCRIPT, 0o700)
    write("work.py", WORK)
    semel("check", "--offline")
    Run("--once").ends(0)  # makes the tables and queues
    publisher = Publisher()
    publisher.start()
    try:
        kills = kill_for_a_while()
    finally:
        publisher.stop()
    count = publisher.published
    last = Run()
    query = "SELECT count(*) FROM semel_marker WHERE state = 0"
    wait_until(lambda: int(ask(query)[0][0]) >= 5 * count,
               lambda: f"{5 * count} keys completed, {ask(query)}:\n{last.text()}", 5 * DEADLINE_S)
    last.stop()
    Run("--once").ends(0)  # and what was still on its way
    web.shutdown()
    check_effects(ask, count)
    for name in ("script", "work", "web"):
        check_calls(name, count)
    total = sum(len(calls(name)) for name in ("script", "work", "web"))
    print(f"      {count} messages, {kills} kills, {total} calls for {3 * count} completions", flush=True)


def on_sqlite():
    def ask(query):
        shop = sqlite3.connect("shop.db", timeout=DEADLINE_S)
        try:
            return shop.execute(query).fetchall()
        finally:
            shop.close()
    story(ask, {"store": "sqlite:shop.db", "serial": "INTEGER PRIMARY KEY", "orders": "store", "paid": "store",
                "queue_lease": ", lease: 500ms"})


def on_servers():
    found = servers()
    database = f"killed_{os.getpid()}"
    url = found["POSTGRES_URL"].rsplit("/", 1)[0] + "/" + database

    def psql(where, query):
        done = subprocess.run(["psql", "-qXAt", "-F", "\t", where, "-c", query], stdout=subprocess.PIPE, check=True,
                              timeout=DEADLINE_S)
        return [tuple(line.split("\t")) for line in done.stdout.decode().splitlines()]

    def broker(queue):
        return f"{found['RABBITMQ_URL']}?queue={queue}_{os.getpid()}&declare=yes"

    psql(found["POSTGRES_URL"], f"CREATE DATABASE {database}")
    try:
        story(lambda query: psql(url, query), {"store": url, "serial": "BIGSERIAL", "orders": broker("orders"),
                                               "paid": broker("paid"), "queue_lease": ""})
    finally:
        psql(found["POSTGRES_URL"], f"DROP DATABASE {database} WITH (FORCE)")


main(on_sqlite, on_servers)
