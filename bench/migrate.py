"""bench/migrate.py PROGRAM STATE [ROWS]: how long each step of semel's tables takes, and how long others wait for it.

PROGRAM is semel, STATE the file of `dev/servers start --disk STATE postgres mariadb`. Tables of the first version are
filled with ROWS rows each (a million by default); then each step is taken, while sessions insert into the tables every
few milliseconds. Printed: the time of the step, and the longest wait of such an insert, per table."""
import os
import subprocess
import sys
import threading
import time

PROGRAM, STATE = os.path.abspath(sys.argv[1]), sys.argv[2]
ROWS = int(sys.argv[3]) if len(sys.argv) > 3 else 1000000

FILL = {
    "postgres": """
INSERT INTO semel.semel_scope (kind, name) VALUES (1, 'orders'), (2, 'mail');
INSERT INTO semel.semel_marker (inbox, key, state, at_ms)
    SELECT 1, ('key-' || i)::bytea, 0, 1 FROM generate_series(1, {n}) i;
INSERT INTO semel.semel_outbox (outbox, wake_ms, captured_ms, grp, id, body) SELECT 2, 1, 1,
    CASE WHEN i % 2 = 0 THEN 'g' || i % 1000 END, ('id-' || i)::bytea, repeat('x', 200)::bytea
    FROM generate_series(1, {n}) i;
INSERT INTO semel.semel_dead (origin, name, key, attempts, at_ms, error, id, body)
    SELECT 1, 'orders', ('key-' || i)::bytea, 5, 1, 'exit 1', ('id-' || i)::bytea, repeat('x', 200)::bytea
    FROM generate_series(1, {n}) i;
ANALYZE;""",
    "mariadb": """
INSERT INTO semel_scope (kind, name) VALUES (1, 'orders'), (2, 'mail');
INSERT INTO semel_marker (inbox, `key`, state, at_ms) SELECT 1, CONCAT('key-', seq), 0, 1 FROM seq_1_to_{n};
INSERT INTO semel_outbox (outbox, wake_ms, attempts, refusals, captured_ms, grp, id, body) SELECT 2, 1, 0, 0, 1,
    IF(seq % 2 = 0, CONCAT('g', seq % 1000), NULL), CONCAT('id-', seq), REPEAT('x', 200) FROM seq_1_to_{n};
INSERT INTO semel_dead (origin, name, `key`, attempts, at_ms, error, id, body) SELECT 1, 'orders', CONCAT('key-', seq),
    5, 1, 'exit 1', CONCAT('id-', seq), REPEAT('x', 200) FROM seq_1_to_{n};""",
}
INSERTS = {
    "marker": "INSERT INTO {p}semel_marker (inbox, {k}, state, at_ms) VALUES (1, 'probe-{i}', 0, 1);",
    "outbox": "INSERT INTO {p}semel_outbox (outbox, wake_ms, attempts, refusals, captured_ms, id) "
              "VALUES (2, 1, 0, 0, 1, 'probe-{i}');",
    "dead": "INSERT INTO {p}semel_dead (origin, name, {k}, attempts, at_ms) VALUES (1, 'orders', 'probe-{i}', 1, 1);",
}


def places():
    return dict(line.strip().split("=", 1) for line in open(STATE, encoding="utf-8") if "=" in line)


def client(kind):
    found = places()
    if kind == "postgres":
        return ["psql", "-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1",
                found["POSTGRES_URL"].rsplit("/", 1)[0] + "/migrate_bench"]
    return ["mariadb", "--no-defaults", "-N", "-n", "-h", found["MARIADB_HOST"], "-P", found["MARIADB_PORT"],
            "-u", "root", "migrate_bench"]


def make(kind):
    found = places()
    if kind == "postgres":
        subprocess.run(["psql", "-X", "-q", found["POSTGRES_URL"],
                        "-c", "DROP DATABASE IF EXISTS migrate_bench WITH (FORCE)", "-c",
                        "CREATE DATABASE migrate_bench"], check=True)
        return found["POSTGRES_URL"].rsplit("/", 1)[0] + "/migrate_bench?schema=semel"
    subprocess.run([*client(kind)[:-1], "-e",
                    "DROP DATABASE IF EXISTS migrate_bench; CREATE DATABASE migrate_bench"], check=True)
    return found["MARIADB_URL"].rsplit("/", 1)[0] + "/migrate_bench"


class Probe(threading.Thread):
    """One session that inserts into a table; the longest wait since it was last asked."""

    def __init__(self, kind, table):
        super().__init__(daemon=True)
        self.table, self.longest, self.ends, self.count = table, 0.0, False, 0
        self.text = INSERTS[table].replace("{p}", "semel." if kind == "postgres" else "").replace(
            "{k}", "key" if kind == "postgres" else "`key`")
        self.session = subprocess.Popen(client(kind), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self):
        while not self.ends:
            self.count += 1
            began = time.monotonic()
            self.session.stdin.write(self.text.replace("{i}", f"{self.table}-{self.count}") + " SELECT 1;\n")
            self.session.stdin.flush()
            self.session.stdout.readline()
            self.longest = max(self.longest, time.monotonic() - began)
            time.sleep(0.005)

    def asked(self):
        longest, self.longest = self.longest, 0.0
        return longest


def up(url, version):
    began = time.monotonic()
    subprocess.run([PROGRAM, "migrate", "up", "--to", str(version), "--store", url], check=True,
                   stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def measure(kind):
    url = make(kind)
    count = len(subprocess.run([PROGRAM, "migrate", "status", "--json", "--store", url], check=True,
                               capture_output=True).stdout.splitlines())
    up(url, 1)
    subprocess.run(client(kind), input=FILL[kind].replace("{n}", str(ROWS)), text=True, check=True)
    probes = [Probe(kind, table) for table in INSERTS]
    for probe in probes:
        probe.start()
    time.sleep(2)
    for version in range(2, count + 1):
        for probe in probes:
            probe.asked()
        took = up(url, version)
        waits = ", ".join(f"{probe.table} {probe.asked():.2f} s" for probe in probes)
        print(f"{kind}: step {version}: {took:.2f} s; longest wait of an insert: {waits}", flush=True)
    for probe in probes:
        probe.ends = True


for server in ("postgres", "mariadb"):
    measure(server)
