"""check_brokers.py PROGRAM [CHECK...]: the program on NATS, a real server, and on Kafka, librdkafka's mock cluster; and
what `check` says of the URLs of all brokers and stores, without asking anybody."""
import contextlib
import json
import os
import re
import socket
import subprocess

from api_kit import Shop
from program_kit import DEADLINE_S, SEMEL, expect, expect_true, publish_lines, read, semel, servers, wait_until, write

# --- URLs -------------------------------------------------------------------------------------------------------------

RECEIVES = 'inbox "stock" reads from this queue'
# The URL, what is wrong with it, and where the caret is: at all of it if nothing is said.
MISTAKES = [
    ("kafk://b1/orders?group=g", '"kafk:" is not a transport, maybe kafka: is meant', "kafk:"),
    ("kafka://b1?group=g", "a group needs the topic that it receives", None),
    ("kafka://b1/orders?grup=g", 'unknown parameter "grup"', "grup"),
    ("kafka://b1/orders?group=g&X.acks=1", '"X.acks" cannot be set', "X.acks"),
    ("kafka://b1/orders?group=g&X.akcs=1", 'librdkafka knows no setting "X.akcs"', "X.akcs"),
    ("kafka://b1/orders?group=g&X.linger.ms=often", 'does not accept the value of "X.linger.ms"', "X.linger.ms"),
    ("kafka://b1/orders?group=g&X.sasl.password=file:/none/there", 'the file of "X.sasl.password" is not there',
     "X.sasl.password"),
    ("kafka://b1/orders", "this URL names no group= to receive with", None),
    ("nats://n1/ORDERS?consumer=g&dedlare=yes", 'unknown parameter "dedlare"', "dedlare"),
    ("nats://n1/ORDERS?consumer=g&storage=disk", 'storage is file or memory, not "disk"', "disk"),
    ("nats://n1?subject=orders", "the URL names no stream: whether messages are kept was not checked", None),
    ("nats://n1/ORDERS", "this URL names no consumer= to receive from", None),
    ("amqp://mq/?queue=q&nonsense=1", 'unknown parameter "nonsense"', "nonsense"),
    ("amqp://mq/?queue=q&type=classic&durable=no", "durable=no: its messages are gone", None),
    ("amqp://mq/?exchange=shop", "this URL names no queue= to receive from", None),
    ("redis://cache/0?strem=orders&group=g", 'unknown parameter "strem"', "strem"),
    ("redis://cache/0?stream=orders", "this URL names no group= to receive with", None),
    ("store:sqlite:shop.db#orders?lease=5", "behind the name of a queue it takes ?lease_ms=NUMBER", None),
    ("store:sqlit:shop.db#orders", '"sqlit:" is not a store', None),
    ("store:sqlite:shop.db?shar=on#orders", 'unknown parameter "shar"', "shar"),
    ("memory:?ack=1", 'unknown parameter "ack"', "ack"),
]
ONE = """\
version: 1
store: sqlite:shop.db
queues:
  orders: {url}
inboxes:
  stock: {{ from: orders, exec: [cat] }}
"""


def what_check_says(url, env=None, config=ONE):
    write("semel.yaml", config.format(url=url))
    out, err = semel("check", "--offline", status=3, env=env)
    expect_true("canary" not in out + err, f"a secret is shown: {out}{err}")
    return err


def mistakes():
    """Each is an error with its place; `run` and `doctor` say the same of the last one."""
    for url, words, part in MISTAKES:
        err = what_check_says(url)
        at = re.search(r"semel\.yaml:4:(\d+): error: queues\.orders: (.*)", err)
        expect_true(at and words in at[2] and err.endswith("semel.yaml: 1 error\n"), f"{url}:\n{err}")
        expect(f"the column of {url}", len("  orders: ") + 1 + (url.index(part) if part else 0), int(at[1]))
        expect(f"the length at {url}", len(part or url), len(re.search(r"\| *(\^~*)", err)[1]))
        expect(f"the help for {url}", words.startswith("this URL names no"), RECEIVES in err)
    for command in ("run", "doctor"):
        out, err = semel(command, status=3)
        expect_true(words in out + err, f"{command} with {url}:\n{out}{err}")


def stores():
    """The same of the store's URL."""
    for url, words in (("sqlite:shop.db?shar=on", 'unknown parameter "shar"'), ("postgre://u:canary@h/db", "postgres:"),
                       ("postgres://u:canary@h/db?pol=3", 'unknown parameter "pol"'),
                       ("redis://:canary@h/0?stream=s", "stream and group are of a queue in Redis")):
        err = what_check_says("", config=ONE.replace("{url}", "store").replace("sqlite:shop.db", url))
        expect_true("semel.yaml:2:" in err and ": error: store: " in err and words in err, err)


def publishing_needs_less():
    """What an inbox could not receive from may be sent to."""
    for url in ("kafka://b1/orders", "nats://n1/ORDERS", "amqp://mq/?exchange=shop", "redis://cache/0?stream=orders"):
        write("semel.yaml", f"version: 1\nstore: sqlite:a.db\nqueues: {{ orders: '{url}' }}\noutboxes: {{ orders: }}\n")
        semel("check", "--offline")


def secrets():
    """Those of a URL, and values that were put into it, in parts, too."""
    for url in ("amqp://shop:canary-1@mq/?queue=q&nonsense=1", "redis://:canary-1@cache/0?strem=s",
                "nats://canary-1@n1/ORDERS?nonsense=1", "kafka://b1/orders?X.sasl.password=canary-1&nonsense=1",
                "kafka://b1/orders?nonsense=1&X.ssl.key.pem=canary-1",
                "kafka://b1/orders?X.sasl.oauthbearer.client.secret=canary-1&nonsense=1"):
        err = what_check_says(url)
        expect_true("******" in err and "^" in err, err)
    whole = {"WHERE": "kafka://shop:canary-1@b1/orders?group=g&canary-2=c"}
    err = what_check_says('"${{WHERE}}"', whole, ONE.replace("{url}", '"${{WHERE}}"'))
    expect_true('unknown parameter "******"; kafka: knows group' in err, err)
    err = what_check_says("", {"MOST": "cny"}, ONE.replace("{url}", '"kafka://b1/orders?group=g&prefetch=${{MOST}}"'))
    expect_true('prefetch must be a number from 1 to 100000, not "******"' in err and "cny" not in err, err)
    strange = {"WHERE": 'memory:?ack_ms=x"canary-1"y'}
    err = what_check_says("", strange, ONE.replace("{url}", '"${{WHERE}}"'))
    expect_true("it has a double quote" in err, err)


# --- brokers ----------------------------------------------------------------------------------------------------------

CONFIG = """\
version: 1
store: sqlite:shop.db
admin: {{ listen: "127.0.0.1:0" }}
queues:
  orders: {orders}
  shipping: {shipping}
{more}inboxes:
  payments: {{ from: orders, key: "json:/n", exec: [sh, -c, "cat >>paid.txt"], send: {{ to: shipping }} }}
"""


class Places:
    """The URLs of a config: one queue that is read, one that is only written, and perhaps others."""

    def __init__(self, **urls):
        self.urls = urls
        self.configure()

    def configure(self, **changed):
        write("semel.yaml", CONFIG.format(**{**self.urls, **changed}))


def queues(status=0):
    lines = semel("queue", "ls", "--json", status=status)[0].splitlines()
    return {line["queue"]: line for line in map(json.loads, lines)}


def waiting(name):
    return queues()[name].get("waiting")


def start():
    """`semel run` with its API, of a config that stands here already."""
    shop = Shop.__new__(Shop)
    os.makedirs("run", mode=0o700, exist_ok=True)
    os.environ["XDG_RUNTIME_DIR"] = os.path.abspath("run")
    shop.start()
    return shop


def used(location):
    """What is the same for all: three copies of one message, and one other."""
    publish_lines("orders", ['{"n": 17}'] * 3 + ['{"n": 18}'])
    found = queues()["orders"]
    expect("all wait", (4, location), (found["waiting"], found["location"]))
    shop = start()
    wait_until(lambda: shop.run.text().count("duplicate") == 2, lambda: shop.run.text())

    def counted():
        return next(queue for queue in shop.get("queues")["queues"] if queue["name"] == "orders")
    wait_until(lambda: counted()["ready"] in range(5), lambda: f"the API counts: {counted()}")
    expect("where the API says it is", location, counted()["at"])
    text = shop.run.stop()
    expect("once each", {17: 1, 18: 1}, {n: read("paid.txt").count(f'"n": {n}') for n in (17, 18)})
    return text


def doctor_says(*words, status=0):
    out, err = semel("doctor", "-v", status=status)
    for each in words:
        expect_true(each in out, f"{each!r} is not in:\n{out}{err}")
    return out


# --- NATS -------------------------------------------------------------------------------------------------------------

SYNC = "the server confirms a message before it syncs it to the disk"


@contextlib.contextmanager
def nats():
    """Streams of its own, which are deleted past semel."""
    found, name = servers(), f"P{os.getpid()}"
    at = f"nats://semel:semel@{found['NATS_HOST']}:{found['NATS_PORT']}"

    def url(queue, more=""):
        return f'"{at}/{name}{queue}?subject={name}{queue}{more}"'
    try:
        yield url, f"nats {found['NATS_HOST']}:{found['NATS_PORT']}/{name}orders"
    finally:
        with socket.create_connection((found["NATS_HOST"], int(found["NATS_PORT"])), DEADLINE_S) as server:
            ask = b'CONNECT {"user": "semel", "pass": "semel", "verbose": false}\r\n'
            for queue in ("orders", "shipping", "later"):
                ask += f"PUB $JS.API.STREAM.DELETE.{name}{queue} 0\r\n\r\n".encode()
            server.sendall(ask + b"PING\r\n")
            got = b""
            while b"PONG" not in got:
                got += server.recv(4096)


def on_nats():
    with nats() as (url, location):
        more = "&declare=yes"
        places = Places(orders=url("orders", "&consumer=g" + more), shipping=url("shipping", more),
                        more=f'  later: {url("later", "&consumer=g" + more)}\n')
        semel("migrate", "up")
        doctor_says("the stream or consumer of queue orders does not exist yet; run declares it")
        expect("not there", "it does not exist at the broker", queues()["orders"]["reason"])
        places.configure(orders=url("orders", "&consumer=g"))
        doctor_says("queue orders: ", "there is no stream", "add declare=yes to queues.orders.url", status=1)
        places.configure()
        start().run.stop()
        publish_lines("later", ["a", "b"])
        text = used(location)
        expect("what waits", (0, 2), (waiting("orders"), waiting("later")))
        out = doctor_says("queue orders can be reached on")
        expect("of each stream in use once", (2, 2), (out.count(SYNC), text.count(SYNC)))
        places.configure(orders=url("orders", "&consumer=g&sync=always"))
        expect("not of one that is synced", 1, doctor_says("queue orders can be reached on").count(SYNC))
        places.configure(orders=url("orders", "&consumer=g").replace(":semel@", ":canary@"))
        out = doctor_says("Authentication Violation", "correct user and password in queues.orders.url", status=1)
        out += "".join(semel("queue", "ls", status=1))
        expect_true("canary" not in out, out)


# --- Kafka ------------------------------------------------------------------------------------------------------------

@contextlib.contextmanager
def kafka():
    """A cluster of one broker, and what gives it commands."""
    program = os.path.join(os.path.dirname(SEMEL), "tests", "semel-mock-kafka")
    mock = subprocess.Popen([program, "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def do(command):
        mock.stdin.write(command + "\n")
        mock.stdin.flush()
        expect(command, "ok\n", mock.stdout.readline())
    try:
        yield mock.stdout.readline().strip(), do
    finally:
        mock.stdin.close()
        mock.wait(DEADLINE_S)


def on_kafka():
    with kafka() as (at, do):
        session = "&X.session.timeout.ms=4000&X.heartbeat.interval.ms=300"
        places = Places(orders=f"kafka://{at}/orders?group=g{session}", shipping="store", more="")
        semel("migrate", "up")
        doctor_says('the topic "orders"', "semel makes none", status=1)
        expect("not there", "it does not exist at the broker", queues()["orders"]["reason"])
        do("topic orders 2")
        text = used(f"kafka {at}/orders")
        expect("warned once", 1, text.count("queue orders: a message that is rejected is dropped"))
        do("topic-error orders 29")
        doctor_says("correct user and password in queues.orders.url, or give the user the rights", status=1)
        places.configure(shipping=f"kafka://{at}/orders")
        found = queues(status=1)
        expect_true("authorization failed" in found["orders"]["reason"], found)
        expect("no group", "its URL names a topic, and no group that reads it", found["shipping"]["reason"])


CHECKS = [mistakes, stores, publishing_needs_less, secrets, on_nats, on_kafka]
if __name__ == "__main__":
    from program_kit import main
    main(*CHECKS)
