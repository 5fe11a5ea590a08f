"""mariadb.py HOST PORT USER DATABASE <messages: each message is handled once, whatever the source delivers how often.
No binding of semel: the functions that semel's tables have are called in the transaction that the work goes into."""
import json
import sys
import time
import pymysql

TRY_AGAIN = 1205, 1213, 1020  # waited too long, deadlock, changed since it was read


def handle(db, message):
    with db.cursor() as sql:
        sql.execute("SELECT semel_receive('payments', %s)", [message["id"]])
        if sql.fetchone()[0]:  # 0: a copy
            sql.execute("INSERT INTO charge (order_id, cents) VALUES (%s, %s)", [message["id"], message["cents"]])
            sql.execute("SELECT semel_send('receipts', 'charged', %s)", [message["id"]])
    db.commit()


host, port, user, database = sys.argv[1:]
connection = pymysql.connect(host=host, port=int(port), user=user, database=database, charset="utf8mb4")
for line in sys.stdin:
    order = json.loads(line)
    while True:
        try:
            handle(connection, order)
            break
        except pymysql.err.OperationalError as problem:
            connection.rollback()
            if problem.args[0] not in TRY_AGAIN:
                raise
            time.sleep(0.05)
    print(order["id"], flush=True)  # here a consumer acknowledges
