#!/usr/bin/python3
"""check_api_gateway.py PROGRAM [CHECK...]: the keys of a proxy route in the API, which are an inbox of their own."""
import re

from api_kit import Shop
from gateway_kit import Upstream, ask, free_port
from program_kit import expect, expect_true, main, semel, wait_until

INBOX = "gateway.charges"


class Proxy(Shop):
    """A shop behind whose gateway an upstream counts its effects."""

    def __init__(self, more=""):
        self.up, self.port = Upstream(), free_port()
        super().__init__(True, f"""\
gateway:
  listen: 127.0.0.1:{self.port}
  routes: [{{ path: /v1/*, name: charges, proxy: "http://127.0.0.1:{self.up.port}" }}]
{more}""")


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
    [inbox] = [inbox for inbox in shop.get("inboxes")["inboxes"] if inbox["name"] == INBOX]
    expect("its inbox", (f"proxy http://127.0.0.1:{shop.up.port}", "claim", "Idempotency-Key", 86400000, None),
           tuple(inbox[n] for n in ("handler", "mode", "key", "retention", "from")))
    rows = wait_until(lambda: len(rows := rows_of(shop)) == 2 and rows,
                      lambda: f"both are listed: {rows_of(shop)}")
    expect("their states", ("processed", "outcome_unknown"),
           tuple(rows[f"anyone:order-{n}"]["state"] for n in (7, 8)))
    expect("by state", ["anyone:order-8"], list(rows_of(shop, "?state=outcome_unknown")))
    expect("those that are known", ["anyone:order-7"], list(rows_of(shop, "?state=processed")))
    page = shop.get(f"messages?inbox={INBOX}&key=anyone:order-7")
    expect("its page", ("processed", ["processed"]),
           (page["state"], [event["kind"] for event in page["timeline"]]))
    page = shop.get(f"messages?inbox={INBOX}&key=anyone:order-8")
    expect("the other one", ("outcome_unknown", "outcome_unknown", ["unknown"]),
           (page["state"], page["verdict"]["state"], [event["kind"] for event in page["timeline"]]))
    expect_true(page["marker"]["error"].startswith("unknown outcome: ") and
                page["timeline"][0]["error"] == page["marker"]["error"], f"it says why: {page}")
    expect("the search", [(INBOX, "outcome_unknown")],
           [(hit["inbox"], hit["state"]) for hit in shop.get("find?key=anyone:order-8")["results"]])
    wait_until(lambda: [i for i in shop.get("inboxes")["inboxes"] if i["name"] == INBOX][0]["processed"] == 2,
               "the requests are counted")


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


main(keys, forgotten, without_history)
