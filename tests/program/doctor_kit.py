"""What the checks of `semel doctor` share: a set-up that works but for what a check breaks, and what doctor finds."""
import json
import re
import socket
import subprocess

import program_kit
from program_kit import DEADLINE_S, SEMEL, Failed, environment, expect_true, write

GOOD = """version: 1
store: {store}
setup: CREATE TABLE IF NOT EXISTS doctor_ledger (order_id INTEGER, amount INTEGER)
queues:
  orders: {queue}
inboxes:
  payments:
    from: orders
    key: json:/order_id
    {more}sql: INSERT INTO doctor_ledger (order_id, amount) VALUES (:json/order_id, :json/amount)
  mail.receipt: {{ from: orders, exec: [./send-email.sh] }}
"""


def set_up(store="sqlite:shop.db", queue="store", more="", replace=None):
    """A config that works, but for what is replaced."""
    text = GOOD.format(store=store, queue=queue, more=more)
    for old, new in (replace or {}).items():
        expect_true(old in text, f"{old} is in the config")
        text = text.replace(old, new)
    write("semel.yaml", text)
    write("send-email.sh", "#!/bin/sh\n", mode=0o700)


def doctor(*options, status, env=None, before=None, through=()):
    done = subprocess.run([*through, SEMEL, "doctor", *options], capture_output=True, text=True,
                          env=environment(env), timeout=DEADLINE_S, check=False, preexec_fn=before)
    if done.returncode != status:
        raise Failed(f"doctor {options} ended with {done.returncode}, not {status}:\n{done.stdout}{done.stderr}")
    return done.stdout, done.stderr


def finds(check, result, words, fix="", status=None, options=(), **call):
    """One finding of this check has all of the words, and a fix with those; in both forms of output."""
    status = {"ok": 0, "warning": 0, "error": 1}[result] if status is None else status
    found = [json.loads(line) for line in doctor("--json", *options, status=status, **call)[0].splitlines()]
    match = [one for one in found if one["check"] == check and one["result"] == result
             and all(word in one["msg"] for word in words.split("|")) and fix in one.get("fix", "")]
    if not match:
        raise Failed(f"no {result} of {check} says {words!r} with the fix {fix!r}:\n"
                     + "\n".join(map(str, found)))
    text = doctor("-v", *options, status=status, **call)[0]
    line = match[0]["msg"].replace("\n", "\\n")
    expect_true(f"{result:<7}  {check:<10}  {line}\n" in text, text)
    if fix:
        expect_true(f"         fix         {match[0]['fix']}\n" in text, text)
    return match[0]


def closed_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def amqp(parameters, port=None):
    url = program_kit.servers()["RABBITMQ_URL"]
    if port:
        url = re.sub(r":\d+/", f":{port}/", url)
    write("mq.password", "guest")
    return f"\"{url.replace('guest:guest@', 'guest:${file:mq.password}@')}?{parameters}\""
