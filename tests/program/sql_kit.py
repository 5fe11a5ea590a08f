"""What check_sql.py and check_sql_copies.py share: a database of their own on each server, and connections to it as an
application makes them."""
import atexit
import os
import re
import sqlite3

import psycopg2
import pymysql

from program_kit import semel, servers

CHARGE = "CREATE TABLE charge (order_id VARCHAR(64) NOT NULL, cents INT NOT NULL)"
LEVELS = ("read committed", "repeatable read", "serializable")
COUNT = [0]


def new_name():
    COUNT[0] += 1
    return f"sql_{os.getpid()}_{COUNT[0]}"


class Server:
    """A database with semel's tables and the application's table `charge`."""

    def prepare(self):
        semel("exec", "--store", self.url, "--key", "tables", "--", "true")
        self.run(CHARGE)

    def run(self, statement, values=(), level=None):
        """One statement in a transaction of its own: its rows."""
        db = self.connect(level)
        try:
            with db.cursor() as sql:
                sql.execute(statement, values)
                rows = list(sql.fetchall()) if sql.description else []
            db.commit()
            return rows
        finally:
            db.close()

    def value(self, statement, values=(), level=None):
        return self.run(statement, values, level)[0][0]

    def refusal(self, statement, values=(), level=None):
        """The code of the error that the statement fails with; None if it does not."""
        try:
            self.run(statement, values, level)
        except (psycopg2.Error, pymysql.err.Error) as problem:
            return self.code(problem)
        return None

    def at_level(self, level):
        return f"{self.url}?isolation={level.replace(' ', '-')}&pool=20"


class Postgres(Server):
    busy, mismatch, stale, unknown, invalid = "55P03", "SM001", "SM002", "SM003", "22023"
    retry = "40001", "40P01", "55P03"
    key_column = "key"

    def __init__(self, user="postgres"):
        found, self.database = servers(), new_name()
        self.at = {"host": found["POSTGRES_HOST"], "port": int(found["POSTGRES_PORT"])}
        self.url = re.sub(r"/[^/]*$", "/" + self.database, found["POSTGRES_URL"])
        self.dsn = f"host={self.at['host']} port={self.at['port']} user={user} dbname={self.database}"
        self.manage(f"CREATE DATABASE {self.database}")
        atexit.register(self.manage, f"DROP DATABASE {self.database} WITH (FORCE)")
        self.prepare()

    def manage(self, statement):
        db = psycopg2.connect(user="postgres", dbname="postgres", **self.at)
        db.autocommit = True
        db.cursor().execute(statement)
        db.close()

    def connect(self, level=None, user="postgres"):
        db = psycopg2.connect(user=user, dbname=self.database, **self.at)
        if level:
            db.set_session(isolation_level=level.upper())
        return db

    @staticmethod
    def code(problem):
        return problem.pgcode

    @staticmethod
    def blob(value):
        return psycopg2.Binary(value)


class MariaDB(Server):
    busy, mismatch, stale, unknown, invalid = 1205, 30001, 30002, 30003, 30004
    retry = 1205, 1213, 1020
    key_column = "`key`"

    def __init__(self):
        found, self.database = servers(), new_name()
        self.at = {"host": found["MARIADB_HOST"], "port": int(found["MARIADB_PORT"])}
        self.url = re.sub(r"/[^/]*$", "/" + self.database, found["MARIADB_URL"])
        self.manage(f"CREATE DATABASE {self.database}")
        atexit.register(self.manage, f"DROP DATABASE {self.database}")
        self.prepare()

    def manage(self, statement):
        db = pymysql.connect(user="root", **self.at)
        db.cursor().execute(statement)
        db.close()

    def connect(self, level=None, user="root"):
        db = pymysql.connect(user=user, database=self.database, charset="utf8mb4", **self.at)
        if level:
            db.cursor().execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level.upper()}")
        return db

    @staticmethod
    def code(problem):
        return problem.args[0]

    @staticmethod
    def blob(value):
        return value


class SQLite(Server):
    """A file in the directory of the check."""

    def __init__(self):
        self.file = os.path.abspath("shop.db")
        self.url = "sqlite:" + self.file
        self.prepare()

    def connect(self, level=None):
        return sqlite3.connect(self.file, timeout=60)

    def run(self, statement, values=(), level=None):
        db = self.connect()
        try:
            with db:
                return db.execute(statement.replace("%s", "?"), values).fetchall()
        finally:
            db.close()
