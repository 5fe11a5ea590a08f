#!/usr/bin/python3
"""check_live.py PROGRAM [CHECK...]: tail, stats and health, and the socket and the row of a `semel run` that they ask.
Those checks whose names end in _on_servers need SEMEL_TEST_SERVERS, and are run only if it is set."""
import itertools
import json
import os
import pwd
import resource
import signal
import sqlite3
import subprocess
import sys
import uuid

from live_kit import Client, ask, directory, fixed, own_directory, prepare, sockets, start, stats, wait_for
from program_kit import (DEADLINE_S, Run, expect, expect_true, main, publish_lines, read, semel, servers, wait_until,
                         write)
from store_kit import place


def tail(*arguments, **options):
    run = Run(*arguments, "-v", command="tail", **options)
    run.says("showing ")
    return run


def rows():
    shop = sqlite3.connect("shop.db", timeout=DEADLINE_S)
    try:
        return [json.loads(data) for (data,) in shop.execute("SELECT data FROM semel_process ORDER BY id")]
    finally:
        shop.close()


# --- what is printed -----------------------------------------------------------------------------


def without_a_process():
    prepare()
    run = start()
    publish_lines("orders", ['{"order": 1}'], "--type", "paid")
    wait_for("payments", missing_key=1, dead=1)
    run.stop()
    expect("warnings", 1, run.text().count("refused (missing key), kept as a dead letter"))
    expect_true(" 0 failed, 1 dead letter\n" in run.text(), run.text())
    none = "no process is running semel.yaml; showing data from the store only:\n"
    out, err = semel("stats")
    expect("stats", "INBOX PROCESSED DUPLICATES FAILED DEAD STALE MISMATCH NO KEY\n"
           "payments - - - 1 - - -\nmail.receipt - - - 0 - - -\nparcels - - - 0 - - -\n", fixed(out))
    expect("what stats says", none, err)
    expect("as JSON", {"inbox": "payments", "dead": 1}, stats())
    out, err = semel("health", status=1)
    expect("health", "unhealthy: no process is running semel.yaml; the store was asked instead: it answers\n", out)
    expect("health says no more", "", err)
    out, _ = semel("health", "--ready", status=1)
    expect_true(out.startswith("not ready: no process is running semel.yaml"), out)
    expect("health as JSON", False, json.loads(semel("health", "--json", status=1)[0])["healthy"])
    followed = Run(command="tail")
    followed.says("refused by the inbox: missing key")
    expect("tail", none + "CLOCK payments #KEY dead attempt 1: refused by the inbox: missing key\n",
           fixed(followed.text()))
    followed.stop(status=-signal.SIGTERM)


def what_a_process_counts():
    prepare()
    run = start()
    followed = tail()
    publish_lines("orders", ['{"n": 1}'], "--type", "paid", "--copies", "2")
    wait_for("payments", processed=1, duplicates=1)
    wait_for("parcels", processed=1)
    followed.says("parcels")
    out, err = semel("stats", "--inbox", "pay*", "--inbox", "parcels")
    expect("stats", "INBOX PROCESSED DUPLICATES FAILED DEAD STALE MISMATCH NO KEY\n"
           "payments 1 1 0 0 0 0 0\nparcels 1 0 0 0 0 0 0\n", fixed(out))
    expect("what stats says", "since DATE, 1 process\n", fixed(err))
    line = stats()
    expect_true(line.pop("since").endswith("Z"), "since is a time")
    expect("as JSON", {"inbox": "payments", "processed": 1, "duplicates": 1, "failed": 0, "dead": 0, "stale": 0,
                       "mismatched": 0, "missing_key": 0}, line)
    lines = [text for text in fixed(followed.text()).splitlines() if "payments" in text]
    expect("tail", ["CLOCK payments 1 duplicate", "CLOCK payments 1 processed TOOK"], sorted(lines))
    expect("health", "healthy: up TOOK; store, 1 relay; last outcome TOOK ago\n", fixed(semel("health")[0]))
    expect("ready", "ready: up TOOK; store, 1 relay; last outcome TOOK ago\n", fixed(semel("health", "--ready")[0]))
    health = json.loads(semel("health", "--json")[0])
    expect("health as JSON", (True, True, [], run.pid),
           tuple(health[name] for name in ("healthy", "ready", "problems", "pid")))
    [row] = rows()
    expect("the row", ["payments", "mail.receipt", "parcels"], row["inboxes"])
    expect("its outboxes and queues", (["shipping"], ["orders", "shipping"]), (row["outboxes"], row["queues"]))
    expect("its config", os.path.realpath("semel.yaml"), row["config"])
    run.stop()
    followed.says("has ended")
    expect("rows after the end", [], rows())
    expect("sockets after the end", [], sockets())


def what_fails():
    prepare()
    start()
    followed, as_json = tail("--inbox", "mail.receipt"), tail("--json", "--outcome", "dead")
    semel("publish", "orders", "fail", "--type", "mail", "--id", "m-1")
    followed.says("attempt 2 of 2")
    lines = [text for text in fixed(followed.text()).splitlines() if "mail.receipt" in text]
    why = "exit 1: no mailbox \\x1b[31mfail"
    expect("tail", [f"CLOCK mail.receipt m-1 failed TOOK attempt 1 of 2: {why}",
                    f"CLOCK mail.receipt m-1 dead TOOK attempt 2 of 2: {why}"], lines)
    expect_true("\x1b" not in followed.text(), "no escape sequence reaches a terminal")
    as_json.says('"outcome":"dead"')
    line = json.loads(as_json.text().splitlines()[-1])
    expect("as JSON", ("mail.receipt", "m-1", "dead", "mail", 2, 2, why, 1),
           tuple(line[k] for k in ("inbox", "key", "outcome", "type", "attempt", "attempts_max", "error", "letter")))
    for _ in range(2):
        semel("dead", "retry", "1", status=1)
    followed.says("attempt 3: exit 1")


LETTERS = """\
version: 1
store: sqlite:shop.db
queues: { orders: { url: store, backoff: 1ms } }
inboxes:
  strict: { from: orders, types: [strict], key: "json:/n", exec: ["true"] }
  failing: { from: orders, types: [fail], attempts_max: 1, sql: "INSERT INTO effect VALUES (1)" }
  mail.receipt: { from: orders, types: [mail], attempts_max: 2, exec: [./mail.sh] }
setup: CREATE TABLE IF NOT EXISTS effect (n INTEGER CHECK (n > 1))
"""


def lines_name_their_letters():
    """What becomes a letter of an inbox in claim mode, in queued mode, without a key and without a route."""
    prepare()
    write("semel.yaml", LETTERS)
    for kind, bodies in (("mail", ["fail"]), ("fail", ["{}"] * 3), ("strict", ["{}"]), ("refund", ["{}"])):
        publish_lines("orders", bodies, "--type", kind)
    said = [json.loads(line) for line in Run("--once", "--log-format", "json").ends(0).splitlines()]
    dead = {(line["inbox"], line["letter"], line["message_id"]) for line in said if line["event"] == "dead"}
    kept = {(row["inbox"], row["letter"], row["message_id"]) for row in objects("dead", "ls")}
    expect("letters that the log names and the store does not have", set(), dead - kept)
    expect("their inboxes", ["failing", "mail.receipt", "strict", "unrouted"], sorted(line[0] for line in dead))
    expect_true(all("letter" not in line for line in said if line["event"] != "dead"), f"{said}")


def objects(*arguments):
    return [json.loads(line) for line in semel(*arguments, "--json")[0].splitlines()]


def unrouted():
    prepare()
    run = start()
    followed = tail()
    publish_lines("orders", ['{"n": 1}'], "--type", "refund")
    run.says('unrouted: 1 kept as a dead letter, letter 1: no route fits the type "refund" in queue "orders"; '
             'there are routes for "paid", "bulk", "mail"; see: semel dead show 1\n')
    followed.says("unrouted ")
    expect_true("no route fits" in semel("dead", "show", "1")[0], "the command that the log names")
    expect("letters of others", 0, stats()["dead"])
    run.stop()


def filters_of_tail():
    prepare()
    start()
    by_key, by_type = tail("--json", "--key", "hex:37"), tail("--json", "--type", "ma*", "--outcome", "processed")
    publish_lines("orders", [f'{{"n": {n}}}' for n in (6, 7, 8)], "--type", "paid")
    semel("publish", "orders", "ok", "--type", "mail", "--id", "m-1")
    publish_lines("orders", ['{"n": 7}'], "--type", "paid")
    by_key.says("duplicate")
    by_type.says("m-1")
    lines = [json.loads(text) for text in by_key.text().splitlines() if text.startswith("{")]
    expect("by key", [("7", "processed"), ("7", "duplicate")], [(line["key"], line["outcome"]) for line in lines])
    lines = [json.loads(text) for text in by_type.text().splitlines() if text.startswith("{")]
    expect("by type and outcome", [("mail", "processed")], [(line["type"], line["outcome"]) for line in lines])
    out, err = semel("tail", "--outcome", "procesed", status=2)
    expect_true('did you mean "processed"?' in err, err)
    expect_true('inbox "payment" does not exist; did you mean "payments"?' in semel("tail", "--inbox", "payment",
                                                                                   status=4)[1], "no such inbox")
    expect_true('did you mean "payments"?' in semel("stats", "--inbox", "payment", status=4)[1], "no such inbox")


def keys_are_hidden():
    prepare(more="log: { keys: false }\n")
    start()
    followed = tail("--json")
    numbers = itertools.count(4711000)
    def shown():  # what was handled before the process knew of its reader is not shown
        number = next(numbers)
        semel("publish", "orders", json.dumps({"n": number}), "--type", "paid", "--id", f"secret-id-{number}")
        return "processed" in followed.text()
    wait_until(shown, "a message is shown")
    expect_true("4711" not in followed.text() and "secret-id" not in followed.text(), followed.text())


def closed_pipe():
    prepare()
    start()
    done = subprocess.Popen(["sh", "-c", f"'{sys.argv[1]}' tail | head -n 1"], stdout=subprocess.PIPE)
    def printed():
        publish_lines("orders", [json.dumps({"n": uuid.uuid4().int % 10**9})], "--type", "paid")
        return done.poll() is not None
    wait_until(printed, "tail ends with its reader")
    expect("the status", 0, done.returncode)


# --- health --------------------------------------------------------------------------------------


def a_broker_is_away():
    prepare()
    write("semel.yaml", read("semel.yaml").replace("url: store", "url: amqp://127.0.0.1:1/?queue=q"))
    run = Run("--log-format", "text")
    run.says("unreachable")
    _, err = semel("run", "--once", "-q", "--log-format", "text", status=75)
    expect_true(" error: queue orders: unreachable: cannot connect to 127.0.0.1:1" in err, err)
    expect_true(err.endswith("; nothing was handled\n"), err)
    out, _ = semel("health", status=1)
    expect_true(fixed(out).startswith("unhealthy: queue orders: unreachable for TOOK: "), out)
    out, _ = semel("health", "--ready", status=1)
    expect_true(fixed(out).startswith("not ready: queue orders: unreachable for TOOK: "), out)
    run.stop()


def a_handler_hangs():
    prepare()
    run = start()
    publish_lines("orders", ["wait"], "--type", "mail")
    wait_until(lambda: os.path.exists("started"), "the handler runs")
    def stalled():
        done = subprocess.run([sys.argv[1], "health", "--stalled-after", "100ms"], stdout=subprocess.PIPE, check=False)
        return done.returncode == 1 and done.stdout.decode()
    out = wait_until(stalled, "the queue is stalled")
    expect("health", "unhealthy: queue orders: stalled for TOOK, 1 waiting\n", fixed(out))
    semel("health", "--ready", "--stalled-after", "100ms")
    in_progress = {inbox["inbox"]: inbox["in_progress"] for inbox in ask(sockets()[0], {"ask": "stats"})["inboxes"]}
    expect("in progress", {"payments": 0, "mail.receipt": 1, "parcels": 0}, in_progress)
    write("release", "")
    wait_for("mail.receipt", processed=1)
    semel("health", "--stalled-after", "1h")
    run.stop()


def a_stopped_process_is_not_healthy():
    """One that is stopped while it has the store locked is tried again: then the store cannot be asked."""
    prepare()
    run = start()
    wait_until(rows, "the row is written")
    def asked():
        run.send(signal.SIGSTOP)
        done = subprocess.run([sys.argv[1], "health", "--timeout", "200ms"], stdout=subprocess.PIPE, check=False)
        run.send(signal.SIGCONT)
        return done.returncode == 1 and done.stdout.decode()
    expect("health", "unhealthy: process: no answer in time\n", wait_until(asked, "the store can be asked"))
    run.stop()


# --- the socket ----------------------------------------------------------------------------------


def a_reader_that_stops_reading():
    """Nothing is lost in the ledger, nothing waits for the reader, and it is told what it has missed."""
    count = 3500
    prepare()
    run = start("--set", "log.messages=none")
    client = Client(sockets()[0], {"ask": "tail", "inboxes": ["payments"]})
    publish_lines("orders", [f'{{"n": {n}}}' for n in range(count)], "--type", "bulk")
    wait_for("payments", processed=count)
    lines, lost = 0, 0
    while lines + lost < count:
        line = client.line()
        lost += line.get("lost", 0)
        lines += "outcome" in line
    expect("lines and what was lost", count, lines + lost)
    expect_true(lost > 0 and lines > 1000, f"{lines} lines, {lost} lost")
    publish_lines("orders", ['{"n": 999999}'], "--type", "paid")
    expect("the stream goes on", "999999", client.line()["key"])
    run.stop()
    shop = sqlite3.connect("shop.db")
    expect("the ledger", count + 1, shop.execute("SELECT count(DISTINCT n) FROM ledger").fetchone()[0])


def a_killed_process_leaves_a_socket():
    prepare()
    run = start()
    wait_until(rows, "the row is written")
    [old] = sockets()
    run.send(signal.SIGKILL)
    run.ends(-signal.SIGKILL)
    expect("the socket is left", [old], sockets())
    expect_true("no process is running semel.yaml" in semel("stats")[1], "a killed process is known to be gone")
    semel("health", status=1)
    run = start()
    [new] = sockets()
    expect_true(new != old, "the next one has its own")
    expect("health", 0, len(json.loads(semel("health", "--json")[0])["problems"]))
    second = start()
    expect("sockets of two processes", 2, len(sockets()))
    out, _ = semel("health")
    expect("health of two", ["healthy: pid PID: up TOOK; store, 1 relay; no outcome yet"] * 2, fixed(out).splitlines())
    second.send(signal.SIGINT)
    second.send(signal.SIGINT)  # at once, or after the first one has ended it
    wait_until(lambda: second.process.poll() is not None, "the second one ends")
    expect("it has removed its socket", [new], sockets())
    run.stop()


def another_user_is_refused():
    if os.geteuid() != 0:
        return
    prepare()
    start()
    [path] = sockets()
    code = ("import socket,sys\ns = socket.socket(socket.AF_UNIX)\n"
            "try:\n s.connect(sys.argv[1]); print(s.recv(1000).decode())\n"
            "except OSError as e: print(type(e).__name__)\n")
    def connect():
        return subprocess.run(["/usr/bin/python3", "-c", code, path], user=pwd.getpwnam("nobody").pw_uid, group=65534,
                              extra_groups=[], stdout=subprocess.PIPE, timeout=DEADLINE_S, check=True).stdout.decode()
    os.chmod(os.getcwd(), 0o755)
    os.chmod(directory(), 0o755)
    expect("the directory is closed", "PermissionError\n", connect())
    os.chmod(os.path.dirname(path), 0o755)
    expect("the socket is closed", "PermissionError\n", connect())
    os.chmod(path, 0o666)
    expect("the process refuses", '{"error":"another user\'s process"}\n\n', connect())
    expect("modes at first", (0o40700, 0o140600), modes())


def modes():
    own_directory()
    os.chmod(os.path.join(directory(), "semel"), 0o700)
    run = start()
    found = [path for path in sockets() if f"/{run.pid}-" in path]
    return os.stat(os.path.dirname(found[0])).st_mode, os.stat(found[0]).st_mode


def bad_questions():
    prepare()
    run = start()
    [path] = sockets()
    for question in (b"\n", b"stats\n", b"{}\n", b'{"ask":"stop"}\n', b'{"ask":1}\n', b"\xff\xfe\n",
                     b"[" * 5000 + b"\n", b'{"ask":"tail","inboxes":[1]}\n',
                     b'{"ask":"tail","key":"xyz"}\n', b"x" * 70000 + b"\n"):
        expect_true("error" in ask(path, question), question[:20])
    gone = Client(path, {"ask": "health"})
    gone.close()
    silent = [Client(path) for _ in range(16)]
    wait_until(lambda: "error" in (ask(path, {"ask": "stats"}) or {}), "the seventeenth client is refused")
    for client in silent:
        client.close()
    wait_until(lambda: "inboxes" in (ask(path, {"ask": "stats"}) or {}), "there is room again")
    tails = [Client(path, {"ask": "tail"}) for _ in range(16)]
    for _ in range(3):  # one client more is refused in a round of the server, before which it has read these questions
        expect_true("error" in (ask(path, {"ask": "stats"}) or {}), "there is no room")
    publish_lines("orders", ['{"n": 1}'], "--type", "paid")
    for client in tails:
        expect_true(client.line()["inbox"] in ("payments", "parcels"), "each gets it, or what follows from it")
        client.close()
    expect_true("no error" not in run.stop(), "ended as always")


def lowest_free(pid):
    """The number that the next descriptor of the process gets."""
    used = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    return min(set(range(len(used) + 1)) - used)


def no_descriptor_is_free():
    """A client waits until there is one again. Silent clients take what is free below the limit, which poll() needs to
    be larger than the number of clients."""
    prepare()
    run = start()
    wait_until(rows, "the row is written")
    [path] = sockets()
    silent = []
    while lowest_free(run.pid) < 24:
        before = lowest_free(run.pid)
        silent.append(Client(path))
        wait_until(lambda seen=before: lowest_free(run.pid) > seen, "the client is accepted")
    limit = resource.prlimit(run.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(run.pid, resource.RLIMIT_NOFILE, (lowest_free(run.pid), limit[1]))
    client = Client(path, {"ask": "stats"})
    client.socket.settimeout(2)
    try:
        expect("an answer without a descriptor", None, client.file.readline())
    except TimeoutError:
        pass
    client.close()
    client = Client(path, {"ask": "stats"})
    resource.prlimit(run.pid, resource.RLIMIT_NOFILE, limit)
    expect_true("inboxes" in client.line(), "it answers when there is one")
    for one in (client, *silent):
        one.close()
    wait_until(lambda: "inboxes" in (ask(path, {"ask": "stats"}) or {}), "there is room again")
    run.stop()


def no_directory_can_be_used():
    prepare()
    os.environ["XDG_RUNTIME_DIR"] = "/" + "x" * 200  # too long for a socket, and not there
    os.environ["RUNTIME_DIRECTORY"] = os.getcwd() + "/elsewhere"
    os.symlink("/tmp", "elsewhere")
    run = start()
    names = [name for name in os.listdir("/tmp") if name.startswith(f"{run.pid}-")]
    expect("a symbolic link is not followed", [], names)
    publish_lines("orders", ['{"n": 1}'], "--type", "paid")
    wait_for("payments", processed=1)
    run.stop()
    del os.environ["RUNTIME_DIRECTORY"]


# --- its life ------------------------------------------------------------------------------------


def reloads_are_survived():
    prepare()
    run = start()
    followed = tail("--json")
    publish_lines("orders", ['{"n": 1}'], "--type", "paid")
    followed.says('"key":"1"')
    write("semel.yaml", read("semel.yaml") + "  more: { from: orders, types: [more], exec: [./mail.sh] }\n")
    run.send(signal.SIGHUP)
    run.says("reload: done")
    publish_lines("orders", ['{"n": 2}'], "--type", "paid")
    publish_lines("orders", ["ok"], "--type", "more")
    followed.says('"inbox":"more"')
    followed.says('"key":"2"')
    wait_for("more", processed=1)
    expect("counters stay", 2, stats()["processed"])
    semel("health")
    run.stop()


def once_leaves_nothing():
    prepare()
    semel("run", "--once")
    expect("rows", [], rows())
    expect("sockets", [], sockets())


def processes_of_other_hosts():
    prepare()
    run = start()
    wait_until(rows, "the row is written")
    shop = sqlite3.connect("shop.db", timeout=DEADLINE_S)
    [row] = rows()
    row["counts"] = [{"inbox": "payments", "processed": 41, "duplicates": 1}]
    shop.execute("INSERT INTO semel_process SELECT ?, ?, pid, started_ms, seen_ms, '', ? FROM semel_process",
                 (str(uuid.uuid4()), "host-2\x1b[31m", json.dumps(row)))
    shop.commit()
    shop.close()
    publish_lines("orders", ['{"n": 1}'], "--type", "paid")
    wait_for("payments", processed=42)
    out, err = semel("stats", "--inbox", "payments")
    expect_true("payments 42 1 0" in fixed(out), out)
    expect("what stats says", "since DATE, 2 processes; as of its last report: host-2\\x1b[31m pid PID\n", fixed(err))
    followed = tail()
    followed.says("not reachable from here, and not shown: host-2\\x1b[31m pid ")
    run.stop()


# --- on PostgreSQL -------------------------------------------------------------------------------


def two_processes_on_servers():
    schema = f"live_{uuid.uuid4().hex[:8]}"
    url = servers()["POSTGRES_URL"]
    prepare(store=f"{url}{'&' if '?' in url else '?'}schema={schema}")
    runs = [start(), start()]
    followed = tail("--json", "--inbox", "payments")
    wait_until(lambda: "2 processes" in semel("stats")[1], "both have written their rows")
    wait_until(lambda: followed.text().count("showing ") == 2, "both are followed")
    publish_lines("orders", [f'{{"n": {n}}}' for n in range(200)], "--type", "paid", "--copies", "2")
    wait_for("payments", processed=200, duplicates=200)
    wait_until(lambda: followed.text().count('"outcome"') == 400, lambda: followed.text()[-500:])
    expect("health", 2, len(semel("health")[0].splitlines()))
    runs[0].send(signal.SIGKILL)
    runs[0].ends(-signal.SIGKILL)
    wait_until(lambda: ", 1 process" in semel("stats")[1], "one is left")
    runs[1].stop()
    expect_true("no process is running" in semel("stats")[1], "none is left")


def rows_after_the_end_on_servers():
    """A process that ends removes its row, and rows of processes that were killed more than a day ago."""
    for kind in ("postgres", "mariadb"):
        with place(kind) as store:
            prepare(store=store.url)
            run = start()
            wait_until(lambda: store.ask("SELECT count(*) FROM semel_process") == [("1",)], f"the row, on {kind}")
            for row, age_ms in (("long-ago", 2 * 86400000), ("just-now", 0)):
                store.ask("INSERT INTO semel_process (id, host, pid, started_ms, seen_ms, socket, data) "
                          f"SELECT '{row}', host, pid, started_ms, seen_ms - {age_ms}, socket, data "
                          "FROM semel_process LIMIT 1")
            run.stop()
            expect(f"rows, on {kind}", [("just-now",)], store.ask("SELECT id FROM semel_process"))


CHECKS = [without_a_process, what_a_process_counts, what_fails, lines_name_their_letters, unrouted, filters_of_tail,
          keys_are_hidden, closed_pipe,
          a_broker_is_away, a_handler_hangs, a_stopped_process_is_not_healthy, a_reader_that_stops_reading,
          a_killed_process_leaves_a_socket, another_user_is_refused, bad_questions, no_descriptor_is_free,
          no_directory_can_be_used,
          reloads_are_survived, once_leaves_nothing, processes_of_other_hosts]
if "SEMEL_TEST_SERVERS" in os.environ:
    CHECKS += [two_processes_on_servers, rows_after_the_end_on_servers]
if __name__ == "__main__":
    main(*CHECKS)
