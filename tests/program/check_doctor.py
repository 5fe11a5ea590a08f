"""check_doctor.py PROGRAM [CHECK...]: `semel doctor` against a table of set-ups that are broken in one way each: every
one is found and named, with what mends it; and it changes nothing."""
import http.server
import json
import os
import re
import resource
import sqlite3
import subprocess
import threading
import urllib.parse

import program_kit
from admin_kit import Mariadb, Postgres, main_of_groups
from doctor_kit import amqp, closed_port, doctor, finds, set_up
from program_kit import expect, expect_true, semel, write


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


def on_small_disk(size):
    """Runs a command with a file system of that size at ./disk, which ends with it. Needs root, or user namespaces."""
    as_root = [] if os.getuid() == 0 else ["--map-root-user"]
    return ["unshare", "--mount", *as_root, "sh", "-c",
            'mount -t tmpfs -o size="$0" doctor disk && cp shop.db disk/ && exec "$@"', size]


def low_disk():
    semel("migrate", "up", "--store", "sqlite:shop.db")
    os.mkdir("disk")
    set_up(store="sqlite:disk/shop.db")
    for size, result in (("4m", "error"), ("300m", "warning"), ("2g", "ok")):
        finds("disk", result, "MiB are free where the store is" if result == "ok" else "only |MiB are free",
              "" if result == "ok" else "make room in ", through=on_small_disk(size))


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


def on_mariadb():
    store = Mariadb("doctor")
    role = f"doctor_{os.getpid()}"
    store.roles.append(role)
    try:
        store_findings(store)
        what_setup_would_make(store)
        functions(store)
        store.ask(f"CREATE USER {role};" + "".join(
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON {store.name}.{table} TO {role};"
            for table in store.ask("SHOW TABLES;").split()))
        set_up(store=store.url_as(role))
        finds("rights", "ok", f"'{role}'@'%' has the rights")
        store.ask(finds("rights", "ok", f"'{role}'@'%' has no EXECUTE privilege", "GRANT EXECUTE ON")["fix"])
        expect_true("EXECUTE" not in doctor("-v", status=0)[0], "the right that was missing is there")
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


def what_setup_would_make(store):
    """MariaDB cannot run setup only to see: what it may make is not reported as missing; all else is."""
    set_up(store=store.url)
    finds("handlers", "ok", "not checked: a table or column is not there yet")
    set_up(store=store.url, replace={"sql: INSERT": "sql: INSRET"})
    finds("handlers", "error", "inboxes.payments.sql|rejected by the store")
    set_up(store=store.url, replace={"setup: ": "# "})
    finds("handlers", "error", "inboxes.payments.sql|doctor_ledger")
    set_up(store=store.url)
    semel("run", "--once")
    finds("handlers", "ok", "the store takes all statements of sql")
    wrong = {"(order_id, amount) VALUES": "(order_id, amuont) VALUES"}
    set_up(store=store.url, replace=wrong)
    finds("handlers", "error", "inboxes.payments.sql|amuont")
    set_up(store=store.url, replace={**wrong, "setup: CREATE TABLE IF NOT EXISTS doctor_ledger (order_id INTEGER, "
                                     "amount INTEGER)": "setup: ALTER TABLE doctor_ledger ADD amuont INTEGER"})
    finds("handlers", "ok", "not checked: a table or column is not there yet")
    set_up(store=store.url)
    doctor("--strict", status=0)


def functions(store):
    """Functions for SQL that are missing, and those that another version has made."""
    def states():
        out = semel("migrate", "status", "--json")[0]
        return {json.loads(line)["state"] for line in out.splitlines()}

    made = store.catalogue()
    expect("complete", {"applied"}, states())
    for change, words in (("DROP FUNCTION semel_receive;", "missing: semel_receive;"),
                          ("ALTER FUNCTION semel_send COMMENT '';", "of another version of semel: semel_send;"),
                          ("DROP FUNCTION semel_send; ALTER FUNCTION semel_receive COMMENT 'semel 0';",
                           "of another version of semel: semel_receive;")):
        store.ask(change)
        finds("schema", "warning", "functions for SQL are |" + words, "semel migrate up, with an account")
        expect("a step is not complete", {"applied", "incomplete"}, states())
        semel("dead", "ls")
        out, err = semel("migrate", "up")
        expect_true(out.startswith("applied  5  functions") and err == "", out + err)
        expect("all is as it was", ({"applied"}, made), (states(), store.catalogue()))
        doctor("--strict", status=0)
    store.ask("DROP FUNCTION semel_send;")
    expect_true("FUNCTION `" in semel("migrate", "sql")[0], "a script for a DBA")
    store.ask(semel("migrate", "sql")[0])
    expect("by the script", made, store.catalogue())


# --- brokers ------------------------------------------------------------------------------------------------------

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
    "young": {"arguments": {}},
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
            ("young", "warning", "are not known: the management has no statistics", "again in some seconds"),
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
                       low_disk, low_limits, hostile_names],
          "on_servers": [on_postgres, strange_tables_on_postgres, on_mariadb, brokers]}

if __name__ == "__main__":
    main_of_groups(GROUPS)
