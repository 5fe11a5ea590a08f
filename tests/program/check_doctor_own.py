"""check_doctor_own.py PROGRAM [CHECK...]: `semel doctor` and what concerns a whole server, on servers that this program
starts for itself: settings, a pooler in front of it, a standby, policies of a broker."""
import atexit
import base64
import contextlib
import functools
import json
import os
import shutil
import subprocess
import tempfile
import urllib.parse
import urllib.request

import program_kit
from admin_kit import Mariadb, Postgres
from doctor_kit import amqp, doctor, finds, set_up
from program_kit import DEADLINE_S, expect, expect_true, semel, wait_until, write

SERVERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../dev/servers")


@functools.lru_cache(None)
def own_servers():
    """Servers that no other test uses, for what concerns a whole server. They end with this process."""
    directory = tempfile.mkdtemp(prefix="semel-doctor-")
    state = os.path.join(directory, "state")
    subprocess.run([SERVERS, "start", "--watch", state, "postgres", "mariadb", "rabbitmq"], check=True, timeout=300,
                   stdout=subprocess.DEVNULL, env={**os.environ, "SEMEL_RABBITMQ_PLUGINS": "rabbitmq_management"})
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    atexit.register(subprocess.run, [SERVERS, "stop", state], check=False, timeout=300)
    return state


@contextlib.contextmanager
def on_own_servers():
    shared = os.environ.get("SEMEL_TEST_SERVERS", "")
    os.environ["SEMEL_TEST_SERVERS"] = own_servers()
    try:
        yield program_kit.servers()
    finally:
        os.environ["SEMEL_TEST_SERVERS"] = shared


def settings_of_mariadb():
    with on_own_servers():
        store = Mariadb("doctor_own")
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


POOLER = """[databases]
* = host=127.0.0.1 port={port} user=postgres
[pgbouncer]
auth_type = any
unix_socket_dir = {directory}
listen_port = 6432
logfile = {directory}/log
pool_mode = transaction
server_round_robin = 1
"""


@contextlib.contextmanager
def pooler(port):
    """PgBouncer in transaction mode before a server; the directory of its socket, which is port 6432."""
    directory = tempfile.mkdtemp(prefix="semel-pooler-")
    write(f"{directory}/ini", POOLER.format(port=port, directory=directory), mode=0o644)
    become = []
    if os.getuid() == 0:  # as which it does not run
        shutil.chown(directory, "postgres")
        become = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups", "--pdeathsig", "KILL"]
    path = {**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin"}
    process = subprocess.Popen([*become, "pgbouncer", "-q", f"{directory}/ini"], env=path)
    try:
        def answers():
            expect("pgbouncer has not ended", None, process.poll())
            return os.path.exists(f"{directory}/.s.PGSQL.6432")
        wait_until(answers, "pgbouncer answers")
        yield directory
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(directory, ignore_errors=True)


def behind_a_pooler():
    """Two sessions of the server take turns: what is set for one is not there in the next transaction."""
    said = "a pooler is in between: sessions are not kept between transactions"
    with on_own_servers() as servers:
        store = Postgres("doctor_pooled")
        try:
            set_up(store=store.url)
            semel("migrate", "up")
            expect_true(said not in doctor("-v", status=0)[0], "without a pooler nothing is said about one")
            with pooler(servers["POSTGRES_PORT"]) as directory:
                set_up(store=f"{store.url}&host={directory}&port=6432")
                finds("store", "ok", said)
                out, _ = doctor("--strict", status=0)
                expect_true(out.startswith("ok       config, store, schema, rights, durability, isolation,"), out)
        finally:
            store.close()


def on_a_standby():
    """A server that replays another's log and takes no writes. It has no primary here: it waits for one."""
    with on_own_servers() as servers:
        store = Postgres("doctor_standby")
        set_up(store=store.url)
        semel("migrate", "up")
        doctor("--strict", status=0)
        signal = os.path.join(servers["POSTGRES_DIR"], "data/standby.signal")
        write(signal, "")
        if os.getuid() == 0:
            shutil.chown(signal, "postgres", "postgres")
        subprocess.run([SERVERS, "restart", own_servers(), "postgres"], check=True, timeout=300)
        finds("store", "error", "the server is a standby, which takes no writes", "use the address of the primary")
        expect("it becomes the primary", "t", store.ask("SELECT pg_promote(true, 300);").strip())
        doctor("--strict", status=0)
        store.close()


# --- brokers ------------------------------------------------------------------------------------------------------

def policies_of_rabbitmq():
    """RabbitMQ's own management, and not what the check above takes for it."""
    queue = f"doctor-{os.getpid()}"
    with on_own_servers() as servers:
        place = urllib.parse.urlsplit(servers["RABBITMQ_MANAGEMENT_URL"])
        write("management.password", place.password)
        url = f"http://{place.username}:${{file:management.password}}@{place.hostname}:{place.port}"
        options = ("--rabbitmq-management", url)
        semel("migrate", "up", "--store", "sqlite:shop.db")
        set_up(queue=amqp(f"queue={queue}&dead_letter=amq.fanout&declare=yes"))
        semel("run", "--once")
        await_policy(queue, [])
        finds("topology", "ok", f'queue "{queue}": policies were read', options=options)
        doctor("--strict", *options, status=0)
        for definition, words in (({"max-length": 1000}, "max-length 1000 by policy cut|drops its oldest messages"),
                                  ({"message-ttl": 60000}, "message-ttl 60000 by policy cut|dropped")):
            set_policy(queue, definition)
            finds("topology", "warning", words, "change the policy", options=options)
        doctor("--strict", *options, status=1)
        set_policy(queue, {"max-length": 9, "overflow": "reject-publish"})
        doctor("--strict", *options, status=0)
        write("management.password", "wrong1")
        finds("topology", "warning", "the management answers 401", "monitoring", options=options)


def management(path, document=None):
    """The answer of RabbitMQ's management to its administrator."""
    place = urllib.parse.urlsplit(program_kit.servers()["RABBITMQ_MANAGEMENT_URL"])
    key = base64.b64encode(f"{place.username}:{place.password}".encode()).decode()
    request = urllib.request.Request(f"http://{place.hostname}:{place.port}{path}",
                                     json.dumps(document).encode() if document else None,
                                     headers={"Content-Type": "application/json", "Authorization": f"Basic {key}"},
                                     method="PUT" if document else "GET")
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=DEADLINE_S) as answer:
        return json.loads(answer.read() or b"{}")


def set_policy(queue, definition):
    management("/api/policies/%2F/cut", {"pattern": f"^{queue}$", "definition": definition, "apply-to": "queues"})
    await_policy(queue, definition)


def await_policy(queue, definition):
    """What the management says of a queue comes with the statistics that the queue sends now and then."""
    def known():
        found = management(f"/api/queues/%2F/{queue}").get("effective_policy_definition")
        return found == definition or (not found and not definition and found is not None)
    wait_until(known, f"the management knows of {definition}")


if __name__ == "__main__":
    program_kit.main(settings_of_mariadb, behind_a_pooler, on_a_standby, policies_of_rabbitmq)
