"""Stores on the servers of a test run, and a database administrator's way to them: psql and mariadb."""
import os
import re
import subprocess
import sys
import urllib.parse

from program_kit import Failed, main, servers


class Server:
    """A store of its own on a server: `url` is semel's, run() is the administrator's."""

    def __init__(self, name):
        self.name = f"{name}_{os.getpid()}"
        self.roles = []

    def ask(self, script):
        """What the client prints; it must succeed."""
        done = self.run(script)
        if done.returncode != 0:
            raise Failed(f"{script[:2000]}\n{done.stderr}")
        return done.stdout

    def insert_version(self, version, needs="NULL"):
        """As a semel to come would record a step."""
        self.ask(f"INSERT INTO {self.table('schema')} (version, name, applied_ms, needs) "
                 f"VALUES ({version}, 'future', 1, {needs});")


class Postgres(Server):
    """A schema of its own; or, with database=True, a database of its own with the schema semel."""
    kind = "postgres"

    def __init__(self, name, database=False):
        super().__init__(name)
        base = servers()["POSTGRES_URL"]
        self.schema = "semel" if database else self.name
        self.own_database = database
        self.admin = base
        if database:
            self.ask(f"CREATE DATABASE {self.name};")
            self.admin = re.sub(r"/[^/]*$", f"/{self.name}", base)
        self.url = f"{self.admin}?schema={self.schema}"

    def url_as(self, role):
        return f"{re.sub(r'//[^@]*@', f'//{role}@', self.admin)}?schema={self.schema}"

    def table(self, name):
        return f"{self.schema}.semel_{name}"

    def run(self, script, role=None):
        url = re.sub(r"//[^@]*@", f"//{role}@", self.admin) if role else self.admin
        return subprocess.run(["psql", "-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", url], input=script,
                              capture_output=True, text=True, check=False)

    def catalogue(self):
        of = f"n.nspname = '{self.schema}'"
        columns = self.ask(f"""SELECT relname, attname, format_type(atttypid, atttypmod), attnotnull, attidentity,
            pg_get_expr(adbin, adrelid), reloptions, collname FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid
            JOIN pg_namespace n ON n.oid = relnamespace LEFT JOIN pg_attrdef d ON adrelid = c.oid AND adnum = attnum
            LEFT JOIN pg_collation l ON l.oid = attcollation
            WHERE {of} AND attnum > 0 AND relkind = 'r' ORDER BY relname, attnum;""")
        indexes = self.ask(f"SELECT indexdef FROM pg_indexes WHERE schemaname = '{self.schema}' ORDER BY 1;")
        constraints = self.ask(f"""SELECT conrelid::regclass, conname, pg_get_constraintdef(c.oid)
            FROM pg_constraint c JOIN pg_namespace n ON n.oid = connamespace WHERE {of} ORDER BY 1, 2;""")
        functions = self.ask(f"""SELECT pg_get_functiondef(p.oid) FROM pg_proc p JOIN pg_namespace n
            ON n.oid = pronamespace WHERE {of} ORDER BY proname, p.oid::regprocedure::text;""")
        taken = self.ask(f"SELECT version, name, needs FROM {self.table('schema')} ORDER BY 1;")
        return [part.replace(self.schema, "SCHEMA") for part in (columns, indexes, constraints, functions, taken)]

    def close(self):
        if self.own_database:
            self.admin = servers()["POSTGRES_URL"]
            self.run(f"DROP DATABASE IF EXISTS {self.name} WITH (FORCE);")
        else:
            self.run(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE;")
        for role in self.roles:
            self.run(f"DROP ROLE IF EXISTS {role};")


class Mariadb(Server):
    """A database of its own."""
    kind = "mariadb"

    def __init__(self, name):
        super().__init__(name)
        self.place = urllib.parse.urlsplit(servers()["MARIADB_URL"])
        self.url = self.url_as(self.place.username)
        self.database = "information_schema"
        self.ask(f"CREATE DATABASE {self.name};")
        self.database = self.name

    def url_as(self, role):
        return f"mariadb://{role}@{self.place.hostname}:{self.place.port}/{self.name}"

    def table(self, name):
        return f"{self.name}.semel_{name}"

    def run(self, script, role=None):
        return subprocess.run(["mariadb", "--no-defaults", "-N", "-h", self.place.hostname, "-P", str(self.place.port),
                               "-u", role or self.place.username, self.database], input=script,
                              capture_output=True, text=True, check=False)

    def catalogue(self):
        tables = self.ask("SHOW TABLES;").split()
        made = "".join(self.ask(f"SHOW CREATE TABLE {table};") for table in sorted(tables))
        made = re.sub(r" AUTO_INCREMENT=\d+", "", made)
        functions = self.ask(f"""SELECT routine_type, routine_name, dtd_identifier, routine_definition, routine_comment
            FROM information_schema.routines WHERE routine_schema = '{self.name}' ORDER BY 1, 2;""")
        taken = self.ask(f"SELECT version, name, needs FROM {self.table('schema')} ORDER BY 1;")
        return [part.replace(self.name, "DATABASE") for part in (made, functions, taken)]

    def close(self):
        self.database = "information_schema"
        self.run(f"DROP DATABASE IF EXISTS {self.name};")
        for role in self.roles:
            self.run(f"DROP USER IF EXISTS {role}; DROP ROLE IF EXISTS {role};")


def main_of_groups(groups):
    """The checks of a group that the command line names, or all, or those that it names."""
    if len(sys.argv) == 3 and sys.argv[2] in groups:
        main(*groups[sys.argv.pop()])
    else:
        main(*(check for group in groups.values() for check in group))
