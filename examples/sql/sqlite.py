"""sqlite.py FILE <messages: each message is handled once, whatever the source delivers how often. No binding of semel:
its statements (docs/SQL.md) are run in the transaction that the work goes into."""
import json
import sqlite3
import sys
import uuid

NAME = "INSERT INTO semel_scope (kind, name) VALUES (?, ?) ON CONFLICT DO NOTHING"
NOW = "(SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS ms) w LEFT JOIN semel_clock c"
RECEIVE = f"""INSERT INTO semel_marker (inbox, key, state, at_ms)
    SELECT s.id, CAST(? AS BLOB), 0, coalesce(c.store_ms + max(0, w.ms - c.wall_ms), w.ms)
    FROM semel_scope s JOIN {NOW} WHERE s.kind = 1 AND s.name = ?
    ON CONFLICT DO UPDATE SET state = 0, first_ms = coalesce(first_ms, at_ms), at_ms = excluded.at_ms,
        fingerprint = NULL, type = NULL, source = NULL, received_ms = NULL, attempts = NULL, lease_until_ms = NULL,
        error = NULL WHERE state = 1 AND token IS NULL
    RETURNING 1"""
SEND = f"""INSERT INTO semel_outbox (outbox, wake_ms, attempts, refusals, captured_ms, id, type, time_ms, body)
    SELECT s.id, coalesce(c.store_ms, 0), 0, 0, coalesce(c.store_ms + max(0, w.ms - c.wall_ms), w.ms),
           CAST(? AS BLOB), ?, w.ms, CAST(? AS BLOB)
    FROM semel_scope s JOIN {NOW} WHERE s.kind = 2 AND s.name = ?"""


def handle(db, message):
    db.execute("BEGIN IMMEDIATE")
    db.execute(NAME, [1, "payments"])
    if db.execute(RECEIVE, [message["id"], "payments"]).fetchall():  # otherwise a copy
        db.execute("INSERT INTO charge (order_id, cents) VALUES (?, ?)", [message["id"], message["cents"]])
        db.execute(NAME, [2, "receipts"])
        db.execute(SEND, [str(uuid.uuid4()), "charged", message["id"], "receipts"])
    db.execute("COMMIT")


connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
for line in sys.stdin:
    order = json.loads(line)
    handle(connection, order)
    print(order["id"], flush=True)  # here a consumer acknowledges
