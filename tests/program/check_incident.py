#!/usr/bin/python3
"""check_incident.py PROGRAM: an incident at three in the morning, as an operator types it who knows only `semel
--help`: an order without its invoice is found by its key, seen, retried, and then all that have failed for the same
reason. What is shown is compared to the letter but for times, ids and causes, and the widths that follow from them."""
import http.server
import json
import os
import re
import threading

from program_kit import Run, expect, expect_true, main, semel, wait_until, write
from store_kit import ask_sqlite

CONFIG = """\
version: 1
store: sqlite:shop.db?synchronous=normal
setup:
  - CREATE TABLE IF NOT EXISTS ledger (order_id BIGINT, amount BIGINT, refunded BIGINT)
queues:
  orders: {{ url: store, workers: 8, backoff: 1ms, backoff_max: 5ms }}
  returns: store
  shipping: store
inboxes:
  payments:
    from: orders
    types: [order.placed]
    key: json:/order_id
    sql: INSERT INTO ledger (order_id, amount) VALUES (:json/order_id, :json/amount)
  invoices:
    from: orders
    types: [order.placed]
    key: json:/order_id
    timeout: 10s
    http: {{ url: "http://127.0.0.1:{port}/invoices", private_addresses: true }}
  fraud: {{ from: orders, worker: {{ command: [/usr/bin/python3, fraud.py], processes: 1 }} }}
  mail.receipt: {{ from: orders, types: ["order.*"], exec: [./send-email.sh] }}
  refunds:
    from: returns
    key: header:return-id
    sql: UPDATE ledger SET refunded = :json/amount WHERE order_id = :json/order_id
  returns.copy: {{ from: returns, send: {{ to: shipping }} }}
history: false
"""

FRAUD = """\
import json, sys
for line in sys.stdin:
    print(json.dumps({"id": json.loads(line)["id"]}), flush=True)
"""

MAIL = """\
#!/bin/sh
read -r body || :
[ -e mail.works ] || { echo "mailbox \\"$SEMEL_KEY@example.com\\" is not available" >&2; exit 1; }
"""

MAILS, INVOICES, FIRST = 1204, 318, 20688
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

SHOW = """\
INBOX     STATE  ATTEMPTS  SINCE                ERROR
payments  done          -  TIME  -
invoices  dead          5  TIME  http 422: no tax rate for order 20713
fraud, mail.receipt, refunds and returns.copy use other keys (id, header:return-id)
next: semel dead show LETTER
"""
DEAD = """\
letter    LETTER, inbox invoices, dead since TIME (AGE ago), after 5 attempts
error     http 422: no tax rate for order 20713
similar   318 letters: semel dead ls --cause CAUSE
key       20713 (json:/order_id); passed on as ID
message   ID, order.placed, from queue orders, TIME
headers   traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
body      {"order_id": 20713, "amount": 4990, "currency": "EUR"}
next: semel dead retry LETTER
"""
RETRIED = "LETTER invoices 20713: processed, DURATION (audit AUDIT)\n"
DONE = """\
INBOX     STATE  ATTEMPTS  SINCE                ERROR
invoices  done          -  TIME  -
"""
GROUPS = """\
CAUSE  INBOX         LETTERS  FIRST                LAST                 ERROR
CAUSE  invoices          317  TIME  TIME  http 422: no tax rate for order <n>
CAUSE  mail.receipt    1,204  TIME  TIME  exit 1: mailbox <s> is not available
"""
DRY_RUN = """\
would retry 317 letters in invoices, TIME:
  LETTER  20688  http 422: no tax rate for order 20688
  LETTER  20689  http 422: no tax rate for order 20689
315 more; nothing was changed
"""
ALL = """\
317 letters in invoices, TIME: http 422: no tax rate for order <n>
retry them? [y/N] y
317 of 317: 317 processed, 0 failed again, DURATION (audit AUDIT)
"""
AUDIT = """\
AUDIT  WHEN                 WHO         WHAT                     RESULT
AUDIT  TIME  WHO  dead retry LETTER          1 processed
AUDIT  TIME  WHO  dead retry --cause CAUSE  317 processed
"""


class Invoices(http.server.BaseHTTPRequestHandler):
    """The service that loses its tax rates."""
    protocol_version = "HTTP/1.1"
    wbufsize = 65536  # headers and body in one packet
    has_rates = False
    made = []

    def do_POST(self):
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["order_id"]
        text = b"" if self.has_rates else f"no tax rate for order {order}".encode()
        if self.has_rates:
            self.made.append((order, self.headers["Idempotency-Key"]))
        self.send_response(200 if self.has_rates else 422)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


def plain(text, letter_of):
    text = text.replace("\r\n", "\n").replace(TRACE, "TRACE")
    text = re.sub(r"\r[^\n]*\r", "", text)  # a line of progress, and what wipes it away
    text = re.sub("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d( to (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d)?", "TIME", text)
    text = re.sub(r"\b\d+[smhd] ago", "AGE ago", text)
    text = re.sub(r"\(audit \d+\)", "(audit AUDIT)", text)
    text = re.sub(r"^ +\d+(?=  TIME)", "AUDIT", text, flags=re.M)
    text = re.sub(r"\b\w+@[\w.-]+(?=  dead)", "WHO", text)
    text = re.sub(r"\b[0-9a-f]{8}\b", "CAUSE", text)
    text = re.sub(r"\b\d+(\.\d+)? (ms|s)\b|\d+m \d+s", "DURATION", text)
    text = re.sub(rf"(?<!order_id\": )\b({'|'.join(letter_of)})\b(?= invoices|,|\n|  |$)", "LETTER", text)
    return re.sub(r"  +", "  ", text.replace("TRACE", TRACE))


def both(*words):
    return "".join(reversed(semel(*words))) if "--dry-run" in words else "".join(semel(*words))


def mails_fail():
    """The day before: the mail server is away."""
    text = "".join(f'{{"order_id": {n}}}\n' for n in range(MAILS)).encode()
    semel("publish", "orders", "--type", "order.shipped", "--lines", stdin=text)
    Run("--once", "--set", 'inboxes["mail.receipt"].attempts_max=1').ends(0)


def invoices_fail():
    """At 02:40. The first two come one after the other, so that their letters have the order of the messages."""
    for numbers in ((FIRST,), (FIRST + 1,), range(FIRST + 2, FIRST + INVOICES)):
        text = "".join(f'{{"order_id": {n}, "amount": 4990, "currency": "EUR"}}\n' for n in numbers).encode()
        semel("publish", "orders", "--type", "order.placed", "--header", f"traceparent={TRACE}", "--lines", stdin=text)
        wait_until(lambda: count("semel_dead WHERE name = 'invoices'") == numbers[-1] - FIRST + 1, "letters")
    wait_until(lambda: count("ledger") == INVOICES, "payments")


def count(what):
    return int(ask_sqlite(f"SELECT count(*) FROM {what}")[0][0])


def typed(*words, answer):
    run = Run(*words[1:], command=words[0], terminal=True)
    run.says("[y/N] ")
    os.write(run.keyboard, answer)
    return run.ends(0)


def night():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Invoices)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    write("semel.yaml", CONFIG.format(port=server.server_address[1]))
    write("fraud.py", FRAUD)
    write("send-email.sh", MAIL, 0o700)
    mails_fail()
    write("mail.works", "")
    run = Run()
    run.says('"event":"ready"')
    invoices_fail()
    letter_of = [row[0] for row in ask_sqlite("SELECT dead_id FROM semel_dead WHERE name = 'invoices'")]
    letter = ask_sqlite("SELECT dead_id FROM semel_dead WHERE name = 'invoices' AND key = CAST('20713' AS BLOB)")[0][0]

    def step(what, wanted, *words, text=None):
        got = plain(text if text is not None else both(*words), letter_of)
        expect(what, re.sub(r"  +", "  ", wanted), got)

    step("the order that was asked for", SHOW, "inbox", "show", "20713")
    step("its letter", DEAD, "dead", "show", letter)
    Invoices.has_rates = True
    step("one letter first", RETRIED, "dead", "retry", letter)
    step("it is done", DONE, "inbox", "show", "20713", "--inbox", "invoices")
    step("the groups", GROUPS, "dead", "groups")
    cause = json.loads(semel("dead", "groups", "--inbox", "invoices", "--json")[0])["cause"]
    step("a dry run", DRY_RUN, "dead", "retry", "--cause", cause, "--dry-run",
         text=dry_run_as_seen("dead", "retry", "--cause", cause, "--dry-run"))
    step("all of them", ALL, text=typed("dead", "retry", "--cause", cause, answer=b"y\n"))
    step("nothing is left", "no matching dead letters\n", "dead", "groups", "--inbox", "invoices")
    step("the audit", AUDIT, "audit", "--since", "03:00")
    run.stop()
    made = sorted(order for order, _ in Invoices.made)
    expect("invoices, each once", list(range(FIRST, FIRST + INVOICES)), made)
    expect_true(len({key for _, key in Invoices.made}) == INVOICES, "each under a key of its own")


def dry_run_as_seen(*words):
    """On a terminal, where both outputs are one."""
    return Run(*words[1:], command=words[0], terminal=True).ends(0)


main(night)
