"""A collector of OTLP/HTTP in JSON for check_tracing.py, and an HTTP service that keeps the headers it gets."""
import gzip
import http.server
import json
import threading

from program_kit import Failed, expect, expect_true, wait_until

KINDS = {1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}


def value_of(value):
    [(kind, inner)] = value.items()
    expect_true(kind in ("stringValue", "intValue"), f"an attribute of kind {kind}")
    expect_true(isinstance(inner, str), f"64-bit numbers are texts in JSON: {value}")
    return int(inner) if kind == "intValue" else inner


def attributes_of(pairs):
    found = {pair["key"]: value_of(pair["value"]) for pair in pairs}
    expect("attributes come once", len(pairs), len(found))
    return found


def is_id(text, digits):
    return len(text) == digits and set(text) <= set("0123456789abcdef") and set(text) != {"0"}


class Span:
    """One span, checked for what every span must be."""

    def __init__(self, data, resource):
        known = {"traceId", "spanId", "parentSpanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano",
                 "attributes", "links", "status"}
        expect("members of a span", set(), set(data) - known)
        self.resource = resource
        self.trace, self.id, self.parent = data["traceId"], data["spanId"], data.get("parentSpanId")
        expect_true(is_id(self.trace, 32) and is_id(self.id, 16), f"ids of {data}")
        self.name, self.kind = data["name"], KINDS[data["kind"]]
        self.start, self.end = int(data["startTimeUnixNano"]), int(data["endTimeUnixNano"])
        expect_true(isinstance(data["startTimeUnixNano"], str), "times are texts")
        expect_true(0 < self.start <= self.end, f"times of {data}")
        self.attributes = attributes_of(data.get("attributes", []))
        self.links = [(link["traceId"], link["spanId"]) for link in data.get("links", [])]
        self.states = [link.get("traceState") for link in data.get("links", [])]
        status = data.get("status", {})
        self.failed, self.message = status.get("code", 0) == 2, status.get("message")

    @property
    def context(self):
        return self.trace, self.id

    def __repr__(self):
        return f"{self.name} ({self.kind}) {self.trace}/{self.id} {self.attributes} links {self.links}"


class Server:
    """Answers POST by `answer(handler, body)`, each request in a thread of its own."""

    def __init__(self, port=0):
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers["Content-Encoding"] == "gzip":
                    body = gzip.decompress(body)
                try:
                    outer.answer(self, body)
                except (BrokenPipeError, ConnectionResetError):
                    pass

            def reply(self, status, body=b"{}", headers=()):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                for name, value in headers:
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Collector(Server):
    """Keeps the spans that it is sent. `mode` is a status to answer with, or "hang"."""

    def __init__(self, port=0):
        self.spans, self.problems, self.paths, self.headers = [], [], [], []
        self.requests, self.mode, self.retry_after = 0, 200, None
        self.released = threading.Event()
        super().__init__(port)

    def answer(self, handler, body):
        self.requests += 1
        self.paths.append(handler.path)
        self.headers.append(dict(handler.headers))
        if self.mode == "hang":
            self.released.wait()
            return
        if self.mode == 200:
            try:
                self.spans += self.decode(handler, json.loads(body))
            except (Failed, KeyError, ValueError) as problem:
                self.problems.append(f"{problem!r} in {body!r}")
        more = [("Retry-After", self.retry_after)] if self.retry_after else []
        handler.reply(self.mode, headers=more)

    @staticmethod
    def decode(handler, data):
        expect("content type", "application/json", handler.headers["Content-Type"])
        found = []
        for group in data["resourceSpans"]:
            resource = attributes_of(group["resource"]["attributes"])
            for scope in group["scopeSpans"]:
                expect("scope", "semel", scope["scope"]["name"])
                found += [Span(span, resource) for span in scope["spans"]]
        return found

    def named(self, name):
        return [span for span in self.spans if span.name == name]

    def wait(self, name, count=1):
        """The spans of this name, when there are so many."""
        wait_until(lambda: len(self.named(name)) >= count or self.problems,
                   lambda: f"{count} spans {name!r}: {self.spans}")
        expect("problems of the collector", [], self.problems)
        return self.named(name)

    def close(self):
        self.released.set()
        super().close()


class Service(Server):
    """A handler of messages: keeps the headers of each request."""

    def __init__(self):
        self.calls, self.status = [], 200
        super().__init__()

    def answer(self, handler, body):
        self.calls.append({name.lower(): value for name, value in handler.headers.items()})
        handler.reply(self.status)
