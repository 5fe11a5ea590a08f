"""check_redis.py PROGRAM [CHECK...]: the program on a Redis store: the README's example with the queue in Redis, its
effect a command that is queued; a handler in claim mode; what is wrong with a command; a program that is killed; and
what `doctor` and `migrate` say."""
import contextlib
import os
import re
import socket

from program_kit import DEADLINE_S, Run, expect, expect_true, publish_lines, read, semel, servers, wait_until, write

CONFIG = """\
version: 1
store: {url}
queues: {{ orders: {{ url: store, lease: 2s }} }}
inboxes:
  payments:
    from: orders
    types: [paid]
    key: json:/order_id
    sql: {command}
  mail:
    from: orders
    types: [mail]
    exec: [sh, -c, "cat >>mail.txt"]
"""
COMMAND = "HINCRBY {{{name}}}ledger :json/order_id :json/amount"


class Redis:
    """One connection, past semel: commands of plain words, answers of texts and numbers."""

    def __init__(self):
        found = servers()
        place = (found["REDIS_HOST"], int(found["REDIS_PORT"]))
        self.stream = socket.create_connection(place, DEADLINE_S).makefile("rwb")
        self.ask("AUTH", "semel")

    def ask(self, *words):
        self.stream.write(b"*%d\r\n" % len(words))
        for word in words:
            self.stream.write(b"$%d\r\n%s\r\n" % (len(os.fsencode(word)), os.fsencode(word)))
        self.stream.flush()
        return self.answer()

    def answer(self):
        line = self.stream.readline().decode().rstrip("\r\n")
        kind, rest = line[0], line[1:]
        if kind == "-":
            raise ValueError(rest)
        if kind == "$":
            return None if rest == "-1" else self.stream.read(int(rest) + 2)[:-2].decode("utf-8", "surrogateescape")
        if kind == "*":
            return [self.answer() for _ in range(int(rest))]
        return int(rest) if kind == ":" else rest


@contextlib.contextmanager
def shop(command=COMMAND, more=""):
    """A config on a namespace of its own, and that namespace."""
    name, redis = f"program-{os.getpid()}", Redis()
    write("semel.yaml", CONFIG.format(url=servers()["REDIS_URL"] + "?namespace=" + name + more,
                                      command=command.format(name=name)))
    try:
        yield name, redis
    finally:
        cursor = "0"
        while True:
            cursor, keys = redis.ask("SCAN", cursor, "MATCH", "{" + name + "}*", "COUNT", "1000")
            for key in keys:
                redis.ask("UNLINK", key)
            if cursor == "0":
                break


def a_ledger():
    with shop() as (name, redis):
        out, err = semel("check")
        expect("what it is", "orders -> payments  sql   once per json:/order_id, retention 7d  exactly-once effects\n"
               "orders -> mail      exec  once per id, retention 7d              effectively once\n", out)
        expect("valid", "semel.yaml is valid: 1 queue, 2 inboxes\n", err)
        semel("publish", "orders", "--type", "paid", "--copies", "3", '{"order_id": 1042, "amount": 1250}')
        semel("publish", "orders", "--type", "mail", "--copies", "2", "hello")
        run = Run("--log-format", "text")
        run.says("survives power loss")
        run.says("duplicate")
        wait_until(lambda: redis.ask("HGET", f"{{{name}}}ledger", "1042"), "the effect")
        wait_until(lambda: read("mail.txt"), "the mail")
        wait_until(lambda: run.text().count("duplicate") == 3, lambda: run.text())
        text = run.stop()
        expect_true("2 processed, 3 duplicates suppressed" in text, text)
        expect("once", "1250", redis.ask("HGET", f"{{{name}}}ledger", "1042"))
        expect("mail", "hello", read("mail.txt"))


def killed():
    """Each order changes the ledger once, whenever the program dies."""
    orders, kills = 800, 2
    with shop(COMMAND.replace(":json/amount", "1")) as (name, redis):
        semel("migrate", "up")
        for _ in range(2):
            publish_lines("orders", [f'{{"order_id": {n}}}' for n in range(orders)], "--type", "paid")
        for kill in range(1, kills + 1):
            run = Run()
            wait_until(lambda: redis.ask("HLEN", f"{{{name}}}ledger") >= kill * orders // 8, "some are done")
            run.kill()
        run = Run()  # what those held who were killed is free a minute later: test_redis_fleet waits for that
        wait_until(lambda: redis.ask("HLEN", f"{{{name}}}ledger") >= orders * 5 // 8, "most are done")
        run.stop()
        expect("once each", {"1"}, set(redis.ask("HVALS", f"{{{name}}}ledger")))


def wrong_commands():
    for command, words in ((COMMAND.replace("HINCRBY", "HGETALL"), "HGETALL is not a command that can be queued"),
                           ("SET {{{name}}}/m/1 :json/amount", "are semel's own"),
                           ("HSET {{{name}}}ledger 'one :json/amount", "does not end"),
                           ("SET {{{name}}}ledger", "SET takes at least 2 words after it, not 1")):
        with shop(command):
            out, err = semel("check", status=3)
            expect_true(words in out + err, f"{command}: {out}{err}")


def values_in_keys():
    with shop("SET {{{name}}}order::json/order_id::type ':text' EX 600") as (name, redis):
        semel("publish", "orders", "--type", "paid", '{"order_id": 7}')
        run = Run()
        wait_until(lambda: redis.ask("GET", f"{{{name}}}order:7:paid") == ":text", "the key is made")
        run.stop()


def for_operators():
    with shop() as (name, redis):
        out, _ = semel("doctor", "-v", status=1)
        expect_true("semel has not been set up here" in out, out)
        expect("nothing was made", [], [key for key in redis.ask("KEYS", f"{{{name}}}*")])
        semel("migrate", "up")
        out, err = semel("doctor", "-v")
        for words in ("ok       store       Redis", "ok       rights      all commands that semel needs may be called",
                      "appendfsync always: commits survive power loss", "ok       handlers    the store takes all"):
            expect_true(words in out, out)
        expect("ready", "ready to run\n", err)
        out, _ = semel("migrate", "status")
        expect_true(re.search(r"1  .*applied", out), out)


def a_wrong_password():
    with shop():
        write("semel.yaml", read("semel.yaml").replace(":semel@", ":hunter2@"))
        out, err = semel("doctor", status=1)
        expect_true("WRONGPASS" in out + err and "hunter2" not in out + err, out + err)


CHECKS = [a_ledger, killed, wrong_commands, values_in_keys, for_operators, a_wrong_password]
if __name__ == "__main__":
    from program_kit import main
    main(*CHECKS)
