#!/usr/bin/python3
"""check_dynamodb.py PROGRAM [CHECK...]: `semel migrate`, `check`, `doctor` and `run` on a dynamodb: store, with the
emulator that the other tests use (SEMEL_TEST_SERVERS): the example of README.md with statements, items in JSON, a
program in claim mode; and what is said when something is missing."""
import json
import os
import time
import urllib.error
import urllib.request

import program_kit
from program_kit import Run, expect, expect_true, semel, wait_until, write

SERVERS = os.environ["SEMEL_TEST_SERVERS"]

CONFIG = """\
version: 1
store: {store}
queues: {{ orders: store }}
inboxes:
  payments:
    from: orders
    key: json:/order_id
    {handler}
"""


def endpoint():
    with open(SERVERS, encoding="utf-8") as file:
        settings = dict(line.rstrip("\n").split("=", 1) for line in file)
    return f"http://127.0.0.1:{settings['DYNAMODB_PORT']}"


def ask(operation, request):
    """An answer of the emulator itself."""
    headers = {"X-Amz-Target": f"DynamoDB_20120810.{operation}", "Content-Type": "application/x-amz-json-1.0",
               "X-Amz-Date": "20260101T000000Z",
               "Authorization": "AWS4-HMAC-SHA256 Credential=emulator/20260101/us-east-1/dynamodb/aws4_request, "
                                "SignedHeaders=host, Signature=00"}
    call = urllib.request.Request(endpoint() + "/", json.dumps(request).encode(), headers)
    with urllib.request.urlopen(call, timeout=60) as answer:
        return json.load(answer)


class Place:
    """A table for semel, and a ledger of the application's own."""

    def __init__(self):
        own = f"t{os.getpid()}-{time.time_ns()}"
        self.table, self.ledger = own, own + "-ledger"
        self.store = f"dynamodb://{self.table}?endpoint={endpoint()}"
        self.made = []
        ask("CreateTable", {"TableName": self.ledger, "BillingMode": "PAY_PER_REQUEST",
                            "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "N"}],
                            "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]})
        os.environ.update(AWS_ACCESS_KEY_ID="emulator", AWS_SECRET_ACCESS_KEY="s3cret-key",
                          AWS_EC2_METADATA_DISABLED="true", XDG_RUNTIME_DIR=os.getcwd())

    def config(self, handler):
        write("semel.yaml", CONFIG.format(store=self.store, handler=handler))

    def rows(self):
        items = ask("Scan", {"TableName": self.ledger, "ConsistentRead": True})["Items"]
        return {int(item["id"]["N"]): int(item["amount"]["N"]) for item in items}

    def close(self):
        for table in (self.table, self.ledger):
            try:
                ask("DeleteTable", {"TableName": table})
            except urllib.error.HTTPError:
                pass


def publish(order, amount, copies):
    semel("publish", "orders", "--copies", str(copies), json.dumps({"order_id": order, "amount": amount}))


def start():
    run = Run("--log-format", "text")
    run.says("ready in")
    return run


def handled(run, processed, duplicates):
    def counts():
        text = run.text()
        return (text.count("processed "), text.count(" duplicate"))
    wait_until(lambda: counts() >= (processed, duplicates), lambda: f"handled, and says so:\n{run.text()}")
    expect("processed and suppressed", (processed, duplicates), counts())


def run_orders(place, handler, grade):
    place.config(handler)
    semel("migrate", "up")
    out, _ = semel("check")
    expect_true(grade in out, f"`semel check` says {grade!r}: {out}")
    publish(1042, 1250, 3)
    publish(1043, 90, 2)
    run = start()
    handled(run, 2, 3)
    run.kill()  # and what was done stays done
    publish(1042, 7, 1)
    run = start()
    handled(run, 0, 1)
    run.stop()


def statements():
    place = Place()
    try:
        run_orders(place, f"sql: |-\n      INSERT INTO \"{place.ledger}\" VALUE "
                          "{'id': :json/order_id, 'amount': :json/amount}", "exactly-once effects")
        expect("the ledger", {1042: 1250, 1043: 90}, place.rows())
    finally:
        place.close()


def items():
    place = Place()
    item = (f'{{"Update": {{"TableName": "{place.ledger}", "Key": {{"id": :json/order_id}}, '
            '"UpdateExpression": "ADD amount :a", "ExpressionAttributeValues": {":a": :json/amount}}}')
    try:
        run_orders(place, f"sql: '{item}'", "exactly-once effects")
        expect("the ledger", {1042: 1250, 1043: 90}, place.rows())
    finally:
        place.close()


def claims():
    place = Place()
    try:
        write("pay.sh", "#!/bin/sh\ncat >>paid\necho >>paid\n", 0o700)
        run_orders(place, "exec: [./pay.sh]", "effectively once")
        with open("paid", encoding="utf-8") as file:
            paid = sorted(json.loads(line)["order_id"] for line in file if line.strip())
        expect("what the program was called with", [1042, 1043], paid)
    finally:
        place.close()


def doctor():
    place = Place()
    try:
        place.config("exec: [cat]")
        out, err = semel("doctor", status=1)
        expect_true("semel migrate up" in out + err, f"says what to do: {out}{err}")
        semel("migrate", "up")
        out, err = semel("doctor", "-v")
        expect_true(f"table {place.table}" in out and "deletion protection is off" in out, f"says: {out}{err}")
        expect_true("TTL attribute is x" in out, f"says: {out}")
    finally:
        place.close()


def mistakes():
    place = Place()
    try:
        place.config("sql: SELECT * FROM ledger")
        semel("migrate", "up")
        out, err = semel("check", status=3)
        expect_true("INSERT, UPDATE, DELETE or EXISTS" in out + err, f"names the statements: {out}{err}")
        place.config("exec: [cat]")
        del os.environ["AWS_SECRET_ACCESS_KEY"]
        out, err = semel("migrate", "up", status=1)
        expect_true("AWS_ACCESS_KEY_ID but not AWS_SECRET_ACCESS_KEY" in err, f"says what is missing: {err}")
        del os.environ["AWS_ACCESS_KEY_ID"]
        os.environ["HOME"] = os.getcwd()
        out, err = semel("migrate", "up", status=1)
        expect_true("there are no AWS credentials" in err, f"says what is missing: {err}")
        os.environ["AWS_ACCESS_KEY_ID"] = "emulator"
        os.environ["AWS_SECRET_ACCESS_KEY"] = "s3cret-key"
        write("semel.yaml", CONFIG.format(store="dynamodb://me:s3cret@table", handler="exec: [cat]"))
        out, err = semel("migrate", "up", status=3)
        expect_true("no user and no password" in err, f"says what is wrong: {err}")
        expect_true("s3cret" not in out + err, f"shows no password: {out}{err}")
    finally:
        place.close()


if __name__ == "__main__":
    program_kit.main(statements, items, claims, doctor, mistakes)
