"""A client in C for publish.py: PROGRAM --client BROKER URL STORE, which client.c describes. It ends when it has lost the
broker, and another one is started.
"""
import os
import select
import subprocess
import time

TICK_S = 0.02
BACK_OFF_S = 0.3
ANSWERS_BYTES = 65536


class Client:
    def __init__(self, broker, url, store, program):
        self.command = [program, "--client", broker, url, store]
        self.process = None
        self.tag = 0
        self.unconfirmed = {}  # by tag
        self.half = b""  # of a line

    def run(self, publisher):
        while not publisher.is_done():
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
            while not publisher.is_done() and self.hear(publisher):
                publisher.tick()
            self.end()
            publisher.lose(self.unconfirmed.values())
            self.unconfirmed, self.half = {}, b""
            if not publisher.is_done():
                time.sleep(BACK_OFF_S)

    def end(self):
        process, self.process = self.process, None
        process.stdin.close()
        process.stdout.close()
        process.wait()

    def hear(self, publisher):
        """What was answered; False when the program has ended."""
        if not select.select([self.process.stdout], [], [], TICK_S)[0]:
            return True
        said = os.read(self.process.stdout.fileno(), ANSWERS_BYTES)
        *lines, self.half = (self.half + said).split(b"\n")
        for line in lines:
            tag, confirmed = line.split()
            publisher.settle(self.unconfirmed.pop(int(tag)), confirmed == b"1")
        return said != b""

    def can_send(self):
        return self.process is not None

    def send(self, item):
        self.tag += 1
        self.unconfirmed[self.tag] = item
        kind = "order.poison" if item.group.endswith(".poison") else "order.placed"
        try:
            self.process.stdin.write(f"{self.tag} {item.group} {item.number} {kind}\n".encode())
        except BrokenPipeError:  # it has ended, which hear() will notice
            pass
