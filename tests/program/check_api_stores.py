#!/usr/bin/python3
"""check_api_stores.py PROGRAM [CHECK...]: the API and /readyz on PostgreSQL and MariaDB, with two processes on one
store, and with a server that hangs: it takes connections and bytes, and answers nothing."""
import contextlib
import os
import re
import select
import socket
import threading
import time
import uuid

from api_kit import TOKEN, Shop
from program_kit import DEADLINE_S, RUNNING, expect, expect_true, main, publish_lines, wait_until, write
from store_kit import place


class Passage:
    """Passes bytes on between clients and a server, until it is frozen."""

    def __init__(self, url):
        self.host, self.port = re.search(r"@([^:/]+):(\d+)/", url).groups()
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.url = url.replace(f"@{self.host}:{self.port}/", f"@127.0.0.1:{self.listening.getsockname()[1]}/")
        self.flows = threading.Event()
        self.flows.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            client, _ = self.listening.accept()
            threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client):
        self.flows.wait()
        with client, socket.create_connection((self.host, int(self.port))) as server:
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    self.flows.wait()
                    try:
                        some = ready.recv(65536)
                        if not some:
                            return
                        (server if ready is client else client).sendall(some)
                    except OSError:
                        return


def took(work):
    began = time.monotonic()
    return work(), time.monotonic() - began


def on_each(check):
    for kind in ("postgres", "mariadb"):
        with place(kind) as store:
            try:
                check(store.url)
            finally:
                for run in RUNNING:
                    run.kill()
                RUNNING.clear()


def readiness(shop):
    status, _, text = shop.raw("GET", "/readyz?verbose")
    return status, text.decode()


# --- two processes ------------------------------------------------------------------------------------------------


def two(url):
    with contextlib.suppress(FileNotFoundError):
        os.remove("mended")
    first = Shop(store=f'"{url}"')
    second = Shop.another()
    for shop in (first, second):  # what is done from now on is counted by both
        wait_until(lambda: shop.get("overview")["processes"] == 2, "both are seen")
    publish_lines("orders", [f'{{"n": {n}}}' for n in range(40)], "--type", "paid", "--copies", "2")
    publish_lines("orders", ["letter 0", "letter 1", "letter 2"], "--type", "mail")
    for shop in (first, second):
        wait_until(lambda: (o := shop.get("overview"))["processes"] == 2 and o["dead"]["letters"] == 3 and
                   o["outbox"]["unsent"] == 0, lambda: f"both are seen: {shop.get('overview')}")
        inboxes = wait_until(lambda: (i := {i["name"]: i for i in shop.get("inboxes")["inboxes"]}) and
                             (i["payments"]["processed"], i["payments"]["suppressed"]) == (40, 40) and i,
                             lambda: f"what both did is added up: {shop.get('inboxes')}")
        expect("letters", 3, inboxes["mail"]["dead"])
        totals = {"processed": 80, "suppressed": 40, "dead": 3, "sent": 40}
        wait_until(lambda: {name: shop.get("overview")["totals"][name] for name in totals} == totals,
                   lambda: f"the totals are those of both: {shop.get('overview')['totals']}", 15)
        rows = wait_until(lambda: len(r := shop.get("inboxes/payments")["rows"]) == 40 and
                          sum(row["copies"] for row in r) == 40 and r,
                          lambda: f"the history of both: {shop.get('inboxes/payments')}")
        expect("each once", {1}, {row["strip"]["processed"] for row in rows})
        expect("the search", ["payments"], [hit["inbox"] for hit in shop.get("find?key=7")["results"]])
        expect("the queues are empty", [0, 0, 0], [queue["ready"] for queue in shop.get("queues")["queues"]])
    write("mended", "")
    job = second.do("dead.retry", {"inbox": "mail"}, who="mira")
    expect("retried through the second", {"processed": 3}, job["outcomes"])
    wait_until(lambda: first.get("overview")["dead"]["letters"] == 0, "the first one sees that")
    expect("in the audit of both", [1, 1], [len([e for e in shop.get("audit")["entries"] if e["count"] == 3])
                                           for shop in (first, second)])
    if not url.startswith("postgres"):
        return  # the rest is the same everywhere, and takes a while
    second.run.kill()
    wait_until(lambda: first.get("overview")["processes"] == 1, "one that was killed is counted no more",
               DEADLINE_S * 2)


def two_processes():
    on_each(two)


# --- a server that hangs ------------------------------------------------------------------------------------------


def hang(url):
    passage = Passage(url)
    # so the questions of one are answered late, and those of the other one fail
    answer = "60s" if url.startswith("postgres") else "2s"
    shop = Shop(store=f'{{ url: "{passage.url}", busy: 2s, answer: {answer} }}')
    publish_lines("orders", ['{"n": 1}'], "--type", "paid")
    wait_until(lambda: shop.get("overview")["totals"]["processed"] == 2, "it works")
    wait_until(lambda: readiness(shop)[0] == 200, lambda: f"it is ready: {readiness(shop)}")
    passage.flows.clear()
    wait_until(lambda: readiness(shop)[0] == 503, lambda: f"it is not ready any more: {readiness(shop)}")
    expect_true("[-]store failed: " in readiness(shop)[1], f"it says why: {readiness(shop)}")
    shop.raw("GET", "/metrics")
    for path in ("overview", "inboxes", "outboxes", "queues", "gateway", "config", "session"):
        _, seconds = took(lambda: shop.get(path))
        expect_true(seconds < 5, f"{path} is answered from memory: {seconds} s")
    answers = {}

    def question(path):
        answers[path] = took(lambda: shop.raw("GET", "/api/v1/" + path))

    def change():
        answers["a change"] = took(lambda: shop.raw(
            "POST", "/api/v1/actions/preview", b'{"action": "dead.retry", "filter": {}}', X_Semel_Token=TOKEN,
            X_Semel_Request=str(uuid.uuid4()), Content_Type="application/json"))
    paths = ("inboxes/payments", "messages?inbox=payments&key=1", "find?key=1", "dead", "dead/groups", "audit",
             "outboxes/shipping")
    threads = [threading.Thread(target=question, args=(path,)) for path in paths]
    threads.append(threading.Thread(target=change))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    expect("all were answered", sorted((*paths, "a change")), sorted(answers))
    for path, ((status, fields, body), seconds) in answers.items():
        expect(path, (503, "application/problem+json"), (status, fields["Content-Type"]))
        expect_true(b"store-unreachable" in body and seconds < 30, f"{path}: {seconds} s, {body}")
    wait_until(lambda: ("unreachable", "Store is unreachable") in [(a["severity"], a["title"]) for a in
                                                                   shop.get("overview")["attention"]],
               lambda: f"the overview says so: {shop.get('overview')['attention']}")
    expect("the store", "unreachable", shop.get("overview")["stores"][0]["state"])
    passage.flows.set()
    wait_until(lambda: readiness(shop)[0] == 200, lambda: f"it is ready again: {readiness(shop)}", DEADLINE_S * 2)
    wait_until(lambda: shop.get("overview")["stores"][0]["state"] == "ok", "the overview says so")
    expect("questions are answered", 1, len(shop.get("inboxes/payments?key=1")["rows"]))
    expect("with the token", True, shop.get("session", X_Semel_Token=TOKEN)["token_valid"])
    shop.run.stop()


def hung():
    on_each(hang)


def hung_at_the_end():
    """A process whose store hangs ends all the same."""
    with place("postgres") as store:
        passage = Passage(store.url)
        shop = Shop(store=f'{{ url: "{passage.url}", busy: 1s, answer: 1s }}', more="drain: 1s\n")
        passage.flows.clear()
        threading.Thread(target=lambda: shop.raw("GET", "/api/v1/dead"), daemon=True).start()
        wait_until(lambda: readiness(shop)[0] == 503, "it hangs")
        _, seconds = took(lambda: shop.run.process.terminate() or shop.run.process.wait(DEADLINE_S))
        expect_true(seconds < 40, f"it ends: {seconds} s")
        passage.flows.set()


main(two_processes, hung, hung_at_the_end)
