#!/usr/bin/python3
"""check_admin.py PROGRAM [CHECK...]: the admin server of a `semel run`: health, metrics, who may ask, and how it lives
with the process. Those checks whose names end in _on_servers need SEMEL_TEST_SERVERS, and are run only if it is set."""
import http.client
import os
import re
import signal
import socket
import sqlite3
import time

from live_kit import own_directory
from program_kit import DEADLINE_S, Run, expect, expect_true, main, publish_lines, semel, servers, wait_until, write

CONFIG = """\
version: 1
store: {store}
setup: CREATE TABLE IF NOT EXISTS ledger (n BIGINT)
queues:
  orders: {{ url: store, workers: 2, backoff: 10ms }}
  shipping: {shipping}
inboxes:
  payments: {{ from: orders, types: [paid], sql: INSERT INTO ledger VALUES (:json/n), send: {{ to: shipping }} }}
  mail: {{ from: orders, types: [mail], attempts_max: 2, exec: [./mail.sh] }}
{reader}admin: {admin}
drain: 20s
"""
READER = "  parcels: { from: shipping, sql: SELECT 1 }\n"
MAIL = """#!/bin/sh
read -r body
case $body in
*fail*) exit 1 ;;
*wait*) : >started; while [ ! -e release ]; do sleep 0.05; done ;;
esac
"""


def prepare(admin="127.0.0.1:0", store="sqlite:shop.db", shipping="store", reader=READER):
    own_directory()
    write("semel.yaml", CONFIG.format(admin=admin, store=store, shipping=shipping, reader=reader))
    write("mail.sh", MAIL, 0o700)


def start(*arguments, ready=True):
    run = Run("--log-format", "text", *arguments)
    if ready:
        run.says("ready in")
    return run


def place(run):
    """Where it listens, by what it says."""
    run.says("admin http://")
    return re.findall(r"admin http://([^/\s]+)/", run.text())[-1]


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=DEADLINE_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(DEADLINE_S)
        self.sock.connect(self.path)


def get(where, path, headers=None, method="GET", unix=False):
    """Status, headers and body."""
    link = UnixConnection(where) if unix else http.client.HTTPConnection(where, timeout=DEADLINE_S)
    try:
        link.request(method, path, headers=headers or {})
        answer = link.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        link.close()


def sample(where, name):
    """The value of a series, or None."""
    for line in get(where, "/metrics")[2].splitlines():
        if line.startswith(name + " "):
            return float(line.rsplit(" ", 1)[1])
    return None


def wait_for_sample(where, name, value):
    wait_until(lambda: sample(where, name) == value, lambda: f"{name} is {sample(where, name)}, not {value}")


# --- what it answers ------------------------------------------------------------------------------


def health_and_metrics():
    prepare()
    run = start()
    where = place(run)
    status, headers, body = get(where, "/livez")
    expect("livez", (200, "alive\n"), (status, body))
    expect_true("default-src 'none'" in headers["Content-Security-Policy"], headers)
    expect("sniffing", "nosniff", headers["X-Content-Type-Options"])
    expect("caching", "no-store", headers["Cache-Control"])
    wait_until(lambda: get(where, "/readyz")[0] == 200, lambda: get(where, "/readyz?verbose")[2])
    expect("readyz", "ready\n", get(where, "/readyz")[2])
    expect("verbose", "[+]store ok\n[+]schema ok\n[+]moving ok\n[+]draining ok\nready\n",
           get(where, "/readyz?verbose")[2])
    expect("HEAD", (200, ""), (get(where, "/readyz", method="HEAD")[0], get(where, "/readyz", method="HEAD")[2]))

    publish_lines("orders", ['{"n": 1}', '{"n": 2}'], "--type", "paid", "--copies", "3")
    publish_lines("orders", ['"fail"'], "--type", "mail")
    series = 'semel_inbox_messages_total{inbox="%s",handler="%s",outcome="%s"}'
    wait_for_sample(where, series % ("payments", "sql", "processed"), 2)
    wait_for_sample(where, series % ("payments", "sql", "duplicate"), 4)
    wait_for_sample(where, series % ("parcels", "sql", "processed"), 2)
    wait_for_sample(where, series % ("mail", "exec", "dead"), 1)
    expect("failures", 1, sample(where, series % ("mail", "exec", "failed")))
    expect("retries", 1, sample(where, 'semel_handler_retries_total{inbox="mail",handler="exec"}'))
    expect("letters", 1, sample(where, 'semel_deadletter_total{name="mail",handler="exec"}'))
    expect("handlers", 2, sample(where, 'semel_inbox_process_duration_seconds_count{inbox="mail",handler="exec"}'))
    expect("critical", 2, sample(where, 'semel_inbox_critical_time_seconds_bucket{inbox="payments",le="+Inf"}'))
    relay = '{relay="shipping",destination="shipping"'
    expect("sent", 2, sample(where, f'semel_outbox_published_total{relay},outcome="sent"}}'))
    wait_for_sample(where, "semel_deadletter_messages", 1)
    wait_for_sample(where, 'semel_outbox_pending{relay="shipping",destination="shipping"}', 0)
    ended = {(operation, end): sample(where, "semel_db_transaction_duration_seconds_count"
                                      f'{{operation="{operation}",end="{end}"}}')
             for operation in ("receive", "relay", "queue", "other") for end in ("commit", "rollback")}
    expect_true(ended["receive", "commit"] >= 3 and ended["relay", "commit"] + ended["queue", "commit"] >= 2,
                f"transactions: {ended}")
    expect_true(None not in ended.values(), f"each has its series: {ended}")
    expect_true(sample(where, "process_resident_memory_bytes") > 1e6, "memory")
    expect_true(abs(sample(where, "process_start_time_seconds") - time.time()) < DEADLINE_S, "start")

    _, headers, text = get(where, "/metrics")
    expect("the type", "text/plain; version=0.0.4; charset=utf-8", headers["Content-Type"])
    accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3"
    _, headers, other = get(where, "/metrics", {"Accept": accept})
    expect("OpenMetrics", "application/openmetrics-text; version=1.0.0; charset=utf-8", headers["Content-Type"])
    expect_true(other.endswith("# EOF\n") and "# TYPE semel_build info\n" in other, other[-200:])

    def names(all_of_it):
        return sorted(line.rsplit(" ", 1)[0] for line in all_of_it.splitlines() if not line.startswith("#"))
    expect("the same series in both", names(text), names(other))
    expect("as promised", [], re.findall(r'="(?:[0-9a-f]{8}-|{)', text))
    run.stop()


def foreign_hosts_are_refused():
    prepare(admin='{ listen: "127.0.0.1:0", hosts: [semel.internal] }')
    run = start()
    where = place(run)
    port = where.rsplit(":", 1)[1]
    for host in ("localhost", "127.0.0.1:1", f"[::1]:{port}", "SEMEL.internal:80", "semel.internal."):
        expect(host, 200, get(where, "/livez", {"Host": host})[0])
    for host in ("evil.example", f"evil.example:{port}", "localhost.evil.example", "10.0.0.1", "", "127.0.0.1.evil"):
        status, headers, body = get(where, "/metrics", {"Host": host})
        expect(host, (421, "application/problem+json"), (status, headers["Content-Type"]))
        expect_true("urn:semel:problem:misdirected" in body and "semel_" not in body, body)
    status, headers, _ = get(where, "/metrics", method="POST")
    expect("POST", (405, "GET, HEAD"), (status, headers["Allow"]))
    expect("nothing else", 404, get(where, "/nothing")[0])
    run.stop()


def unix_socket_and_health_command():
    path = os.path.join(os.getcwd(), "a.sock")
    prepare(admin=f'"unix:{path}"')
    run = start()
    expect("mode", 0o600, os.stat(path).st_mode & 0o777)
    expect("livez", 200, get(path, "/livez", unix=True)[0])
    wait_until(lambda: get(path, "/readyz", unix=True)[0] == 200, "it is ready")
    out, _ = semel("health", "--url", f"unix:{path}", "--ready")
    expect("health", "[+]store ok\n[+]schema ok\n[+]moving ok\n[+]draining ok\nready\n", out)
    run.send(signal.SIGKILL)
    run.ends(-signal.SIGKILL)
    _, err = semel("health", "--url", f"unix:{path}", status=1)
    expect_true(err.startswith(f"semel: unix:{path}: "), err)
    run = start()  # which replaces the socket that was left behind
    second = Run("--log-format", "text")
    text = second.ends(1)
    expect_true(f"unix:{path} is in use by another process" in text, text)
    run.stop()
    expect_true(not os.path.exists(path), "the socket is removed at the end")


# --- how it lives ---------------------------------------------------------------------------------


def drained_and_reloaded():
    prepare()
    run = start()
    first = place(run)
    publish_lines("orders", ['"wait"'], "--type", "mail")
    wait_until(lambda: os.path.exists("started"), "the handler runs")
    expect("in flight", 1, sample(first, 'semel_inbox_inflight{inbox="mail"}'))
    write("release", "")
    wait_for_sample(first, 'semel_inbox_messages_total{inbox="mail",handler="exec",outcome="processed"}', 1)

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        prepare(admin=f'"127.0.0.1:{port}"')  # in use: the old configuration stays
        probe.listen()
        run.send(signal.SIGHUP)
        run.says("is in use by another process")
        expect("the old one answers", 200, get(first, "/livez")[0])
    prepare(admin=f'{{ listen: "127.0.0.1:{port}", hosts: [semel.internal] }}')
    run.send(signal.SIGHUP)
    run.says(f"admin http://127.0.0.1:{port}/")
    second = place(run)
    wait_until(lambda: get(second, "/readyz", {"Host": "semel.internal"})[0] == 200, "the new one answers")
    expect("counters stay", 1,
           sample(second, 'semel_inbox_messages_total{inbox="mail",handler="exec",outcome="processed"}'))
    try:
        get(first, "/livez")
        expect_true(False, "the old address is closed")
    except OSError:
        pass

    os.unlink("release")
    os.unlink("started")
    publish_lines("orders", ['"wait again"'], "--type", "mail")
    wait_until(lambda: os.path.exists("started"), "the handler runs again")
    run.send(signal.SIGTERM)
    draining = "[-]draining failed: the process is stopping\n"
    wait_until(lambda: draining in get(second, "/readyz?verbose")[2], "it drains")
    expect("not ready", 503, get(second, "/readyz")[0])
    expect("but alive", 200, get(second, "/livez")[0])
    semel("health", "--url", f"http://{second}")
    semel("health", "--url", f"http://{second}/", "--ready", status=1)
    write("release", "")
    run.ends(0)


def bad_addresses():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        prepare(admin=f'"127.0.0.1:{port}"')
        text = Run("--log-format", "text").ends(1)
        expect_true(f"admin: 127.0.0.1:{port} is in use by another process" in text, text)


def a_locked_store_hangs_nothing():
    """SQLite's writer is away: what is due does not move, and questions are answered all the same."""
    prepare()
    run = start()
    where = place(run)
    wait_until(lambda: get(where, "/readyz")[0] == 200, "it is ready")
    shop = sqlite3.connect("shop.db", timeout=DEADLINE_S, isolation_level=None)
    shop.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    for _ in range(20):
        get(where, "/livez")
        get(where, "/metrics")
        get(where, "/readyz")
    expect_true(time.monotonic() - began < DEADLINE_S / 2, "answers come")
    shop.execute("ROLLBACK")
    shop.close()
    run.stop()


def brokers_on_servers():
    """A store that does not answer from the start, and a broker."""
    url = servers()["RABBITMQ_URL"]
    queue = f"admin-{os.getpid()}"
    listening = socket.socket()  # accepts, and never answers
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    port = listening.getsockname()[1]
    shipping = f'{{ url: "{url}?queue={queue}&declare=yes" }}'
    prepare(store=f"postgres://nobody@127.0.0.1:{port}/none", reader="", shipping=shipping)
    run = start(ready=False)
    where = place(run)
    expect("livez", 200, get(where, "/livez")[0])
    began = time.monotonic()
    status, _, text = get(where, "/readyz")
    expect("readyz", 503, status)
    expect_true("[-]starting failed: the pipeline is not open yet\n" in text and text.endswith("not ready\n"), text)
    expect_true(time.monotonic() - began < 20, "the answer comes soon")
    expect("metrics", 0, sample(where, "semel_store_connected"))
    run.send(signal.SIGTERM)
    run.send(signal.SIGTERM)
    run.process.wait(DEADLINE_S)
    listening.close()

    prepare(reader="", shipping=shipping)
    run = start()
    where = place(run)
    wait_until(lambda: "[+]broker shipping ok\n" in get(where, "/readyz?verbose")[2],
               lambda: get(where, "/readyz?verbose")[2])
    expect("connected", 1, sample(where, 'semel_broker_connected{queue="shipping"}'))
    publish_lines("orders", ['{"n": 1}'], "--type", "paid")
    wait_for_sample(where, 'semel_outbox_publish_duration_seconds_count{relay="shipping",destination="shipping"}', 1)
    run.stop()


CHECKS = [health_and_metrics, foreign_hosts_are_refused, unix_socket_and_health_command, drained_and_reloaded,
          bad_addresses, a_locked_store_hangs_nothing]
if "SEMEL_TEST_SERVERS" in os.environ:
    CHECKS.append(brokers_on_servers)
if __name__ == "__main__":
    main(*CHECKS)
