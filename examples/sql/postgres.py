"""postgres.py DSN <messages: each message is handled once, whatever the source delivers how often. No binding of semel:
the functions that semel's tables have are called in the transaction that the work goes into (docs/SQL.md)."""
import json
import sys
import time
import psycopg2
from psycopg2 import errors

TRY_AGAIN = errors.SerializationFailure, errors.DeadlockDetected, errors.LockNotAvailable


def handle(db, message):
    with db, db.cursor() as sql:  # a transaction, which commits at the end
        sql.execute("SELECT semel_receive('payments', %s)", [message["id"]])
        if not sql.fetchone()[0]:
            return  # a copy
        sql.execute("INSERT INTO charge (order_id, cents) VALUES (%s, %s)", [message["id"], message["cents"]])
        sql.execute("SELECT semel_send('receipts', 'charged', %s)", [message["id"]])


connection = psycopg2.connect(sys.argv[1])
for line in sys.stdin:
    order = json.loads(line)
    while True:
        try:
            handle(connection, order)
            break
        except TRY_AGAIN:
            time.sleep(0.05)
    print(order["id"], flush=True)  # here a consumer acknowledges
