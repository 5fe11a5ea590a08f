"""semel bench: what it prints, and that nothing is left of it, on SQLite and on servers (SEMEL_TEST_SERVERS). No figure
is looked at but that it is one."""
import json
import os
import signal
import subprocess

from program_kit import Run, expect, expect_true, main, semel, servers, wait_until, write

PARTS = ["raw", "receive", "raw_batch", "receive_batch", "duplicate", "relay_batch"]


def check_rows(out):
    rows = [json.loads(line) for line in out.splitlines()]
    expect("what is measured", PARTS, [row["measured"] for row in rows])
    for row in rows:
        expect_true(row["messages"] > 0 and 0 < row["p50_us"] <= row["p99_us"], f"figures: {row}")
        expect(f"a ratio of {row['measured']}", not row["measured"].startswith("raw"), row.get("of_raw", 0) > 0)


def on_sqlite():
    write("semel.yaml", "version: 1\nstore: sqlite:shop.db\nqueues: { orders: store }\n"
          "inboxes: { payments: { from: orders, sql: SELECT 1 } }\n")
    write("shop.db", "not a database, and not touched")
    out, err = semel("bench", "--seconds", "1", "--json")
    check_rows(out)
    expect("where", "measuring in a temporary file beside sqlite:shop.db\n", err)
    text = semel("bench", "--store", "sqlite:shop.db?synchronous=normal", "--seconds", "1", "-q")[0]
    expect("the headings", ["MEASURED", "MESSAGES/S", "P50", "P99", "OF", "RAW"], text.split("\n")[0].split())
    expect("what is left", ["semel.yaml", "shop.db"], sorted(os.listdir(".")))

    run = Run("--seconds", "600", command="bench")
    wait_until(lambda: len(os.listdir(".")) > 2, "it has begun")
    os.killpg(run.pid, signal.SIGINT)
    run.ends(130)
    expect("what is left after Ctrl-C", ["semel.yaml", "shop.db"], sorted(os.listdir(".")))


def mistakes():
    expect("no store", "semel bench: the store has no SQL; use SQLite, PostgreSQL or MariaDB\n",
           semel("bench", "--store", "memory:", "-q", status=1)[1])
    expect_true("takes a number" in semel("bench", "--seconds", "0", status=2)[1], "seconds")
    err = semel("bench", "--store", "postgres://u:canary@127.0.0.1:1/d", status=2)[1]
    expect_true("canary" not in err, err)


def on_servers():
    at = servers()
    check_rows(semel("bench", "--store", at["POSTGRES_URL"], "--seconds", "1", "--json")[0])
    left = subprocess.run(["psql", "-qXAt", at["POSTGRES_URL"], "-c",
                           "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'semel\\_bench\\_%'"],
                          check=True, stdout=subprocess.PIPE).stdout
    expect("schemas that are left", b"", left)
    check_rows(semel("bench", "--store", at["MARIADB_URL"], "--seconds", "1", "--json")[0])
    left = subprocess.run(["mariadb", "-h", at["MARIADB_HOST"], "-P", at["MARIADB_PORT"], "-u", "root", "-N", "-e",
                           "SHOW DATABASES LIKE 'semel\\_bench\\_%'"], check=True, stdout=subprocess.PIPE).stdout
    expect("databases that are left", b"", left)


if __name__ == "__main__":
    main(on_sqlite, mistakes, on_servers)
