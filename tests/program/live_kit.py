"""What check_live.py and check_top.py share: a shop that runs, its socket, and texts without what differs each time."""
import glob
import json
import os
import re
import socket

from program_kit import DEADLINE_S, Run, semel, wait_until, write

CONFIG = """\
version: 1
store: {store}
setup: CREATE TABLE IF NOT EXISTS ledger (n BIGINT)
queues:
  orders: {{ url: store, workers: 2, backoff: 10ms }}
  shipping: store
inboxes:
  payments:
    from: orders
    types: [paid, bulk]
    key: json:/n
    sql: INSERT INTO ledger VALUES (:json/n)
    send: {{ to: shipping }}
  mail.receipt: {{ from: orders, types: [mail], attempts_max: 2, exec: [./mail.sh] }}
  parcels: {{ from: shipping, sql: SELECT 1 }}
{more}"""

MAIL = """#!/bin/sh
read -r body
case $body in
*fail*) printf 'no mailbox \\033[31m%s\\n' "$body" >&2; exit 1 ;;
*wait*) : >started; while [ ! -e release ]; do sleep 0.05; done ;;
esac
"""


def directory():
    """Of the sockets, short enough for their names, and this test's own."""
    return os.path.join(os.getcwd(), "run")


def own_directory():
    os.makedirs(directory(), mode=0o700, exist_ok=True)
    os.environ["XDG_RUNTIME_DIR"] = directory()


def prepare(store="sqlite:shop.db", more=""):
    own_directory()
    write("semel.yaml", CONFIG.format(store=store, more=more))
    write("mail.sh", MAIL, 0o700)


def start(*arguments):
    run = Run("--log-format", "text", *arguments)
    run.says("ready in")
    return run


def sockets():
    return sorted(glob.glob(os.path.join(directory(), "semel", "*.sock")))


class Client:
    """A client of a socket that reads when it is told to."""

    def __init__(self, path, question=None):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.socket.settimeout(DEADLINE_S)
        self.file = self.socket.makefile("rb")
        if question is not None:
            self.send(question)

    def send(self, question):
        """A client that is refused may be told so before it has asked: the answer can be read all the same."""
        text = question if isinstance(question, bytes) else json.dumps(question).encode() + b"\n"
        try:
            self.socket.sendall(text)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def line(self):
        """The next line as JSON; None at the end."""
        try:
            text = self.file.readline()
        except ConnectionResetError:  # closed with a part of the question unread
            return None
        return json.loads(text) if text else None

    def close(self):
        self.file.close()
        self.socket.close()


def ask(path, question):
    client = Client(path, question)
    answer = client.line()
    client.close()
    return answer


def stats(name="payments"):
    """The counters of an inbox, as `semel stats --json` prints them; {} without a process."""
    out = semel("stats", "--json", "--inbox", name)[0]
    return json.loads(out.splitlines()[0]) if out else {}


def wait_for(inbox, **counts):
    def reached():
        now = stats(inbox)
        return all(now.get(name, -1) >= count for name, count in counts.items())
    wait_until(reached, lambda: f"{inbox} counts {counts}: {stats(inbox)}")


def fixed(text):
    """Without times, durations, ids and numbers of processes, which take no room then."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "DATE", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    text = re.sub(r"\d\d:\d\d:\d\d\.\d{3}", "CLOCK", text)
    text = re.sub(r"\b(\d+m \d+s|\d+h \d+m|\d+(\.\d+)? (ms|s))\b", "TOOK", text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{22}", "ID", text)
    text = re.sub(r"#[0-9a-f]{16}", "#KEY", text)
    text = re.sub(r"pid \d+", "pid PID", text)
    return re.sub(r" +", " ", re.sub(r" +$", "", text, flags=re.M))
