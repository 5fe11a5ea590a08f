#!/usr/bin/python3
"""check_secrets.py PROGRAM: secrets from files, from variables and as they are written, in every place of a config that
may hold one. None of them is found in what any command prints, in a log, in the list of processes, or in the
environment of a handler that was not given it. With SEMEL_TEST_SERVERS the servers are really spoken to."""
import os
import signal
import subprocess

from program_kit import (DEADLINE_S, SEMEL, Run, children_of, expect, expect_true, main, read, semel, servers,
                         wait_until, write)

PLACES = ("store", "queue", "header", "env", "worker", "literal")
SECRET = {place: f"canary-{place}-x7Q9" for place in PLACES}

CONFIG = """\
version: 1
store: {store}
setup: CREATE TABLE IF NOT EXISTS secret_effect (n INTEGER)
queues:
  orders: store
  broker: "{broker}"
inboxes:
  payments: {{ from: orders, types: [paid], key: "json:/n", sql: "INSERT INTO secret_effect VALUES (:json/n)" }}
  web:
    from: orders
    types: [web]
    attempts_max: 2
    http: {{ url: "http://127.0.0.1:9/", headers: {{ Authorization: "Bearer ${{file:header.secret}}" }} }}
  script:
    from: orders
    types: [script]
    attempts_max: 2
    exec: {{ command: [./script.sh], env: {{ TOKEN: "${{file:env.secret}}" }} }}
  work:
    from: orders
    types: [work]
    worker: {{ command: [/usr/bin/python3, work.py], env: {{ TOKEN: "${{file:worker.secret}}" }} }}
  remote: {{ from: broker, sql: "INSERT INTO secret_effect VALUES (:json/n)" }}
log: {{ level: debug, messages: all }}
tests:
  - name: works
    given: {{ to: orders, type: paid, body: {{ n: 7 }} }}
    expect: {{ inboxes: {{ payments: processed }} }}
"""

SCRIPT = """#!/bin/sh
cat /proc/$$/environ >script.environ
echo started >script.started
until [ -e script.go ]; do sleep 0.05; done
echo 'it does not work' >&2
exit 1
"""

WORK = """\
import json, sys
open("work.environ", "wb").write(open("/proc/self/environ", "rb").read())
for line in sys.stdin:
    print(json.dumps({"id": json.loads(line)["id"]}), flush=True)
"""


def expect_clean(what, text, allowed=()):
    found = [secret for place, secret in SECRET.items() if place not in allowed and secret in text]
    expect_true(not found, f"{what} shows {found}:\n{text}")


def command(*arguments, status=(0,), env=None):
    """Of any exit status that is allowed; its outputs are looked at."""
    done = subprocess.run([SEMEL, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=DEADLINE_S, check=False, env={**os.environ, **(env or {})})
    text = done.stdout.decode("utf-8", "replace")
    expect_clean(f"semel {arguments}", text)
    expect_true(done.returncode in status, f"semel {arguments} ended with {done.returncode}:\n{text}")
    return text


def prepare():
    for place, secret in SECRET.items():
        write(f"{place}.secret", secret + "\n")
    write("script.sh", SCRIPT, 0o700)
    write("work.py", WORK)
    found = servers() if os.environ.get("SEMEL_TEST_SERVERS") else {}
    if "POSTGRES_URL" in found:  # it trusts everyone here, with any password
        store = (f"postgres://postgres:${{file:store.secret}}@{found['POSTGRES_HOST']}:{found['POSTGRES_PORT']}"
                 f"/postgres?schema=secrets_{os.getpid()}")
    else:
        store = "sqlite:shop.db"
    write("semel.yaml", CONFIG.format(store=store, broker="store"))
    return found


def processes_are_clean(run):
    for pid in [run.pid, *children_of(run.pid)]:
        expect_clean(f"the arguments of {pid}", read(f"/proc/{pid}/cmdline"))


def run_is_silent():
    prepare()
    for form in ("text", "json"):
        for name in ("script.started", "script.go"):
            if os.path.exists(name):
                os.remove(name)
        run = Run("--log-format", form)
        run.says("ready")
        for kind in ("paid", "web", "script", "work"):
            semel("publish", "orders", "--type", kind, '{"n": 1}')
        wait_until(lambda: read("script.started"), lambda: f"the handler runs:\n{run.text()}")
        processes_are_clean(run)
        write("script.go", "")
        run.says("it does not work")
        run.says("127.0.0.1")  # no server is there
        write("header.secret", SECRET["header"] + form + "\n")
        before = len(run.text())
        run.send(signal.SIGHUP)
        wait_until(lambda: "1 changed" in run.text()[before:], lambda: f"the secret is changed:\n{run.text()}")
        expect_true("headers" in run.text()[before:], "the change of a secret is named")
        expect_clean("the log", run.stop())
    wait_until(lambda: read("work.environ"), "the worker has run")
    expect_clean("the environment of exec", read("script.environ"), ["env"])
    expect_clean("the environment of a worker", read("work.environ"), ["worker"])
    expect_true(SECRET["env"] in read("script.environ"), "exec has its secret")
    expect_true(SECRET["worker"] in read("work.environ"), "the worker has its secret")


def commands_are_silent():
    prepare()
    command("check")
    command("check", "--json")
    command("config", "dump")
    command("test")
    for path in ("store.url", "inboxes.web.http.headers", "inboxes.script.exec.env", "inboxes.work.worker.env"):
        command("config", "explain", path)
    command("publish", "order", "x", status=(4,))
    good = read("semel.yaml")
    for before, after in (("headers: {", "headers: ["), ("exec: {", "exec: { comand: x,")):
        write("semel.yaml", good.replace(before, after, 1))
        for arguments in (("check",), ("check", "--json"), ("run", "--once"), ("config", "dump")):
            command(*arguments, status=(3,))


def literals_are_silent():
    """A password that stands in the file itself: with errors on its line, too."""
    text = f"""\
version: 1
store: {{ url: "postgres://shop:{SECRET["literal"]}@127.0.0.1:9/shop", busy: 100ms }}
queues: {{ orders: "amqp://shop:{SECRET["queue"]}@127.0.0.1:9/?queue=orders" }}
inboxes:
  web:
    from: orders
    http: {{ url: "http://127.0.0.1:9/", headers: {{ Authorization: "Bearer {SECRET["header"]}" }} }}
"""
    write("semel.yaml", text)
    command("check", "--offline", status=(0, 3))
    command("config", "dump", status=(0, 3))
    command("config", "explain", "store.url", status=(0, 3))
    command("run", "--once", status=(3, 75))
    command("run", "--once", "--log-format", "json", "-v", status=(3, 75))
    command("publish", "orders", "x", status=(3, 75))
    for before, after in (("store: ", "stor: "), ("postgres://", "postgre://"),
                          ("@127.0.0.1:9/shop", "@127.0.0.1:x/shop"),
                          ("headers:", "header:"), ("queue=orders", "quue=orders"), ("from: orders", "from: order"),
                          ("Authorization: ", "Authorization: ]"), ("version: 1\n", "version: 1\n\t")):
        write("semel.yaml", text.replace(before, after, 1))
        for arguments in (("check", "--offline"), ("check", "--offline", "--json"), ("run", "--once"),
                          ("publish", "orders", "x"), ("config", "dump")):
            command(*arguments, status=(0, 1, 3, 75))
    write("semel.yaml", text)
    hidden = {"PG": SECRET["store"], "MQ": SECRET["queue"]}
    sets = ("--set", "store.url=postgres://shop:${PG}@127.0.0.1:9/shop",
            "--set", "queues.orders=amqp://x:${MQ}@127.0.0.1:9/?queue=orders")
    command("check", "--offline", *sets, env=hidden, status=(0, 3))
    command("run", "--once", *sets, env=hidden, status=(3, 75))
    command("config", "dump", *sets, env=hidden, status=(0, 3))
    command("exec", "--store", "postgres://shop:${PG}@127.0.0.1:9/shop", "--key", "k", "--", "true", env=hidden,
            status=(75, 125))


def wrong_password_on_servers():
    found = prepare()
    broker = (f"amqp://guest:${{file:queue.secret}}@{found['RABBITMQ_HOST']}:{found['RABBITMQ_PORT']}/%2F"
              "?queue=secrets&declare=yes")
    write("semel.yaml", CONFIG.format(store="sqlite:shop.db", broker=broker))
    for form in ("text", "json"):
        text = command("run", "--once", "--log-format", form, status=(1, 3, 75))
        expect_true("ACCESS_REFUSED" in text or "refuse" in text.lower() or "login" in text.lower(), text)
    command("publish", "broker", "x", status=(1, 75))
    expect("the check of a config whose broker refuses", True, bool(command("check", status=(0, 3, 75))))


CHECKS = [run_is_silent, commands_are_silent, literals_are_silent]
if os.environ.get("SEMEL_TEST_SERVERS"):
    CHECKS.append(wrong_password_on_servers)
main(*CHECKS)
