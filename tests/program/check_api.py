#!/usr/bin/python3
"""check_api.py PROGRAM [CHECK...]: the JSON API of the admin server, through `semel run`: each route, each change
to its entry in the audit, what is refused, many rows, a store that is away, and random requests."""
import base64
import json
import os
import random
import signal
import socket
import sqlite3
import time
import urllib.parse
import uuid

from api_kit import TOKEN, Shop, ask
from program_kit import DEADLINE_S, expect, expect_true, main, publish_lines, semel, wait_until, write


# Fields that no row of a healthy shop need have: there is nothing wrong, nothing waits, and it did not fail.
MAY_BE_UNKNOWN = {"warning", "error", "since", "oldest_ms"}


def kill_letters(shop, count, **more):
    """So many dead letters of mail, m-0 and so on."""
    ids = publish_lines("orders", [f"letter {n}" for n in range(count)], "--type", "mail")
    wait_until(lambda: shop.get("dead/groups")["total"] >= count, "all are dead", **more)
    return ids


def audit_row(shop, **wanted):
    [row] = [entry for entry in shop.get("audit")["entries"]
             if all(entry[name] == value for name, value in wanted.items())]
    return row


# --- reading -------------------------------------------------------------------------------------


def routes():
    shop = Shop()
    publish_lines("orders", ['{"n": 1}', '{"n": 2}'], "--type", "paid", "--copies", "3")
    kill_letters(shop, 2)
    counted = wait_until(lambda: (o := shop.get("overview"))["totals"]["suppressed"] == 4 and
                         o["totals"]["processed"] == 4 and o["dead"]["letters"] == 2 and o["outbox"]["unsent"] == 0 and
                         o, lambda: f"the overview counts: {shop.get('overview')}")
    expect("totals", {"processed": 4, "suppressed": 4, "failed": 0, "dead": 2, "sent": 2}, counted["totals"])
    expect("deliveries for each copy", 2.0, counted["deliveries_per_copy"])
    expect("the process", (shop.run.pid, 1), (counted["process"]["pid"], counted["processes"]))
    expect("what needs attention", ["dead", "config"], [item["severity"] for item in counted["attention"]])
    expect("its words", ("2 dead letters in mail", "exit 1: no mailbox"),
           (counted["attention"][0]["title"], counted["attention"][0]["text"]))
    [store] = counted["stores"]
    expect("the store", ("store", "sqlite:shop.db", "ok", 4),
           tuple(store[n] for n in ("kind", "url", "state", "grade")))
    expect("points of a minute", {61}, {len(counted["minute"][n]) for n in ("processed", "suppressed", "failed", "lag",
                                                                            "dead")})
    expect("points of a day", 1440, len(counted["day"]["processed"]))
    expect_true(None in counted["minute"]["processed"] and sum(v or 0 for v in counted["minute"]["processed"]) == 4,
                f"a gap before the start, and four processed: {counted['minute']}")
    end = counted["minute"]["end"]
    later = wait_until(lambda: (o := shop.get(f"overview?after={end}"))["minute"]["end"] > end and o, "a second passes")
    expect("points behind it", later["minute"]["end"] - end, len(later["minute"]["processed"]))

    inboxes = {inbox["name"]: inbox for inbox in shop.get("inboxes")["inboxes"]}
    expect("inboxes", ["payments", "mail", "parcels"], list(inboxes))
    expect("payments", ("orders", "sql, 1 statement", "queued", 4, 604800000, 2, 4),
           tuple(inboxes["payments"][n] for n in ("from", "handler", "mode", "grade", "retention", "processed",
                                                  "suppressed")))
    expect("mail", ("exec mail.sh", "claim", 2, 2), tuple(inboxes["mail"][n] for n in ("handler", "mode", "grade",
                                                                                      "dead")))
    for name in ("inboxes", "outboxes", "queues"):
        rows = shop.get(name)[name]
        expect(f"what no row of {name} knows", [], [field for field in rows[0] if field not in MAY_BE_UNKNOWN and
                                                     all(row[field] is None for row in rows)])
    [outbox] = shop.get("outboxes")["outboxes"]
    expect("the outbox", ("shipping", "shipping", 0, "ok", 2),
           tuple(outbox[n] for n in ("name", "to", "unsent", "state", "sent")))
    queues = {queue["name"]: queue for queue in shop.get("queues")["queues"]}
    expect("readers", (["payments", "mail"], []), (queues["orders"]["readers"], queues["parked"]["readers"]))
    expect_true(queues["parked"]["warning"], "nobody reads the third")
    expect("gateway", ([], []), tuple(shop.get("gateway")[n] for n in ("routes", "in_flight")))


def messages():
    shop = Shop()
    publish_lines("orders", ['{"n": 1, "note": "<script>\\u001b[31m"}'], "--type", "paid", "--copies", "3")
    kill_letters(shop, 1)
    [row] = wait_until(lambda: (rows := shop.get("inboxes/payments")["rows"]) and rows[0]["copies"] == 2 and rows,
                       lambda: f"the history has it: {shop.get('inboxes/payments')}")
    expect("its row", ({"text": "1", "shown": "1"}, "processed", "paid", {"failures": 0, "processed": 1, "copies": 2,
                                                                         "dead": 0}),
           tuple(row[n] for n in ("key", "state", "type", "strip")))
    expect("by its key", [row], shop.get("inboxes/payments?key=1")["rows"])
    expect("by its state", (1, 0), (len(shop.get("inboxes/payments?state=processed")["rows"]),
                                    len(shop.get("inboxes/payments?state=dead")["rows"])))
    expect("by another type", [], shop.get("inboxes/payments?type=other")["rows"])
    page = shop.get("messages?inbox=payments&key=1")
    expect("its verdict", ("processed", 2, 1, "queued", None), tuple(page["verdict"][n] for n in (
        "state", "copies", "sent", "mode", "dead_letter")))
    expect("its timeline", ["processed", "duplicate", "duplicate"],
           [event["kind"] for event in page["timeline"] if event["name"] == "payments"])
    body = page["message"]["body"]
    expect("its body", (b'{"n": 1, "note": "<script>\\u001b[31m"}', body["len"]),
           (base64.b64decode(body["base64"]), body["kept"]))
    expect_true(page["remembered_until"] > page["now"], "it is remembered for a while")
    dead = shop.get("inboxes/mail?state=dead")["rows"]
    expect("the dead one", ["dead"], [row["state"] for row in dead])
    key = urllib.parse.quote(dead[0]["key"]["shown"])
    page = shop.get(f"messages?inbox=mail&key={key}")
    expect("its page", ("dead", 1, b"letter 0"), (page["state"], page["verdict"]["dead_letter"],
                                                  base64.b64decode(page["message"]["body"]["base64"])))
    found = shop.get(f"find?key={key}")["results"]
    expect("the search", ["mail", 1], [found[0]["inbox"], found[1]["letter"]])
    expect("a search in vain", [], shop.get("find?key=nothing")["results"])
    letter = shop.get("dead/1")["letter"]
    expect("the letter", ("mail", 1, b"letter 0"), (letter["name"], letter["attempts"],
                                                    base64.b64decode(letter["message"]["body"]["base64"])))
    expect("bytes as a key", 404, shop.get("messages?inbox=mail&key=hex:00ff", status=404)["status"])


def without_history():
    shop = Shop(more="history: { enabled: false }\n")
    publish_lines("orders", [f'{{"n": {n}}}' for n in range(120)], "--type", "paid")
    wait_until(lambda: shop.get("overview")["totals"]["processed"] >= 240, "all are processed")
    seen, page = [], shop.get("inboxes/payments")
    expect("where rows come from", ("markers", False), (page["from"], shop.get("overview")["history"]))
    while True:
        seen += [row["key"]["text"] for row in page["rows"]]
        if page["next"] is None:
            break
        page = shop.get(f"inboxes/payments?before={page['next']}")
    expect("each key once", sorted(str(n) for n in range(120)), sorted(seen))


def config():
    shop = Shop()
    answer = shop.get("config")
    values = {value["path"]: value for value in answer["values"]}
    expect("the token", (None, "secret", "${file:token}"), tuple(values["admin.token"][n] for n in ("value", "origin",
                                                                                                   "place")))
    expect("a value of the file", ("json:/n", "file"), tuple(values["inboxes.payments.key"][n] for n in ("value",
                                                                                                        "origin")))
    expect("a default", "default", values["history.age"]["origin"])
    expect_true(TOKEN not in json.dumps(answer), "the token is nowhere")
    checks = {check["what"]: check["state"] for check in answer["checks"]}
    expect("checks", ("ok", "ok", "warn"), (checks["store"], checks["moving"], checks["queues.parked"]))
    expect("a session without a token", (True, False), tuple(shop.get("session")[n] for n in ("token_configured",
                                                                                             "token_valid")))
    expect("with it", True, shop.get("session", X_Semel_Token=TOKEN)["token_valid"])


def unmodified():
    shop = Shop()
    status, headers, body = shop.raw("GET", "/api/v1/gateway")
    expect("the first answer", 200, status)
    status, again, body = shop.raw("GET", "/api/v1/gateway", If_None_Match=headers["ETag"])
    expect("the second one", (304, b"", headers["ETag"]), (status, body, again["ETag"]))
    expect("headers", ("nosniff", "no-referrer", "no-store"), tuple(headers[n] for n in (
        "X-Content-Type-Options", "Referrer-Policy", "Cache-Control")))
    expect_true("default-src 'none'" in headers["Content-Security-Policy"], f"{headers}")


# --- changing ------------------------------------------------------------------------------------


def retries():
    shop = Shop()
    kill_letters(shop, 12)
    [group] = shop.get("dead/groups?inbox=mail")["groups"]
    expect("the group", ("mail", 12, ["mail"]), (group["name"], group["letters"], group["types"]))
    preview = shop.preview("dead.retry", {"cause": group["cause"]})
    expect("the preview", (12, 3, 12, False), (preview["count"], len(preview["sample"]), preview["until_id"],
                                               preview["irreversible"]))
    expect("its command", f"semel dead retry --cause {group['cause']} --up-to 12", preview["command"])
    write("mended", "")
    kill_later = str(uuid.uuid4())
    first = shop.act(preview, request=kill_later, reason="the mailbox is back\nand 3 more", who="mira")
    again = shop.act(preview, request=kill_later, reason="the mailbox is back\nand 3 more", who="mira")
    expect("a double click", first["job"], again["job"])
    expect("another change under its id", "urn:semel:problem:mismatch",
           shop.act(preview, status=422, request=kill_later, who="eve")["type"])
    job = shop.job(first["job"])
    expect("the job", (12, 12, {"processed": 12}), (job["done"], job["total"], job["outcomes"]))
    row = audit_row(shop, id=job["audit_id"])
    expect("its entry", ("mira (127.0.0.1)", "page", f"dead retry --cause {group['cause']} --up-to 12", 12,
                         "12 processed", "the mailbox is back\\nand 3 more"),
           tuple(row[n] for n in ("who", "how", "what", "count", "result", "why")))
    expect_true("# page: the mailbox is back" in semel("audit")[0], "the command shows it, too")
    expect("letters", [], shop.get("dead")["letters"])


def discards():
    shop = Shop()
    kill_letters(shop, 3)
    preview = shop.post("actions/preview", {"action": "dead.discard", "ids": [1, 2]})
    expect("the preview", (2, True, "semel dead discard 1 2"), tuple(preview[n] for n in ("count", "irreversible",
                                                                                        "command")))
    semel("dead", "discard", "1", "--yes")
    job = shop.job(shop.post("actions", {"action": "dead.discard", "ids": [1, 2], "count": 2})["job"])
    expect("one was gone", {"gone": 1, "discarded": 1}, job["outcomes"])
    expect_true("discarded it" in job["notes"][0], f"who did it: {job['notes']}")
    expect("the rest", [3], [letter["id"] for letter in shop.get("dead")["letters"]])
    expect("its entry", ("dead discard 1 2", "1 discarded"),
           tuple(audit_row(shop, id=job["audit_id"])[n] for n in ("what", "result")))
    more = shop.post("actions", {"action": "dead.discard", "filter": {"inbox": "mail"}, "count": 0}, status=409)
    expect("more than were confirmed", ("urn:semel:problem:count-changed", 1), (more["type"], more["count"]))
    row = audit_row(shop, what="dead.discard --inbox mail")
    expect_true(row["result"].startswith("refused: 0 were confirmed, and 1 match now"), f"{row}")


def other_changes():
    shop = Shop()
    publish_lines("orders", ['{"n": 1}'], "--type", "paid")
    publish_lines("parked", ["a", "b", "c"])
    wait_until(lambda: shop.get("find?key=1")["results"], "it is handled")
    job = shop.do("inbox.forget", {"inbox": "payments", "key": "1"}, reason="again")
    expect("forgotten", {"forgotten": 1}, job["outcomes"])
    expect("its entry", ("inbox forget payments 1", "1 forgotten", "again"),
           tuple(audit_row(shop, id=job["audit_id"])[n] for n in ("what", "result", "why")))
    expect("a key that is not there", 404,
           shop.post("actions/preview", {"action": "inbox.forget", "filter": {"inbox": "payments", "key": "x"}},
                     status=404)["status"])
    preview = shop.preview("queue.purge", {"queue": "parked"})
    publish_lines("parked", ["later"])
    job = shop.job(shop.act(preview)["job"])
    expect("purged", ({"removed": 3}, "queue purge parked"), (job["outcomes"],
                                                             audit_row(shop, id=job["audit_id"])["what"]))
    wait_until(lambda: shop.get("queues")["queues"][2]["ready"] == 1, "what came later stays")
    expect("nothing waits", 0, shop.preview("outbox.requeue", {"outbox": "shipping"})["count"])
    expect("no such message", 404, shop.post("actions/preview", {
        "action": "outbox.skip", "filter": {"outbox": "shipping", "id": "x"}}, status=404)["status"])


def unsent():
    """Messages that wait in an outbox for their next attempt: one is given up, the others are sent now."""
    shop = Shop()
    publish_lines("parked", ["a", "b", "c"], "--type", "parcel")
    ask("UPDATE semel_outbox SET outbox = (SELECT id FROM semel_scope WHERE kind = 2 AND name = 'shipping'), "
        "attempts = 9, error = 'no queue is bound', wake_ms = wake_ms + 3600000")
    ids = [row["id"] for row in shop.get("outboxes/shipping")["rows"]]
    expect("they wait", 3, len(ids))
    preview = shop.preview("outbox.skip", {"outbox": "shipping", "id": ids[1]})
    expect("the preview", (1, f"semel outbox skip {ids[1]}"), (preview["count"], preview["command"]))
    job = shop.job(shop.act(preview, who="mira")["job"])
    expect("given up", {"given up": 1}, job["outcomes"])
    expect("its entry", (f"outbox skip {ids[1]}", "1 given up", "page"),
           tuple(audit_row(shop, id=job["audit_id"])[n] for n in ("what", "result", "how")))
    expect("its letter", [("outbox", "shipping")],
           [(letter["origin"], letter["name"]) for letter in shop.get("dead")["letters"]])
    expect("the others wait", [ids[0], ids[2]], [row["id"] for row in shop.get("outboxes/shipping")["rows"]])
    job = shop.do("outbox.requeue", {"outbox": "shipping"}, reason="the broker is back")
    expect("now due", {"now due": 2}, job["outcomes"])
    row = audit_row(shop, id=job["audit_id"])
    expect("its entry", ("outbox requeue shipping --until", "2 now due", "the broker is back"),
           (row["what"].rsplit(" ", 1)[0], row["result"], row["why"]))
    wait_until(lambda: not shop.get("outboxes/shipping")["rows"], "they are sent")
    wait_until(lambda: [i["processed"] for i in shop.get("inboxes")["inboxes"] if i["name"] == "parcels"] == [2],
               "both have arrived, and the one that was given up has not")


def stopped_and_resumed():
    shop = Shop()
    kill_letters(shop, 105)
    write("slow", "")
    write("mended", "")
    preview = shop.preview("dead.retry", {"inbox": "mail"})
    started = shop.act(preview)
    busy = shop.post("actions", {"action": "dead.retry", "filter": {}, "count": 105}, status=409)
    expect("a second one meanwhile", ("urn:semel:problem:busy", started["job"]), (busy["type"], busy["job"]))
    expect("stopping", "running", shop.post(f"jobs/{started['job']}/stop", {})["state"])
    write("go", "")
    stopped = shop.job(started["job"], states=("stopped",))
    expect_true(stopped["done"] < 105, f"{stopped}")
    left = wait_until(lambda: (p := shop.preview("dead.retry", preview["filter"])) and
                      (not [r for r in shop.get("dead")["letters"] if r["retry"]]) and p, "what was taken has ended")
    expect_true(0 < left["count"] <= 105, f"{left}")
    job = shop.job(shop.act(left)["job"])
    expect("the rest", left["count"], job["done"])
    expect("letters", 0, shop.get("dead/groups")["total"])


def two_operators():
    """The command and the page at once: each letter is handled once."""
    shop = Shop()
    kill_letters(shop, 20)
    write("mended", "")
    preview = shop.preview("dead.retry", {"inbox": "mail"})
    started = shop.act(preview)
    out, err = semel("dead", "retry", "--inbox", "mail", "--yes")
    job = shop.job(started["job"])
    expect("all of them", 20, job["done"])
    expect("letters", 0, shop.get("dead/groups")["total"])
    rows = [row for row in shop.get("audit")["entries"] if row["what"].startswith("dead retry")]
    expect_true(any(row["how"] == "page" for row in rows), f"{rows} {out} {err}")
    wait_until(lambda: shop.get("inboxes")["inboxes"][1]["processed"] == 20, "handled once each")


# --- refusals ------------------------------------------------------------------------------------


def refusals():
    shop = Shop()
    kill_letters(shop, 1)
    body = {"action": "dead.discard", "filter": {"inbox": "mail"}, "count": 1, "who": "eve"}
    own = f"http://{shop.host}"
    for what, status, kind, headers in (
            ("no token", 401, "token-missing", {"X_Semel_Token": None}),
            ("a wrong token", 401, "token-wrong", {"X_Semel_Token": TOKEN + "x"}),
            ("a part of the token", 401, "token-wrong", {"X_Semel_Token": TOKEN[:-1]}),
            ("a foreign origin", 403, "foreign-origin", {"Origin": "http://evil.example"}),
            ("no origin of its own", 403, "foreign-origin", {"Origin": "null"}),
            ("another site", 403, "foreign-origin", {"Sec_Fetch_Site": "cross-site"}),
            ("a form", 415, "bad-body", {"Content_Type": "text/plain"}),
            ("no request id", 400, "missing-request-id", {"X_Semel_Request": "1"})):
        expect(what, f"urn:semel:problem:{kind}", shop.post("actions", body, status=status, **headers)["type"])
    status, _, _ = shop.raw("GET", "/api/v1/overview", Host="evil.example")
    expect("a foreign host", 421, status)
    for text in (b"", b"[]", b"{", b'{"action": "x"}', b'{"action": "dead.retry", "more": 1}', b"'a'",
                 b'{"action": "dead.retry", "count": -1}', b'{"action": "dead.retry", "ids": [0]}',
                 b'{"action": "dead.retry", "filter": {"x": 1}}',
                 b'{"action":"dead.retry","who":"' + b"x" * 99 + b'"}'):
        expect(f"{text!r}", "urn:semel:problem:bad-body", shop.post("actions", text, status=400)["type"])
    for path, wanted in (("nothing", 404), ("inboxes/none", 404), ("dead/x", 404), ("dead/99", 404), ("jobs/99", 404),
                         ("outboxes/none", 404), ("overview?x=1", 400), ("overview?after=-1", 400),
                         ("inboxes/mail?state=x", 400), ("inboxes/mail?before=x", 400), ("dead?cause=zz", 400),
                         ("dead?since=yesterday", 400), ("dead?inbox=mial", 404), ("find?key=hex:0", 400),
                         ("find", 400), ("messages?inbox=mail&key=nothing", 404), ("audit?before=x", 400),
                         ("find?key=%ff", 400), ("find?key=a&key=b", 400), ("find?key=" + "x" * 5000, 400),
                         ("", 404), ("a/b/c/d/e/f", 400)):
        expect(path, wanted, shop.get(path, status=wanted)["status"])
    expect("the nearest", 'inbox "mial" does not exist; did you mean "mail"?',
           shop.get("dead?inbox=mial", status=404)["detail"])
    status, headers, _ = shop.raw("POST", "/api/v1/overview")
    expect("another method", 405, status)
    expect("the letter", 1, shop.get("dead/groups")["total"])
    row = wait_until(lambda: [row for row in shop.get("audit")["entries"] if row["who"].startswith("eve")],
                     "refusals are audited")[-1]
    expect("its entry", ("page", "dead.discard --inbox mail", 0), tuple(row[n] for n in ("how", "what", "count")))
    expect_true(row["result"].startswith("refused: "), f"{row}")
    expect_true(len(shop.get("audit")["entries"]) < 15, "an entry a second, not one each")
    expect("the origin of the page itself", 1, shop.post("actions/preview", body, Origin=own,
                                                         Sec_Fetch_Site="same-origin")["count"])


def read_only():
    shop = Shop(token=False)
    answer = shop.post("actions/preview", {"action": "dead.retry"}, status=403)
    expect("without a token", "urn:semel:problem:read-only", answer["type"])
    expect_true("admin.token" in answer["detail"], answer["detail"])
    expect("the overview says so", False, shop.get("overview")["actions"]["token_configured"])


# --- size, outages, chance -----------------------------------------------------------------------


def many_rows():
    """100 000 deliveries, dead letters and entries of the audit: a page takes as long as with 50."""
    shop = Shop()
    kill_letters(shop, 2)
    publish_lines("orders", ['{"n": 1}'], "--type", "paid")
    wait_until(lambda: shop.get("inboxes/payments")["rows"], "the history has a row")
    shop.run.stop()
    semel("dead", "discard", "1", "--yes")
    multiply("semel_history", "CAST('k' || {n} AS BLOB)", "WHERE name = 'payments'")
    multiply("semel_dead", "CAST('k' || {n} AS BLOB)")
    multiply("semel_audit", "")
    shop.start()
    took = {}
    for path in ("inboxes/payments", "inboxes/payments?state=processed", "dead", "dead?after=90000", "audit"):
        began = time.monotonic()
        page = shop.get(path)
        took[path] = time.monotonic() - began
        rows = page.get("rows", page.get("letters", page.get("entries")))
        expect(f"rows of {path}", 50, len(rows))
    expect_true(max(took.values()) < 5, f"{took}")
    seen, before = set(), ""
    for _ in range(10):
        page = shop.get("inboxes/payments" + before)
        keys = [row["key"]["shown"] for row in page["rows"]]
        expect_true(not seen & set(keys), "no key twice")
        seen |= set(keys)
        before = f"?before={page['next']}"
    expect("ten pages", 500, len(seen))
    print("      " + ", ".join(f"{path} {seconds * 1000:.0f} ms" for path, seconds in took.items()))


def multiply(table, key, where="", rows=100000):
    """Copies of the last row of a table, with other numbers and keys."""
    columns = [(row[1], row[5]) for row in ask(f"PRAGMA table_info({table})")]
    [number] = [name for name, is_primary in columns if is_primary]
    [last] = ask(f"SELECT max({number}) FROM {table}")[0]
    values = [f"{last} + s.n" if name == number else key.format(n="s.n") if name == "key" else f'"{name}"'
              for name, _ in columns]
    names = ", ".join(f'"{name}"' for name, _ in columns)
    ask(f"""WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {rows})
            INSERT INTO {table} ({names}) SELECT {", ".join(values)}
            FROM (SELECT * FROM {table} {where} ORDER BY {number} DESC LIMIT 1), s""")


def store_not_there_yet():
    """At the start the store is away: the server answers, and says so."""
    shop = Shop()
    shop.run.stop()
    text = open("semel.yaml", encoding="utf-8").read()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        write("semel.yaml", text.replace("sqlite:shop.db", f"postgres://127.0.0.1:{closed.getsockname()[1]}/shop"))
        shop.start(ready="unreachable")
        expect("a list", ("urn:semel:problem:store-unreachable", 503),
               tuple(shop.get("dead", status=503)[n] for n in ("type", "status")))
        item = wait_until(lambda: (a := shop.get("overview")["attention"])[0]["severity"] == "unreachable" and a,
                          "the overview says so")[0]
        expect("what needs attention", ("unreachable", "Store is unreachable"), (item["severity"], item["title"]))
        expect("the store", "unreachable", shop.get("overview")["stores"][0]["state"])
        shop.run.stop()


LETTERS = ("inbox", "outbox", "type", "error", "cause", "key", "since", "until", "after", "until_id")
PATHS = {"overview": ("after",), "inboxes": (), "inboxes/mail": ("state", "type", "since", "key", "before"),
         "messages": ("inbox", "key"), "find": ("key",), "outboxes": (), "outboxes/shipping": ("after",), "queues": (),
         "dead/groups": LETTERS, "dead": LETTERS, "dead/1": (), "gateway": (), "config": (),
         "audit": ("who", "what", "since", "before"), "jobs/1": (), "jobs/1/stop": (), "actions": (),
         "actions/preview": (), "session": ()}
VALUES = ("", "1", "-1", "0", "9" * 30, "9223372036854775807", "mail", "m*", "hex:00", "hex:zz", "base64:AA==",
          "sha256:00",
          "2h", "dead", "%00", "%ff%fe", "%", "'; --", "a" * 300, "..%2f", "%E2%80%AE", "7f3a90c1")


def random_body(chance):
    """A change, or something like it."""
    action = chance.choice(("dead.retry", "dead.discard", "inbox.forget", "outbox.requeue", "outbox.skip",
                            "queue.purge", 1))
    body = {"action": action, "count": chance.choice((0, 1, -1, 2**63 - 1, "1", None)),
            "filter": {name: chance.choice((*VALUES, 1, None, []))
                       for name in chance.sample(("inbox", "outbox", "queue", "key", "id", "type", "error", "cause",
                                                  "since", "until", "until_id", "x"), chance.randrange(4))}}
    if chance.random() < 0.3:
        body["ids"] = [chance.choice((1, 0, -1, 10**12, "1", 10**25)) for _ in range(chance.randrange(4))]
    text = bytearray(json.dumps(body).encode())
    for _ in range(chance.choice((0, 0, 1, 3))):
        text[chance.randrange(len(text))] = chance.randrange(256)
    return bytes(text[:chance.choice((len(text), len(text), chance.randrange(len(text))))])


def random_request(chance):
    path = chance.choice(list(PATHS))
    names = chance.sample(PATHS[path], chance.randrange(len(PATHS[path]) + 1))
    if chance.random() < 0.1:
        names.append("x")
    pairs = [f"{name}={chance.choice(VALUES)}" for name in names]
    target = "/api/v1/" + path + ("?" + "&".join(pairs) if pairs else "")
    if chance.random() < 0.1:
        at = chance.randrange(len("/api/v1/"), len(target) + 1)  # "/?api" is the page, and not JSON
        target = target[:at] + chance.choice("%/?&=#;\\\"<>{}~") + target[at:]
    method = "POST" if path.startswith("actions") or path.endswith("stop") else "GET"
    if chance.random() < 0.1:
        method = chance.choice(("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"))
    body = random_body(chance) if method == "POST" else b""
    headers = [f"{method} {target} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    if chance.random() < 0.9:
        headers += [f"X-Semel-Token: {TOKEN}", "Content-Type: application/json",
                    f"X-Semel-Request: {uuid.UUID(int=chance.getrandbits(128))}"]
    if chance.random() < 0.05:
        headers.append(chance.choice(("Origin: http://evil", "Sec-Fetch-Site: cross-site",
                                      "If-None-Match: \"", "X-Semel-Token: a")))
    return method, "\r\n".join(headers).encode("latin-1") + b"\r\n\r\n" + body


def read_answer(file, method):
    """Status and body; a connection that is closed without one is None."""
    line = file.readline()
    if not line:
        return None
    expect_true(line.startswith(b"HTTP/1.1 "), f"{line!r}")
    length, status = 0, int(line.split()[1])
    while (line := file.readline()) not in (b"\r\n", b""):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return status, file.read(length) if method != "HEAD" and status != 304 else b""


def random_requests():
    """2 000 random requests: never a crash, always an answer that is JSON."""
    seed = int(os.environ.get("SEMEL_TEST_SEED", "15"))
    chance = random.Random(seed)
    shop = Shop()
    kill_letters(shop, 3)
    host, port = shop.host.rsplit(":", 1)
    statuses, client = {}, None
    for number in range(2000):
        method, request = random_request(chance)
        for attempt in range(2):  # the server may have closed the connection behind the last answer
            if not client:
                client = socket.create_connection((host, int(port)), DEADLINE_S)
                file = client.makefile("rb")
            try:
                client.sendall(request)
                answer = read_answer(file, method)
            except (BrokenPipeError, ConnectionResetError):
                answer = None
            if answer:
                break
            client.close()
            client = None
        expect_true(answer, f"seed {seed}, request {number} has no answer: {request!r}")
        status, body = answer
        statuses[status] = statuses.get(status, 0) + 1
        expect_true(status < 500 or status == 503, f"seed {seed}, request {number}: {status} {request!r} {body!r}")
        if body:
            parsed = json.loads(body)
            expect_true("now" in parsed or "title" in parsed, f"{request!r}: {body!r}")
        if status in (400, 413, 431):  # it may be the connection's last answer
            client.close()
            client = None
    expect("it still runs", shop.run.pid, shop.get("overview")["process"]["pid"])
    shop.run.stop()
    print(f"      seed {seed}: " + ", ".join(f"{count} of {status}" for status, count in sorted(statuses.items())))


main(routes, messages, without_history, config, unmodified, retries, discards, other_changes, unsent,
     stopped_and_resumed, two_operators, refusals, read_only, many_rows, store_not_there_yet, random_requests)
