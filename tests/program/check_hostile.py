#!/usr/bin/python3
"""check_hostile.py PROGRAM: messages whose body, type, id, group and headers are written to do harm, published as a
user publishes them and handled by sql, exec, worker and http. No shell ever runs, every handler gets exactly what was
sent, and the log stays one line for each event, without control characters."""
import base64
import http.server
import json
import os
import re
import sqlite3
import subprocess
import threading

from program_kit import DEADLINE_S, Run, environment, expect, expect_true, main, read, semel, wait_until, write, SEMEL

CONFIG = """\
version: 1
store: sqlite:shop.db
setup: CREATE TABLE IF NOT EXISTS seen (id TEXT, type TEXT, body BLOB, header TEXT)
queues: {{ orders: store }}
inboxes:
  table: {{ from: orders, sql: "INSERT INTO seen VALUES (:id, :type, :body, :{{header:X-Evil}})" }}
  script: {{ from: orders, exec: [/usr/bin/python3, script.py, "--fixed"] }}
  work: {{ from: orders, worker: [/usr/bin/python3, work.py] }}
  web: {{ from: orders, http: "http://127.0.0.1:{port}/" }}
log: {{ messages: all, format: {form}, level: debug }}
"""

SCRIPT = """\
import base64, json, os, sys
body = sys.stdin.buffer.read()
seen = {"argv": sys.argv[1:], "id": os.environ.get("SEMEL_MESSAGE_ID"), "type": os.environ.get("SEMEL_TYPE"),
        "key": os.environ.get("SEMEL_KEY"), "names": sorted(name for name in os.environ if "EVIL" in name.upper()),
        "preload": os.environ.get("LD_PRELOAD"), "body": base64.b64encode(body).decode()}
with open("script.log", "a") as log:
    log.write(json.dumps(seen) + "\\n")
"""

WORK = """\
import base64, json, sys
for line in sys.stdin:
    message = json.loads(line)
    with open("work.log", "a") as log:
        log.write(json.dumps(message) + "\\n")
    print(json.dumps({"id": message.get("id")}), flush=True)
"""

TEXTS = ["$(touch pwned)", "`touch pwned`", "; touch pwned #", "| touch pwned", "&& touch pwned", "x\ntouch pwned\n",
         "x\r\nX-Injected: evil", "--help", "--config=/etc/passwd", "-n", "a=b=c", "LD_PRELOAD=./evil.so", "EVIL=1",
         "\x1b[31mred\x1b[0m", "\x07\x08\x7f", "'; DROP TABLE seen; --", '"}\n{"id":"evil"}', "../../etc/passwd",
         "%s%n%x", "\u202egnp.exe", "\u2028", "\u0085", "caf\u00e9"]
BODIES = [text.encode() for text in TEXTS] + [b"", b"\0", b"a\0b", b"\xff\xfe\xfa", b"\xc3(", b"x" * (1 << 20),
                                              b"\n" * 1000, b'{"a":' * 100 + b"1" + b"}" * 100, b'{"n": 1e999}']


class Web(http.server.BaseHTTPRequestHandler):
    seen = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        Web.seen.append((dict(self.headers.items()), body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def publish(*arguments, stdin=b""):
    """0 and the id, or the exit status of a refusal, which must be one line of text, or two."""
    done = subprocess.run([SEMEL, "publish", "orders", *arguments], input=stdin, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=environment(), timeout=DEADLINE_S, check=False)
    expect_true(done.returncode in (0, 1, 2), f"publish ended with {done.returncode}: {done.stderr}")
    expect_true(not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", done.stderr), f"control characters: {done.stderr}")
    if done.returncode:  # called wrongly: the second line says where help is
        expect("lines of a refusal", 2 if done.returncode == 2 else 1, done.stderr.count(b"\n"))
    return done.returncode


def publish_all():
    """What was accepted: (body, type, header) by a number in the source."""
    sent, refused = [], []
    for number, body in enumerate(BODIES):
        arguments = ["--id", f"body-{number}", "--type", "t"]
        expect(f"publishing body {number}", 0, publish(*arguments, stdin=body))
        sent.append((f"body-{number}", "t", body))
    for number, text in enumerate(TEXTS):
        for field, arguments in (("type", ["--id", f"type-{number}", f"--type={text}"]),
                                 ("id", [f"--id={text}", "--type", "t"]),
                                 ("header", ["--id", f"header-{number}", "--type", "t", f"--header=X-Evil={text}"]),
                                 ("name", ["--id", f"name-{number}", "--type", "t", f"--header={text}=x"]),
                                 ("group", ["--id", f"group-{number}", "--type", "t", f"--group={text}"])):
            if publish(*arguments, "--", "{}"):
                refused.append((field, text))
            else:
                name = arguments[1] if field != "id" else text
                sent.append((name, text if field == "type" else "t", b"{}"))
    for wrong in (b"\xff\xfe", b"\xc3("):
        publish(os.fsdecode(b"--id=" + wrong), "--type", "wrong", "--", "{}")
        publish("--id", "wrong-type", os.fsdecode(b"--type=" + wrong), "--", "{}")
        publish("--id", "wrong-header", os.fsdecode(b"--header=X-Evil=" + wrong), "--", "{}")
    return sent, refused


def rows():
    shop = sqlite3.connect("shop.db", timeout=DEADLINE_S)
    shop.text_factory = bytes
    try:
        return shop.execute("SELECT id, type, body FROM seen").fetchall()
    finally:
        shop.close()


def count(name):
    return read(name).count("\n")


def check_log(text, form):
    for line in text.splitlines():
        expect_true(re.match(r'\{"ts":".*\}$' if form == "json" else r"\d\d:\d\d:\d\d\.\d{3}  ", line),
                    f"a line of the log: {line!r}")
        if form == "json":
            json.loads(line)
    bad = re.search(r"[\x00-\x09\x0b-\x1f\x7f\x80-\x9f\u2028\u2029\u202e]", text)
    expect_true(not bad, f"the log has {bad and bad[0]!r}: {bad and text[max(0, bad.start() - 100):bad.end()]!r}")
    expect_true("x" * 100 not in text, "bodies are not logged")


def handled(form):
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    Web.seen.clear()
    write("semel.yaml", CONFIG.format(port=web.server_address[1], form=form))
    write("script.py", SCRIPT)
    write("work.py", WORK)
    run = Run()
    run.says("ready")
    sent, refused = publish_all()
    wait_until(lambda: len(rows()) >= len(sent) and count("script.log") >= len(sent) and count("work.log") >= len(sent)
               and len(Web.seen) >= len(sent),
               lambda: f"{len(sent)} handled: {len(rows())} {count('script.log')} {count('work.log')} {len(Web.seen)}\n"
               + run.text()[-3000:])
    log = run.stop()
    web.shutdown()
    expect("files that a shell would have made", False, os.path.exists("pwned"))
    check_log(log, form)
    print(f"      {form}: {len(sent)} handled, {len(refused)} refused by publish", flush=True)
    check_handlers(sent)


def check_handlers(sent):
    bodies = {name.encode(): (kind.encode(), body) for name, kind, body in sent}
    for name, kind, body in rows():
        body = body if isinstance(body, bytes) else b"" if body is None else str(body).encode()
        if name in bodies:
            expect(f"sql: {name}", bodies[name], (kind, body))
    for line in read("script.log").splitlines():
        seen = json.loads(line)
        expect("exec: arguments, foreign variables", (["--fixed"], [], None),
               (seen["argv"], seen["names"], seen["preload"]))
        name = (seen["id"] or "").encode()
        if name in bodies:
            expect(f"exec: the body of {name}", bodies[name][1], base64.b64decode(seen["body"]))
    for headers, _ in Web.seen:
        expect_true("X-Injected" not in headers, f"http: a header was injected: {headers}")


def in_a_json_log():
    handled("json")


def in_a_text_log():
    handled("text")


main(in_a_json_log, in_a_text_log)
