#!/usr/bin/python3
"""check_signals.py PROGRAM [CHECK...]: how `semel run` starts, reloads and ends. Those checks whose names end in
_on_servers need SEMEL_TEST_SERVERS, and are run only if it is set."""
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import threading
import time

from admin_kit import Postgres
from program_kit import (DEADLINE_S, Run, children_of, expect, expect_true, is_gone, main, publish_lines, read, semel,
                         servers, wait_until, write)

CONFIG = """\
version: 1
store: sqlite:shop.db
setup: CREATE TABLE IF NOT EXISTS ledger (n INTEGER)
queues:
  orders: {{ url: store, workers: 2, lease: 1s }}
inboxes:
  payments: {{ from: orders, types: [paid], key: "json:/n", sql: "INSERT INTO ledger VALUES (:json/n)" }}
  script: {{ from: orders, types: [slow], lease: 500ms, timeout: 50s, exec: [./script.sh] }}
drain: {drain}
"""

SLOW = "#!/bin/sh\necho $$ >started\nsleep 2\necho done >>done.log\n"
STUBBORN = "#!/bin/sh\ntrap '' TERM\nsleep 100 &\necho $! >grandchild\necho $$ >started\nsleep 100\nsleep 100\n"


def prepare(script=SLOW, drain="30s"):
    write("semel.yaml", CONFIG.format(drain=drain))
    write("script.sh", script, 0o700)


def start_with_one_in_progress():
    run = Run("--log-format", "text")
    run.says("ready in")
    semel("publish", "orders", "--type", "slow", "{}")
    wait_until(lambda: read("started"), lambda: f"the handler is started:\n{run.text()}")
    return run


def ledger():
    shop = sqlite3.connect("shop.db", timeout=DEADLINE_S)
    try:
        return [n for (n,) in shop.execute("SELECT n FROM ledger ORDER BY n")]
    finally:
        shop.close()


# --- ending --------------------------------------------------------------------------------------


def sigterm_drains():
    prepare()
    text = start_with_one_in_progress().stop()
    expect("what the handler did", "done\n", read("done.log"))
    expect_true("stopping: SIGTERM, not accepting new messages, 1 in progress, draining for up to 30s" in text, text)
    expect_true(re.search(r"stopped after .*: 1 processed, 0 duplicates suppressed, 0 failed, 0 dead letters", text),
                text)


def end_of_draining():
    """Handlers are ended, even one that ignores SIGTERM; the message comes again."""
    prepare(STUBBORN, "300ms")
    run = start_with_one_in_progress()
    children = children_of(run.pid)
    expect_true(len(children) >= 2, f"children: {children}")
    run.stop()
    wait_until(lambda: all(map(is_gone, children)), "the handler and what it has started are gone")
    write("script.sh", "#!/bin/sh\necho $SEMEL_ATTEMPT >again\n", 0o700)
    run = Run()
    wait_until(lambda: read("again"), lambda: f"the message comes again:\n{run.text()}")
    run.stop()
    expect("the attempt", "2\n", read("again"))


def second_signal():
    for number, status in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        prepare(STUBBORN)
        write("started", "")
        run = start_with_one_in_progress()
        children = children_of(run.pid) + [int(read("grandchild"))]
        run.send(number)
        run.says("stopping: ")
        run.send(number)
        run.ends(status)
        wait_until(lambda some=children: all(map(is_gone, some)), f"{children} are gone")
        os.remove("shop.db")


# --- reload --------------------------------------------------------------------------------------


def reload_under_load():
    prepare(drain="20s")
    stopped, total = threading.Event(), [0]
    problems = []

    def publish():
        try:
            while not stopped.is_set():
                bodies = [json.dumps({"n": total[0] + i}) for i in range(10)]
                publish_lines("orders", bodies, "--type", "paid", "--copies", "2")
                total[0] += 10
        except Exception as problem:
            problems.append(problem)
    run = Run("--log-format", "text")
    run.says("ready in")
    publisher = threading.Thread(target=publish)
    publisher.start()
    try:
        for i in range(5):
            write("semel.yaml", CONFIG.format(drain=f"{i + 1}s"))
            run.send(signal.SIGHUP)
            wait_until(lambda wanted=i + 1: run.text().count("reload: done") == wanted,
                       lambda: f"it has reloaded:\n{run.text()}")
    finally:
        stopped.set()
        publisher.join()
    expect("problems of the publisher", [], problems)
    wait_until(lambda: len(ledger()) >= total[0], lambda: f"{total[0]} rows, {len(ledger())}:\n{run.text()}")
    text = run.stop()
    expect("the ledger", list(range(total[0])), ledger())
    expect("changes", ["20s -> 1s", "1s -> 2s", "2s -> 3s", "3s -> 4s", "4s -> 5s"],
           re.findall(r"  drain  (.*)", text))


def plain(text):
    return re.sub(r"^\d\d:\d\d:\d\d\.\d{3}", "TIME", text, flags=re.M)


def reload(run):
    """What is said of it."""
    before = len(run.text())
    run.send(signal.SIGHUP)
    wait_until(lambda: re.search("reload: done|keeping the old config.*$", run.text()[before:], flags=re.M),
               lambda: f"it has reloaded:\n{run.text()}")
    wait_until(lambda: run.text().endswith("\n"), "the line ends")
    return plain(run.text()[before:])


CHANGED = """\
TIME  reload: semel.yaml
TIME    inboxes.payments.retention  14d -> 30d
TIME    inboxes.payments.sql        changed
TIME    inboxes["mail.sms"]         added: from orders, exec
TIME    inboxes.fraud               removed; its keys remain until their retention ends
TIME  reload: done: 2 changed, 1 added, 1 removed
"""


def reload_says_what_changed():
    base = """\
version: 1
store: sqlite:shop.db
setup: CREATE TABLE IF NOT EXISTS ledger (order_id INTEGER, amount INTEGER)
queues: { orders: store }
inboxes:
  "*": { retention: 14d }
  payments: { from: orders, types: [a], sql: "INSERT INTO ledger (order_id, amount) VALUES (:json/order_id, 1)" }
"""
    write("script.sh", "#!/bin/sh\n", 0o700)
    write("semel.yaml", base + "  fraud: { from: orders, types: [b], exec: [./script.sh] }\n")
    run = Run("--log-format", "text")
    run.says("ready in")
    write("semel.yaml", base.replace("14d", "30d").replace("_id, 1)", "_id, 2)")
          + '  "mail.sms": { from: orders, types: [c], exec: [./script.sh] }\n')
    expect("a reload", CHANGED, reload(run))
    expect("the same again", "TIME  reload: semel.yaml\nTIME  reload: done: 0 changed, 0 added, 0 removed\n",
           reload(run))
    semel("publish", "orders", "--type", "a", '{"order_id": 7}')
    semel("publish", "orders", "--type", "c", "{}")
    shop = sqlite3.connect("shop.db", timeout=DEADLINE_S)
    wait_until(lambda: shop.execute("SELECT amount FROM ledger").fetchall() == [(2,)], "the new statement is used")
    shop.close()
    run.stop()


def wrong_config_is_refused():
    prepare()
    run = Run("--log-format", "text")
    run.says("ready in")
    good = read("semel.yaml")
    write("semel.yaml", good.replace("types: [paid]", "tipes: [paid]"))
    said = reload(run)
    expect_true("TIME  error: reload: semel.yaml has 1 error (below); keeping the old config\n" in said, said)
    run.says('did you mean "types"')
    write("semel.yaml", good.replace("INTO ledger VALUES", "INTO leger VALUES"))
    expect_true("keeping the old config" in reload(run), "a wrong statement is refused")
    run.says("no such table: leger")
    write("semel.yaml", good.replace("shop.db", "other.db"))
    expect_true("store: another store needs a restart; keeping the old config" in reload(run), "another store")
    write("good.yaml", good)
    semel("publish", "-c", "good.yaml", "orders", "--type", "paid", '{"n": 3}')
    wait_until(lambda: ledger() == [3], lambda: f"the old config works:\n{run.text()}")
    os.remove("semel.yaml")
    expect_true("keeping the old config" in reload(run), "no config")
    write("semel.yaml", good)
    expect_true("reload: done: 0 changed, 0 added, 0 removed" in reload(run), "the old config again")
    run.stop()


# --- systemd -------------------------------------------------------------------------------------


def systemd_is_told():
    prepare()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind("notify.socket")
    listener.setblocking(False)
    told = []

    def has(text):
        try:
            while True:
                told.append(listener.recv(4096).decode())
        except BlockingIOError:
            return any(text in one for one in told)
    run = Run(env={"NOTIFY_SOCKET": os.path.abspath("notify.socket"), "WATCHDOG_USEC": "400000"})
    for word in ("READY=1", "WATCHDOG=1", "STATUS=0.0/s processed, 0.0/s duplicates, 0 dead letters"):
        wait_until(lambda some=word: has(some), lambda some=word: f"{some}: {told}")
    told.clear()
    run.send(signal.SIGHUP)
    wait_until(lambda: has("RELOADING=1\nMONOTONIC_USEC="), lambda: f"RELOADING: {told}")
    wait_until(lambda: has("READY=1"), lambda: f"READY after a reload: {told}")
    told.clear()
    write("semel.yaml", "version: 2\n")
    run.send(signal.SIGHUP)
    wait_until(lambda: has("READY=1"), lambda: f"READY after a reload that was refused: {told}")
    run.send(signal.SIGTERM)
    wait_until(lambda: has("STOPPING=1"), lambda: f"STOPPING: {told}")
    run.ends(0)
    listener.close()


# --- servers that are away -----------------------------------------------------------------------


class Door:
    """A port that is closed until it is opened, and leads to a server then."""

    def __init__(self, host, port):
        self.there = (host, int(port))
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def open(self):
        self.listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                here, _ = self.listener.accept()
            except OSError:
                return
            there = socket.create_connection(self.there)
            for a, b in ((here, there), (there, here)):
                threading.Thread(target=self._copy, args=(a, b), daemon=True).start()

    @staticmethod
    def _copy(a, b):
        try:
            while some := a.recv(65536):
                b.sendall(some)
        except OSError:
            pass
        try:
            b.shutdown(socket.SHUT_WR)
        except OSError:
            pass


AWAY = """\
version: 1
store: {store}
setup: CREATE TABLE IF NOT EXISTS away (n INTEGER)
queues: {{ orders: "{queue}" }}
inboxes:
  payments: {{ from: orders, key: "json:/n", sql: "INSERT INTO away VALUES (:json/n)" }}
log: {{ messages: all }}
"""


def waits_for(component, door, config):
    write("semel.yaml", config)
    once = Run("--once", "-q", "--log-format", "text")
    once.ends(75)
    expect_true(re.search(f"error: {component}: unreachable: .*; nothing was handled\n$", once.text()), once.text())
    run = Run("--log-format", "text")
    run.says("unreachable: ")
    waited = time.monotonic() + 2
    wait_until(lambda: time.monotonic() > waited or run.process.poll() is not None, "it tries again some times")
    expect("warnings", [component], re.findall(r"warning: (.*): unreachable: .*; retrying", run.text()))
    door.open()
    run.says("ready in")
    expect_true(re.search(f"{component}: connected after ", run.text()), run.text())
    semel("publish", "orders", '{"n": 1}')
    run.says(" processed  ")
    text = run.stop()
    expect("warnings", 1, text.count("warning: "))
    return text


def store_comes_later_on_servers():
    found = servers()
    door = Door(found["POSTGRES_HOST"], found["POSTGRES_PORT"])
    url = f"postgres://postgres@127.0.0.1:{door.port}/postgres?schema=away_{os.getpid()}"
    waits_for("store", door, AWAY.format(store=url, queue="store"))


def broker_comes_later_on_servers():
    found = servers()
    door = Door(found["RABBITMQ_HOST"], found["RABBITMQ_PORT"])
    url = f"amqp://guest:guest@127.0.0.1:{door.port}/%2F?queue=away_{os.getpid()}&declare=yes"
    waits_for("queue orders", door, AWAY.format(store="sqlite:shop.db", queue=url))


# --- a store that does not answer ------------------------------------------------------------------

HUNG = """\
version: 1
store: {{ url: "{store}", busy: 10m }}
queues: {{ orders: store }}
inboxes:
  payments: {{ from: orders, exec: ["true"] }}
"""


def ended_while_the_store_hangs(ends):
    """The table of the processes is locked, so the row of this one cannot be removed at the end."""
    store, holder = Postgres("hung"), None
    try:
        write("semel.yaml", HUNG.format(store=store.url))
        run = Run("--log-format", "text")
        run.says("ready in")
        wait_until(lambda: store.ask(f"SELECT count(*) FROM {store.table('process')};") == "1\n", "the row is there")
        holder = subprocess.Popen(["psql", "-qXAt", store.admin], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        holder.stdin.write(f"BEGIN; LOCK TABLE {store.table('process')}; SELECT 'locked';\n".encode())
        holder.stdin.flush()
        expect("the lock", b"locked\n", holder.stdout.readline())
        run.send(signal.SIGTERM)
        run.says("stopped after ")
        ends(run)
    finally:
        if holder:
            holder.kill()  # and with it the lock
            holder.wait(DEADLINE_S)
        store.close()


def second_signal_while_the_store_hangs_on_servers():
    def ends(run):
        run.send(signal.SIGTERM)
        run.ends(143)
    ended_while_the_store_hangs(ends)


def store_hangs_at_the_end_on_servers():
    """It is waited for, but not as long as it would be otherwise."""
    def ends(run):
        expect_true("is not waited for any longer" in run.ends(0), run.text())
    ended_while_the_store_hangs(ends)


def stopped_while_it_waits():
    port = Door("127.0.0.1", 1).port  # bound, and closed for ever
    write("semel.yaml", AWAY.format(store=f"postgres://nobody@127.0.0.1:{port}/none", queue="store"))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind("notify.socket")
    listener.settimeout(DEADLINE_S)
    run = Run("--log-format", "text", env={"NOTIFY_SOCKET": os.path.abspath("notify.socket")})
    run.says("unreachable: ")
    expect("what systemd is told", "STATUS=waiting for store", listener.recv(4096).decode())
    run.stop()
    listener.close()


def once():
    prepare("#!/bin/sh\necho done >>done.log\n")
    Run("--once").ends(0)
    publish_lines("orders", [json.dumps({"n": n}) for n in range(50)], "--type", "paid", "--copies", "2")
    semel("publish", "orders", "--type", "slow", "{}")
    Run("--once").ends(0)
    expect("the ledger", list(range(50)), ledger())
    expect("what the handler did", "done\n", read("done.log"))


CHECKS = [sigterm_drains, end_of_draining, second_signal, reload_under_load, reload_says_what_changed,
          wrong_config_is_refused, systemd_is_told, stopped_while_it_waits, once]
if os.environ.get("SEMEL_TEST_SERVERS"):
    CHECKS += [store_comes_later_on_servers, broker_comes_later_on_servers,
               second_signal_while_the_store_hangs_on_servers, store_hangs_at_the_end_on_servers]
main(*CHECKS)
