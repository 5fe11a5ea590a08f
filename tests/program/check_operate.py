#!/usr/bin/python3
"""check_operate.py PROGRAM [CHECK...]: `semel inbox`, `outbox`, `queue` and `audit` as an operator types them, on every
store: what they show, to the letter but for times and ids; what they change, asked and unasked, interrupted, and by two
operators at once; hostile content in every field; a hundred thousand keys."""
import json
import os
import re
import signal
import sqlite3
import subprocess
import time

from program_kit import (DEADLINE_S, SEMEL, Failed, Run, environment, expect, expect_true, main, publish_lines, semel,
                         servers, wait_until, write)
from store_kit import STORES, place

CONFIG = """\
version: 1
store: {store}
setup:
  - CREATE TABLE IF NOT EXISTS ledger (order_id INTEGER NOT NULL)
queues:
  orders: store
  returns: store
  shipping: store
  parcels: amqp://shop@127.0.0.1:1/?exchange=shop
inboxes:
  payments:
    from: orders
    key: json:/order_id
    retention: 14d
    sql: INSERT INTO ledger (order_id) VALUES (:json/order_id)
  invoices:
    from: orders
    key: json:/order_id
    attempts_max: 1
    exec: [./invoice.sh]
  tenants:
    from: returns
    key: header:tenant+json:/order_id
    exec: ["true"]
  mail.receipt:
    from: orders
    exec: ["true"]
  copies: {{ from: orders, send: {{ to: shipping, type: order.paid }} }}
  shipped: {{ from: shipping, exec: ["true"] }}
"""

PARCELS = "  parcels: amqp://shop@127.0.0.1:1/?exchange=shop\n"

INVOICE = """\
#!/bin/sh
body=$(cat)
case $SEMEL_KEY in 20713) echo "no tax rate for order $SEMEL_KEY" >&2; exit 65 ;; esac
"""

ID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
TIME_OF_DAY = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"


def plain(text):
    text = re.sub(ID, "ID", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "TIME", text)
    text = re.sub(TIME_OF_DAY, "TIME", text)
    text = re.sub(r"\d+(\.\d+)? (ms|s)\b|\d+m \d+s", "DURATION", text)
    text = re.sub(r"\b\w+@[\w.-]+", "WHO", text)
    return re.sub(r"(?m)^ +", "", re.sub(r"  +", "  ", text))  # columns are as wide as times and ids


def golden(what, wanted, *arguments, status=0):
    """Standard output and error output, one behind the other; blanks between columns are two."""
    expect(what, wanted, plain("".join(semel(*arguments, status=status))))


def objects(*arguments):
    return [json.loads(line) for line in semel(*arguments, "--json")[0].splitlines()]


def set_up(store):
    write("semel.yaml", CONFIG.format(store=store.url).replace(PARCELS, ""))
    write("invoice.sh", INVOICE, 0o700)
    Run("--once").ends(0)  # makes the tables


def with_broker(store):
    """A queue at a broker that cannot be reached: only tools may use this config."""
    write("semel.yaml", CONFIG.format(store=store.url))


def order(*numbers, queue="orders", options=()):
    ids = publish_lines(queue, [json.dumps({"order_id": n}) for n in numbers], "--type", "order.placed", *options)
    Run("--once").ends(0)
    return ids


def on_each(check):
    def run():
        for kind in STORES:
            for name in os.listdir("."):
                os.remove(name)
            with place(kind) as store:
                try:
                    set_up(store)
                    check(store)
                except Exception as problem:
                    raise Failed(f"on {kind}: {problem}") from problem
    run.__name__ = check.__name__
    return run


def keep_in_outbox(store, count, error=None, later_ms=600000):
    """Messages that wait in the outbox shipping, as a relay that cannot send them leaves them."""
    publish_lines("returns", [json.dumps({"order_id": n}) for n in range(count)], "--type", "order.paid")
    text = f"'{error}'" if error else "NULL"
    attempts = 9 if error else 0
    store.ask("UPDATE semel_outbox SET outbox = (SELECT id FROM semel_scope WHERE kind = 2 AND name = 'shipping'), "
              f"attempts = {attempts}, error = {text}, wake_ms = wake_ms + {later_ms}")


# --- inboxes ---------------------------------------------------------------------------------------

INBOXES = """\
INBOX  KEYS  DEAD  RETENTION  MODE  KEY
payments  3  0  14d  queued  json:/order_id
invoices  3  1  7d  claim  json:/order_id
tenants  0  0  7d  claim  header:tenant+json:/order_id
mail.receipt  3  0  7d  claim  id
copies  3  0  7d  queued  id
shipped  3  0  7d  claim  id
"""

FOUND = """\
INBOX  STATE  ATTEMPTS  SINCE  ERROR
payments  done  -  TIME  -
invoices  dead  1  TIME  exit 65: no tax rate for order 20713

deliveries:
WHEN  INBOX  STATE  ATTEMPT  TOOK  NOTE
TIME  payments  processed  1  DURATION  -
TIME  invoices  dead  1  DURATION  exit 65: no tax rate for order 20713, letter 1
tenants, mail.receipt, copies and shipped use other keys (header:tenant+json:/order_id, id)
next: semel dead show 1
"""

NOT_FOUND = """\
semel inbox show: key 99999 not found in any inbox; it was never handled, or has been forgotten
searched json:/order_id in payments, invoices; header:tenant+json:/order_id in tenants; \
id in mail.receipt, copies, shipped
"""

KEYS = """\
KEY  STATE  ATTEMPTS  SINCE  ERROR
20711  done  -  TIME  -
20712  done  -  TIME  -
more: semel inbox ls invoices --limit 2 --after 20712
"""


@on_each
def inboxes(store):
    order(20711, 20712, 20713)
    golden("inbox ls", INBOXES, "inbox", "ls")
    golden("inbox show", FOUND, "inbox", "show", "20713")
    golden("a key that no inbox knows", NOT_FOUND, "inbox", "show", "99999", status=4)
    golden("keys", KEYS, "inbox", "ls", "invoices", "--limit", "2")
    golden("the next page", "KEY  STATE  ATTEMPTS  SINCE  ERROR\n"
           "20713  dead  1  TIME  exit 65: no tax rate for order 20713\n",
           "inbox", "ls", "invoices", "--limit", "2", "--after", "20712")
    expect("by state", ["20713"], [row["key"] for row in objects("inbox", "ls", "invoices", "--state", "dead")])
    expect("by key", ["20712"], [row["key"] for row in objects("inbox", "ls", "invoices", "--key", "hex:3230373132")])
    expect("since", 3, len(objects("inbox", "ls", "invoices", "--since", "1h")))
    golden("until", "no matching keys in invoices\n", "inbox", "ls", "invoices", "--until", "1h")
    without = ("--store", store.url)
    golden("one inbox, without a config", "INBOX  STATE  ATTEMPTS  SINCE  ERROR\npayments  done  -  TIME  -\n"
           "\ndeliveries:\nWHEN  INBOX  STATE  ATTEMPT  TOOK  NOTE\nTIME  payments  processed  1  DURATION  -\n",
           "inbox", "show", "20711", "--inbox", "pay*", *without)
    expect("all inboxes, without a config", [("copies", "transaction", "id"), ("invoices", "claim", "json:/order_id")],
           [(row["inbox"], row["mode"], row["key"]) for row in objects("inbox", "ls", *without)][:2])
    expect("JSON", [{"inbox": "invoices", "keys_estimate": 3, "dead": 1, "retention_ms": 604800000, "mode": "claim",
                     "key": "json:/order_id"}], objects("inbox", "ls", "--inbox", "invoices"))
    row = objects("inbox", "show", "20713", "--inbox", "invoices")[0]
    expect("JSON of a dead key", ("invoices", "20713", "dead", 1, "exit 65: no tax rate for order 20713", 1),
           tuple(row[name] for name in ("inbox", "key", "state", "attempts", "error", "letter")))
    expect_true(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row["at"]), row["at"])
    expect_true("attempts" not in objects("inbox", "show", "20711")[0], "a key that was handled has no attempts")


@on_each
def keys_of_several_parts(store):
    order(7, queue="returns", options=("--header", "tenant=shop-eu"))
    for typed in (("shop-eu", "7"), ("7:shop-eu,1:7,",), ("base64:NzpzaG9wLWV1LDE6Nyw=",)):
        expect(f"{typed}", ["7:shop-eu,1:7,"], [row["key"] for row in objects("inbox", "show", *typed)])
    expect("the other inboxes",
           "payments, invoices, mail.receipt, copies and shipped use other keys (json:/order_id, id)\n",
           semel("inbox", "show", "shop-eu", "7")[1])


@on_each
def forgotten(store):
    order(1042, 20713)
    golden("without a terminal", "semel inbox forget: forgetting 1042 needs confirmation, but there is no terminal; "
           "pass --yes\n", "inbox", "forget", "payments", "1042", status=2)
    golden("a dry run", "would forget 1042 in payments, which is done; nothing was changed\n",
           "inbox", "forget", "payments", "1042", "--dry-run")
    golden("a dead key", "semel inbox forget: key 20713 is that of dead letter 1; nothing was changed\n"
           "try: semel dead discard 1 --forget\n", "inbox", "forget", "invoices", "20713", "--yes", status=5)
    golden("forgotten", "1 of 1 forgotten (audit 1)\n", "inbox", "forget", "payments", "1042", "--yes")
    golden("again", "semel inbox forget: key 1042 not found in payments; it was never handled, or has been forgotten\n",
           "inbox", "forget", "payments", "1042", "--yes", status=4)
    order(1042)
    expect("the next copy runs", [("2",)], store.ask("SELECT count(*) FROM ledger WHERE order_id = 1042"))
    golden("the audit", "AUDIT  WHEN  WHO  WHAT  RESULT\n1  TIME  WHO  inbox forget payments 1042  1 forgotten\n",
           "audit")


@on_each
def purged(store):
    order(*range(1, 26))
    golden("none is so old", "no keys in payments are older than 1h\n",
           "inbox", "purge", "payments", "--older-than", "1h", "--yes")
    old = store.ask("SELECT max(at_ms) FROM semel_marker")[0][0]
    store.ask(f"UPDATE semel_marker SET at_ms = at_ms - 7200000 WHERE at_ms <= {old}")
    order(26, 27)
    golden("a dry run", "would forget 25 keys in payments last changed before TIME: 1, 10, ...; nothing was changed\n",
           "inbox", "purge", "payments", "--older-than", "1h", "--dry-run")
    golden("of all keys", "would forget all keys in payments, 27 keys: 1, 10, ...; nothing was changed\n",
           "inbox", "purge", "payments", "--older-than", "0s", "--dry-run")
    golden("of none", "there are no keys in tenants to forget\n", "inbox", "purge", "tenants", "--older-than", "0s")
    golden("without a terminal", "semel inbox purge: forgetting 25 keys needs confirmation, but there is no terminal; "
           "pass --yes\n", "inbox", "purge", "payments", "--older-than", "1h", status=2)
    asked = Run("purge", "payments", "--older-than", "1h", command="inbox", terminal=True)
    asked.says("Type 25 to confirm: ")
    os.write(asked.keyboard, b"y\n")
    expect_true(asked.ends(1).endswith("nothing was changed\n"), asked.text())
    asked = Run("purge", "payments", "--older-than", "1h", command="inbox", terminal=True)
    asked.says("Type 25 to confirm: ")
    os.write(asked.keyboard, b"25\n")
    expect_true(asked.ends(0).endswith("25 of 25 forgotten (audit 1)\n"), asked.text())
    expect("what is left", ["26", "27"], [row["key"] for row in objects("inbox", "ls", "payments")])
    expect("another inbox", 27, len(objects("inbox", "ls", "mail.receipt")))
    expect("the audit", [{"audit": 1, "what": "inbox purge payments --older-than 1h", "result": "25 forgotten",
                          "count": 25}],
           [{name: row[name] for name in ("audit", "what", "result", "count")} for row in objects("audit")])


# --- outboxes --------------------------------------------------------------------------------------

LAG = """\
OUTBOX  WAITING  OLDEST  DUE  LAST ERROR
shipping  3  DURATION  0  no queue is bound for "order.paid"
"""

SHOWN = """\
message  ID, order.paid, topic returns
outbox  shipping, since TIME, 9 attempts
due in  DURATION
error  no queue is bound for "order.paid"
body  {"order_id": 0}
next: semel outbox requeue shipping; to give up on it: semel outbox skip ID
"""


@on_each
def outboxes(store):
    order(1)
    golden("nothing waits", "no messages waiting to be sent\n", "outbox", "ls")
    golden("no lag", "no messages waiting to be sent\n", "outbox", "lag")
    keep_in_outbox(store, 3, 'no queue is bound for "order.paid"')
    golden("lag", LAG, "outbox", "lag")
    golden("ls", LAG, "outbox", "ls")
    rows = objects("outbox", "ls", "shipping")
    ids = [row["id"] for row in rows]
    expect("types of JSON", ("shipping", "order.paid", 9, False, str), (rows[0]["outbox"], rows[0]["type"],
           rows[0]["attempts"], rows[0]["in_progress"], type(rows[0]["due_at"])))
    row = objects("outbox", "lag")[0]
    expect("JSON of lag", ("shipping", 3, 0), (row["outbox"], row["waiting"], row["due"]))
    golden("a page", "ID  TYPE  ATTEMPTS  SINCE  DUE IN  LAST ERROR\n"
           'ID  order.paid  9  TIME  DURATION  no queue is bound for "order.paid"\n'
           "2 more: semel outbox ls shipping --limit 1 --after ID\n", "outbox", "ls", "shipping", "--limit", "1")
    expect("the next page", ids[1:], [row["id"] for row in objects("outbox", "ls", "shipping", "--after", ids[0])])
    expect("by error", 3, len(objects("outbox", "ls", "shipping", "--error", "QUEUE is")))
    golden("by type", "no matching messages wait in shipping\n", "outbox", "ls", "shipping", "--type", "other*")
    golden("show", SHOWN, "outbox", "show", ids[0])
    expect("the message in JSON", {"order_id": 0}, objects("outbox", "show", ids[0])[0]["message"]["body"])
    expect("the body", '{"order_id": 0}', semel("outbox", "show", ids[0], "--body")[0])
    golden("an id that is not there", 'semel outbox show: no message "x" waits in an outbox; it was sent, or is a dead '
           "letter (semel dead ls)\n", "outbox", "show", "x", status=4)
    golden("a dry run", "ID  no queue is bound for \"order.paid\"\n" * 2 +
           "would make 3 messages in shipping due now:\n1 more; nothing was changed\n",
           "outbox", "requeue", "shipping", "-n")
    golden("one is given up", "1 of 1 given up (audit 1)\nnext: semel dead show 1\n", "outbox", "skip", ids[1], "--yes")
    expect_true("given up by" in semel("dead", "show", "1")[0], "the letter says who gave up on it")
    asked = Run("requeue", "shipping", command="outbox", terminal=True)
    asked.says("make 2 messages in shipping due now? [y/N] ")
    os.write(asked.keyboard, b"\n")
    expect_true(asked.ends(1).endswith("nothing was changed\n"), asked.text())
    asked = Run("requeue", "shipping", command="outbox", terminal=True)
    asked.says("[y/N] ")
    os.write(asked.keyboard, b"y\n")
    expect_true(asked.ends(0).endswith("2 of 2 now due (audit 2)\n"), asked.text())
    golden("again", "no matching messages in shipping wait for their next attempt\n",
           "outbox", "requeue", "shipping", "--yes")
    golden("what is due is not made due again", SHOWN[:SHOWN.index("next:")].replace("due in  DURATION", "due in  now"),
           "outbox", "show", ids[0])
    expect("due", 2, objects("outbox", "lag")[0]["due"])
    Run("--once").ends(0)
    golden("all are sent", "no messages waiting to be sent\n", "outbox", "lag")


# --- queues ----------------------------------------------------------------------------------------

@on_each
def queues(store):
    order(1)
    publish_lines("orders", [json.dumps({"order_id": n}) for n in range(120)], "--type", "order.placed")
    publish_lines("shipping", ["{}"])
    with_broker(store)
    golden("queues", "QUEUE  WAITING  OLDEST  READERS  LOCATION\norders  120  DURATION  0  store\n"
           "returns  0  -  0  store\nshipping  1  DURATION  0  store\nparcels  -  -  0  amqp 127.0.0.1:1\n",
           "queue", "ls")
    expect("JSON", {"queue": "parcels", "readers": 0, "location": "amqp 127.0.0.1:1",
                    "reason": "its URL names an exchange, and no queue"}, objects("queue", "ls")[3])
    expect("messages", 120, len(objects("queue", "ls", "orders")))
    golden("at a broker", 'semel queue ls: queue "parcels" is at a broker (amqp 127.0.0.1:1); only queues in the store '
           "can be read and purged here\n", "queue", "ls", "parcels", status=1)
    golden("a dry run", "would remove 120 messages from orders; nothing was changed\n",
           "queue", "purge", "orders", "--dry-run")
    asked = Run("purge", "orders", command="queue", terminal=True)
    asked.says("permanently remove 120 messages from orders? Type 120 to confirm: ")
    os.write(asked.keyboard, b"120\n")
    expect_true(asked.ends(0).endswith("120 of 120 removed (audit 1)\n"), asked.text())
    golden("empty", "no messages wait in orders\n", "queue", "purge", "orders", "--yes")
    expect("in JSON", [{"audit": 2, "changed": 1, "of": 1, "result": "removed"}],
           objects("queue", "purge", "shipping", "--yes", "--quiet"))


BROKERS = """\
version: 1
store: sqlite:shop.db
queues:
  orders: {at}?queue={name}&declare=yes
  later: {at}?queue={name}_later&declare=yes
  shop: {at}?exchange=amq.topic
{more}inboxes:
  payments: {{ from: orders, exec: ["true"] }}
  others: {{ from: later, exec: ["true"] }}
"""

AWAY = "  away: amqp://127.0.0.1:1/?queue=a\n  beside: amqp://127.0.0.1:1/?queue=b\n"


def queues_at_a_broker():
    """The broker is asked, and nothing is received or made there."""
    at = f"amqp://guest:guest@{servers()['RABBITMQ_HOST']}:{servers()['RABBITMQ_PORT']}/%2F"
    name = f"depth_{os.getpid()}"
    location = f"amqp {servers()['RABBITMQ_HOST']}:{servers()['RABBITMQ_PORT']}"
    write("semel.yaml", BROKERS.format(at=at, name=name, more=""))
    semel("migrate", "up")
    publish_lines("orders", ["{}"] * 3)
    wait_until(lambda: objects("queue", "ls")[0].get("waiting") == 3, lambda: f"{objects('queue', 'ls')}")
    expect("JSON", [{"queue": "orders", "waiting": 3, "readers": 0, "location": location},
                    {"queue": "later", "readers": 0, "location": location,
                     "reason": "it does not exist at the broker"},
                    {"queue": "shop", "readers": 0, "location": location,
                     "reason": "its URL names an exchange, and no queue"}], objects("queue", "ls"))
    golden("for people", f"QUEUE  WAITING  OLDEST  READERS  LOCATION\norders  3  -  0  {location}\n"
           f"later  -  -  0  {location}\nshop  -  -  0  {location}\n", "queue", "ls")
    write("semel.yaml", BROKERS.format(at=at, name=name, more=AWAY))
    out, err = semel("queue", "ls", "--json", status=75)
    rows = {row["queue"]: row for row in map(json.loads, out.splitlines())}
    expect("one that cannot be reached hides no other", 3, rows["orders"]["waiting"])
    for queue in ("away", "beside"):
        expect_true("waiting" not in rows[queue], f"{rows}")
        expect_true("cannot connect to 127.0.0.1:1" in rows[queue]["reason"], f"{rows}")
        expect_true(f'semel queue ls: cannot query queue "{queue}": cannot connect to 127.0.0.1:1' in err, err)
    write("semel.yaml", BROKERS.format(at=at, name=name, more=""))
    Run("--once").ends(0)
    expect("all are handled", 3, len(objects("inbox", "ls", "payments")))
    wait_until(lambda: objects("queue", "ls")[0].get("waiting") == 0, lambda: f"{objects('queue', 'ls')}")
    expect("the other one was made by run", 0, objects("queue", "ls")[1].get("waiting"))


SLOW = {"postgres": "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(0.02); "
                    "RETURN OLD; END$$; CREATE TRIGGER slow BEFORE DELETE ON semel_outbox FOR EACH ROW "
                    "EXECUTE FUNCTION slow()",
        "mariadb": "CREATE TRIGGER slow BEFORE DELETE ON semel_outbox FOR EACH ROW DO SLEEP(0.02)"}


def purge_interrupted():
    """Where removing takes long: it is ended after a step, which is short, and gone on with."""
    for kind, slow in SLOW.items():
        with place(kind) as store:
            set_up(store)
            publish_lines("returns", [json.dumps({"order_id": n}) for n in range(2000)])
            store.ask(slow)
            purge = Run("purge", "returns", "--yes", command="queue")
            wait_until(lambda: int(store.ask("SELECT coalesce(max(count), 0) FROM semel_audit")[0][0]) > 0, "a step")
            purge.send(signal.SIGINT)
            text = purge.ends(130)
            left = int(store.ask("SELECT count(*) FROM semel_outbox")[0][0])
            expect_true(0 < left < 2000, f"{left} are left")
            expect_true(re.search(rf"stopped; {2000 - left:,} of 2,000 removed \(audit 1\)\n"
                                  "to continue: semel queue purge returns\n", text), text)
            store.ask("DROP TRIGGER slow" + (" ON semel_outbox" if kind == "postgres" else ""))
            golden("gone on with", f"{left:,} of {left:,} removed (audit 2)\n", "queue", "purge", "returns", "--yes")
            expect("the audit", [2000 - left, left], [entry["count"] for entry in objects("audit")])


# --- ids and keys that cannot be typed as they are ---------------------------------------------------

@on_each
def ids(store):
    order(1)
    keep_in_outbox(store, 3, "later")
    seqs = [row[0] for row in store.ask("SELECT seq FROM semel_outbox ORDER BY seq")]
    for seq, wanted in zip(seqs, (b"\x00\xff\n", b"hex:1", b" x")):
        literal = f"'\\x{wanted.hex()}'" if store.url[0] == "p" else f"x'{wanted.hex()}'"
        store.ask(f"UPDATE semel_outbox SET id = {literal} WHERE seq = {seq}")
    shown = ["hex:00ff0a", "text:hex:1", "hex:2078"]
    expect("as they can be typed", shown, [row["id"] for row in objects("outbox", "ls", "shipping")])
    for n, typed in enumerate(shown):
        expect(f"{typed} is found", {"order_id": n}, objects("outbox", "show", typed)[0]["message"]["body"])
        expect_true(semel("outbox", "show", typed)[0].startswith(f"message   {typed}, "), typed)
    out, err = semel("outbox", "ls", "shipping", "--limit", "1")
    expect("the next page", "2 more: semel outbox ls shipping --limit 1 --after hex:00ff0a\n", err)
    expect("pages", shown[1:], [row["id"] for row in objects("outbox", "ls", "shipping", "--after", shown[0])])
    golden("not one", "semel outbox show: the id is not one: it is not hexadecimal\ntry: semel help outbox\n",
           "outbox", "show", "hex:xy", status=2)
    golden("given up", "1 of 1 given up (audit 1)\nnext: semel dead show 1\n",
           "outbox", "skip", "base64:AP8K", "--yes")
    expect("two are left", shown[1:], [row["id"] for row in objects("outbox", "ls", "shipping")])


@on_each
def refused_keys(store):
    """What `dead ls` shows of a message that no handler has seen is no key of an inbox."""
    publish_lines("orders", ['{"no": 1}'], "--type", "order.placed")
    Run("--once").ends(0)
    [letter] = objects("dead", "ls", "--inbox", "payments")
    expect_true("#" in letter["key"], f"{letter}")
    out, err = semel("inbox", "show", letter["key"], status=4)
    expect("explained", ("", f"semel inbox show: no inbox has the key {letter['key']}: it names dead letter "
                         f"{letter['letter']} of payments, a message that no handler has seen: {letter['error']}\n"
                         f"next: semel dead show {letter['letter']}\n"), (out, err))


# --- mistakes --------------------------------------------------------------------------------------

def mistakes():
    with place("sqlite") as store:
        write("semel.yaml", CONFIG.format(store=store.url))
        golden("no store", "semel inbox ls: the store shop.db does not exist yet\ntry: semel migrate up\n",
               "inbox", "ls", status=1)
        expect_true(not os.path.exists("shop.db"), "nothing was made")
        sqlite3.connect("empty.db").execute("CREATE TABLE other (n)")
        golden("no tables", "semel audit: the store has no tables of semel's yet\n"
               "try: semel migrate up --store sqlite:empty.db\n", "audit", "--store", "sqlite:empty.db", status=1)
        set_up(store)
        golden("an empty audit", "no manual changes\n", "audit")
        for kind, wrong, meant in (("inbox", "payment", "payments"), ("outbox", "shiping", "shipping"),
                                   ("queue", "order", "orders")):
            golden(kind, f'semel {kind} ls: {kind} "{wrong}" does not exist; did you mean "{meant}"?\n',
                   kind, "ls", wrong, status=4)
        golden("an option", "semel inbox ls: unknown option --sinse; did you mean --since?\ntry: semel help inbox\n",
               "inbox", "ls", "--sinse", "2h", status=2)
        golden("a subcommand", 'semel outbox: there is no command "requeu"; did you mean "requeue"?\n'
               "try: semel help outbox\n", "outbox", "requeu", status=2)
        golden("no subcommand", "semel queue: expected ls or purge\ntry: semel help queue\n", "queue", status=2)
        golden("a key", "semel inbox show: the key is not one: it is not hexadecimal\ntry: semel help inbox\n",
               "inbox", "show", "hex:xy", status=2)
        semel("inbox", "ls", "payments", "--since", "yesterday", status=2)
        semel("inbox", "purge", "payments", status=2)
        semel("inbox", "show", status=2)
        semel("inbox", "show", "1", "--color", "sometimes", status=2)
        for command in (("inbox", "ls"), ("doctor",), ("bench",)):
            out, err = semel(*command, "--store", "postgres://shop:canary@127.0.0.1:1/shop", status=2)
            expect_true("can read a password in an argument" in err and "canary" not in out + err, err)
        expect_true('"foo:" is not a store' in semel("inbox", "ls", "--store", "foo:bar", status=2)[1], "a scheme")
        semel("dead", "ls", "--store", "postgres://shop@127.0.0.1:1/shop?nonsense=1", status=2)
        out, err = semel("inbox", "ls", "--store", "postgres://shop@127.0.0.1:1/shop", "--timeout", "1s", status=75)
        expect_true("store unreachable: " in err, err)
        write("semel.yaml", "version: 1\n")
        semel("inbox", "ls", status=3)


def helps():
    """Every topic and every command has its page; the list names all commands."""
    expect_true("To find a message: semel inbox show KEY." in semel("help")[0], "semel help")
    for topic in ("common", "filters", "keys", "config", "handlers", "guarantees", "exit", "inbox", "outbox", "queue",
                  "audit"):
        expect_true(len(semel("help", topic)[0].splitlines()) >= 2, topic)
        for line in semel("help", topic)[0].splitlines() if topic != "config" else ():
            expect_true(len(line) <= 120, f"{topic}: {line}")
    expect("--help", semel("help", "inbox")[0], semel("inbox", "ls", "--help")[0])
    semel("help", "nothing", status=2)


# --- terminals and pipes ---------------------------------------------------------------------------

def terminals():
    with place("sqlite") as store:
        set_up(store)
        order(20713)
        keep_in_outbox(store, 60, "no queue is bound for \"order.paid\", and that is an error of a hundred characters, "
                       "as some are")
        for columns in (60, 80, 200):
            run = Run("ls", "shipping", command="outbox", terminal=True, env={"COLUMNS": str(columns)})
            lines = run.ends(0).splitlines()
            table = [line for line in lines if not line.startswith("10 more: ")]
            expect_true(all(len(line) <= columns for line in table), f"{columns}: {table[:4]}")
            words = [sum(1 for line in table if re.search(part, line)) for part in ("order.paid +9", "no queue is")]
            expect(f"types and errors at {columns} columns", [50, 50], words)
            expect(f"ids at {columns} columns", 50, sum(1 for line in table if re.match(ID, line)))
            expect("cut", columns < 200, any(line.endswith("...") for line in table))
            expect_true(lines[-1].startswith("10 more: semel outbox ls shipping --after "), lines[-1])
        for env, options in (({"NO_COLOR": "1", "TERM": "xterm"}, ()), ({"TERM": "dumb"}, ()),
                             ({"TERM": "xterm"}, ("--color", "never"))):
            run = Run("show", "20713", *options, command="inbox", terminal=True, env=env)
            expect_true("\x1b" not in run.ends(0), f"{env}: {run.text()!r}")
        piped = semel("outbox", "ls", "shipping")[0].splitlines()
        expect("no limit in a pipe", 61, len(piped))
        expect_true(all("..." not in line for line in piped), "nothing is cut in a pipe")
        utc, local = (semel("inbox", "show", "20713", *options, env={"TZ": "UTC-5"})[0] for options in (("--utc",), ()))
        hours = [int(re.search(TIME_OF_DAY, text)[0][11:13]) for text in (utc, local)]
        expect("hours between UTC and here", 5, (hours[1] - hours[0]) % 24)


def paged():
    """What is longer than the screen goes through the pager, and nothing else."""
    marks, other = "sed 's/^/1:/'", "sed 's/^/2:/'"
    help_lines = semel("help", "dead")[0].splitlines()
    for rows, env, mark in ((10, {"PAGER": marks}, "1:"), (10, {"PAGER": marks, "SEMEL_PAGER": other}, "2:"),
                            (100, {"PAGER": marks}, ""), (10, {"PAGER": ""}, ""), (0, {"PAGER": marks}, ""),
                            (10, {"PAGER": marks, "TERM": "dumb"}, ""), (10, {"PAGER": "/no/such/pager"}, "")):
        run = Run("dead", command="help", terminal=True, rows=rows, env={"TERM": "xterm", **env})
        lines = [line for line in run.ends(0).splitlines() if "/no/such/pager" not in line]
        expect(f"{rows} rows, {env}", [mark + line for line in help_lines], lines)
    with place("sqlite") as store:
        set_up(store)
        keep_in_outbox(store, 1, "no queue is bound for it")
        store.ask("UPDATE semel_outbox SET id = CAST('a b' AS BLOB), body = x'ff00'")
        out, err = semel("outbox", "show", "a b")
        expect_true("2 bytes, not text: semel outbox show 'a b' --body >FILE\n" in out, out)
        expect_true(err.endswith("; to give up on it: semel outbox skip 'a b'\n"), err)
        for options, mark in (((), "1:"), (("--no-pager",), "")):
            run = Run("show", "a b", *options, command="outbox", terminal=True, rows=3,
                      env={"TERM": "xterm", "PAGER": marks})
            first, last = run.ends(0).splitlines()[::len(run.text().splitlines()) - 1]
            expect_true(first.startswith(mark + "message") or first.startswith(mark + "outbox"), first)
            expect_true(last.startswith("next: "), f"what is said comes behind what is shown: {last}")


def hints():
    """A command that is proposed works on the same store."""
    expect_true(semel("inbox", "ls", "--store", "sqlite:nothing here.db", status=1)[1].endswith(
        "try: semel migrate up --store 'sqlite:nothing here.db'\n"), "the store")
    with place("sqlite") as store:
        set_up(store)
        keep_in_outbox(store, 2, "no queue is bound for it")
        said = semel("outbox", "ls", "shipping", "--limit", "1", "-c", "./semel.yaml", "--utc")[1]
        expect_true(re.search("^1 more: semel outbox ls shipping .* -c ./semel.yaml --utc$", said, flags=re.M), said)


def closed_pipe():
    with place("sqlite") as store:
        set_up(store)
        order(1)
        make_keys("shop.db", 5000)
        for options in ((), ("--json",)):
            with subprocess.Popen([SEMEL, "inbox", "ls", "payments", *options], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, env=environment()) as process:
                process.stdout.readline()
                process.stdout.close()
                expect("said", b"", process.stderr.read())
                expect("status", 0, process.wait(DEADLINE_S))


# --- hostile content -------------------------------------------------------------------------------

HOSTILE = "\x1b[2J\n\t\x07\u202e\u009b31m\"'\\"


@on_each
def hostile(store):
    semel("publish", "orders", json.dumps({"order_id": HOSTILE}), "--type", f"t{HOSTILE[0]}", "--id",
          "id-\u202e", "--header", f"h={HOSTILE[0]}")
    Run("--once").ends(0)
    key = objects("inbox", "ls", "invoices")[0]["key"]
    expect("the key, as it can be typed", "hex:" + HOSTILE.encode().hex(), key)
    expect("it is found", 2, len(objects("inbox", "show", key)))
    keep_in_outbox(store, 1, "a\x1b[2J error\\n")
    store.ask("UPDATE semel_outbox SET type = 't\x1b[2J'")
    wanted = (("inbox", "ls", "invoices"), ("inbox", "show", key), ("outbox", "ls"), ("outbox", "ls", "shipping"),
              ("outbox", "lag"), ("queue", "ls", "shipping"), ("inbox", "show", "\x1b[2J"), ("inbox", "ls", "\x1b[2J"),
              ("outbox", "show", "\x1b[2J"), ("audit", "--who", "\x1b[2J"))
    for words in wanted:
        for options in ((), ("--json",)):
            done = subprocess.run([SEMEL, *words, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env=environment(), check=False)
            text = (done.stdout + done.stderr).decode()
            expect_true(not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text), f"{words}: {text!r}")
            expect_true(done.returncode in (0, 4), f"{words}: {done.returncode}\n{text}")
            for line in done.stdout.decode().splitlines() if options else ():
                json.loads(line)
    store.ask("UPDATE semel_outbox SET headers = x'ff00ff'" if store.url[0] != "p" else
              "UPDATE semel_outbox SET headers = '\\xff00ff'")
    expect_true(objects("outbox", "ls", "shipping"), "a damaged row is listed")


# --- many rows -------------------------------------------------------------------------------------

def make_keys(path, count):
    """Keys of the inbox payments, as if so many messages had been handled."""
    shop = sqlite3.connect(path, timeout=DEADLINE_S)
    columns = [row[1] for row in shop.execute("PRAGMA table_info(semel_marker)")]
    shop.execute("PRAGMA synchronous = off")
    scope = shop.execute("SELECT id FROM semel_scope WHERE kind = 1 AND name = 'payments'").fetchone()[0]
    some = {"inbox": "?1", "key": "CAST(printf('%08d', n) AS BLOB)", "state": "0"}
    model = dict(zip(columns, shop.execute("SELECT * FROM semel_marker LIMIT 1").fetchone() or [None] * len(columns)))
    values = [some.get(name, "NULL" if model[name] is None else repr(model[name])) for name in columns]
    shop.execute(f"WITH RECURSIVE many (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM many WHERE n < {count}) "
                 f"INSERT INTO semel_marker ({', '.join(columns)}) SELECT {', '.join(values)} FROM many", (scope,))
    shop.commit()
    shop.close()


def many():
    """A hundred thousand keys: what is shown is shown by pages; a purge is interrupted and gone on with."""
    with place("sqlite") as store:
        set_up(store)
        order(1)
        make_keys("shop.db", 100000)
        took = {}
        for words in (("inbox", "ls"), ("inbox", "show", "00050000"), ("inbox", "ls", "payments", "--limit", "50"),
                      ("inbox", "ls", "payments", "--limit", "50", "--after", "00099900"), ("outbox", "ls"),
                      ("queue", "ls"), ("audit",)):
            began = time.monotonic()
            semel(*words)
            took[" ".join(words)] = round(time.monotonic() - began, 2)
        print("      took", took, flush=True)
        expect("all of them in a pipe", 100002, len(semel("inbox", "ls", "payments")[0].splitlines()))
        store.ask("UPDATE semel_marker SET at_ms = at_ms - 7200000")
        purge = Run("purge", "payments", "--older-than", "1h", "--yes", command="inbox")
        wait_until(lambda: int(store.ask("SELECT coalesce(max(count), 0) FROM semel_audit")[0][0]) >= 200,
                   "some are gone")
        purge.send(signal.SIGINT)
        text = purge.ends(130)
        left = len(objects("inbox", "ls", "payments"))
        expect_true(0 < left < 100000, f"{left} are left")
        expect_true(re.search(r"stopped; [\d,]+ of 100,001 forgotten \(audit 1\)\n"
                              "to continue: semel inbox purge payments --older-than 1h\n", text), text)
        entry = objects("audit")[0]
        expect("the audit", (100001 - left, True), (entry["count"], entry["result"].endswith(", then stopped")))


def two_purges():
    """Two operators at once: each key is forgotten by one of them."""
    with place("sqlite") as store:
        set_up(store)
        order(1)
        make_keys("shop.db", 3000)
        store.ask("UPDATE semel_marker SET at_ms = at_ms - 7200000")
        both = [Run("purge", "payments", "--older-than", "1h", "--yes", command="inbox") for _ in range(2)]
        for purge in both:
            purge.ends(0)
        expect("nothing is left", [], objects("inbox", "ls", "payments"))
        expect("together", 3001, sum(entry["count"] for entry in objects("audit")))


@on_each
def two_operators(store):
    """Both make the same messages due: each message once, and both say how many they did."""
    order(1)
    keep_in_outbox(store, 150, "later")
    both = [Run("requeue", "shipping", "--yes", "--json", command="outbox") for _ in range(2)]
    for run in both:
        run.ends(0)
    expect("all are due", 150, objects("outbox", "lag")[0]["due"])
    entries = objects("audit")
    expect_true(1 <= len(entries) <= 2, f"{entries}")  # one that comes late finds none that waits, and changes nothing
    expect_true(sum(entry["count"] for entry in entries) >= 150, f"{entries}")


main(inboxes, keys_of_several_parts, forgotten, purged, outboxes, ids, refused_keys, queues, queues_at_a_broker,
     purge_interrupted, mistakes, helps, terminals, paged, hints,
     closed_pipe, hostile, many, two_purges, two_operators)
