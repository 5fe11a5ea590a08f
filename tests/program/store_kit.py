"""The stores that commands for operators are tried on: each is a database of its own, made for one check and removed
behind it. `ask` runs a statement as an application does, past semel."""
import contextlib
import os
import sqlite3
import subprocess

from program_kit import DEADLINE_S, servers

STORES = ("sqlite", "postgres", "mariadb")


class Place:
    def __init__(self, url, ask):
        self.url, self.ask = url, ask


def ask_sqlite(query):
    shop = sqlite3.connect("shop.db", timeout=DEADLINE_S)
    try:
        rows = shop.execute(query).fetchall()
        shop.commit()
        return [tuple(str(value) for value in row) for row in rows]
    finally:
        shop.close()


def client(words):
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True, timeout=DEADLINE_S)
    return [tuple(line.split("\t")) for line in done.stdout.decode("utf-8", "replace").splitlines()]


@contextlib.contextmanager
def postgres(name):
    url = servers()["POSTGRES_URL"]
    own = url.rsplit("/", 1)[0] + "/" + name

    def psql(where, query):
        return client(["psql", "-qXAt", "-F", "\t", where, "-c", query])

    psql(url, f"CREATE DATABASE {name}")
    try:
        yield Place(own, lambda query: psql(own, query))
    finally:
        psql(url, f"DROP DATABASE {name} WITH (FORCE)")


@contextlib.contextmanager
def mariadb(name):
    found = servers()

    def sql(database, query):
        return client(["mariadb", "--no-defaults", "-N", "-B", "-h", found["MARIADB_HOST"], "-P", found["MARIADB_PORT"],
                       "-u", "root", database, "-e", query])

    sql("semel", f"CREATE DATABASE {name}")
    try:
        yield Place(found["MARIADB_URL"].rsplit("/", 1)[0] + "/" + name, lambda query: sql(name, query))
    finally:
        sql("semel", f"DROP DATABASE {name}")


def place(kind):
    """A context: an empty store of this kind, for the directory and the process that asks."""
    if kind == "sqlite":
        return contextlib.nullcontext(Place("sqlite:shop.db", ask_sqlite))
    name = f"place_{os.getpid()}"
    return postgres(name) if kind == "postgres" else mariadb(name)
