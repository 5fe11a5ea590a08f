"""check_webhooks.py SEMEL [CHECK...]: webhooks and publish routes of `semel run`, by requests that Python signs."""
import contextlib
import json
import os
import re
import signal
import socket
import sqlite3
import threading
import urllib.parse

import webhook_kit as kit
from program_kit import DEADLINE_S, Run, expect, expect_true, main, read, semel, servers, wait_until, write

WHSEC = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
WHSEC_NEW = "whsec_" + kit.b64(b"another secret of 32 bytes, new.")
SEED = bytes(range(32))
OLD, NEW = "canary-old-secret", "canary-new-secret"

CONFIG = """\
version: 1
store: {store}
setup: CREATE TABLE IF NOT EXISTS seen (id VARCHAR(200), type VARCHAR(200), source VARCHAR(50), body TEXT)
queues:
  events: {{ url: store, lease: 1s }}
{queues}inboxes:
  seen:
    from: events
    fingerprint: none
    sql: "INSERT INTO seen VALUES (:id, :type, :source, :body)"
{inboxes}gateway:
  listen: 127.0.0.1:0
  routes:
{routes}log: {{ format: text }}
"""

PRESETS = """\
    - path: /standard
      preset: standard
      secret: ["${file:old.whsec}", "${file:new.whsec}", "${file:whpk}"]
      to: events
    - { path: /stripe, preset: stripe, secret: ["${file:old}", "${file:new}"], to: events }
    - { path: /github, preset: github, secret: ["${file:old}", "${file:new}"], to: events }
    - { path: /shopify, preset: shopify, secret: ["${file:old}", "${file:new}"], to: events }
    - { path: /slack, preset: slack, secret: ["${file:old}", "${file:new}"], to: events }
    - path: /own
      preset: hmac
      secret: ${file:old}
      key: header:X-Delivery
      hmac: { header: X-Sign, prefix: "s=", algorithm: sha512, encoding: base64, timestamp: X-Time,
              content: "{timestamp}|{body}" }
      to: events
    - { path: /digest, preset: hmac, secret: "${file:old}", key: digest, hmac: X-Sign, to: events }
"""


def start(routes, queues="", inboxes="", store="sqlite:shop.db"):
    write("old.whsec", WHSEC + "\n")
    write("new.whsec", WHSEC_NEW)
    write("whpk", "whpk_" + kit.b64(kit.ed25519_keys(SEED)[2]))
    write("old", OLD)
    write("new", NEW)
    write("semel.yaml", CONFIG.format(store=store, routes=routes, queues=queues, inboxes=inboxes))
    return again()


def again():
    run = Run("-c", "semel.yaml")
    run.says("ready in")
    found = re.search(r"gateway http://127\.0\.0\.1:(\d+)", run.text())
    expect_true(found, "the address of the gateway is shown:\n" + run.text())
    return run, kit.Gateway(int(found[1]), DEADLINE_S)


def rows(query="SELECT id, type, source, body FROM seen ORDER BY rowid"):
    with sqlite3.connect("shop.db", timeout=DEADLINE_S) as database:
        return database.execute(query).fetchall()


def seen(count):
    wait_until(lambda: len(rows()) >= count, lambda: f"{count} effects: {rows()}")
    return rows()


def problem(answer, status, word):
    expect(f"status of {answer.body!r}", status, answer.status)
    expect("type", "application/problem+json", answer.headers["content-type"])
    expect("problem", f"urn:semel:problem:{word}", answer.json()["type"])
    expect("status in it", status, answer.json()["status"])
    return answer.json()


def at_once(count, call):
    """What so many threads get that call it together."""
    together, got = threading.Barrier(count), []

    def one():
        together.wait(DEADLINE_S)
        got.append(call())
    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    return got


# --- presets ------------------------------------------------------------------------------------------------------

def senders():
    """(path, body, headers(secret), id, type) of each preset."""
    stripe_body = b'{"id": "evt_1", "object": "event", "type": "charge.succeeded", "pending_webhooks": 1}'
    slack_body = b'{"type": "event_callback", "event_id": "Ev08MFMKH6", "event": {"type": "reaction_added"}}'
    body = b'{"type":"contact.created", "n":1 }'

    def own(body, secret):
        at = str(kit.now())
        return {"X-Sign": "s=" + kit.b64(kit.mac(secret.encode(), at.encode() + b"|" + body, "sha512").digest()),
                "X-Time": at, "X-Delivery": "d-1"}
    return [("/standard", body, lambda s: kit.standard(body, "msg_1", [WHSEC if s == OLD else WHSEC_NEW]), "msg_1",
             "contact.created"),
            ("/stripe", stripe_body, lambda s: kit.stripe(stripe_body, s), "evt_1", "charge.succeeded"),
            ("/github", body, lambda s: kit.github(body, s), "72d3162e-cc78-11e3-81ab-4c9367dc0958", "push"),
            ("/shopify", body, lambda s: kit.shopify(body, s), "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043",
             "orders/create"),
            ("/slack", slack_body, lambda s: kit.slack(slack_body, s), "Ev08MFMKH6", "reaction_added"),
            ("/own", body, lambda s: own(body, OLD), "d-1", "contact.created")]


def presets():
    """Each sender: accepted under either secret, one effect for all copies, id, type and source as they should be."""
    run, gateway = start(PRESETS)
    for number, (path, body, headers, id_, type_) in enumerate(senders(), 1):
        for secret in (OLD, NEW, OLD):
            answer = gateway.post(path, body, headers(secret))
            expect(f"{path}: {answer.body!r}", 202, answer.status)
            expect("answer", {"outcome": "accepted", "id": id_}, answer.json())
        expect("effect", (id_, type_, path[1:], body.decode()), tuple(seen(number)[-1]))
    both = kit.standard(b"{}", "msg_2", seeds=[SEED])
    expect("v1a", 202, gateway.post("/standard", b"{}", both).status)
    two = kit.standard(b"{}", "msg_3", ["whsec_" + kit.b64(b"?" * 32), WHSEC])
    expect("one of several signatures fits", 202, gateway.post("/standard", b"{}", two).status)
    svix = kit.standard(b"{}", "msg_4", [WHSEC], prefix="svix-")
    for _ in range(2):
        answer = gateway.post("/standard", b"{}", svix)
        expect("svix", (202, "msg_4"), (answer.status, answer.json()["id"]))
    plain = {"X-Sign": kit.mac(OLD.encode(), b"no json").hexdigest()}
    for _ in range(2):
        answer = gateway.post("/digest", b"no json", plain)
        expect("digest", 202, answer.status)
        expect_true(re.fullmatch("[0-9a-f]{64}", answer.json()["id"]), f"the digest is the id: {answer.json()}")
    seen(10)
    run.stop()
    expect("each message has one effect", 10, len(rows()))
    text = run.text()
    expect_true("canary" not in text and WHSEC not in text, "a secret is in the log:\n" + text)


def refused():
    """Wrong, old, future and malformed signatures: 401, and nothing is stored."""
    run, gateway = start(PRESETS)
    for path, body, headers, _, _ in senders():
        problem(gateway.post(path, body), 401, "bad-signature")
        problem(gateway.post(path, body + b" ", headers(OLD)), 401, "bad-signature")
        wrong = {name: value[:-6] + ("AAAAA=" if value.endswith("=") else "aaaaaa") if "ign" in name or "Hmac" in name
                 else value for name, value in headers(OLD).items()}
        problem(gateway.post(path, body, wrong), 401, "bad-signature")
        answer = problem(gateway.post(path, body, {name: "x" for name in headers(OLD)}), 401, "bad-signature")
        expect("nothing is told of what was wrong", {"type", "title", "status"}, set(answer))
    body, hour = b'{"id": "evt_9"}', 3600
    for at in (kit.now() - hour, kit.now() + hour):
        problem(gateway.post("/stripe", body, kit.stripe(body, OLD, at=at)), 401, "signature-time")
        problem(gateway.post("/slack", body, kit.slack(body, OLD, at=at)), 401, "signature-time")
        problem(gateway.post("/standard", body, kit.standard(body, "m", [WHSEC], at=at)), 401, "signature-time")
        problem(gateway.post("/stripe", body, kit.stripe(body, "other", at=at)), 401, "bad-signature")
    changed = kit.standard(body, "msg_1", [WHSEC])
    problem(gateway.post("/standard", body, {**changed, "webhook-id": "msg_2"}), 401, "bad-signature")
    problem(gateway.post("/standard", body, {**changed, "webhook-timestamp": str(kit.now() + 1)}), 401, "bad-signature")
    svix = kit.standard(body, "msg_1", [WHSEC], prefix="svix-")
    problem(gateway.post("/standard", body, {**svix, "webhook-id": "msg_2"}), 401, "bad-signature")
    problem(gateway.post("/github", body, kit.github(body, OLD, delivery="")), 400, "missing-id")
    problem(gateway.post("/stripe", b"{}", kit.stripe(b"{}", OLD)), 400, "missing-id")
    problem(gateway.post("/stripe", b"[1", kit.stripe(b"[1", OLD)), 400, "missing-id")
    problem(gateway.post("/github", body, kit.github(body, OLD, delivery="x" * 1025)), 400, "bad-id")
    problem(gateway.post("/stripe", b'{"id":"a\\u0007"}', kit.stripe(b'{"id":"a\\u0007"}', OLD)), 400, "bad-id")
    run.stop()
    expect("no effects", [], rows())
    lines = [line for line in run.text().splitlines() if "bad signature" in line]
    expect_true(0 < len(lines) <= 20, f"the log has one line for a while and a route:\n{run.text()}")
    expect_true("canary" not in run.text(), "a secret is in the log:\n" + run.text())


def slack_challenge():
    run, gateway = start(PRESETS)
    body = b'{"token": "x", "challenge": "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmd", "type": "url_verification"}'
    answer = gateway.post("/slack", body, kit.slack(body, NEW))
    expect("challenge", (200, b"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmd"), (answer.status, answer.body))
    problem(gateway.post("/slack", body, kit.slack(body, "other")), 401, "bad-signature")
    run.stop()


def rotated():
    """A secret that is taken out of the file and a SIGHUP: its signatures are refused from then on."""
    run, gateway = start(PRESETS)
    body = b'{"id": "evt_1"}'
    expect("before", 202, gateway.post("/stripe", body, kit.stripe(body, OLD)).status)
    write("old", NEW)
    run.send(signal.SIGHUP)
    wait_until(lambda: gateway.post("/stripe", body, kit.stripe(body, OLD)).status == 401, "the old one is refused")
    expect("the new one", 202, gateway.post("/stripe", body, kit.stripe(body, NEW)).status)
    expect("both, as a sender does meanwhile", 202, gateway.post("/stripe", body, kit.stripe(body, OLD, NEW)).status)
    run.stop()


def killed():
    """kill -9 right after 202: the message is there."""
    run, gateway = start(PRESETS)
    for number in range(3):
        one = b'{"id": "evt_%d", "type": "a"}' % number
        answer = gateway.post("/stripe", one, kit.stripe(one, OLD))
        expect(f"accepted: {answer.body!r}\n{run.text()}", 202, answer.status)
        run.kill()
        run, gateway = again()
        expect("it is there", f"evt_{number}", seen(number + 1)[-1][0])
    one = b'{"id": "evt_0", "type": "a"}'
    expect("a copy", 202, gateway.post("/stripe", one, kit.stripe(one, OLD)).status)
    run.stop()
    expect("effects", ["evt_0", "evt_1", "evt_2"], sorted(row[0] for row in rows()))


HANDLER = """#!/bin/sh
read -r body
case $body in
*unhandled*) exit 1 ;;
*slow*) sleep 0.3 ;;
*once*) if [ ! -e tried ]; then : >tried; exit 1; fi ;;
esac
echo "$body" >>handled
"""


def answered():
    """Handled before the answer: 200, a copy 200, a failure 500 with Retry-After, a dead letter 422."""
    write("handle.sh", HANDLER, 0o700)
    run, gateway = start("    - { path: /direct, preset: github, secret: '${file:old}', inbox: direct }\n"
                         "    - { path: /sql, preset: stripe, secret: '${file:old}', inbox: direct.sql }\n",
                         inboxes="  direct: { attempts_max: 2, timeout: 5s, exec: [./handle.sh] }\n"
                                 "  direct.sql: { sql: \"INSERT INTO seen VALUES (:id, :type, :source, :body)\", "
                                 "on_mismatch: reject, fingerprint: body }\n")

    def send(body, id_):
        return gateway.post("/direct", body, kit.github(body, OLD, delivery=id_))
    for body, id_ in ((b"a", "1"), (b"b", "2")):
        answer = send(body, id_)
        expect("first", (200, {"outcome": "processed", "id": id_}), (answer.status, answer.json()))
    answer = send(b"a", "1")
    expect("copy", (200, {"outcome": "duplicate", "id": "1"}), (answer.status, answer.json()))
    answer = send(b"once", "3")
    problem(answer, 500, "failed")
    expect_true(int(answer.headers["retry-after"]) > 0, "Retry-After")
    expect("sent again", {"outcome": "processed", "id": "3"}, send(b"once", "3").json())
    problem(send(b"unhandled", "4"), 500, "failed")
    problem(send(b"unhandled", "4"), 422, "dead-letter")
    problem(send(b"unhandled", "4"), 422, "dead-letter")
    expect("handled once each", ["a", "b", "once"], sorted(read("handled").split()))
    expect_true("direct" in semel("dead", "ls")[0], "the dead letter is recorded")
    statuses = at_once(16, lambda: send(b"slow", "5").status)
    expect("copies at once wait for the first", [200] * 16, statuses)
    expect("and have one effect", 1, read("handled").split().count("slow"))
    body = b'{"id": "evt_1", "n": 1}'
    expect("sql", 200, gateway.post("/sql", body, kit.stripe(body, OLD)).status)
    expect("its effect is there at once", "evt_1", rows()[0][0])
    other = b'{"id": "evt_1", "n": 2}'
    for _ in range(2):  # a sender repeats what is refused, and it is one letter
        problem(gateway.post("/sql", other, kit.stripe(other, OLD)), 422, "mismatch")
    letters = [json.loads(line) for line in semel("dead", "ls", "--inbox", "direct.sql", "--json")[0].splitlines()]
    expect("what was refused is kept", ["refused by the inbox: mismatch"], [letter["error"] for letter in letters])
    expect_true('"n": 2' in semel("dead", "show", str(letters[0]["letter"]))[0], "with its message")
    write("handle.sh", "#!/bin/sh\nexit 0\n", 0o700)
    semel("dead", "retry", "--inbox", "direct", "--yes", "--wait", "60s")
    wait_until(lambda: "direct " not in semel("dead", "ls")[0], "the letter of an inbox without a queue is retried")
    run.stop()


# --- publishing ---------------------------------------------------------------------------------------------------

PUBLISH = """\
    - { path: /events, to: events, token: ["${file:old}", "${file:new}"], body_max: 64KiB }
    - { path: /open, to: events, methods: [POST, PUT] }
"""


def publish():
    run, gateway = start(PUBLISH)
    answer = gateway.post("/events", b"x")
    problem(answer, 401, "bad-token")
    expect_true(answer.headers["www-authenticate"].startswith("Bearer"), "WWW-Authenticate")
    for word in (f"Bearer {OLD}x", f"Basic {OLD}", "Bearer", f"Bearer {OLD[:-1]}"):
        problem(gateway.post("/events", b"x", {"Authorization": word}), 401, "bad-token")
    for number, token in enumerate((OLD, NEW)):
        answer = gateway.post("/events", b"raw", {"Authorization": f"Bearer {token}", "Ce-Type": "a"})
        expect("published", 202, answer.status)
        expect_true(re.fullmatch("[0-9a-f-]{36}", answer.json()["ids"][0]), f"an id is made: {answer.json()}")
        expect("effect", (answer.json()["ids"][0], "a", None, "raw"), tuple(seen(number + 1)[-1]))
    for key in ("k-1", '"k-1"'):
        expect("key", ["k-1"], gateway.post("/open", b"keyed", {"Idempotency-Key": key}).json()["ids"])
    binary = {"ce-specversion": "1.0", "ce-id": "e-1", "ce-source": "/shop%20eu", "ce-type": "order.placed",
              "ce-time": "2026-01-02T03:04:05Z", "ce-tenant": "t1", "content-type": "text/plain"}
    expect("binary", ["e-1"], gateway.post("/open", b"hello", binary, "PUT").json()["ids"])
    expect("effect", ("e-1", "order.placed", "/shop eu", "hello"), tuple(seen(4)[-1]))
    event = {"specversion": "1.0", "id": "e-2", "source": "s", "type": "t", "data": {"n": 1}}
    structured = {"Content-Type": "application/cloudevents+json; charset=utf-8"}
    expect("structured", ["e-2"], gateway.post("/open", json.dumps(event), structured).json()["ids"])
    batch = {"Content-Type": "application/cloudevents-batch+json"}
    events = [{**event, "id": f"b-{i}"} for i in range(3)]
    expect("batch", ["b-0", "b-1", "b-2"], gateway.post("/open", json.dumps(events), batch).json()["ids"])
    expect("an empty batch", {"ids": []}, gateway.post("/open", "[]", batch).json())
    seen(8)
    run.stop()
    expect("effects", 8, len(rows()))


def publish_refused():
    run, gateway = start(PUBLISH)
    event = {"specversion": "1.0", "id": "e", "source": "s", "type": "t"}
    batch = {"Content-Type": "application/cloudevents-batch+json"}
    bad = [event, {**event, "type": ""}, event, {"specversion": "1.0"}, 7]
    errors = problem(gateway.post("/open", json.dumps(bad), batch), 400, "bad-message")["errors"]
    expect("which of the batch", [1, 3, 4], [error["index"] for error in errors])
    expect_true("type" in errors[0]["detail"], f"what is wrong: {errors[0]}")
    for body in ("{}", "[", "", "[1,]", json.dumps(event)):
        problem(gateway.post("/open", body, batch), 400, "bad-message")
    structured = {"Content-Type": "application/cloudevents+json"}
    for body in ("{}", "[]", "x", ""):
        problem(gateway.post("/open", body, structured), 400, "bad-message")
    problem(gateway.post("/open", json.dumps(event), {**structured, "Idempotency-Key": "other"}), 400, "bad-message")
    errors = problem(gateway.post("/open", b"", {"ce-specversion": "1.0", "ce-id": "1"}), 400, "bad-message")["errors"]
    expect_true("source" in errors[0]["detail"], f"what is missing: {errors}")
    problem(gateway.post("/open", b"", {"ce-specversion": "0.3", "ce-id": "1", "ce-source": "s", "ce-type": "t"}), 400,
            "bad-message")
    problem(gateway.post("/open", b"", {"ce-id": "1", "Idempotency-Key": "2"}), 400, "bad-message")
    problem(gateway.post("/open", b"", {"Idempotency-Key": "x" * 256}), 400, "bad-message")
    problem(gateway.post("/open", b"", {"ce-time": "yesterday"}), 400, "bad-message")
    problem(gateway.post("/open", b"", {"ce-source": "%00"}), 400, "bad-message")
    problem(gateway.post("/open", json.dumps([event] * 1001), batch), 413, "too-large")
    problem(gateway.post("/open", b"", {"Content-Type": "application/cloudevents+xml"}), 415, "unsupported-type")
    problem(gateway.post("/open", b"x", {"Content-Encoding": "gzip"}), 415, "unsupported-type")
    latin = {"Content-Type": "application/cloudevents+json; charset=latin1"}
    problem(gateway.post("/open", b"{}", latin), 415, "unsupported-type")
    large = gateway.post("/events", b"x" * 70000, {"Authorization": f"Bearer {OLD}"})
    expect("too large", 413, large.status)
    expect("another method", 405, gateway.post("/open", method="GET").status)
    run.stop()
    expect("all or nothing", [], rows())


# --- a broker -----------------------------------------------------------------------------------------------------

class Line:
    """A connection to a server through a port of this process, which can be cut and mended."""

    def __init__(self, host, port):
        self.target = (host, port)
        self.open = []
        self.listener = None
        self.port = 0

    def mend(self):
        self.listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def cut(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for one in self.open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self.open.clear()

    def _accept(self, listener):
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(self.target)
                self.open += [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    @staticmethod
    def _pass_on(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


def broker_is_away():
    """202 does not depend on the broker: what is published while it is away is sent when it is there."""
    url = urllib.parse.urlsplit(servers()["RABBITMQ_URL"])
    line = Line(url.hostname, url.port or 5672)
    line.mend()
    login = f"{url.username}:{url.password}@" if url.username else ""
    query = "&".join(filter(None, [url.query, f"queue=webhooks-{os.getpid()}", "declare=yes"]))
    place = f"amqp://{login}127.0.0.1:{line.port}{url.path}?{query}"
    run, gateway = start("    - { path: /stripe, preset: stripe, secret: '${file:old}', to: far }\n"
                         "    - { path: /open, to: far }\n", f'  far: {{ url: "{place}" }}\n',
                         '  far: { from: far, sql: "INSERT INTO seen VALUES (:id, :type, :source, :body)", '
                         "fingerprint: none }\n")
    line.cut()
    body = b'{"id": "evt_1", "type": "a", "pending_webhooks": 1}'
    for _ in range(2):
        expect("accepted", 202, gateway.post("/stripe", body, kit.stripe(body, OLD)).status)
    event = {"specversion": "1.0", "source": "s", "type": "t"}
    events = json.dumps([{**event, "id": f"b-{i}"} for i in range(3)])
    expect("batch", 202, gateway.post("/open", events, {"Content-Type": "application/cloudevents-batch+json"}).status)
    expect("nothing has arrived", [], rows())
    run.kill()
    line.mend()
    run, gateway = again()
    expect("sent later", ["b-0", "b-1", "b-2", "evt_1"], sorted(row[0] for row in seen(4)))
    run.stop()


if __name__ == "__main__":
    main(presets, refused, slack_challenge, rotated, killed, answered, publish, publish_refused, broker_is_away)
