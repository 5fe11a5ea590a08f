"""check_rights.py PROGRAM [CHECK...]: the program with the accounts of docs/RIGHTS.md, made by the document's own
statements: `run`, `publish` and `doctor` as shop_app, `dead` as shop_ops, and neither may create a table; and rows of a
table of the application's, with what these need."""
import os
import re

from admin_kit import Mariadb, Postgres, main_of_groups
from program_kit import expect, expect_true, publish_lines, read, semel, write

DOCUMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/RIGHTS.md")
ROLES = ["semel_application", "semel_relay", "semel_sweeper", "semel_operator", "semel_run", "shop_app", "shop_ops"]

CONFIG = """version: 1
store: {store}
queues: {{ orders: store, paid: store }}
inboxes:
  payments:
    from: orders
    key: json:/order_id
    attempts_max: 1
    retention: 1h
    sql: INSERT INTO rights_ledger (order_id, amount) VALUES (:json/order_id, :json/amount)
    send: {{ to: paid, type: order.paid }}
  mail: {{ from: paid, exec: [./mail.sh], attempts_max: 1 }}
"""


def block(first_line):
    text = read(DOCUMENT)
    return re.search(rf"```sql\n-- {first_line}\n(.*?)```", text, re.S)[1]


def named(store, name):
    return f"{name}_{os.getpid()}"


def make_roles(store):
    """The names of roles are those of the whole server."""
    text = block("PostgreSQL" if store.kind == "postgres" else "MariaDB")
    store.roles += [named(store, role) for role in reversed(ROLES)]
    text = re.sub(r"\b(" + "|".join(ROLES) + r")\b", lambda role: named(store, role[1]), text)
    if store.kind == "mariadb":
        text = re.sub(r"\bshop\.", f"{store.name}.", text)
    store.ask(text)
    store.ask("CREATE TABLE rights_ledger (order_id INT PRIMARY KEY, amount INT);"
              f"GRANT SELECT, INSERT ON rights_ledger TO {named(store, 'shop_app')};")


def number(store, query):
    return int(store.ask(query).strip())


def may_not_create(store, account):
    done = store.run("CREATE TABLE mine (id INT);" if store.kind == "mariadb" else
                     f"CREATE TABLE {store.schema}.mine (id INT);", role=named(store, account))
    expect_true(done.returncode != 0, f"{account} may create tables")


def work_as_app(store):
    write("semel.yaml", CONFIG.format(store=store.url_as(named(store, "shop_app"))))
    write("mail.sh", "#!/bin/sh\ngrep -q 7 && exit 65\nexit 0\n", mode=0o700)
    out, err = semel("doctor")
    expect("doctor finds nothing", "ready to run\n", err)
    expect_true(out.startswith("ok       config, store, schema, rights,"), out)
    publish_lines("orders", ['{"order_id": 1, "amount": 5}', '{"order_id": 1, "amount": 5}',
                             '{"order_id": 2, "amount": 5}', '{"order_id": 7, "amount": 5}', '{"order_id": "x"}'])
    semel("run", "--once")
    expect("each once", 3, number(store, "SELECT count(*) FROM rights_ledger;"))
    expect("what failed is dead", 2, number(store, f"SELECT count(*) FROM {store.table('dead')};"))


def work_as_ops(store):
    url = store.url_as(named(store, "shop_ops"))
    out, _ = semel("dead", "groups", "--store", url)
    expect_true("payments" in out and "mail" in out, out)
    semel("dead", "discard", "--inbox", "payments", "--yes", "--store", url)
    expect("one is left", 1, number(store, f"SELECT count(*) FROM {store.table('dead')};"))
    semel("dead", "retry", "--inbox", "mail", "--yes", "--wait", "1ms", "--store", url)
    expect("they are written down", 2, number(store, f"SELECT count(*) FROM {store.table('audit')};"))


def retry_as_app(store):
    """A letter that was asked for is taken by a process that has the handler."""
    write("mail.sh", "#!/bin/sh\nexit 0\n", mode=0o700)
    semel("run", "--once")
    expect("no letter is left", 0, number(store, f"SELECT count(*) FROM {store.table('dead')};"))


def lacking(store):
    """A right that is missing is named, and what doctor says mends it."""
    role, table = named(store, "semel_sweeper"), store.table("dead")
    store.ask(f"REVOKE DELETE ON {table} FROM {role};")
    out, _ = semel("doctor", status=1)
    fix = re.search(r"error    rights .* no DELETE privilege on .*semel_dead.*\n *fix +(GRANT .*;)\n", out)
    expect_true(fix, out)
    store.ask(fix[1])
    semel("doctor")


TABLE = """version: 1
store: {store}
queues: {{ events: store }}
inboxes:
  ledger:
    from: events
    sql: INSERT INTO rights_ledger (order_id, amount) VALUES (:json/order_id, :json/amount)
outboxes:
  events: {{ table: outboxevent }}
"""
ROW = ("INSERT INTO outboxevent (id, aggregatetype, aggregateid, type, payload) VALUES"
       " ('{0}', 'order', 'c', 'made', '{{\"order_id\": {0}, \"amount\": 1}}');")


def row_arrives(store, number_of_row, as_app):
    """The application's account inserts the row, and `semel run` has no other rights."""
    done = store.run(ROW.format(number_of_row), role=named(store, "shop_app"))
    expect_true(done.returncode == 0, f"the row is inserted: {done.stderr}")
    write("semel.yaml", as_app)
    semel("run", "--once")
    expect("it arrives", 1, number(store, f"SELECT count(*) FROM rights_ledger WHERE order_id = {number_of_row};"))


def rows_of_a_table(store):
    """A DBA makes the trigger with the script; then `semel run` makes it itself, with the rights for that."""
    app = named(store, "shop_app")
    as_app = TABLE.format(store=store.url_as(app))
    store.ask("CREATE TABLE outboxevent (id VARCHAR(36) PRIMARY KEY, aggregatetype VARCHAR(255) NOT NULL,"
              " aggregateid VARCHAR(255) NOT NULL, type VARCHAR(255) NOT NULL, payload TEXT);"
              f"GRANT INSERT ON outboxevent TO {app};")
    if store.kind == "mariadb":
        grant = block("MariaDB: a table whose rows are sent").replace("shop.", f"{store.name}.")
        store.ask(grant.replace("semel_run", named(store, "semel_run")))
    write("semel.yaml", as_app)
    semel("run", "--once", status=1)
    write("semel.yaml", TABLE.format(store=store.url))
    store.ask(semel("migrate", "sql")[0])
    row_arrives(store, 101, as_app)
    expect_true("tables" in semel("doctor", "--check", "tables")[0], "the trigger is seen")
    if store.kind == "mariadb":
        store.ask(f"DROP TRIGGER semel_capture_outboxevent; DELETE FROM outboxevent;"
                  f"GRANT LOCK TABLES ON {store.name}.* TO {named(store, 'semel_run')};")
    else:
        store.ask("DROP TRIGGER semel_capture ON outboxevent; DELETE FROM outboxevent;"
                  f"GRANT SELECT, UPDATE, TRIGGER ON outboxevent TO {app};")
    store.ask(ROW.format(102))
    semel("run", "--once")
    store.ask(ROW.format(103))  # another account; the rights are the application's all the same
    row_arrives(store, 104, as_app)
    expect("the one from before, too", 4, number(store, "SELECT count(*) FROM rights_ledger WHERE order_id > 100;"))


def hidden_catalogue(store):
    """Where an account may not read the catalogue of triggers, nothing is known of them: that is said."""
    if store.kind != "postgres":
        return  # MariaDB shows an account its own triggers, and no error
    words = "the triggers of the tables cannot be read"
    write("semel.yaml", TABLE.format(store=store.url_as(named(store, "shop_app"))))
    store.ask("REVOKE SELECT ON pg_catalog.pg_trigger FROM PUBLIC;")
    found = semel("doctor", "--check", "tables")[0]
    expect_true(words in found and "permission denied" in found, f"doctor says so: {found}")
    script, said = semel("migrate", "sql")
    expect_true(words in said and "outboxevent" in script, f"migrate sql says so, and prints it: {said}")
    store.ask("GRANT SELECT ON pg_catalog.pg_trigger TO PUBLIC;")
    expect_true(words not in semel("doctor", "--check", "tables")[0], "and else it does not")


def all_of_it(store):
    try:
        semel("migrate", "up", "--store", store.url)
        make_roles(store)
        for account in ("shop_app", "shop_ops"):
            may_not_create(store, account)
        work_as_app(store)
        work_as_ops(store)
        retry_as_app(store)
        lacking(store)
        rows_of_a_table(store)
        hidden_catalogue(store)
    finally:
        store.close()


def on_postgres():
    all_of_it(Postgres("rights", database=True))


def on_mariadb():
    all_of_it(Mariadb("rights"))


if __name__ == "__main__":
    main_of_groups({"on_servers": [on_postgres, on_mariadb]})
