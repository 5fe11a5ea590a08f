#!/usr/bin/env python3
"""publish.py BOARD BROKER STORE OUTPUT SEED: the publisher of semel-soak, which is not semel's.

Messages have a group and a number within it. The next one of a group is sent when the broker has confirmed the one
before, so the broker has them in order, whatever happens; many groups are under way at once. Of the ordered ones there
are fewer, so that messages of one group meet at the consumers. One message in ten is sent twice at once, one in ten
once more much later. What is not confirmed when the connection breaks is sent again. One message more, somewhere in
between, is poison to its consumer; it is not counted.

It begins no more messages than the counters allow, and ends when they say so: then all messages are confirmed,
and OUTPUT has a line "GROUP COUNT" for each group.
"""
import collections
import heapq
import os
import random
import sys
import time

import pika

from counters import ALLOWED, COPIES, ENDING, PUBLISHED, REPEATED, Counters

GROUPS = {"ordered": 16, "free": 64}  # of each queue; check.c knows the queues and the limit, 64
WINDOW = 400  # unconfirmed messages, at most
LATER = (300, 6000)  # how many messages after the first a late copy is sent
POISON = (50, 500)  # how many messages are before it
TICK_S = 0.02
BACK_OFF_S = 0.3

Item = collections.namedtuple("Item", "group number first")


class Publisher:
    def __init__(self, counters, parameters, exchange, seed):
        self.counters = counters
        self.parameters = parameters
        self.exchange = exchange
        self.random = random.Random(seed)
        self.numbers = {f"{queue}.{i}": 0 for queue in GROUPS for i in range(GROUPS[queue])}
        self.idle = {queue: collections.deque() for queue in GROUPS}  # groups with nothing unconfirmed
        for group in self.numbers:
            self.rest(group)
        self.begun = self.published = self.copies = self.repeated = 0
        self.again = collections.deque()  # to be sent once more
        self.late = []  # a heap: when it is due, item
        self.poison = Item(self.random.choice(list(GROUPS)) + ".poison", 1, False)  # None: it was sent
        self.poison_due = self.random.randint(*POISON)
        self.connection = self.channel = None
        self.forget()

    def forget(self):
        self.channel = None
        self.tag = 0
        self.unconfirmed = {}  # by tag, in order
        self.returned = collections.Counter()

    # --- the connection ---

    def run(self):
        while not self.is_done():
            self.connection = pika.SelectConnection(
                self.parameters,
                on_open_callback=lambda c: c.channel(on_open_callback=self.on_channel),
                on_open_error_callback=lambda c, why: c.ioloop.stop(),
                on_close_callback=lambda c, why: c.ioloop.stop(),
            )
            self.connection.ioloop.start()
            lost = [item for item in self.unconfirmed.values()]
            self.repeated += len(lost)
            self.again.extend(lost)
            self.forget()
            if not self.is_done():
                time.sleep(BACK_OFF_S)
        self.report()

    def on_channel(self, channel):
        self.channel = channel
        channel.add_on_close_callback(self.on_channel_closed)
        channel.add_on_return_callback(lambda c, how, properties, body: self.on_return(properties))
        channel.confirm_delivery(self.on_confirm)
        self.tick()

    def on_channel_closed(self, channel, why):
        if not (self.connection.is_closing or self.connection.is_closed):
            self.connection.close()

    def on_return(self, properties):
        self.returned[properties.message_id] += 1

    def on_confirm(self, frame):
        tag, confirmed = frame.method.delivery_tag, isinstance(frame.method, pika.spec.Basic.Ack)
        tags = [t for t in self.unconfirmed if t <= tag] if frame.method.multiple else [tag]
        for one in tags:
            self.settle(self.unconfirmed.pop(one), confirmed)
        if len(self.unconfirmed) < WINDOW // 2:
            self.send_some()

    # --- messages ---

    def settle(self, item, confirmed):
        name = f"{item.group}-{item.number}"
        if self.returned[name] > 0:  # there is no queue for it
            self.returned[name] -= 1
            confirmed = False
        if not confirmed:
            self.repeated += 1
            self.again.append(item)
        elif item.first:
            self.published += 1
            self.rest(item.group)

    def send(self, item):
        self.tag += 1
        self.unconfirmed[self.tag] = item
        self.channel.basic_publish(
            self.exchange,
            item.group,
            f"{item.group} {item.number}",
            pika.BasicProperties(
                message_id=f"{item.group}-{item.number}",
                type="order.poison" if item.group.endswith(".poison") else "order.placed",
                content_type="text/plain",
                delivery_mode=2,
                headers={"semel-group": item.group},
            ),
            mandatory=True,
        )

    def rest(self, group):
        self.idle[group.split(".")[0]].append(group)

    def send_new(self):
        queue = self.random.choice([queue for queue in GROUPS if self.idle[queue]])
        group = self.idle[queue].popleft()
        self.numbers[group] += 1
        self.begun += 1
        item = Item(group, self.numbers[group], True)
        copy = item._replace(first=False)
        self.send(item)
        dice = self.random.random()
        if dice < 0.1:
            self.copies += 1
            self.send(copy)
        elif dice < 0.2:
            heapq.heappush(self.late, (self.begun + self.random.randint(*LATER), copy))

    def send_late(self):
        self.copies += 1
        self.send(heapq.heappop(self.late)[1])

    def send_poison(self):
        self.send(self.poison)
        self.poison = None

    def send_some(self):
        if not (self.channel and self.channel.is_open):
            return
        ending, allowed = self.counters.get(ENDING), self.counters.get(ALLOWED)
        while len(self.unconfirmed) < WINDOW:
            if self.again:
                self.send(self.again.popleft())
            elif self.poison and (ending or self.poison_due <= self.begun):
                self.send_poison()
            elif self.late and (ending or self.late[0][0] <= self.begun):
                self.send_late()
            elif any(self.idle.values()) and self.begun < allowed and not ending:
                self.send_new()
            else:
                return

    # --- time ---

    def is_done(self):
        waiting = self.unconfirmed or self.again or self.late or self.poison
        return self.counters.get(ENDING) and not waiting

    def report(self):
        self.counters.set(PUBLISHED, self.published)
        self.counters.set(COPIES, self.copies)
        self.counters.set(REPEATED, self.repeated)

    def tick(self):
        self.send_some()
        self.report()
        if self.is_done() and self.connection.is_open:
            self.connection.close()
        elif not (self.connection.is_closing or self.connection.is_closed):
            self.connection.ioloop.call_later(TICK_S, self.tick)


def main():
    counters, broker, store, output, seed = sys.argv[1:]
    parameters = pika.URLParameters(broker)
    parameters.heartbeat = 10
    parameters.socket_timeout = parameters.stack_timeout = 5
    publisher = Publisher(Counters(counters), parameters, f"{store}.in", int(seed))
    publisher.run()
    with open(output + ".new", "w") as file:
        for group, count in publisher.numbers.items():
            file.write(f"{group} {count}\n")
    os.rename(output + ".new", output)


main()
