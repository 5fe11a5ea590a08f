"""What the checks of the gateway share: an upstream that counts its effects, `semel run` in front of it, and clients.

The upstream does what the path says: /ok answers, /hold answers when it is let go, /die closes the connection after the
effect, /hang gives no answer, /garbage, /partial and /big answer what no proxy can use, /500 fails as often as it is
told."""
import collections
import contextlib
import http.client
import http.server
import json
import socket
import threading

from program_kit import DEADLINE_S, Run, wait_until, write


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def effect(self, body):
        up = self.server.upstream
        key = (self.headers.get("Idempotency-Key") or "").strip('"')
        with up.lock:
            up.effects[key] += 1
            up.seen.append((self.command, self.path, dict(self.headers), body))
            return f"{key}#{up.effects[key]}"

    def answer(self, status, body, length=None):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Set-Cookie", "session=secret")
        self.send_header("X-Request-Id", "r1")
        self.send_header("Connection", "X-Hop")
        self.send_header("X-Hop", "1")
        self.send_header("Connection", "X-Hop-Too")
        self.send_header("X-Hop-Too", "1")
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def work(self):
        up = self.server.upstream
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        done = json.dumps({"effect": self.effect(body), "got": body.decode("utf-8", "replace")}).encode()
        way = self.path.split("?")[0].rsplit("/", 1)[-1]
        if way == "hold":
            up.go.wait(DEADLINE_S)
        if way == "hang":
            up.stop.wait(DEADLINE_S)
        if way == "500":
            with up.lock:
                up.failures -= 1
                fails = up.failures >= 0
            return self.answer(500 if fails else 201, done)
        if way in ("die", "hang"):
            self.close_connection = True
            return self.connection.shutdown(socket.SHUT_RDWR)
        if way == "garbage":
            self.close_connection = True
            return self.wfile.write(b"this is no HTTP\r\n\r\n")
        if way == "partial":
            self.close_connection = True
            return self.answer(201, done, len(done) + 100)
        if way == "big":
            return self.answer(201, b"x" * 100_000)
        if way.isdigit():
            return self.answer(int(way), done)
        return self.answer(201, done)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = work


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512
    allow_reuse_address = True

    def get_request(self):
        client, address = super().get_request()
        self.upstream.clients.append(client)
        return client, address

    def handle_error(self, request, client_address):
        pass  # whoever killed semel closed the connection


class Upstream:
    def __init__(self, port=0):
        self.lock = threading.Lock()
        self.effects = collections.Counter()
        self.seen = []
        self.clients = []
        self.failures = 0
        self.go = threading.Event()
        self.stop = threading.Event()
        self.server = Server(("127.0.0.1", port), Handler)
        self.server.upstream = self
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self):
        self.stop.set()
        self.go.set()
        self.server.shutdown()
        self.server.server_close()
        for client in self.clients:
            try:
                client.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # closed already

    def count(self, key):
        with self.lock:
            return self.effects[key]


def config(up, port, route="", gateway="", store="sqlite:shop.db", more=""):
    """A file with one proxy route; `route` and `gateway` are further lines of each."""
    route_lines = "".join(f"      {line}\n" for line in route.splitlines())
    gateway_lines = "".join(f"  {line}\n" for line in gateway.splitlines())
    write("semel.yaml", f"""\
version: 1
store: "{store}"
drain: 10s
gateway:
  listen: 127.0.0.1:{port}
{gateway_lines}  routes:
    - path: /v1/*
      name: charges
      proxy: http://127.0.0.1:{up.port}
{route_lines}{more}""")


def start(*arguments, says="\"ready\""):
    run = Run("--set", "log.format=json", *arguments)
    run.says(says)
    return run


Answer = collections.namedtuple("Answer", "status headers body")


def problem_of(answer):
    """The stable word of a problem document."""
    kind = json.loads(answer.body)
    assert answer.headers["content-type"] == "application/problem+json", answer
    assert kind["status"] == answer.status, answer
    return kind["type"].removeprefix("urn:semel:problem:")


def ask(port, path="/v1/ok", key=None, body=b"{}", method="POST", headers=None, timeout=DEADLINE_S, keeps=None):
    """One request, on a connection of its own or on the one that the caller keeps. An OSError or HTTPException: there
    was no answer."""
    client = keeps or http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        all_headers = {"Content-Type": "application/json", **(headers or {})}
        if key is not None:
            all_headers["Idempotency-Key"] = key
        client.request(method, path, body, all_headers)
        got = client.getresponse()
        return Answer(got.status, {name.lower(): value for name, value in got.getheaders()}, got.read())
    finally:
        if not keeps:
            client.close()


def raw(port, data, shut=False):
    """What comes back for these bytes, until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as client:
        client.sendall(data)
        if shut:
            with contextlib.suppress(OSError):  # it may be closed already by the other end
                client.shutdown(socket.SHUT_WR)
        got = b""
        try:
            while True:
                some = client.recv(65536)
                if not some:
                    return got
                got += some
        except ConnectionResetError:
            return got


def in_threads(count, work):
    """work(i) in so many threads; what they returned, or the exceptions."""
    results = [None] * count

    def run(i):
        try:
            results[i] = work(i)
        except Exception as problem:  # the caller looks
            results[i] = problem
    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    return threads, results


def join(threads):
    for thread in threads:
        thread.join(DEADLINE_S)
    wait_until(lambda: not any(thread.is_alive() for thread in threads), "all clients have ended")
