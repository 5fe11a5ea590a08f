#!/usr/bin/python3
"""check_meanwhile.py PROGRAM [CHECK...]: what happens in the store while a command asks its question. A command acts on
what it has listed when it asked, and on nothing that has come since, whatever its number is. On SQLite, which gives the
number of a message that has left to the next one."""
import json
import os
import signal

from program_kit import Run, expect, expect_true, main, publish_lines, semel, wait_until, write
from store_kit import place

CONFIG = """\
version: 1
store: sqlite:shop.db
queues:
  orders: store
  shipping: store
  bills: store
inboxes:
  copies: { from: orders, send: { to: shipping } }
  shipped: { from: shipping, exec: ["true"] }
  invoices: { from: bills, key: "json:/n", attempts_max: 1, exec: [./invoice.sh] }
drain: 2s
"""

# It ends when the file `go` is there.
INVOICE = """\
#!/bin/sh
body=$(cat)
echo begun >>begun.txt
while [ ! -e go ]; do sleep 0.05; done
echo "no tax rate" >&2
exit 65
"""


def fresh(check):
    def run():
        with place("sqlite") as store:
            write("semel.yaml", CONFIG)
            write("invoice.sh", INVOICE, 0o700)
            Run("--once").ends(0)  # makes the tables
            check(store)
    run.__name__ = check.__name__
    return run


def objects(*arguments):
    return [json.loads(line) for line in semel(*arguments, "--json")[0].splitlines()]


def asked(command, *arguments):
    run = Run(*arguments, command=command, terminal=True)
    run.says("[y/N] ")
    return run


def answer(run, text, status):
    os.write(run.keyboard, text.encode() + b"\n")
    return run.ends(status)


def in_outbox(store):
    """The only message is in the outbox shipping and waits there for long; its id and its seq."""
    store.ask("DELETE FROM semel_outbox")
    publish_lines("orders", ["{}"], "--type", "order.paid")
    store.ask("UPDATE semel_outbox SET wake_ms = wake_ms + 600000, "
              "outbox = (SELECT id FROM semel_scope WHERE kind = 2 AND name = 'shipping')")
    return objects("outbox", "ls", "shipping")[0]["id"], store.ask("SELECT seq FROM semel_outbox")


@fresh
def another_message_is_not_given_up(store):
    old, seq = in_outbox(store)
    run = asked("outbox", "skip", old)
    new, again = in_outbox(store)
    expect("the number is given again", seq, again)
    said = answer(run, "y", 4)
    expect_true("has no message" in said, said)
    expect("the new message", [new], [row["id"] for row in objects("outbox", "ls", "shipping")])
    expect("letters", [], objects("dead", "ls"))


@fresh
def another_message_is_not_made_due(store):
    _, seq = in_outbox(store)
    run = asked("outbox", "requeue", "shipping")
    _, again = in_outbox(store)
    expect("the number is given again", seq, again)
    said = answer(run, "y", 0)
    expect_true("0 of 1 now due" in said, said)
    expect("due", 0, objects("outbox", "lag")[0]["due"])


@fresh
def later_messages_stay_in_the_queue(store):
    """One of those that were counted has been handled meanwhile, and two have come."""
    publish_lines("orders", ["{}"] * 2)
    run = asked("queue", "purge", "orders")
    store.ask("DELETE FROM semel_outbox WHERE seq = (SELECT min(seq) FROM semel_outbox)")
    new = publish_lines("orders", ["{}"] * 2)
    said = answer(run, "y", 0)
    expect_true("1 of 2 removed" in said, said)
    expect("what is left", new, [row["id"] for row in objects("queue", "ls", "orders")])


# --- dead letters ----------------------------------------------------------------------------------

def make_letters(*numbers):
    write("go", "")
    publish_lines("bills", [json.dumps({"n": n}) for n in numbers])
    Run("--once").ends(0)
    os.remove("go")
    os.remove("begun.txt")


@fresh
def a_key_that_has_died_is_not_forgotten(store):
    make_letters(1)
    store.ask("UPDATE semel_dead SET name = 'elsewhere'")
    run = asked("inbox", "forget", "invoices", "1")
    store.ask("UPDATE semel_dead SET name = 'invoices'")
    said = answer(run, "y", 5)
    expect_true("key 1 is that of dead letter 1; nothing was changed" in said, said)
    expect("keys", ["dead"], [row["state"] for row in objects("inbox", "ls", "invoices")])


def states():
    """Of the retries of the letters; None: none was asked for."""
    return [row.get("retry") for row in objects("dead", "ls")]


@fresh
def a_retry_that_was_asked_for_again_has_not_succeeded(_store):
    """By a second operator, while the handler of the first one runs, and fails."""
    make_letters(1)
    run = Run("retry", "1", "--here", command="dead")
    wait_until(lambda: os.path.exists("begun.txt"), "the handler has begun")
    semel("dead", "retry", "1")
    write("go", "")
    said = run.ends(1)
    expect_true("failed again" in said and "processed" not in said, said)
    expect("states", ["failed"], states())


@fresh
def an_interruption_leaves_the_marks_of_others(store):
    """The process has its hands full with the first letter; the second one is marked by one operator, and then the
    second and the third one by another, who interrupts that."""
    make_letters(1, 2, 3)
    process = Run()
    process.says('"event":"ready"')
    wait_until(lambda: store.ask("SELECT id FROM semel_process"), "the process is known")
    for letter, state in (("1", "begun"), ("2", "asked")):
        command = Run("retry", letter, command="dead")
        wait_until(lambda: states()[int(letter) - 1] == state, "the letter is marked")
        command.kill()
    command = Run("retry", "2", "3", command="dead")
    wait_until(lambda: states()[2] == "asked", "the third letter is marked")
    command.send(signal.SIGINT)
    command.ends(130)
    expect("states", ["begun", "asked", None], states())
    write("go", "")
    process.stop()


main(another_message_is_not_given_up, another_message_is_not_made_due, later_messages_stay_in_the_queue,
     a_key_that_has_died_is_not_forgotten, a_retry_that_was_asked_for_again_has_not_succeeded,
     an_interruption_leaves_the_marks_of_others)
