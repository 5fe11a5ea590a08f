#!/usr/bin/env python3
"""publish.py COUNTERS BROKER URL STORE OUTPUT SEED PROGRAM POISON: the publisher of semel-soak, which is not semel's.

What is sent is decided here. How, says a client: client_BROKER.py or, if PROGRAM is not empty, the client in C of that
program (client_program.py). A client is an object with run(publisher), which calls tick() until is_done() and tells
the publisher what was confirmed (settle) and what the end of a connection left open (lose), and with can_send() and
send(item).

Messages have a group and a number within it. The next one of a group is sent when the broker has confirmed the one
before, so the broker has them in order, whatever happens; many groups are under way at once. Of the ordered ones there
are fewer, so that messages of one group meet at the consumers. One message in ten is sent twice at once, one in ten
once more much later. What is not confirmed when the connection breaks is sent again. With POISON one message more,
somewhere in between, is poison to its consumer; it is not counted.

It begins no more messages than the counters allow, and ends when they say so: then all messages are confirmed,
and OUTPUT has a line "GROUP COUNT" for each group.
"""
import collections
import heapq
import importlib
import os
import random
import sys

from counters import ALLOWED, COPIES, ENDING, PUBLISHED, REPEATED, Counters

GROUPS = {"ordered": 16, "free": 64}  # of each queue; check.c knows the queues and the limit, 64
WINDOW = 400  # unconfirmed messages, at most
LATER = (300, 6000)  # how many messages after the first a late copy is sent
POISON = (50, 500)  # how many messages are before it

Item = collections.namedtuple("Item", "group number first")


class Publisher:
    def __init__(self, counters, client, seed, has_poison):
        self.counters = counters
        self.client = client
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
        if not has_poison:
            self.poison = None
        self.waiting = 0  # sent and neither confirmed nor refused

    # --- messages ---

    def settle(self, item, confirmed):
        self.waiting -= 1
        if not confirmed:
            self.repeated += 1
            self.again.append(item)
        elif item.first:
            self.published += 1
            self.rest(item.group)
        if self.waiting < WINDOW // 2:
            self.send_some()

    def lose(self, items):
        self.waiting -= len(items)
        self.repeated += len(items)
        self.again.extend(items)

    def send(self, item):
        self.waiting += 1
        self.client.send(item)

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
        if not self.client.can_send():
            return
        ending, allowed = self.counters.get(ENDING), self.counters.get(ALLOWED)
        while self.waiting < WINDOW:
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
        waiting = self.waiting or self.again or self.late or self.poison
        return self.counters.get(ENDING) and not waiting

    def report(self):
        self.counters.set(PUBLISHED, self.published)
        self.counters.set(COPIES, self.copies)
        self.counters.set(REPEATED, self.repeated)

    def tick(self):
        self.send_some()
        self.report()


def main():
    counters, broker, url, store, output, seed, program, poison = sys.argv[1:]
    client = importlib.import_module("client_program" if program else f"client_{broker}")
    publisher = Publisher(Counters(counters), client.Client(broker, url, store, program), int(seed), poison == "1")
    publisher.client.run(publisher)
    publisher.report()
    with open(output + ".new", "w") as file:
        for group, count in publisher.numbers.items():
            file.write(f"{group} {count}\n")
    os.rename(output + ".new", output)


if __name__ == "__main__":
    main()
