"""check_redis.py PROGRAM [CHECK...]: the program on a Redis store: the README's example with the queue in Redis, its
effect a command that is queued; a handler in claim mode; what is wrong with a command; a program that is killed; and
what `doctor` and `migrate` say. And on streams of Redis as queues, with the store in SQLite and in Redis."""
import contextlib
import json
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


STREAMS = """\
version: 1
store: {store}
queues:
  orders: {at}?stream={name}&group=payments{more}
  reports: {at}?stream={name}-reports
inboxes:
  payments: {{ from: orders, key: "json:/order_id", exec: [sh, -c, "cat >>paid.txt"] }}
"""


def queues():
    return [json.loads(line) for line in semel("queue", "ls", "--json")[0].splitlines()]


@contextlib.contextmanager
def stream(store="sqlite:shop.db", more="&declare=yes"):
    """A config with a stream of its own, and the name of that."""
    name, redis = f"stream-{os.getpid()}", Redis()
    write("semel.yaml", STREAMS.format(store=store, at=servers()["REDIS_URL"], name=name, more=more))
    try:
        yield name, redis
    finally:
        redis.ask("DEL", name, f"{{{name}}}:dead", f"{name}-reports")


def a_stream():
    """Looking changes nothing; run makes the group, and handles what others have written before."""
    with stream() as (name, redis):
        semel("migrate", "up")
        out, _ = semel("doctor", "-v")
        expect_true(f'group "payments" of stream "{name}" does not exist' in out and "yet; run declares it" in out, out)
        expect("it is not there", {"queue": "orders", "readers": 0, "reason": "it does not exist at the broker"},
               {key: value for key, value in queues()[0].items() if key != "location"})
        expect("looking made nothing", 0, redis.ask("EXISTS", name))
        for _ in range(2):
            redis.ask("XADD", name, "*", "id", "o-17", "type", "paid", "data", '{"order_id": 17}')
        run = Run("--log-format", "text")
        run.says("duplicate")
        wait_until(lambda: redis.ask("XLEN", name) == 0, lambda: run.text())
        run.stop()
        expect("once", '{"order_id": 17}', read("paid.txt"))
        semel("publish", "orders", '{"order_id": 18}')
        expect("one waits", 1, queues()[0]["waiting"])
        expect("no group", "its URL names a stream, and no group that reads it", queues()[1]["reason"])
        out, err = semel("doctor", "-v")
        expect_true("queue orders can be reached" in out, out)
        redis.ask("XTRIM", name, "MAXLEN", "0")
        out, _ = semel("doctor")
        expect_true("entries were removed before group payments has read them" in out, out)


def a_stream_that_is_missing():
    with stream(more="") as (name, _):
        semel("migrate", "up")
        out, err = semel("doctor", status=1)
        expect_true(f'group "payments" of stream "{name}" does not exist' in out and "declare=yes" in out, out + err)


def a_stream_and_a_store():
    """Both on one server, each with parameters of its own; each says what is wrong with it."""
    url = servers()["REDIS_URL"]
    name = f"beside-{os.getpid()}"
    with stream(f"{url}?namespace={name}") as (_, redis):
        try:
            redis.ask("XGROUP", "CREATE", f"stream-{os.getpid()}", "payments", "0", "MKSTREAM")
            semel("migrate", "up")
            semel("publish", "orders", "--copies", "2", '{"order_id": 1}')
            run = Run("--log-format", "text")
            run.says("duplicate")
            run.stop()
            expect("once", '{"order_id": 1}', read("paid.txt"))
        finally:
            for key in redis.ask("KEYS", f"{{{name}}}*"):
                redis.ask("UNLINK", key)
    with stream(f"{url}?stream=s&group=g"):
        out, err = semel("doctor", status=3)
        expect_true("stream and group are of a queue in Redis" in out + err, out + err)
    with stream(more="&namespace=shop"):
        out, err = semel("doctor", status=3)
        expect_true("namespace and pool are of a store in Redis" in out + err, out + err)


CHECKS = [a_ledger, killed, wrong_commands, values_in_keys, for_operators, a_wrong_password, a_stream,
          a_stream_that_is_missing, a_stream_and_a_store]
if __name__ == "__main__":
    from program_kit import main
    main(*CHECKS)
