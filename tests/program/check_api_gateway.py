#!/usr/bin/python3
"""check_api_gateway.py PROGRAM [CHECK...]: the keys of a proxy route in the API, which are an inbox of their own."""
import collections
import re

from api_kit import Shop
from gateway_kit import Upstream, ask, free_port, in_threads, join
from program_kit import expect, expect_true, main, semel, wait_until

INBOX = "gateway.charges"


class Proxy(Shop):
    """A shop behind whose gateway an upstream counts its effects."""

    def __init__(self, more=""):
        self.up, self.port = Upstream(), free_port()
        super().__init__(True, f"""\
gateway:
  listen: 127.0.0.1:{self.port}
  routes:
    - {{ path: /v1/*, name: charges, proxy: "http://127.0.0.1:{self.up.port}" }}
    - {{ path: /v2/*, name: hasty, proxy: "http://127.0.0.1:{self.up.port}", on_in_flight: report }}
{more}""")

    def inbox(self, name=INBOX):
        return next(inbox for inbox in self.get("inboxes")["inboxes"] if inbox["name"] == name)

    def kinds(self, key, inbox=INBOX):
        """What the timeline of a key has, the oldest first."""
        return [event["kind"] for event in self.get(f"messages?inbox={inbox}&key=anyone:{key}")["timeline"]]

    def wait_for_kinds(self, key, wanted, inbox=INBOX):
        wait_until(lambda: collections.Counter(self.kinds(key, inbox)) == collections.Counter(wanted),
                   lambda: f"the timeline of {key} is {wanted}: {self.kinds(key, inbox)}")

    def counted(self, outcome, inbox=INBOX):
        """semel_inbox_messages_total of a scrape."""
        text = self.raw("GET", "/metrics")[2].decode()
        found = re.search(rf'semel_inbox_messages_total{{inbox="{inbox}",[^}}]*outcome="{outcome}"}} (\d+)', text)
        return int(found[1])


def shown(shop):
    """An answer, its copy, and a request whose outcome is unknown."""
    expect("the first", 201, ask(shop.port, key="order-7").status)
    expect("its copy", "true", ask(shop.port, key="order-7").headers["idempotent-replayed"])
    expect("one that is lost", 502, ask(shop.port, "/v1/die", key="order-8").status)


def rows_of(shop, query=""):
    return {row["key"]["text"]: row for row in shop.get(f"inboxes/{INBOX}{query}")["rows"]}


def keys():
    shop = Proxy()
    shown(shop)
    inbox = shop.inbox()
    expect("its inbox", (f"proxy http://127.0.0.1:{shop.up.port}", "claim", "Idempotency-Key", 86400000, None),
           tuple(inbox[n] for n in ("handler", "mode", "key", "retention", "from")))
    rows = wait_until(lambda: len(rows := rows_of(shop)) == 2 and rows,
                      lambda: f"both are listed: {rows_of(shop)}")
    expect("their states", ("processed", "outcome_unknown"),
           tuple(rows[f"anyone:order-{n}"]["state"] for n in (7, 8)))
    expect("by state", ["anyone:order-8"], list(rows_of(shop, "?state=outcome_unknown")))
    expect("those that are known", ["anyone:order-7"], list(rows_of(shop, "?state=processed")))
    shop.wait_for_kinds("order-7", ["processed", "replayed"])
    page = shop.get(f"messages?inbox={INBOX}&key=anyone:order-7")
    expect("its page", ("processed", ["processed", "replayed"], 1),
           (page["state"], [event["kind"] for event in page["timeline"]], page["verdict"]["copies"]))
    expect("the request itself is not kept, and its checksum is not shown as its body", (False, None, "POST", "/v1/*"),
           tuple(page[n] for n in ("keeps_messages", "message", "type", "source")))
    page = shop.get(f"messages?inbox={INBOX}&key=anyone:order-8")
    expect("the other one", ("outcome_unknown", "outcome_unknown", ["unknown"]),
           (page["state"], page["verdict"]["state"], [event["kind"] for event in page["timeline"]]))
    expect_true(page["marker"]["error"].startswith("unknown outcome: ") and
                page["timeline"][0]["error"] == page["marker"]["error"], f"it says why: {page}")
    expect("the search", [(INBOX, "outcome_unknown")],
           [(hit["inbox"], hit["state"]) for hit in shop.get("find?key=anyone:order-8")["results"]])
    wait_until(lambda: shop.inbox()["processed"] == 2, "the requests are counted")


def copies():
    """Each copy is counted and recorded once, whether the gateway or the inbox finds that it is one."""
    shop = Proxy()
    expect("the first", 201, ask(shop.port, key="order-1").status)
    for _ in range(5):
        expect("a copy", "true", ask(shop.port, key="order-1").headers["idempotent-replayed"])
    expect("its key for other content", 422, ask(shop.port, key="order-1", body=b"[]").status)
    shop.wait_for_kinds("order-1", ["processed"] + 5 * ["replayed"] + ["mismatch"])
    page = shop.get(f"messages?inbox={INBOX}&key=anyone:order-1")
    expect("the verdict", ("processed", 5), tuple(page["verdict"][n] for n in ("state", "copies")))
    expect_true("other content" in [e for e in page["timeline"] if e["kind"] == "mismatch"][0]["error"], f"{page}")
    expect("in numbers", (1, 5, 1), tuple(shop.counted(n) for n in ("processed", "duplicate", "conflict")))
    wait_until(lambda: (shop.inbox()["suppressed"], shop.get("overview")["totals"]["suppressed"]) == (5, 5),
               "the page has them")
    # after some new keys in a row the first copy is the inbox's to find
    for n in range(2, 8):
        expect("a new key", 201, ask(shop.port, key=f"order-{n}").status)
    for n in range(2, 8):
        expect("its copy", "true", ask(shop.port, key=f"order-{n}").headers["idempotent-replayed"])
    for n in range(2, 8):
        shop.wait_for_kinds(f"order-{n}", ["processed", "replayed"])
    expect("in numbers", (7, 11), tuple(shop.counted(n) for n in ("processed", "duplicate")))
    shop.run.stop()
    expect_true("11 duplicates suppressed" in shop.run.text(), f"the last line: {shop.run.text()[-300:]}")


def in_flight():
    """Copies that come before the answer: those that wait are replayed, those of the other route are refused."""
    shop = Proxy()
    threads, answers = in_threads(1, lambda _: ask(shop.port, "/v1/hold", key="order-1"))
    wait_until(lambda: shop.up.count("order-1"), "the first is with the upstream")
    more, copied = in_threads(4, lambda _: ask(shop.port, "/v1/hold", key="order-1"))
    expect("other content meanwhile", 422, ask(shop.port, "/v1/hold", key="order-1", body=b"[]").status)
    hasty, first = in_threads(1, lambda _: ask(shop.port, "/v2/hold", key="order-2"))
    wait_until(lambda: shop.up.count("order-2"), "that of the other route, too")
    expect("in flight", 409, ask(shop.port, "/v2/hold", key="order-2").status)
    wait_until(lambda: [f for f in shop.get("gateway")["in_flight"] if f["waiting"] == 4], "four wait")
    shop.up.go.set()
    join(threads + more + hasty)
    expect("all are answered", [201] * 6, [a.status for a in answers + copied + first])
    shop.wait_for_kinds("order-1", ["processed"] + 4 * ["replayed"] + ["mismatch"])
    shop.wait_for_kinds("order-2", ["processed", "waiting"], "gateway.hasty")
    expect("in numbers", (1, 4, 1), tuple(shop.counted(n) for n in ("processed", "duplicate", "conflict")))
    expect("of the other route", (1, 0, 1),
           tuple(shop.counted(n, "gateway.hasty") for n in ("processed", "duplicate", "in_progress")))


def elsewhere():
    """Copies that wait for the answer of another process, found by a look, and by the inbox when no look is made."""
    shop, other = Proxy(), Proxy.__new__(Proxy)
    other.port = free_port()
    other.start("--set", f"gateway.listen=127.0.0.1:{other.port}")
    for key in ("order-1", "order-2"):
        held, answers = in_threads(1, lambda _: ask(shop.port, "/v1/hold", key=key))
        wait_until(lambda: shop.up.count(key), "the first is with the upstream")
        copies, copied = in_threads(1, lambda _: ask(other.port, "/v1/hold", key=key))
        wait_until(lambda: [f for f in other.get("gateway")["in_flight"] if f["waiting"] == 1], "its copy waits")
        shop.up.go.set()
        join(held + copies)
        shop.up.go.clear()
        expect("both have it", (201, "true"), (answers[0].status, copied[0].headers["idempotent-replayed"]))
        for n in range(5 if key == "order-1" else 0):  # after them no look is made
            expect("a new key", 201, ask(other.port, key=f"new-{n}").status)
    shop.wait_for_kinds("order-1", ["processed", "replayed"])
    shop.wait_for_kinds("order-2", ["processed", "waiting", "replayed"])
    expect("in numbers", (5, 2, 1), tuple(other.counted(n) for n in ("processed", "duplicate", "in_progress")))
    expect("of the first", (2, 0), tuple(shop.counted(n) for n in ("processed", "duplicate")))


def forgotten():
    shop = Proxy()
    shown(shop)
    job = shop.do("inbox.forget", {"inbox": INBOX, "key": "anyone:order-8"}, who="mira")
    expect("forgotten", 1, sum(job["outcomes"].values()))
    expect("in the audit", "inbox forget gateway.charges anyone:order-8",
           re.sub(" #.*", "", shop.get("audit")["entries"][0]["what"]))
    wait_until(lambda: "order-8" not in semel("inbox", "ls", INBOX)[0], "no marker is left")
    expect("the next copy is sent", (502, 2), (ask(shop.port, "/v1/die", key="order-8").status,
                                               shop.up.count("order-8")))
    expect("the other one is not", ("true", 1), (ask(shop.port, key="order-7").headers["idempotent-replayed"],
                                                 shop.up.count("order-7")))


def without_history():
    shop = Proxy("history: { enabled: false }\n")
    shown(shop)
    expect("states", {"anyone:order-7": "processed", "anyone:order-8": "outcome_unknown"},
           {key: row["state"] for key, row in rows_of(shop).items()})
    expect("by state", (["anyone:order-8"], ["anyone:order-7"]),
           tuple(list(rows_of(shop, f"?state={state}")) for state in ("outcome_unknown", "processed")))


main(keys, copies, in_flight, elsewhere, forgotten, without_history)
