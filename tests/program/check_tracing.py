#!/usr/bin/python3
"""check_tracing.py PROGRAM [CHECK...]: spans of `semel run`, received and decoded by a collector of its own. Those
checks whose names end in _on_servers need SEMEL_TEST_SERVERS, and are run only if it is set."""
import http.client
import json
import os
import secrets
import signal
import socket
import time
import uuid

from live_kit import own_directory
from program_kit import (DEADLINE_S, Run, expect, expect_true, main, publish_lines, semel, servers, wait_until, write)
from trace_kit import Collector, Service

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
CALLER_TRACE, CALLER_SPAN = CALLER.split("-")[1:3]

CONFIG = """\
version: 1
store: sqlite:shop.db
setup: CREATE TABLE IF NOT EXISTS parcel (n BIGINT)
queues:
  orders: {{ url: store, backoff: 10ms }}
  shipping: {shipping}
inboxes:
  charge:
    from: orders
    key: json:/n
    attempts_max: 2
    http: {{ url: "{service}/charge", private_addresses: true }}
    send: {{ to: shipping }}
  parcels:
    from: shipping
    sql: INSERT INTO parcel VALUES (:json/n)
log: {{ messages: none }}
{more}"""

QUICK = {"OTEL_BSP_SCHEDULE_DELAY": "50"}


def prepare(service, more="", shipping="store"):
    own_directory()
    write("semel.yaml", CONFIG.format(service=service.url, more=more, shipping=shipping))


def tracing(collector, sample="1", more=""):
    return f'tracing: {{ endpoint: "{collector.url}", sample: {sample}{more} }}\n'


def start(env=None, log="json"):
    run = Run("--log-format", log, env={**QUICK, **(env or {})})
    run.says('"event":"ready"' if log == "json" else "ready in")
    return run


def publish(number, *options):
    semel("publish", "orders", "--type", "order.placed", *options, json.dumps({"n": number}))


def low(trace):
    """The half of a trace id that all traces of one order have in common."""
    return trace[16:]


# --- one order -----------------------------------------------------------------------------------


def one_order():
    collector, service = Collector(), Service()
    prepare(service, tracing(collector, more=", service: shop"))
    run = start()
    publish(7, "--header", f"traceparent={CALLER}", "--header", "tracestate=vendor=1", "--id", "m-7")
    [parcel] = collector.wait("process parcels")
    [charge] = collector.wait("process charge")
    [send] = collector.wait("send shipping")
    run.stop()
    expect("kinds", ("consumer", "client", "consumer"), (charge.kind, send.kind, parcel.kind))
    expect("none has a parent", [None] * 3, [charge.parent, send.parent, parcel.parent])
    expect("the order is linked to the caller", [(CALLER_TRACE, CALLER_SPAN)], charge.links)
    expect("with its tracestate", ["vendor=1"], charge.states)
    expect("what was sent is linked to the work that sent it", [charge.context], send.links)
    expect("and so is what became of it", [charge.context], parcel.links)
    expect("traces", 4, len({CALLER_TRACE, charge.trace, send.trace, parcel.trace}))
    expect("with one half", {low(CALLER_TRACE)}, {low(span.trace) for span in (charge, send, parcel)})
    [call] = service.calls
    expect("what the service was told", f"00-{charge.trace}-{charge.id}-01", call["traceparent"])
    expect_true("tracestate" not in call, "the tracestate of another trace is not passed on")
    expect("attributes of process", {
        "messaging.system": "semel", "messaging.operation.name": "process", "messaging.operation.type": "process",
        "messaging.destination.name": "orders", "messaging.consumer.group.name": "charge",
        "messaging.message.id": "m-7", "messaging.message.body.size": 8, "semel.message.type": "order.placed",
        "semel.attempt": 1, "semel.key": "7", "semel.dedup.outcome": "processed"}, charge.attributes)
    expect("of send", ("shipping", "send", "shipping"),
           tuple(send.attributes[name] for name in ("messaging.destination.name", "messaging.operation.name",
                                                    "semel.outbox")))
    expect("resource", "shop", charge.resource["service.name"])
    expect("path", {"/v1/traces"}, set(collector.paths))
    receives = [span for span in collector.wait("receive orders") if (CALLER_TRACE, CALLER_SPAN) in span.links]
    expect("received once", (1, "client", 1), (len(receives), receives[0].kind,
                                               receives[0].attributes["messaging.batch.message_count"]))
    settles = [span for span in collector.wait("settle orders") if (CALLER_TRACE, CALLER_SPAN) in span.links]
    expect("settled once", 1, len(settles))
    expect_true(receives[0].start <= charge.start <= charge.end <= settles[0].end, "in the order of time")


def copies_and_failures():
    collector, service = Collector(), Service()
    prepare(service, tracing(collector))
    service.status = 500
    run = start()
    publish(1, "--id", "m-1")
    collector.wait("process charge", 2)
    service.status = 200
    publish(2, "--id", "m-2", "--copies", "3")
    spans = collector.wait("process charge", 5)
    run.stop()
    expect("outcomes", ["dead", "duplicate", "duplicate", "failed", "processed"],
           sorted(span.attributes["semel.dedup.outcome"] for span in spans))
    expect("every span has an id of its own", 5, len({span.context for span in spans}))
    for span in spans:
        outcome = span.attributes["semel.dedup.outcome"]
        expect(f"is {outcome} an error?", outcome in ("failed", "dead"), span.failed)
        expect("its type", outcome if span.failed else None, span.attributes.get("error.type"))
        expect_true(not span.failed or "500" in span.message, f"why: {span.message}")
    expect("attempts", [1, 2], sorted(span.attributes["semel.attempt"] for span in spans if span.failed))
    told = {call["traceparent"] for call in service.calls}
    expect("each attempt was told its own span", 3, len(told))
    ran = {f"00-{span.trace}-{span.id}-01" for span in spans if span.attributes["semel.dedup.outcome"] != "duplicate"}
    expect("those that the collector got", ran, told)


def keys_are_hidden():
    collector, service = Collector(), Service()
    prepare(service, tracing(collector).replace("\n", "") + "\n")
    text = open("semel.yaml", encoding="utf-8").read().replace("log: { messages: none }",
                                                               "log: { messages: none, keys: false }")
    write("semel.yaml", text)
    run = start()
    publish("secret-key", "--id", "secret-id")
    [charge] = collector.wait("process charge")
    run.stop()
    shown = charge.attributes["semel.key"] + charge.attributes["messaging.message.id"]
    expect_true("secret" not in shown, shown)


def programs_are_told():
    """exec and worker handlers get the context of their work, too."""
    collector = Collector()
    own_directory()
    write("exec.sh", '#!/bin/sh\nprintf %s "$SEMEL_TRACEPARENT" >told\n', 0o700)
    write("worker.py", "import json, sys\nfor line in sys.stdin:\n"
          "    open('told2', 'w').write(json.loads(line)['traceparent'])\n"
          "    print('{}', flush=True)\n")
    write("semel.yaml", "version: 1\nstore: sqlite:shop.db\nqueues: { orders: store }\ninboxes:\n"
          "  one: { from: orders, exec: [./exec.sh] }\n"
          "  two: { from: orders, worker: [/usr/bin/python3, worker.py] }\n" + tracing(collector))
    run = start()
    publish(1)
    [one], [two] = collector.wait("process one"), collector.wait("process two")
    run.stop()
    expect("exec", f"00-{one.trace}-{one.id}-01", open("told", encoding="ascii").read())
    expect("worker", f"00-{two.trace}-{two.id}-01", open("told2", encoding="ascii").read())


# --- sampling ------------------------------------------------------------------------------------


def nothing_is_sampled():
    """Then a message passes with the context that it came with."""
    collector, service = Collector(), Service()
    prepare(service, tracing(collector, sample="0"))
    run = start()
    publish(1)
    unsampled = CALLER[:-1] + "0"
    publish(2, "--header", f"traceparent={unsampled}", "--header", "tracestate=vendor=1")
    wait_until(lambda: len(service.calls) == 2, "both were handled")
    publish(3, "--header", f"traceparent={CALLER}")  # another service has decided
    [charge] = collector.wait("process charge")
    collector.wait("process parcels")
    run.stop()
    expect("the caller's decision counts", [(CALLER_TRACE, CALLER_SPAN)], charge.links)
    told = {call.get("traceparent"): call.get("tracestate") for call in service.calls}
    expect("contexts", {None: None, unsampled: "vendor=1", f"00-{charge.trace}-{charge.id}-01": None}, told)


def ratio():
    """The same decision for the same trace id, in each inbox; about as many as were asked for."""
    collector, service = Collector(), Service()
    prepare(service, tracing(collector, sample="0.5"))
    write("semel.yaml", open("semel.yaml", encoding="utf-8").read().replace(", sample: 0.5", ""))
    run = start(env={"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.5"})
    count = 30
    traces = [secrets.token_hex(16) for _ in range(count)]
    for number, trace in enumerate(traces):
        publish(number, "--header", f"traceparent=00-{trace}-00f067aa0ba902b7-01", "--id", f"m-{number}")
    wait_until(lambda: len(service.calls) == count, "all were handled")
    taken = [trace for trace in traces if int(low(trace), 16) >> 1 < 2 ** 62]
    charges, parcels = collector.wait("process charge", len(taken)), collector.wait("process parcels", len(taken))
    run.stop()
    expect("decided by the id", sorted(taken), sorted(span.links[0][0] for span in charges))
    expect("what was sent shares the decision", sorted(map(low, taken)), sorted(low(span.trace) for span in parcels))
    expect_true(0 < len(taken) < count, f"{len(taken)} of {count}")


def hostile_contexts():
    """What is no traceparent is as none: the spans have no link, and no one is told."""
    collector, service = Collector(), Service()
    prepare(service, tracing(collector))
    run = start()
    wrong = ["x", CALLER.upper(), CALLER[:-1], CALLER + "0", "ff" + CALLER[2:], CALLER + "-more",
             "00-" + "0" * 32 + CALLER[35:], CALLER[:36] + "0" * 16 + "-01",
             CALLER.replace("-", "_"), "00-" + "g" * 32 + CALLER[35:], "a" * 5000]
    for number, text in enumerate(wrong):
        publish(number, "--header", f"traceparent={text}", "--header", "tracestate=a=1", "--id", f"m-{number}")
    publish("later", "--header", f"traceparent=01{CALLER[2:]}-what-comes-later", "--id", "later")
    publish("long", "--header", f"traceparent={CALLER}", "--header", f"tracestate=a={'b' * 5000}", "--id", "long")
    spans = collector.wait("process charge", len(wrong) + 2)
    run.stop()
    linked = {span.attributes["messaging.message.id"]: span for span in spans if span.links}
    expect("linked", {"later", "long"}, set(linked))
    expect("a later version is read", [(CALLER_TRACE, CALLER_SPAN)], linked["later"].links)
    expect("a tracestate that is too long is left out", [None], linked["long"].states)


# --- the environment -----------------------------------------------------------------------------


def environment_variables():
    collector, service = Collector(), Service()
    prepare(service)
    run = start(env={"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url + "/", "OTEL_TRACES_SAMPLER": "always_on",
                     "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=shop%20one, Authorization=Bearer%20t0ken",
                     "OTEL_SERVICE_NAME": "till",
                     "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test,service.name=no"})
    publish(1)
    [charge] = collector.wait("process charge")
    run.stop()
    expect("the name wins", "till", charge.resource["service.name"])
    expect("attributes", "test", charge.resource["deployment.environment"])
    expect("headers", ("shop one", "Bearer t0ken"),
           (collector.headers[0]["x-tenant"], collector.headers[0]["Authorization"]))
    expect("path", "/v1/traces", collector.paths[0])
    expect_true("t0ken" not in run.text(), "the log has no secret")
    requests = collector.requests
    for off in ({"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}):
        run = start(env={"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": collector.url, "OTEL_TRACES_SAMPLER": "always_on",
                         **off})
        publish(2)
        run.stop()
    expect("nothing more was sent", requests, collector.requests)


def wrong_variables():
    """A variable that cannot be used is said, and is not in the way."""
    collector, service = Collector(), Service()
    prepare(service)
    run = start(env={"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": collector.url + "/own/path",
                     "OTEL_TRACES_SAMPLER": "sometimes",
                     "OTEL_EXPORTER_OTLP_ENDPOINT": "grpc://x", "OTEL_BSP_MAX_QUEUE_SIZE": "many",
                     "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_COMPRESSION": "zstd",
                     "OTEL_EXPORTER_OTLP_HEADERS": "no list", "OTEL_TRACES_SAMPLER_ARG": "2"}, log="text")
    publish(1, "--header", f"traceparent={CALLER}")
    collector.wait("process charge")
    run.stop()
    expect("an address of its own is used as it is", "/own/path", collector.paths[0])
    for words in ("OTEL_EXPORTER_OTLP_ENDPOINT is ignored: a URL of http:// or https:// is expected",
                  "OTEL_TRACES_SAMPLER is ignored: this sampler is not known",
                  "OTEL_BSP_MAX_QUEUE_SIZE is ignored: it is not a number in the range that is allowed",
                  "OTEL_EXPORTER_OTLP_PROTOCOL is ignored: semel sends http/json",
                  "OTEL_EXPORTER_OTLP_COMPRESSION is ignored: semel compresses spans by gzip, or not at all",
                  "OTEL_EXPORTER_OTLP_HEADERS is ignored: it is not a list of name=value,name=value"):
        expect(words, 1, run.text().count(f"tracing: {words}\n"))


def compressed():
    """By gzip, if that is asked for; a collector that is away at first gets the same bytes later."""
    collector, service = Collector(), Service()
    prepare(service)
    collector.mode = 503
    run = start(env={"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": collector.url, "OTEL_TRACES_SAMPLER": "always_on",
                     "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip", "OTEL_BSP_SCHEDULE_DELAY": "50"})
    publish(1, "--header", f"traceparent={CALLER}")
    wait_until(lambda: collector.requests, "it is asked")
    collector.mode = 200
    collector.wait("process charge")
    run.stop()
    expect("all are compressed", {"gzip"}, {headers.get("Content-Encoding") for headers in collector.headers})
    expect("and understood", [], collector.problems)


# --- a collector in trouble ----------------------------------------------------------------------


def closed_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def handle_many(service, first, count):
    publish_lines("orders", [json.dumps({"n": first + i}) for i in range(count)], "--type", "order.placed")
    wait_until(lambda: len(service.calls) == first + count, lambda: f"{len(service.calls)} of {first + count}")


def collector_away():
    """Said once; the work goes on; and once when it is back. The stop does not wait for it."""
    port, service = closed_port(), Service()
    prepare(service, f'tracing: {{ endpoint: "http://user:s3cret@127.0.0.1:{port}", sample: 1 }}\n')
    run = start(env={"OTEL_BSP_EXPORT_TIMEOUT": "100"}, log="text")
    handle_many(service, 0, 20)
    run.says(f"tracing: the collector at http 127.0.0.1:{port}/v1/traces takes no spans: ")
    handle_many(service, 20, 20)
    collector = Collector(port)
    wait_until(lambda: publish(len(service.calls)) or collector.spans, "a span comes")
    run.says("takes spans again; ")
    run.stop()
    expect("said once", 1, run.text().count("takes no spans"))
    expect("and once that it is back", 1, run.text().count("takes spans again"))
    expect_true("s3cret" not in run.text(), "the log has no secret")
    expect("nothing failed", [], collector.problems)


def collector_answers(mode, ends):
    collector, service = Collector(), Service()
    prepare(service, tracing(collector))
    collector.mode = mode
    run = start(env={"OTEL_BSP_MAX_QUEUE_SIZE": "16", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "8"}, log="text")
    handle_many(service, 0, 40)
    wait_until(lambda: collector.requests, "the collector was asked")
    began = time.monotonic()
    run.stop()
    expect_true(time.monotonic() - began < ends, f"it took {time.monotonic() - began} s to stop")
    expect_true(" 0 failed, 0 dead letters" in run.text(), run.text())
    collector.close()
    return run, collector


def collector_hangs():
    collector_answers("hang", 20)


def collector_is_busy():
    run, _ = collector_answers(503, 20)
    expect("said once", 1, run.text().count("takes no spans: it answers with status 503"))


def collector_refuses():
    run, collector = collector_answers(400, 20)
    expect("said once", 1, run.text().count("takes no spans: it answers with status 400"))
    expect_true(collector.requests >= 2, "the next batch is tried all the same")


def collector_comes_back():
    """What was refused for now is sent again, and nothing is lost."""
    collector, service = Collector(), Service()
    prepare(service, tracing(collector))
    collector.mode, collector.retry_after = 503, "1"
    run = start(log="text")
    handle_many(service, 0, 5)
    wait_until(lambda: collector.requests >= 2, "the request came again")
    collector.mode = 200
    collector.wait("process charge", 5)
    collector.wait("process parcels", 5)
    run.says("takes spans again; 0 were lost")
    run.stop()


def reloaded():
    """Names of the new configuration are used; the collector stays the same until the next start."""
    collector, service = Collector(), Service()
    prepare(service, tracing(collector))
    run = start(log="text")
    publish(1)
    collector.wait("process charge")
    text = open("semel.yaml", encoding="utf-8").read()
    write("semel.yaml", text.replace("charge:", "charge2:").replace("sample: 1", "sample: 0"))
    run.send(signal.SIGHUP)
    run.says("tracing: this section is used at the next start; until then tracing stays as it is")
    run.says("reload: done")
    publish(2)
    [charge] = collector.wait("process charge2")
    expect("its queue", "orders", charge.attributes["messaging.destination.name"])
    run.stop()


# --- the gateway ---------------------------------------------------------------------------------


def post(address, path, key, traceparent=None, state=None):
    """The status of the answer, and whether it was replayed."""
    connection = http.client.HTTPConnection(*address.split(":"), timeout=DEADLINE_S)
    headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
    headers.update({"traceparent": traceparent} if traceparent else {})
    headers.update({"tracestate": state} if state else {})
    connection.request("POST", path, body="{}", headers=headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, answer.getheader("Idempotent-Replayed")


def open_gateway(collector, upstream, sample="1"):
    own_directory()
    port = closed_port()
    write("semel.yaml", f"""\
version: 1
store: sqlite:shop.db
gateway:
  listen: 127.0.0.1:{port}
  routes:
    - {{ path: /charges, proxy: "{upstream}", private_addresses: true, timeout: 10s }}
""" + (tracing(collector, sample) if collector else ""))
    run = start()
    address = f"127.0.0.1:{port}"
    wait_until(lambda: post(address, "/charges", f"ready-{uuid.uuid4()}")[0] != 503, "the gateway is ready")
    return run, address


def proxied_requests():
    collector, upstream = Collector(), Service()
    run, address = open_gateway(collector, upstream.url)
    collector.wait("POST /charges")
    collector.spans.clear()
    upstream.calls.clear()
    expect("first", (200, None), post(address, "/charges", "k-1", CALLER, "vendor=1"))
    expect("copy", (200, "true"), post(address, "/charges", "k-1", CALLER))
    servers_spans, [call] = collector.wait("POST /charges", 2), collector.wait("POST")
    run.stop()
    first, copy = sorted(servers_spans, key=lambda span: span.start)
    expect("kinds", ("server", "server", "client"), (first.kind, copy.kind, call.kind))
    expect("children of the caller", [(CALLER_TRACE, CALLER_SPAN)] * 2,
           [(span.trace, span.parent) for span in (first, copy)])
    expect("the call is a child of the request", first.context, (call.trace, call.parent))
    [told] = upstream.calls
    expect("what the upstream was told", (f"00-{call.trace}-{call.id}-01", "vendor=1"),
           (told["traceparent"], told["tracestate"]))
    expect("attributes of the request", {
        "http.request.method": "POST", "http.route": "/charges", "url.path": "/charges", "url.scheme": "http",
        "semel.dedup.outcome": "executed", "http.response.status_code": 200}, first.attributes)
    expect("of the copy", "replayed", copy.attributes["semel.dedup.outcome"])
    expect("of the call", {"http.request.method": "POST", "server.address": "127.0.0.1", "server.port": upstream.port,
                           "http.response.status_code": 200}, call.attributes)
    expect("an inbox of keys has no spans of its own", [],
           [span for span in collector.spans if "gateway." in span.name])


def upstream_in_trouble():
    collector = Collector()
    run, address = open_gateway(collector, f"http://127.0.0.1:{closed_port()}")
    expect("status", 502, post(address, "/charges", "k-2")[0])
    server = [span for span in collector.wait("POST /charges") if span.attributes["http.response.status_code"] == 502]
    call = collector.wait("POST")[0]
    run.stop()
    expect("an error of the gateway", (True, "502"), (server[0].failed, server[0].attributes["error.type"]))
    expect("and of the call", (True, "no_answer"), (call.failed, call.attributes["error.type"]))


def published_messages():
    """A message that a request makes is linked to the span of the request."""
    collector = Collector()
    own_directory()
    port = closed_port()
    write("semel.yaml", f"""\
version: 1
store: sqlite:shop.db
queues: {{ orders: store }}
inboxes: {{ billing: {{ from: orders, exec: [/bin/true] }} }}
gateway: {{ listen: "127.0.0.1:{port}", routes: [{{ path: /orders, to: orders }}] }}
""" + tracing(collector))
    run = start()
    expect("stored", 202, post(f"127.0.0.1:{port}", "/orders", "m-1", CALLER)[0])
    [request], [billing] = collector.wait("POST /orders"), collector.wait("process billing")
    run.stop()
    expect("the request", ("server", CALLER_TRACE, CALLER_SPAN, "accepted"),
           (request.kind, request.trace, request.parent, request.attributes["semel.dedup.outcome"]))
    expect("what became of the message", [request.context], billing.links)


def requests_that_are_not_sampled():
    """The upstream is told what the caller said, and nothing if it said nothing or nonsense."""
    collector, upstream = Collector(), Service()
    for tracer in (collector, None):
        run, address = open_gateway(tracer, upstream.url, sample="0")
        upstream.calls.clear()
        unsampled = CALLER[:-1] + "0"
        for key, given in (("a", None), ("b", unsampled), ("c", "nonsense"), ("d", unsampled)):
            post(address, "/charges", f"{key}-{tracer is None}", given, "x" * 600 if key == "d" else "v=1")
        run.stop()
        expect("contexts", [(None, None), (unsampled, "v=1"), (None, None), (unsampled, None)],
               [(call.get("traceparent"), call.get("tracestate")) for call in upstream.calls])
    expect("no spans", [], collector.spans)


# --- the broker ----------------------------------------------------------------------------------


def rabbitmq_on_servers():
    """The context goes through a broker as headers, which another client sees."""
    import pika
    at = servers()
    name = f"tracing-{uuid.uuid4().hex[:12]}"
    broker = f"amqp://guest:guest@{at['RABBITMQ_HOST']}:{at['RABBITMQ_PORT']}/%2F"
    collector, service = Collector(), Service()
    prepare(service, tracing(collector), shipping=f'"{broker}?queue={name}&declare=yes"')
    connection = pika.BlockingConnection(pika.URLParameters(broker))
    channel = connection.channel()
    try:
        run = start()
        publish(1, "--header", f"traceparent={CALLER}")
        [charge], [send] = collector.wait("process charge"), collector.wait("send shipping")
        [parcel] = collector.wait("process parcels")
        expect("systems", ["semel", "rabbitmq", "rabbitmq"],
               [span.attributes["messaging.system"] for span in (charge, send, parcel)])
        expect("links", [[charge.context], [charge.context]], [send.links, parcel.links])
        wait_until(lambda: any(charge.context in span.links for span in collector.named("settle shipping")), "settled")
        run.stop()
        channel.queue_purge(name)
        channel.confirm_delivery()
        theirs = {"traceparent": CALLER, "tracestate": "vendor=2"}
        properties = pika.BasicProperties(message_id="theirs", type="order.placed", headers=theirs)
        channel.basic_publish("", name, b'{"n": 2}', properties)
        run = start()
        wait_until(lambda: len(collector.named("process parcels")) == 2, "what another client sent")
        run.stop()
        expect("linked to the other client", ([(CALLER_TRACE, CALLER_SPAN)], ["vendor=2"]),
               (collector.named("process parcels")[1].links, collector.named("process parcels")[1].states))
        sends_to_others(pika, channel, broker, name)
    finally:
        channel.queue_delete(name)
        connection.close()


def sends_to_others(pika, channel, broker, name):
    """An outbox without an inbox behind it: a client that is not ours reads the headers."""
    del pika
    collector, service = Collector(), Service()
    prepare(service, tracing(collector), shipping=f'"{broker}?queue={name}&declare=yes"')
    text = open("semel.yaml", encoding="utf-8").read()
    write("semel.yaml", text.replace(text[text.index("  parcels:"):text.index("log:")], ""))
    run = start()
    publish(11, "--header", "baggage=user=7")
    [charge] = collector.wait("process charge")
    collector.wait("send shipping")
    run.stop()
    got = wait_until(lambda: channel.basic_get(name, auto_ack=True)[1], "a message")
    expect("headers at the broker", (f"00-{charge.trace}-{charge.id}-01", None),
           (got.headers["traceparent"], got.headers.get("tracestate")))


CHECKS = [one_order, copies_and_failures, keys_are_hidden, programs_are_told, nothing_is_sampled, ratio,
          hostile_contexts, environment_variables, wrong_variables, compressed, collector_away, collector_hangs,
          collector_is_busy, collector_refuses, collector_comes_back, reloaded, proxied_requests, upstream_in_trouble,
          published_messages, requests_that_are_not_sampled]
if "SEMEL_TEST_SERVERS" in os.environ:
    CHECKS.append(rabbitmq_on_servers)
main(*CHECKS)
