"""check_doctor.py PROGRAM [CHECK...]: `semel doctor` against a table of set-ups that are broken in one way each: every
one is found and named, with what mends it; and it changes nothing."""
import http.server
import json
import os
import re
import resource
import socket
import sqlite3
import subprocess
import threading
import urllib.parse

import program_kit
from program_kit import DEADLINE_S, SEMEL, Failed, environment, expect, expect_true, semel, write
from admin_kit import Mariadb, Postgres, main_of_groups

GOOD = """version: 1
store: {store}
setup: CREATE TABLE IF NOT EXISTS doctor_ledger (order_id INTEGER, amount INTEGER)
queues:
  orders: {queue}
inboxes:
  payments:
    from: orders
    key: json:/order_id
    {more}sql: INSERT INTO doctor_ledger (order_id, amount) VALUES (:json/order_id, :json/amount)
  mail.receipt: {{ from: orders, exec: [./send-email.sh] }}
"""


def set_up(store="sqlite:shop.db", queue="store", more="", replace=None):
    """A config that works, but for what is replaced."""
    text = GOOD.format(store=store, queue=queue, more=more)
    if store.startswith("mariadb:"):  # which would not run it only to see
        text = text.replace("setup: ", "# ")
    for old, new in (replace or {}).items():
        expect_true(old in text, f"{old} is in the config")
        text = text.replace(old, new)
    write("semel.yaml", text)
    write("send-email.sh", "#!/bin/sh\n", mode=0o700)


def doctor(*options, status, env=None, before=None):
    done = subprocess.run([SEMEL, "doctor", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=environment(env), timeout=DEADLINE_S, check=False, preexec_fn=before)
    if done.returncode != status:
        raise Failed(f"doctor {options} ended with {done.returncode}, not {status}:\n{done.stdout}{done.stderr}")
    return done.stdout, done.stderr


def finds(check, result, words, fix="", status=None, options=(), **call):
    """One finding of this check has all of the words, and a fix with those; in both forms of output."""
    status = {"ok": 0, "warning": 0, "error": 1}[result] if status is None else status
    found = [json.loads(line) for line in doctor("--json", *options, status=status, **call)[0].splitlines()]
    match = [one for one in found if one["check"] == check and one["result"] == result
             and all(word in one["msg"] for word in words.split("|")) and fix in one.get("fix", "")]
    if not match:
        raise Failed(f"no {result} of {check} says {words!r} with the fix {fix!r}:\n"
                     + "\n".join(map(str, found)))
    text = doctor("-v", *options, status=status, **call)[0]
    line = match[0]["msg"].replace("\n", "\\n")
    expect_true(f"{result:<7}  {check:<10}  {line}\n" in text, text)
    if fix:
        expect_true(f"         fix         {match[0]['fix']}\n" in text, text)
    return match[0]


# --- SQLite -------------------------------------------------------------------------------------------------------

def a_good_set_up():
    set_up()
    before = sorted(os.listdir("."))
    out, err = doctor(status=0)
    expect("before the first run", "ok       config, store, handlers, limits (-v for details)\n"
           "grade    exactly-once effects: payments; effectively once: mail.receipt\n", out)
    expect("it says so", "ready to run\n", err)
    expect("nothing was made", before, sorted(os.listdir(".")))
    semel("migrate", "up")
    out, err = doctor(status=0)
    expect("with a store", "ok       config, store, schema, rights, durability, isolation, clock, handlers, limits, "
           "disk (-v for details)\ngrade    exactly-once effects: payments; effectively once: mail.receipt\n", out)
    expect("strictly", (out, err), doctor("--strict", status=0))
    out, _ = doctor("-v", status=0)
    out = re.sub(r"\d+ MiB", "N MiB", re.sub(r"SQLite \S+ file .*", "SQLite V, file F", out))
    expect("all of it", """ok       config      semel.yaml is valid
ok       store       SQLite V, file F
ok       store       the file is sound
ok       schema      semel's tables are of version N
ok       rights      the file and its directory can be written
ok       durability  commits survive power loss (journal mode wal, synchronous full)
ok       isolation   transactions are serializable: SQLite has one writer at a time
ok       clock       the clocks of this host and the store differ by less than 5 s
ok       handlers    mail.receipt: ./send-email.sh can be executed
ok       handlers    the store takes all statements of sql
ok       limits      these workers and pools need N file descriptors or fewer
ok       disk        N MiB are free where the store is
grade    exactly-once effects: payments; effectively once: mail.receipt
         mail.receipt: the exec handler acts outside the store
""", re.sub(r"version \d+|need \d+", lambda m: m[0].split()[0] + " N", out))
    expect("some of it", "ok       store, handlers (-v for details)\n",
           doctor("--check", "store,handlers", status=0)[0].split("grade")[0])
    expect("quietly", "", doctor("-q", status=0)[1])
    found = [json.loads(line) for line in doctor("--json", status=0)[0].splitlines()]
    expect("grades in JSON", [("payments", "exactly-once effects"), ("mail.receipt", "effectively once")],
           [(one["inbox"], one["grade"]) for one in found if one["check"] == "grade"])


def wrong_calls():
    set_up()
    expect_true('did you mean "rights"?' in doctor("--check", "right", status=2)[1], "the nearest check")
    doctor("what", status=2)


def a_config_that_is_not_valid():
    set_up(replace={"key: json": "kex: json"})
    out, err = doctor(status=3)
    expect("it is named", "error    config      semel.yaml is not valid\n"
           "         fix         semel check shows all problems with their places\n", out)
    expect_true("unknown option" in err and "not ready to run: 1 error\n" in err, err)


def definitions():
    """What run refuses because an inbox was another one, doctor finds, and --accept names."""
    sql = "sql: INSERT INTO doctor_ledger (order_id, amount) VALUES (:json/order_id, :json/amount)"
    accept = "run --accept inboxes.payments"
    was = 'its %s was "%s" and is now "%s"'
    again = ("run", "--once", "-q", "--log-format", "text")
    set_up()
    semel(*again)
    set_up(replace={sql: "exec: [./send-email.sh]"})
    finds("definition", "error", "payments: " + was % ("mode", "transaction", "claim"), accept)
    err = semel(*again, status=3)[1]
    expect_true(was % ("mode", "transaction", "claim") in err and accept in err and "accept_changes" not in err, err)
    for wrong in ("inboxes.payment", "inboxes.payments.sql", "payments"):
        expect_true(f"--accept {wrong}: " in semel(*again, "--accept", wrong, status=2)[1], wrong)
    semel(*again, "--accept", "inboxes.mail.receipt", status=2)
    semel(*again, "--accept", 'inboxes["mail.receipt"]', status=3)
    semel(*again, "--accept", "inboxes.payments")
    doctor(status=0)
    semel(*again)
    set_up(replace={sql: "exec: [./send-email.sh]", "json:/order_id": "id"})
    finds("definition", "error", was % ("key", "json:/order_id", "id"), accept)
    semel(*again, "--accept", "inboxes.payments.key")
    doctor(status=0)


def durability_on_sqlite():
    set_up(store="sqlite:shop.db?synchronous=normal")
    semel("migrate", "up")
    finds("durability", "warning", "synchronous is normal", "remove synchronous=normal")
    doctor("--strict", status=1)
    set_up(store="sqlite:shop.db?synchronous=normal", more="require: exactly-once-effects\n    ")
    semel("migrate", "up", "--store", "sqlite:shop.db")
    finds("durability", "error", "synchronous is normal|payments is below the grade it requires")
    statement = "sql: INSERT INTO doctor_ledger (order_id, amount) VALUES (:json/order_id, :json/amount)"
    set_up(store="\"memory:\"", replace={"setup: CREATE": "# CREATE", statement: "exec: [./send-email.sh]"})
    finds("durability", "warning", "survives nothing", "use sqlite:")


def schemas_on_sqlite():
    set_up()
    semel("migrate", "up", "--to", "3", "--store", "sqlite:shop.db")
    finds("schema", "error", "of version 3", "semel migrate up")
    with sqlite3.connect("shop.db") as db:
        db.execute("INSERT INTO semel_schema VALUES (60, 'future', 1)")
    finds("schema", "error", "version 60|upgrade semel")
    os.remove("shop.db")
    with sqlite3.connect("shop.db") as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE semel_marker (what TEXT)")
    finds("schema", "error", "that semel did not make")
    os.remove("shop.db")
    with sqlite3.connect("shop.db") as db:
        db.execute("CREATE TABLE doctor_ledger (what TEXT)")
    finds("store", "ok", "is no store yet")
    with sqlite3.connect("shop.db") as db:
        expect("its mode was not changed", "delete", db.execute("PRAGMA journal_mode").fetchone()[0])


def a_damaged_file():
    set_up()
    semel("migrate", "up")
    with sqlite3.connect("shop.db") as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with open("shop.db", "r+b") as file:
        file.seek(4096 * 3)
        file.write(b"\xff" * 4096)
    finds("store", "error", "the file is damaged", "restore a backup")


def a_store_that_cannot_be_made():
    set_up(store="sqlite:none/shop.db")
    finds("store", "error", "none/shop.db does not exist yet and cannot be made", "mkdir -p none")
    os.mkdir("shop.db")
    set_up()
    finds("store", "error", "unable to open database file")
    os.rmdir("shop.db")
    write("shop.db", "this is a text, and a long one, and no database\n")
    finds("store", "error", "file is not a database")


def handlers():
    set_up()
    semel("migrate", "up")
    os.chmod("send-email.sh", 0o600)
    finds("handlers", "error", "mail.receipt: ./send-email.sh is not executable", "chmod +x send-email.sh")
    os.remove("send-email.sh")
    finds("handlers", "error", "mail.receipt: ./send-email.sh does not exist", "inboxes.mail.receipt.exec.command")
    set_up(replace={"exec: [./send-email.sh]": "worker: { command: [no-such-program-here] }"})
    finds("handlers", "error", "no-such-program-here does not exist", "worker.command")
    set_up(replace={"exec: [./send-email.sh]": "http: \"http://no-such-host.invalid/x\""})
    finds("handlers", "error", "the host no-such-host.invalid cannot be resolved", "http.url")
    set_up(replace={"exec: [./send-email.sh]": "http: \"http://127.0.0.1:9/x\""})
    finds("handlers", "ok", "the host 127.0.0.1 resolves")
    set_up(replace={"VALUES (:json/order_id, :json/amount)": "VALUES (:json/order_id, :json/amount, 3)"})
    finds("handlers", "error", "inboxes.payments.sql|rejected by the store", "semel check")


def low_limits():
    set_up()
    semel("migrate", "up")
    finds("limits", "warning", "file descriptor limit is 40", "LimitNOFILE=1024",
          before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)))


def hostile_names():
    write("evil\x1b[31m.db", "")
    out, _ = doctor("-v", "--store", "sqlite:evil\x1b[31m.db", status=0)
    expect_true("\x1b" not in out and "\\x1b" in out, out)


# --- servers ------------------------------------------------------------------------------------------------------

def closed_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def store_findings(store):
    """Findings that do not depend on the kind of server."""
    set_up(store=store.url)
    finds("schema", "error", "not there yet", "semel migrate up")
    semel("migrate", "up", "--to", "3")
    finds("schema", "error", "of version 3", "semel migrate up")
    semel("migrate", "up")
    out, err = doctor(status=0)
    expect("all is well", "ok       config, store, schema, rights, durability, isolation, clock, handlers, limits "
           "(-v for details)\ngrade    exactly-once effects: payments; effectively once: mail.receipt\n", out)
    expect("and said", "ready to run\n", err)
    finds("clock", "ok", "differ by less")
    place = urllib.parse.urlsplit(store.url)
    set_up(store=store.url.replace(f":{place.port}/", f":{closed_port()}/"))
    finds("store", "error", "unreachable", "start the server", options=("--timeout", "300ms"))


def on_postgres():
    store = Postgres("doctor")
    role = f"doctor_role_{os.getpid()}"
    store.roles.append(role)
    store.ask(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 6;")
    try:
        store_findings(store)
        store.ask(f"""GRANT CREATE ON SCHEMA public TO {role};
            GRANT USAGE ON SCHEMA {store.schema} TO {role};
            GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {store.schema} TO {role};""")
        set_up(store=store.url_as(role) + "&pool=8")
        finds("limits", "warning", "8 connections|CONNECTION LIMIT leaves 6", "lower pool=")
        set_up(store=store.url_as(role) + "&pool=4", more="require: exactly-once-effects\n    ")
        finds("rights", "ok", f"role {role} has the rights")
        broken_rights(store, role)
        broken_settings(store, role)
    finally:
        store.ask(f"DROP OWNED BY {role};")
        store.close()


def broken_rights(store, role):
    marker = store.table("marker")
    store.ask(f"REVOKE DELETE ON {marker} FROM {role};")
    found = finds("rights", "error", f"role {role} has no DELETE privilege on {marker}, so retention cannot run",
                  f"GRANT DELETE ON {marker} TO {role};")
    store.ask(found["fix"])
    store.ask(f"REVOKE SELECT ON {store.table('schema')} FROM {role};")
    store.ask(finds("rights", "error", "no SELECT privilege|the version of the tables is not known", "GRANT")["fix"])
    store.ask(f"REVOKE USAGE ON SCHEMA {store.schema} FROM {role};")
    store.ask(finds("rights", "error", "no USAGE privilege on schema", "GRANT USAGE ON SCHEMA")["fix"])
    doctor(status=0)


def broken_settings(store, role):
    for setting, check, result, words in (
            ("synchronous_commit = off", "durability", "error",
             "synchronous_commit is off|payments is below the grade it requires"),
            ("default_transaction_read_only = on", "store", "error", "default_transaction_read_only is on"),
            ("default_transaction_isolation = serializable", "isolation", "ok", "transactions are serializable")):
        store.ask(f"ALTER ROLE {role} SET {setting};")
        found = finds(check, result, words)
        if result == "error":
            store.ask(found["fix"])
            doctor(status=0)
        store.ask(f"ALTER ROLE {role} RESET ALL;")


def strange_tables_on_postgres():
    store = Postgres("doctor_strange")
    try:
        store.ask(f"CREATE SCHEMA {store.schema}; CREATE TABLE {store.table('schema')} (owner text);")
        set_up(store=store.url)
        finds("schema", "error", "is not semel's")
    finally:
        store.close()


LEDGER = "CREATE TABLE doctor_ledger (order_id INT, amount INT);"


def on_mariadb():
    store = Mariadb("doctor")
    role = f"doctor_{os.getpid()}"
    store.roles.append(role)
    try:
        store.ask(LEDGER)
        store_findings(store)
        store.ask(f"CREATE USER {role};" + "".join(
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON {store.name}.{table} TO {role};"
            for table in store.ask("SHOW TABLES;").split()))
        set_up(store=store.url_as(role))
        finds("rights", "ok", f"'{role}'@'%' has the rights")
        store.ask(f"REVOKE DELETE ON {store.table('marker')} FROM {role};")
        store.ask(finds("rights", "error", f"no DELETE privilege on {store.table('marker')}, so retention cannot run",
                        "GRANT DELETE ON")["fix"])
        store.ask(f"REVOKE SELECT ON {store.table('schema')} FROM {role};")
        store.ask(finds("rights", "error", "no SELECT privilege", "GRANT SELECT ON")["fix"])
        doctor(status=0)
        store.ask(f"ALTER TABLE {store.table('sent')} ENGINE = Aria;")
        store.ask(finds("schema", "error", "semel_sent has the engine Aria", "ENGINE = InnoDB;")["fix"])
        doctor(status=0)
    finally:
        store.close()


def own_server(name):
    """Settings of a whole server are changed on one that no other test uses."""
    state = os.path.abspath(f"{name}.state")
    start = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../dev/servers")
    subprocess.run([start, "start", "--watch", state, name], check=True, stdout=subprocess.DEVNULL, timeout=120)
    return state, lambda: subprocess.run([start, "stop", state], check=False, timeout=120)


def settings_of_mariadb():
    shared = os.environ["SEMEL_TEST_SERVERS"]
    state, stop = own_server("mariadb")
    os.environ["SEMEL_TEST_SERVERS"] = state
    try:
        store = Mariadb("doctor_own")
        store.ask(LEDGER)
        set_up(store=store.url, more="require: exactly-once-effects\n    ")
        semel("migrate", "up")
        for broken, check, result, words in (
                ("innodb_flush_log_at_trx_commit = 2", "durability", "error",
                 "innodb_flush_log_at_trx_commit is 2|payments is below the grade it requires"),
                ("sql_mode = ''", "store", "warning", "sql_mode is not strict"),
                ("max_allowed_packet = 1048576", "limits", "warning", "max_allowed_packet is 1048576"),
                ("max_connections = 10", "limits", "warning", "16 connections|max_connections leaves 10"),
                ("read_only = 1", "store", "error", "read_only is on")):
            name = broken.split()[0]
            before = store.ask(f"SELECT QUOTE(@@GLOBAL.{name});").strip().strip("'")
            if "16" in words:
                set_up(store=store.url + "?pool=16")
            store.ask(f"SET GLOBAL {broken};")
            found = finds(check, result, words)
            if found.get("fix", "").startswith("SET GLOBAL"):
                store.ask(found["fix"])
                doctor("--strict", status=0)
            store.ask(f"SET GLOBAL {name} = {before if before.isdigit() else repr(before)};")
            set_up(store=store.url)
    finally:
        os.environ["SEMEL_TEST_SERVERS"] = shared
        stop()


# --- brokers ------------------------------------------------------------------------------------------------------

def amqp(parameters, port=None):
    url = program_kit.servers()["RABBITMQ_URL"]
    if port:
        url = re.sub(r":\d+/", f":{port}/", url)
    write("mq.password", "guest")
    return f"\"{url.replace('guest:guest@', 'guest:${file:mq.password}@')}?{parameters}\""


def broker():
    import pika
    return pika.BlockingConnection(pika.URLParameters(program_kit.servers()["RABBITMQ_URL"]))


def exists(queue):
    import pika
    try:
        broker().channel().queue_declare(queue, passive=True)
        return True
    except pika.exceptions.ChannelClosedByBroker:
        return False


def brokers():
    queue = f"doctor-{os.getpid()}"
    semel("migrate", "up", "--store", "sqlite:shop.db")
    set_up(queue=amqp(f"queue={queue}&dead_letter=amq.fanout"))
    finds("broker", "error", f"queue \"{queue}\" does not exist on 127.0.0.1",
          "add declare=yes to queues.orders.url, or declare the queue")
    set_up(queue=amqp(f"queue={queue}&dead_letter=amq.fanout&declare=yes"))
    finds("broker", "ok", f"queue \"{queue}\" does not exist on 127.0.0.1 yet; run declares it")
    expect("doctor declares nothing", False, exists(queue))
    set_up(queue=amqp(f"queue={queue}&dead_letter=amq.fanout", closed_port()))
    finds("broker", "error", "queue orders: cannot connect", "start the broker")
    set_up(queue=amqp(f"queue={queue}&dead_letter=amq.fanout&declare=yes"))
    semel("run", "--once")
    try:
        set_up(queue=amqp(f"queue={queue}&dead_letter=amq.fanout"))
        finds("broker", "ok", "queue orders can be reached on 127.0.0.1")
        set_up(queue=amqp(f"queue={queue}&dead_letter=amq.direct"))
        finds("topology", "error", "queue orders is not as its URL says", "change queues.orders.url")
        policies(queue)
    finally:
        broker().channel().queue_delete(queue)


ANSWERS = {
    "good": {"arguments": {}, "effective_policy_definition": {}},
    "short": {"policy": "limit", "arguments": {}, "effective_policy_definition": {"max-length": 1000}},
    "rejects": {"policy": "limit", "arguments": {}, "effective_policy_definition":
                {"max-length": 1000, "overflow": "reject-publish"}},
    "brief": {"policy": "ttl", "arguments": {}, "effective_policy_definition": {"message-ttl": 60000}},
    "own": {"arguments": {"x-expires": 1800000}, "effective_policy_definition": []},
}


class Management(http.server.BaseHTTPRequestHandler):
    """RabbitMQ's management, as far as doctor asks it."""
    state = "good"
    asked = []

    def do_GET(self):  # noqa: N802, the name is http.server's
        Management.asked.append((self.path, self.headers.get("Authorization")))
        allowed = self.headers.get("Authorization") == "Basic bW9uOnMzY3JldA=="  # mon:s3cret
        body = json.dumps(ANSWERS[self.state]).encode() if self.state in ANSWERS else b"<html>"
        self.send_response(200 if allowed else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def policies(queue):
    set_up(queue=amqp(f"queue={queue}&dead_letter=amq.fanout"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Management)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    write("management.password", "s3cret")
    url = f"http://mon:${{file:management.password}}@127.0.0.1:{server.server_port}/"
    options = ("--rabbitmq-management", url)
    for state, result, words, fix in (
            ("good", "ok", "policies were read", ""),
            ("rejects", "ok", "policies were read", ""),
            ("short", "warning", "max-length 1000 by policy limit|drops its oldest messages", "change the policy"),
            ("brief", "warning", "message-ttl 60000 by policy ttl|dropped", "change the policy"),
            ("own", "warning", "expires 1800000 by its arguments|deleted with its messages", "declare the queue anew"),
            ("html", "warning", "no JSON object", "")):
        Management.state = state
        finds("topology", result, words, fix, options=options)
    expect("what was asked", f"/api/queues/%2F/{queue}", Management.asked[0][0])
    expect("strictly", 1, 1 if doctor("--strict", *options, status=1) else 0)
    write("management.password", "wrong1")
    out = finds("topology", "warning", "the management answers 401", "monitoring", options=options)
    expect_true("wrong1" not in json.dumps(out), "no password is shown")
    server.shutdown()
    finds("topology", "warning", "are not known", "rabbitmq_management",
          options=("--rabbitmq-management", f"http://127.0.0.1:{closed_port()}"))
    _, err = doctor("--rabbitmq-management", "http://mon:s3cret@127.0.0.1:1", status=1)
    expect_true("other users on this host can read a password" in err and "s3cret" not in err, err)


GROUPS = {"on_files": [a_good_set_up, wrong_calls, a_config_that_is_not_valid, definitions,
                       durability_on_sqlite, schemas_on_sqlite, a_damaged_file, a_store_that_cannot_be_made, handlers,
                       low_limits, hostile_names],
          "on_servers": [on_postgres, strange_tables_on_postgres, on_mariadb, settings_of_mariadb, brokers]}

if __name__ == "__main__":
    main_of_groups(GROUPS)
