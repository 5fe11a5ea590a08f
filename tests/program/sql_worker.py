"""sql_worker.py postgres|mariadb WHERE INBOX THREADS LEVEL: the SQL side of check_sql_copies.py, as an application
writes it. Each line of the standard input is an id; a thread receives it in SQL, inserts a row into `charge` and sends
a message, in one transaction, and prints the id when the transaction is committed."""
import sys
import threading
import time

import psycopg2
import pymysql

server, where, inbox, threads, level = sys.argv[1:]
RETRY = ("40001", "40P01", "55P03") if server == "postgres" else (1205, 1213, 1020)
lock = threading.Lock()


def connect():
    if server == "postgres":
        db = psycopg2.connect(where)
        db.set_session(isolation_level=level.upper())
        return db
    host, port, database = where.split(",")
    db = pymysql.connect(host=host, port=int(port), user="root", database=database, charset="utf8mb4")
    db.cursor().execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level.upper()}")
    return db


def handle(db, one):
    with db.cursor() as sql:
        sql.execute("SELECT semel_receive(%s, %s)", [inbox, one])
        if sql.fetchone()[0]:
            sql.execute("INSERT INTO charge (order_id, cents) VALUES (%s, 1)", [one])
            sql.execute("SELECT semel_send('receipts', 'charged', %s)", [one])
    db.commit()


def work():
    db = connect()
    while True:
        with lock:
            one = sys.stdin.readline().strip()
        if not one:
            return
        while True:
            try:
                handle(db, one)
                break
            except (psycopg2.Error, pymysql.err.Error) as problem:
                db.rollback()
                if (problem.pgcode if server == "postgres" else problem.args[0]) not in RETRY:
                    raise
                time.sleep(0.005)
        with lock:
            print(one, flush=True)


failures = []
threading.excepthook = lambda failure: failures.append(failure) or sys.__excepthook__(*failure[:3])
running = [threading.Thread(target=work) for _ in range(int(threads))]
for thread in running:
    thread.start()
for thread in running:
    thread.join()
sys.exit(1 if failures else 0)
