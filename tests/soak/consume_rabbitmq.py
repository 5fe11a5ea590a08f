#!/usr/bin/env python3
"""consume_rabbitmq.py COUNTERS BROKER URL STORE OUTPUT ...: the foreign consumer of semel-soak, which has no inbox.

It has a queue of its own at the exchange that the relays send to, and writes a line "BODY ID" for each delivery, in
the order of their arrival. A delivery is acknowledged when its line has been written; so one that it was killed over
comes again. It ends by being killed.
"""
import sys
import time

import pika

from counters import READY, RECEIVED, Counters

PREFETCH = 500
IDLE_S = 0.05
BACK_OFF_S = 0.3


def consume(connection, store, file, counters):
    queue = f"{store}.foreign"
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)
    channel.queue_bind(queue, f"{store}.out", "#")
    channel.basic_qos(prefetch_count=PREFETCH)
    counters.set(READY, 1)
    written = None
    for how, properties, body in channel.consume(queue, inactivity_timeout=IDLE_S):
        if how:
            file.write(f"{body.decode()} {properties.message_id}\n")
            counters.set(RECEIVED, counters.get(RECEIVED) + 1)
            written = how.delivery_tag
        if written and (not how or written % (PREFETCH // 5) == 0):
            file.flush()
            channel.basic_ack(written, multiple=True)
            written = None


def main():
    counters, _, url, store, output = sys.argv[1:6]
    parameters = pika.URLParameters(url)
    parameters.heartbeat = 10
    parameters.socket_timeout = parameters.stack_timeout = 5
    with open(output, "a") as file:
        while True:
            try:
                consume(pika.BlockingConnection(parameters), store, file, Counters(counters))
            except (pika.exceptions.AMQPError, OSError):  # the broker is down
                time.sleep(BACK_OFF_S)


main()
