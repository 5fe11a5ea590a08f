"""semel test --store: tests on a real server, in a schema or database of their own, of which nothing is left. The
application's own tables are not touched. SEMEL_TEST_SERVERS says where the servers are."""
import os
import signal
import subprocess

from program_kit import Run, expect, expect_true, main, semel, servers, wait_until, write

CONFIG = """version: 1
store: sqlite:shop.db
setup: CREATE TABLE IF NOT EXISTS semel_test_ledger (order_id BIGINT)
queues: { orders: store, shipping: store }
inboxes:
  payments:
    from: orders
    key: json:/order_id
    sql: INSERT INTO semel_test_ledger (order_id) VALUES (:json/order_id)
    send: { to: shipping }
  mail: { from: orders, exec: [./never-called] }
tests:
  - name: once
    given: { to: orders, body: { order_id: 7 } }
    answers: { mail: [retry, done] }
    expect: { inboxes: { payments: [processed, duplicate] }, sent: { shipping: 1 }, dead: 0,
              sql: { "SELECT count(*) FROM semel_test_ledger": COUNT } }
"""


def ask_postgres(sql):
    return subprocess.run(["psql", "-qXAt", servers()["POSTGRES_URL"], "-c", sql], check=True,
                          stdout=subprocess.PIPE).stdout.decode().split()


def ask_mariadb(sql):
    at = servers()
    words = ["mariadb", "-h", at["MARIADB_HOST"], "-P", at["MARIADB_PORT"], "-u", "root", "-N", "-e", sql]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout.decode().split()


def schemas_of(pid):
    return ask_postgres(f"SELECT nspname FROM pg_namespace WHERE nspname LIKE 'semel\\_test\\_{pid}\\_%'")


def databases_of(pid):
    return ask_mariadb(f"SHOW DATABASES LIKE 'semel\\_test\\_{pid}\\_%'")


def check_server(url, where, made_by):
    """The same result as on SQLite, also when killed at each point; and nothing is left of it."""
    write("semel.yaml", CONFIG.replace("COUNT", "1"))
    run = Run("--store", url, command="test")
    wait_until(lambda: made_by(run.pid), "something is made for the tests")
    said = run.ends(0, deadline_s=600)
    expect_true("ok    once: 1 processed, 1 duplicate; same result when killed at " in said, said)
    expect_true("1 test, 1 passed, " in said and f"(temporary {where} 127.0.0.1" in said, said)
    expect("what is left", [], made_by(run.pid))

    write("semel.yaml", CONFIG.replace("COUNT", "2"))
    run = Run("--store", url, command="test")
    said = run.ends(1)
    expect_true("SELECT count(*) FROM semel_test_ledger: expected 2, got 1" in said, said)
    expect("what is left after a failure", [], made_by(run.pid))

    write("semel.yaml", CONFIG.replace("COUNT", "1"))
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        run = Run("--store", url, command="test")
        wait_until(lambda: made_by(run.pid), "something is made for the tests")
        os.killpg(run.pid, number)
        said = run.ends(status)
        expect_true("FAIL" not in said and "passed" not in said, said)
        expect(f"what is left after signal {number}", [], made_by(run.pid))


def on_postgres():
    url = servers()["POSTGRES_URL"]
    ask_postgres("CREATE TABLE semel_test_ledger (order_id BIGINT); INSERT INTO semel_test_ledger VALUES (1)")
    try:
        check_server(url, "schema in postgres", schemas_of)
        expect("the application's own table", ["1"], ask_postgres("SELECT * FROM semel_test_ledger"))
    finally:
        ask_postgres("DROP TABLE semel_test_ledger")


def on_mariadb():
    url = servers()["MARIADB_URL"]
    name = url.rsplit("/", 1)[1]
    ask_mariadb(f"CREATE TABLE {name}.semel_test_ledger (order_id BIGINT)")
    try:
        check_server(url, "database in mariadb", databases_of)
        expect("the application's own table", ["0"], ask_mariadb(f"SELECT count(*) FROM {name}.semel_test_ledger"))
    finally:
        ask_mariadb(f"DROP TABLE {name}.semel_test_ledger")


def what_cannot_work_is_said():
    write("semel.yaml", CONFIG.replace("COUNT", "1"))
    err = semel("test", "--store", "postgres://shop:canary-1@127.0.0.1:1/shop", status=3)[1]
    expect_true("other users on this host can read a password in an argument" in err and "canary" not in err, err)
    url = "postgres://shop:${SECRET}@127.0.0.1:1/shop"
    err = semel("test", "--store", url, status=75, env={"SECRET": "canary-2"})[1]
    expect_true("refused" in err and "canary" not in err, err)
    err = semel("test", "--store", "sqlite:other.db", status=2)[1]
    expect_true("--store is for tests on PostgreSQL or MariaDB" in err, err)
    expect("nothing is made", ["semel.yaml"], os.listdir("."))


if __name__ == "__main__":
    main(on_postgres, on_mariadb, what_cannot_work_is_said)
