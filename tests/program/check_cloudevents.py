"""semel publish --cloudevents: what an event says becomes the message, and nothing of a bad line is published."""
import base64
import json
import sqlite3

from program_kit import expect, expect_true, main, semel, write

CONFIG = """version: 1
store: sqlite:shop.db
setup: >
  CREATE TABLE IF NOT EXISTS seen (id TEXT, type TEXT, source TEXT, time TEXT, tenant TEXT, topic TEXT, part TEXT,
    correlation TEXT, body BLOB)
queues: { orders: store }
inboxes:
  all:
    from: orders
    sql: >
      INSERT INTO seen VALUES (:id, :type, :source, :time, :{header:tenant}, :topic, :group, :{correlation-id}, :body)
"""
EVENT = {"specversion": "1.0", "id": "e-1", "source": "/shop", "type": "order.placed", "subject": "paid",
         "partitionkey": "eu", "correlationid": "c-9", "time": "2026-03-14T01:41:15.402Z",
         "datacontenttype": "application/json", "tenant": "acme", "data": {"order_id": 7}}
BYTES = bytes(range(256))
BINARY = {"specversion": "1.0", "id": "e-2", "source": "/shop", "type": "scan", "tenant": 12,
          "datacontenttype": "application/octet-stream", "data_base64": base64.b64encode(BYTES).decode()}
TEXT = {"specversion": "1.0", "id": "e-3", "source": "/shop", "type": "note", "datacontenttype": "text/plain",
        "data": "line one\nline two\x1b"}


def lines(*events):
    return "".join(json.dumps(event) + "\n" for event in events).encode()


def seen():
    semel("run", "--once")
    with sqlite3.connect("shop.db") as db:
        return db.execute("SELECT * FROM seen ORDER BY id").fetchall()


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def events_become_messages():
    write("semel.yaml", CONFIG)
    out, err = semel("publish", "orders", "--cloudevents", "--lines", stdin=lines(EVENT, BINARY, TEXT))
    expect("the ids", "e-1\ne-2\ne-3\n", out)
    expect("the count", 'published 3 messages to "orders"\n', err)
    first, second, third = seen()
    expect("the attributes", ("e-1", "order.placed", "/shop", "2026-03-14T01:41:15.402Z", "acme", "paid", "eu", "c-9"),
           first[:8])
    expect("JSON data", {"order_id": 7}, json.loads(text(first[8])))
    expect("binary data", BYTES, second[8])
    expect("a number as a header, no time, no group, and the topic of the queue", (None, "12", "orders", None),
           second[3:7])
    expect("text data", "line one\nline two\x1b", text(third[8]))


def one_event_and_its_copies():
    write("semel.yaml", CONFIG)
    pretty = json.dumps(EVENT, indent=2)
    write("event.json", pretty)
    semel("publish", "orders", "--cloudevents", pretty)
    semel("publish", "orders", "--cloudevents", "--file", "event.json")
    semel("publish", "orders", "--cloudevents", "--copies", "3", stdin=pretty.encode())
    expect("one effect", 1, len(seen()))


def nothing_of_a_bad_line():
    write("semel.yaml", CONFIG)
    for wrong, why in ((b"{not json}\n", "not JSON"),
                       (lines({**BINARY, "id": ""}), "CloudEvent: id is missing"),
                       (lines({**BINARY, "specversion": "0.3"}), 'CloudEvent: specversion is "0.3"; 1.0 is known'),
                       (lines({**BINARY, "time": "\x1b[31m"}), "CloudEvent: time is "),
                       (lines({**BINARY, "data": 1}), "CloudEvent: both data and data_base64 are there"),
                       (lines({**BINARY, "data_base64": "?"}), "CloudEvent: data_base64 is not base64")):
        out, err = semel("publish", "orders", "--cloudevents", "--lines", status=1,
                         stdin=lines(EVENT) + b"\n" + wrong + lines(TEXT))
        expect("the ids before it", "e-1\n", out)
        expect_true(err.startswith("semel publish: line 3: ") and err.endswith("; 1 published before it\n"), err)
        expect_true("\x1b" not in err, err)
        expect_true(why in err or why == "not JSON", err)
    expect("only the line before", ["e-1"], [row[0] for row in seen()])


def the_event_decides():
    write("semel.yaml", CONFIG)
    for option in ("--type=t", "--id=i", "--source=s", "--group=g", "--content-type=c", "--header=a=b"):
        err = semel("publish", "orders", "--cloudevents", option, json.dumps(EVENT), status=2)[1]
        expect_true("with --cloudevents the event says" in err, err)
    semel("publish", "orders", "--cloudevents", "--topic", "t", json.dumps(EVENT))
    expect("the topic", "t", seen()[0][5])


def exported_letters_come_back():
    """What `semel dead export` prints is the message that died: published elsewhere, it dies the same."""
    write("semel.yaml", CONFIG.split("inboxes:", maxsplit=1)[0] +
          "inboxes: { all: { from: orders, attempts_max: 1, exec: [sh, -c, exit 65] } }\n")
    semel("publish", "orders", "--cloudevents", "--lines", stdin=lines(EVENT, BINARY, TEXT))
    semel("run", "--once")
    exported = semel("dead", "export", "--inbox", "all")[0]
    expect("letters", 3, exported.count("\n"))
    write("letters.jsonl", exported)
    out = semel("publish", "orders", "--cloudevents", "--lines", "--store", "sqlite:other.db", "--file=letters.jsonl")
    expect("the ids", "e-1\ne-2\ne-3\n", out[0])
    semel("run", "--once", "--store", "sqlite:other.db")
    again = semel("dead", "export", "--inbox", "all", "--store", "sqlite:other.db")[0]
    expect("the same events", exported, again)
    first, second, third = (json.loads(line) for line in exported.splitlines())
    expect("all that the first event said", EVENT, first)
    expect("binary data", BINARY["data_base64"], second["data_base64"])
    expect("text data", TEXT["data"], third["data"])


if __name__ == "__main__":
    main(events_become_messages, one_event_and_its_copies, nothing_of_a_bad_line, the_event_decides,
         exported_letters_come_back)
