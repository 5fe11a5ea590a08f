#!/usr/bin/python3
"""check_gateway.py PROGRAM [CHECK...]: the idempotent proxy of the gateway, before an upstream that counts its effects.

One effect and one answer for each key, whoever dies when; an outcome that is unknown is said to be unknown."""
import contextlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

from gateway_kit import Upstream, ask, config, free_port, in_threads, join, problem_of, raw, start
from program_kit import DEADLINE_S, RUNNING, Run, expect, expect_true, main, semel, wait_until
from store_kit import place

NO_ANSWER = (OSError, http.client.HTTPException)


@contextlib.contextmanager
def gateway(route="", gateway_lines="", store="sqlite:shop.db", more=""):
    up, port = Upstream(), free_port()
    try:
        config(up, port, route, gateway_lines, store, more)
        yield up, port, start()
    finally:
        up.close()


# --- what callers see -------------------------------------------------------------------------------------------------

def twice():
    with gateway("replay_headers: [X-Request-Id]\nmethods: [POST, PUT, GET, HEAD]") as (up, port, run):
        trace = "00-" + "1" * 32 + "-" + "2" * 16 + "-01"
        first = ask(port, key='"order-7"', body=b'{"a": 1}', headers={
            "Cookie": "c=1", "Connection": "close, X-Mine", "X-Mine": "1", "X-Forwarded-For": "192.0.2.7",
            "traceparent": trace})
        again = ask(port, key="order-7", body=b'{"a": 1}')
        expect("effects", 1, up.count("order-7"))
        expect("status", (201, 201), (first.status, again.status))
        expect("body", first.body, again.body)
        expect("replayed", (None, "true"), tuple(a.headers.get("idempotent-replayed") for a in (first, again)))
        expect("type", "application/json", again.headers["content-type"])
        expect("kept", "r1", again.headers["x-request-id"])
        expect("cookie", ("session=secret", None), tuple(a.headers.get("set-cookie") for a in (first, again)))
        expect("of one hop", (None, None), tuple(first.headers.get(name) for name in ("x-hop", "x-hop-too")))
        seen = up.seen[0][2]
        expect("passed on", ("192.0.2.7, 127.0.0.1", f"127.0.0.1:{port}", "http", "1.1 semel", None, "c=1"),
               tuple(seen.get(name) for name in ("X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Via",
                                                 "X-Mine", "Cookie")))
        expect("trace", trace, seen["traceparent"])
        hops = head("Connection: X-Mine", "Connection: X-Other", "X-Mine: 1", "X-Other: 2", "Idempotency-Key: hops",
                    "Content-Length: 0")
        expect_true(b" 201 " in raw(port, hops).split(b"\r\n")[0], "several Connection headers")
        expect("those of one hop", (None, None), tuple(up.seen[-1][2].get(name) for name in ("X-Mine", "X-Other")))
        expect("other body", (422, "key-reused"), told(ask(port, key="order-7", body=b'{"a": 2}')))
        expect("other query", (422, "key-reused"), told(ask(port, "/v1/ok?x=1", key="order-7", body=b'{"a": 1}')))
        expect("other method", (422, "key-reused"), told(ask(port, key="order-7", body=b'{"a": 1}', method="PUT")))
        expect("other type", (422, "key-reused"), told(ask(port, key="order-7", body=b'{"a": 1}',
                                                           headers={"Content-Type": "text/plain"})))
        expect("effects", 2, sum(up.effects.values()))
        for method in ("GET", "HEAD"):  # which change nothing
            expect(method, 201, ask(port, method=method, body=None).status)
        expect("restarted", 0, run.stop() and 0)
        start()
        expect("after a restart", again._replace(headers=None),
               ask(port, key="order-7", body=b'{"a": 1}')._replace(headers=None))


def told(answer):
    return answer.status, problem_of(answer)


def keys():
    route = "identity: [Authorization, X-Account]"
    more = "    - { path: /open/*, name: open, key_required: false, proxy: 'http://127.0.0.1:%d' }\n"
    up, port = Upstream(), free_port()
    config(up, port, route, more=more % up.port)
    start()
    expect("missing", (400, "missing-key"), told(ask(port)))
    for bad in ("", '""', '"a', 'a"b', "a b", '"a" "b"', "x" * 256, '"' + "x" * 256 + '"', '"a\\b"', "\u00e9"):
        expect(f"bad key {bad!r}", (400, "bad-key"), told(ask(port, key=bad.encode("latin-1"))))
    two = head("Idempotency-Key: a", "Idempotency-Key: b", "Content-Length: 0")
    expect_true(b"400" in raw(port, two).split(b"\r\n")[0], "two keys")
    expect("no effect", 0, sum(up.effects.values()))
    for good in ("x" * 255, '"' + "y" * 255 + '"', '"a b\\"c"', "~!,;"):
        expect(f"good key {good!r}", 201, ask(port, key=good).status)
    callers = [{}, {"Authorization": "Bearer one"}, {"Authorization": "Bearer two"}, {"X-Account": "Bearer one"}]
    bodies = {ask(port, key="same", headers=caller).body for caller in callers}
    expect("each caller has an effect", (4, 4), (up.count("same"), len(bodies)))
    expect("and its own answer", bodies, {ask(port, key="same", headers=caller).body for caller in callers})
    stored = b"".join(open(name, "rb").read() for name in os.listdir(".") if name.startswith("shop.db"))
    expect_true(b"Bearer" not in stored, "no identity is stored")
    expect("unprotected", [201, 201], [ask(port, "/open/ok").status for _ in range(2)])
    expect("unprotected", 2, up.count(""))
    expect("with a key", [201, 201], [ask(port, "/open/ok", key="k").status for _ in range(2)])
    expect("with a key", 1, up.count("k"))
    up.close()


def routes():
    more = "    - { path: /v1/exact, name: exact, rate: 2, body_max: 100B, proxy: 'http://127.0.0.1:%d' }\n"
    up, port = Upstream(), free_port()
    config(up, port, more=more % up.port)
    start()
    got = ask(port, method="DELETE")
    expect("method", (405, "method-not-allowed", "POST"), (*told(got), got.headers["allow"]))
    expect("path", (404, "no-route"), told(ask(port, "/v2/ok", key="k")))
    expect("path", (404, "no-route"), told(ask(port, "/v1", key="k")))
    for path in ("/v1/../admin", "/v1/%2e%2e/admin", "/v1/./ok", "/v1/..;/admin", "/v1/%2e%2e%3bx/admin", "/v1/a%00b",
                 "/v1/a%0ab"):
        expect(path, 400, ask(port, path, key="k").status)
    expect("the longer one", 413, ask(port, "/v1/exact", key="large", body=b"x" * 101).status)
    expect("slashes are one", 413, ask(port, "//v1//exact", key="large", body=b"x" * 101).status)
    expect("the other", 201, ask(port, "/v1/exact/ok", key="large", body=b"x" * 101).status)
    limited = wait_until(lambda: next((a for a in (ask(port, "/v1/exact", key="r") for _ in range(5))
                                       if a.status == 429), None), "a limit")
    expect("limited", ("rate-limited", "1"), (problem_of(limited), limited.headers["retry-after"]))
    wait_until(lambda: ask(port, "/v1/exact", key="r").status == 201, "the limit is over")
    up.close()


# --- copies at once ---------------------------------------------------------------------------------------------------

def together_on(store):
    """Those that wait hold no worker: there are two, and another key gets through."""
    with gateway("wait: 50s", "workers: 2", store) as (up, port, _):
        threads, answers = in_threads(64, lambda _: ask(port, "/v1/hold", key="one"))
        wait_until(lambda: up.count("one"), "the first arrives")
        expect("another", [201] * 3, [ask(port, key=f"other-{i}").status for i in range(3)])
        expect("differs", (422, "key-reused"), told(ask(port, "/v1/hold", key="one", body=b"other")))
        up.go.set()
        join(threads)
        expect("one effect", 1, up.count("one"))
        expect("one answer", {(201, b'{"effect": "one#1", "got": "{}"}')}, {(a.status, a.body) for a in answers})
        expect("one is the first", 63, sum(a.headers.get("idempotent-replayed") == "true" for a in answers))


def together():
    together_on("sqlite:shop.db")


def in_flight():
    route = "on_in_flight: report"
    more = "    - { path: /short/*, name: short, wait: 300ms, proxy: 'http://127.0.0.1:%d' }\n"
    up, port = Upstream(), free_port()
    config(up, port, route, more=more % up.port)
    start()
    for path in ("/v1/hold", "/short/hold"):
        threads, answers = in_threads(1, lambda _, path=path: ask(port, path, key=path))
        wait_until(lambda path=path: up.count(path), "the first arrives")
        got = ask(port, path, key=path)
        expect(path, (409, "in-flight", "1"), (*told(got), got.headers["retry-after"]))
        up.go.set()
        join(threads)
        up.go.clear()
        expect(path, (201, 1), (answers[0].status, up.count(path)))
    up.close()


def two_processes_on(store):
    """A copy in another process waits for the answer, and gets it from the store."""
    with gateway("wait: 50s", store=store) as (up, port, _):
        other = free_port()
        start("--set", f"gateway.listen=127.0.0.1:{other}")
        threads, answers = in_threads(8, lambda i: ask((port, other)[i % 2], "/v1/hold", key="one"))
        wait_until(lambda: up.count("one"), "the first arrives")
        up.go.set()
        join(threads)
        expect("one answer", {(201, b'{"effect": "one#1", "got": "{}"}')}, {(a.status, a.body) for a in answers})
        expect("one effect", 1, up.count("one"))


def two_processes():
    two_processes_on("sqlite:shop.db")


# --- unknown outcomes -------------------------------------------------------------------------------------------------

def unknown():
    with gateway("timeout: 700ms\nresponse_max: 10KiB") as (up, port, run):
        ask(port, key="warm")  # a connection is kept, on which libcurl would send the next request twice
        for way in ("die", "hang", "garbage", "partial"):
            first, copy = ask(port, f"/v1/{way}", key=way), ask(port, f"/v1/{way}", key=way)
            expect(way, [(502, "outcome-unknown")] * 2, [told(first), told(copy)])
            expect(way, (None, "true"), tuple(a.headers.get("idempotent-replayed") for a in (first, copy)))
            expect(way, 1, up.count(way))
        said = json.loads(copy.body)
        expect("what to do", ("semel inbox show anyone:partial", "semel inbox forget gateway.charges anyone:partial"),
               (said["look"], said["forget"]))
        expect_true("unknown" in semel(*said["look"].split()[1:])[0], "an operator sees it")
        semel(*said["forget"].split()[1:], "--yes")
        expect("sent again", (502, 2), (ask(port, "/v1/partial", key="partial").status, up.count("partial")))
        expect("large", [(502, "answer-too-large")] * 2, [told(ask(port, "/v1/big", key="big")) for _ in range(2)])
        expect("large", 1, up.count("big"))
        unclear_answers(up, port)
        expect_true('"unknown_outcome"' in run.text(), "it is in the log")


def taken_over():
    """An attempt did not end, and a request with other content comes first: neither is told to take a new key."""
    with gateway("lease: 1s\nwait: 5s") as (up, port, run):
        in_threads(1, lambda _: ask(port, "/v1/hold", key="k", body=b"1"))
        wait_until(lambda: up.count("k"), "it arrives")
        run.send(signal.SIGKILL)
        run.ends(-signal.SIGKILL)
        start()
        answers = {}
        for body in (b"2", b"1", b"2"):
            wait_until(lambda body=body: answers.update({body: ask(port, "/v1/hold", key="k", body=body)})
                       or answers[body].status != 409, "the lease of the dead process is over")
            expect(body, (502, "outcome-unknown"), told(answers[body]))
        for n in range(8):  # new keys: after them the gateway claims a key before it looks for it
            ask(port, key=f"new-{n}")
        expect("the first content, later", (502, "outcome-unknown"), told(ask(port, "/v1/hold", key="k", body=b"1")))
        expect("it was sent once", 1, up.count("k"))
        up.go.set()


def unclear_answers(up, port):
    """After a 500 or a redirect nobody knows whether it was done; a 503 says that it was not."""
    up.failures = 1
    for way in ("500", "302"):
        first, copy = ask(port, f"/v1/{way}", key=way), ask(port, f"/v1/{way}", key=way)
        expect(f"{way} and its copy", (int(way), (502, "outcome-unknown")), (first.status, told(copy)))
        expect(way, 1, up.count(way))
    expect("503", [503] * 2, [ask(port, "/v1/503", key="503").status for _ in range(2)])
    expect("503", 2, up.count("503"))


def retried():
    """on_unknown: retry. A 5xx is not kept, an upstream that is away was not reached: the next copy is sent."""
    with gateway("on_unknown: retry\nreplay: [2xx, 404]") as (up, port, _):
        expect("retry", [(502, "outcome-unknown")] * 3, [told(ask(port, "/v1/die", key="r")) for _ in range(3)])
        expect("retry", 3, up.count("r"))
        up.failures = 2
        expect("5xx", [500, 500, 201, 201], [ask(port, "/v1/500", key="f").status for _ in range(4)])
        expect("5xx", 3, up.count("f"))
        expect("kept", [404] * 2, [ask(port, "/v1/404", key="n").status for _ in range(2)])
        expect("not kept", [422] * 2, [ask(port, "/v1/422", key="m").status for _ in range(2)])
        expect("by policy", (1, 2), (up.count("n"), up.count("m")))
        up.close()
        got = ask(port, key="away")
        expect("away", (502, "upstream-unreachable", "1"), (*told(got), got.headers["retry-after"]))
        again = Upstream(up.port)
        expect("back", (201, 1), (ask(port, key="away").status, again.count("away")))
        again.close()


def guarded():
    with gateway("private_addresses: false") as (up, port, _):
        expect("private", (502, "upstream-unreachable"), told(ask(port, key="k")))
        expect("not sent", 0, up.count("k"))


# --- kills ------------------------------------------------------------------------------------------------------------

class Load:
    """Clients that send each key several times until it is answered, whoever dies meanwhile."""

    def __init__(self, port, clients, ways=("ok",), keeps=False):
        self.port, self.ways, self.keeps = port, ways, keeps
        self.lock = threading.Lock()
        self.answers, self.failures, self.count = {}, [], 0
        self.ends = threading.Event()
        self.threads = in_threads(clients, self.work)[0]

    def work(self, me):
        turn = 0
        client = None
        if self.keeps and me % 2:
            client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        while not self.ends.is_set():
            turn += 1
            key = f"{me}-{turn}"
            for _ in range(3):
                self.ask(key, f"/v1/{self.ways[turn % len(self.ways)]}", client)
        if client:
            client.close()

    def ask(self, key, path, client):
        try:
            got = ask(self.port, path, key=key, keeps=client)
        except NO_ANSWER as why:
            with self.lock:
                self.failures.append(why)
            time.sleep(0.02)  # the process is away
            return
        with self.lock:
            self.count += 1
            self.answers.setdefault(key, set()).add((got.status, problem_of(got) if got.status != 201 else got.body))

    def stop(self):
        self.ends.set()
        join(self.threads)


def kill_under_load(store, kills, ways):
    with gateway("lease: 1s\nwait: 5s\ntimeout: 5s", store=store) as (up, port, run):
        load = Load(port, 8, ways)
        for _ in range(kills):
            wanted = load.count + random.randint(5, 40)
            wait_until(lambda wanted=wanted: load.count >= wanted, "work goes on")
            time.sleep(random.random() / 20)
            run.send(signal.SIGKILL)
            run.ends(-signal.SIGKILL)
            run = start()
        wanted = load.count + 40
        wait_until(lambda: load.count >= wanted, "work goes on")
        load.stop()
        twice = {key: count for key, count in up.effects.items() if count > 1}
        expect("effects of a key", {}, twice)
        final = {"outcome-unknown"}
        for key, answers in load.answers.items():
            kept = {answer for answer in answers if answer[0] == 201 or answer[1] in final}
            expect_true(len(kept) <= 1, f"{key} has several answers: {kept}")
            for status, body in kept:
                again = ask(port, f"/v1/{ways[int(key.split('-')[1]) % len(ways)]}", key=key)
                expect(f"{key} is replayed", (status, body),
                       (again.status, problem_of(again) if again.status != 201 else again.body))
        wait_until(lambda: settled(port, up, load, ways), "every key is settled", 30)


def settled(port, up, load, ways):
    """The keys that a kill left behind: the answer was stored, or the lease ends and the outcome is unknown."""
    open_keys = [key for key in up.effects
                 if not any(a[0] == 201 or a[1] == "outcome-unknown" for a in load.answers.get(key, ()))]
    for key in open_keys:
        got = ask(port, f"/v1/{ways[int(key.split('-')[1]) % len(ways)]}", key=key)
        if got.status == 409:
            return False
        expect(f"{key} is never sent again", 1, up.count(key))
        if got.status == 201:
            expect(f"{key} was stored", "true", got.headers.get("idempotent-replayed"))
        else:
            expect(f"{key} is unknown", (502, "outcome-unknown"), told(got))
        load.answers[key] = {(got.status, "outcome-unknown")}
    return True


def killed():
    kill_under_load("sqlite:shop.db", 4, ("ok", "ok", "die"))


# --- signals ----------------------------------------------------------------------------------------------------------

def reloaded():
    """Other limits and routes without a request that fails; another address; a config that cannot be used."""
    with gateway("wait: 50s") as (up, port, run):
        load = Load(port, 6, keeps=True)  # half of the clients keep their connections
        for body_max, reloads in (("2MiB", 1), ("1MiB", 2)):
            config(up, port, "wait: 40s", f"body_max: {body_max}\nworkers: {reloads + 5}")
            run.send(signal.SIGHUP)
            wait_until(lambda reloads=reloads: run.text().count('"done: ') == reloads, "reloaded")
            wanted = load.count + 20
            wait_until(lambda wanted=wanted: load.count >= wanted, "work goes on")
        load.stop()
        expect("no request fails", [], load.failures)
        expect("answers", set(), {a for all_of in load.answers.values() for a in all_of if a[0] != 201})
        expect("effects", {1}, set(up.effects.values()))
        expect_true('"level":"error"' not in run.text(), run.text())
        held, answers = in_threads(1, lambda _: ask(port, "/v1/hold", key="held"))
        wait_until(lambda: up.count("held"), "it arrives")
        other = free_port()
        config(up, other)
        run.send(signal.SIGHUP)
        wait_until(lambda: run.text().count('"done: ') == 3, "reloaded")
        expect("new address", 201, ask(other, key="new").status)
        wait_until(lambda: refused(port), "the old address is left")
        expect("still in hand", 1, up.count("held"))
        up.go.set()
        join(held)
        expect("answered by the old", 201, answers[0].status)
        taken = socket.create_server(("127.0.0.1", 0))
        config(up, taken.getsockname()[1])
        run.send(signal.SIGHUP)
        wait_until(lambda: "reload_refused" in run.text(), "refused")
        taken.close()
        expect("goes on", 201, ask(other, key="on").status)
        run.stop()


def refused(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        return False
    except OSError:
        return True


def stopped():
    """SIGTERM: what is in hand is answered. A second one ends at once, and the outcome is unknown."""
    with gateway("lease: 1s") as (up, port, run):
        load = Load(port, 4)
        wait_until(lambda: load.count >= 20, "work goes on")
        held, answers = in_threads(3, lambda _: ask(port, "/v1/hold", key="held"))
        wait_until(lambda: up.count("held"), "it arrives")
        run.send(signal.SIGTERM)
        run.says('"stopping"')
        wait_until(lambda: refused(port) or ask(port, key="late").status == 503, "no new requests")
        load.stop()
        up.go.set()
        join(held)
        run.ends(0)
        got = [getattr(a, "status", None) for a in answers]  # a copy may have come too late to be taken
        expect_true(201 in got and all(status in (201, 503, None) for status in got), f"answered: {got}")
        unanswered = [key for key in up.effects
                      if key != "held" and not any(a[0] == 201 for a in load.answers.get(key, ()))]
        expect("every effect was answered", [], unanswered)
        up.go.clear()
        run = start()
        held, answers = in_threads(1, lambda _: ask(port, "/v1/hold", key="cut"))
        wait_until(lambda: up.count("cut"), "it arrives")
        run.send(signal.SIGTERM)
        run.says('"stopping"')
        run.send(signal.SIGTERM)
        run.ends(128 + signal.SIGTERM)
        join(held)
        expect_true(isinstance(answers[0], NO_ANSWER), "it got no answer")
        start()
        wait_until(lambda: ask(port, "/v1/hold", key="cut", timeout=20).status == 502, "unknown")
        expect("not sent again", 1, up.count("cut"))


# --- strange requests -------------------------------------------------------------------------------------------------

def head(*lines):
    return "\r\n".join(("POST /v1/ok HTTP/1.1", "Host: x", "Connection: close", *lines, "", "")).encode()


def strange():
    with gateway("", "workers: 1\nrequest_timeout: 2s") as (up, port, _):
        slow = socket.create_connection(("127.0.0.1", port))
        slow.sendall(head("Idempotency-Key: slow", "Content-Length: 5") + b"ab")
        expect("while a client is slow", 201, ask(port, key="fast").status)
        chunked = head("Idempotency-Key: c", "Transfer-Encoding: chunked") + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
        expect_true(b"201" in raw(port, chunked).split(b"\r\n")[0], "chunked")
        expect("its body", b"abcde",
               next(body for _, _, headers, body in up.seen if headers["Idempotency-Key"] == "c"))
        for name, data in {
                "both lengths": head("Idempotency-Key: s1", "Content-Length: 4",
                                     "Transfer-Encoding: chunked") + b"0\r\n\r\n",
                "two lengths": head("Idempotency-Key: s2", "Content-Length: 4", "Content-Length: 5") + b"abcde",
                "bad length": head("Idempotency-Key: s3", "Content-Length: +4") + b"abcd",
                "bad coding": head("Idempotency-Key: s4", "Transfer-Encoding: xchunked") + b"0\r\n\r\n",
                "a folded coding": head("Idempotency-Key: s7", "Transfer-Encoding:", " chunked",
                                        "Content-Length: 3") + b"0\r\n\r\n",
                "a folded length": head("Idempotency-Key: s8", "Content-Length:", "\t4") + b"abcd",
                "a folded value": head("Idempotency-Key: s9", "X-Account: a", " b", "Content-Length: 0"),
                "a folded last header": head("Idempotency-Key: s10", "Content-Length: 0", "X-Account:", " a"),
                "a blank in the target": head("Idempotency-Key: s11",
                                              "Content-Length: 0").replace(b"/v1/ok", b"/v1/ok /x"),
                "bad chunk": head("Idempotency-Key: s5",
                                  "Transfer-Encoding: chunked") + b"zz\r\nabc\r\n0\r\n\r\n"}.items():
            got = raw(port, data, shut=True).split(b"\r\n")[0]
            expect_true(got == b"" or b" 400 " in got or b" 501 " in got, f"{name}: {got}")
        raw(port, head("Idempotency-Key: s6", "Content-Length: 50") + b"cut", shut=True)
        expect("the slow one is closed", b"", slow_end(slow))
        strays = [key for key in up.effects if key.startswith("s")]
        expect("none was passed on", [], strays)
        expect("still there", 201, ask(port, key="after").status)


def unreadable():
    """What is wrong with a request that can be read is a problem document. libmicrohttpd itself answers the rest, as
    docs/GATEWAY.md says: with a status that fits, and the connection ends."""
    with gateway() as (up, port, _):
        key = "Idempotency-Key: u"
        chunked = head(key, "Transfer-Encoding: chunked")
        for name, ours, status, data in (
                ("no Host", True, 400, b"POST /v1/ok HTTP/1.1\r\nIdempotency-Key: u\r\nContent-Length: 0\r\n\r\n"),
                ("two lengths", True, 400, head(key, "Content-Length: 1", "Content-Length: 2") + b"ab"),
                ("large headers", True, 431, head(key, "X: " + 40_000 * "a", "Content-Length: 0")),
                ("no number", False, 400, head(key, "Content-Length: +4") + b"abcd"),
                ("a huge number", False, 413, head(key, "Content-Length: " + 30 * "9")),
                ("no colon", False, 400, head(key, "Nothing", "Content-Length: 0")),
                ("no version", False, 400, b"POST /v1/ok\r\nIdempotency-Key: u\r\nContent-Length: 0\r\n\r\n"),
                ("another version", False, 505, head(key, "Content-Length: 0").replace(b"1.1", b"2.0")),
                ("huge headers", False, 431, head(key, "X: " + 200_000 * "a", "Content-Length: 0")),
                ("a huge target", False, 414, b"POST /v1/" + 200_000 * b"a" + b" HTTP/1.1\r\nHost: a\r\n\r\n"),
                ("no size of a chunk", False, 400, chunked + b"zz\r\nabc\r\n0\r\n\r\n"),
                ("a huge chunk", False, 413, chunked + b"fffffffffffffffffff\r\nabc\r\n0\r\n\r\n"),
                ("a huge extension", False, 500, chunked + b"3;" + 200_000 * b"x" + b"\r\nabc\r\n0\r\n\r\n")):
            got = raw(port, data, shut=True)  # which ends when the connection does
            if not got and len(data) > 65536:
                continue  # it was reset before the answer could be read
            expect(name, (status, ours), (int(got.split()[1]), b"application/problem+json" in got))
        expect("none was passed on", 0, up.count("u"))
        expect("still there", 201, ask(port, key="after").status)


def slow_end(client):
    client.settimeout(60)
    try:
        got = client.recv(4096)
        return b"" if not got or b" 408 " in got.split(b"\r\n")[0] else got
    except ConnectionResetError:
        return b""


# Every thread has the same keys, so each comes from several connections at once, and again later.
WRK = """
local threads, n = {}, 0
function setup(thread) table.insert(threads, thread) end
function init() unexpected = 0 end
function request()
    n = n + 1
    return wrk.format("POST", "/v1/ok", {["Idempotency-Key"] = "wrk-" .. n % %d}, "{}")
end
function response(status) if status ~= 201 and status ~= 409 then unexpected = unexpected + 1 end end
function done(summary)
    local e, sum = summary.errors, 0
    for _, thread in ipairs(threads) do sum = sum + thread:get("unexpected") end
    print("result " .. summary.requests .. " " .. sum .. " " .. e.connect + e.read + e.write + e.timeout)
end
"""


def under_wrk():
    count = 300
    with gateway("wait: 10s") as (up, port, _):
        with open("keys.lua", "w") as file:
            file.write(WRK.replace("%d", str(count)))
        said = ""
        while len(up.effects) < count:  # a busy machine needs more than one run
            said = subprocess.run(["wrk", "-t2", "-c16", "-d2s", "--timeout", "60s", "-s", "keys.lua",
                                   f"http://127.0.0.1:{port}"], stdout=subprocess.PIPE, check=True, text=True,
                                  timeout=DEADLINE_S).stdout
            requests, unexpected, broken = map(int, said[said.index("result "):].split()[1:4])
            expect("answers that are no answer", (0, 0), (unexpected, broken))
            expect_true(requests > 0, "requests")
        expect("an effect for each key", {1}, {up.count(f"wrk-{n}") for n in range(count)})


def starting():
    """It listens before the store is there: 503 with Retry-After, then it works."""
    up, port = Upstream(), free_port()
    os.mkdir("later")
    os.chmod("later", 0o500)
    config(up, port, store="postgres://nobody@127.0.0.1:1/none")
    run = Run("--set", "log.format=json")
    run.says('"outage"')
    got = ask(port, key="early")
    expect("early", (503, "unavailable", "1"), (*told(got), got.headers["retry-after"]))
    run.stop()
    taken = Run("--set", "log.format=json", "--set", f"gateway.listen=127.0.0.1:{up.port}")
    taken.ends(1)
    expect_true("gateway.listen" in taken.text(), taken.text())
    up.close()


# --- other stores -----------------------------------------------------------------------------------------------------

def on_servers():
    for kind in ("postgres", "mariadb"):
        for check in (together_on, two_processes_on, lambda url: kill_under_load(url, 2, ("ok",))):
            with place(kind) as store:
                check(store.url)
                for run in RUNNING:
                    run.kill()
                RUNNING.clear()


main(twice, keys, routes, together, in_flight, two_processes, unknown, taken_over, retried, guarded, killed, reloaded,
     stopped, strange, unreadable, starting, under_wrk, *((on_servers,) if "on_servers" in sys.argv else ()))
