"""A shop with an admin server, and a client of its API."""
import http.client
import json
import os
import re
import sqlite3
import uuid

from program_kit import DEADLINE_S, Run, expect, expect_true, wait_until, write

TOKEN = "correct horse battery staple"

CONFIG = """\
version: 1
store: {store}
setup: CREATE TABLE IF NOT EXISTS ledger (n BIGINT)
admin: {{ listen: "127.0.0.1:0"{token} }}
queues:
  orders: {{ url: store, backoff: 1ms }}
  shipping: store
  parked: store
inboxes:
  payments:
    from: orders
    types: [paid]
    key: json:/n
    sql: INSERT INTO ledger VALUES (:json/n)
    send: {{ to: shipping }}
  mail: {{ from: orders, types: [mail], attempts_max: 1, exec: [./mail.sh] }}
  parcels: {{ from: shipping, sql: SELECT 1 }}
{more}"""

# Fails as long as there is no file `mended`; then, with a file `slow`, waits for `go`.
MAIL = """#!/bin/sh
[ -e mended ] || { echo "no mailbox" >&2; exit 1; }
while [ -e slow ] && [ ! -e go ]; do sleep 0.02; done
exit 0
"""


class Shop:
    def __init__(self, token=True, more="", *arguments, store="sqlite:shop.db"):
        os.makedirs("run", mode=0o700, exist_ok=True)
        os.environ["XDG_RUNTIME_DIR"] = os.path.abspath("run")
        write("token", TOKEN + "\n")
        write("mail.sh", MAIL, 0o700)
        write("semel.yaml", CONFIG.format(token=', token: "${file:token}"' if token else "", more=more,
                                          store=store))
        self.start(*arguments)

    @classmethod
    def another(cls):
        """A second process with the configuration of the first one."""
        shop = cls.__new__(cls)
        shop.start()
        return shop

    def start(self, *arguments, ready="ready in"):
        self.run = Run("--log-format", "text", *arguments)
        self.run.says(ready)
        self.run.says("http://")
        self.host = re.search(r"http://([0-9.:]+)/", self.run.text())[1]

    def raw(self, method, path, body=None, **headers):
        """Status, headers and body of one answer."""
        client = http.client.HTTPConnection(self.host, timeout=DEADLINE_S)
        try:
            client.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()
                                                if value is not None})
            answer = client.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            client.close()

    def get(self, path, status=200, **headers):
        got, fields, body = self.raw("GET", "/api/v1/" + path, **headers)
        expect(f"the status of {path}: {body[:500]!r}", status, got)
        expect("its type", "application/json" if got == 200 else "application/problem+json", fields["Content-Type"])
        return json.loads(body)

    def post(self, path, body, status=None, request=None, **headers):
        given = {"X_Semel_Token": TOKEN, "X_Semel_Request": request or str(uuid.uuid4()),
                 "Content_Type": "application/json", **headers}
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        got, fields, answer = self.raw("POST", "/api/v1/" + path, text, **given)
        if status is not None:
            expect(f"the status of {path}: {answer[:500]!r}", status, got)
        else:
            expect_true(got in (200, 202), f"{path}: {got} {answer[:500]!r}")
        parsed = json.loads(answer)
        if got >= 400:
            expect("a problem", ("application/problem+json", got), (fields["Content-Type"], parsed["status"]))
        return parsed

    def preview(self, action, filter_=None, **more):
        return self.post("actions/preview", {"action": action, "filter": filter_ or {}, **more})

    def act(self, preview, status=202, request=None, **more):
        """Does what a preview has shown."""
        return self.post("actions", {"action": preview["action"], "filter": preview["filter"],
                                     "count": preview["count"], **more}, status=status, request=request)

    def job(self, number, states=("done",)):
        """The job at its end."""
        def ended():
            job = self.get(f"jobs/{number}")
            return job if job["state"] != "running" else None
        job = wait_until(ended, lambda: f"job {number} ends: {self.get(f'jobs/{number}')}")
        expect_true(job["state"] in states, f"{job}")
        return job

    def do(self, action, filter_=None, **more):
        preview = self.preview(action, filter_)
        return self.job(self.act(preview, **more)["job"])


def ask(query, *values):
    shop = sqlite3.connect("shop.db", timeout=DEADLINE_S)
    try:
        rows = shop.execute(query, values).fetchall()
        shop.commit()
        return rows
    finally:
        shop.close()
