"""A worker in Python: one message per line on stdin, one answer per line on stdout.

    fraud: { from: orders, worker: { command: [python3, fraud.py], processes: 2 } }
"""
import json
import sys


def handle(message):
    order = message["body"]
    if order["amount"] < 0:
        return {"status": "dead", "error": "a negative amount"}  # no further attempt
    return {"result": {"order": order["order_id"], "suspicious": order["amount"] > 10000}}


for line in sys.stdin:
    message = json.loads(line)
    try:
        answer = handle(message)
    except Exception as error:
        answer = {"status": "retry", "error": repr(error)}
    print(json.dumps({"id": message.get("id"), **answer}), flush=True)
