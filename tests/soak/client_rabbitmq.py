"""RabbitMQ for publish.py, by pika: messages persistent and mandatory, with confirms."""
import collections
import time

import pika

TICK_S = 0.02
BACK_OFF_S = 0.3


class Client:
    def __init__(self, broker, url, store, program):
        self.parameters = pika.URLParameters(url)
        self.parameters.heartbeat = 10
        self.parameters.socket_timeout = self.parameters.stack_timeout = 5
        self.exchange = f"{store}.in"
        self.publisher = self.connection = None
        self.forget()

    def forget(self):
        self.channel = None
        self.tag = 0
        self.unconfirmed = {}  # by tag, in order
        self.returned = collections.Counter()

    # --- the connection ---

    def run(self, publisher):
        self.publisher = publisher
        while not publisher.is_done():
            self.connection = pika.SelectConnection(
                self.parameters,
                on_open_callback=lambda c: c.channel(on_open_callback=self.on_channel),
                on_open_error_callback=lambda c, why: c.ioloop.stop(),
                on_close_callback=lambda c, why: c.ioloop.stop(),
            )
            self.connection.ioloop.start()
            publisher.lose(self.unconfirmed.values())
            self.forget()
            if not publisher.is_done():
                time.sleep(BACK_OFF_S)

    def on_channel(self, channel):
        self.channel = channel
        channel.add_on_close_callback(self.on_channel_closed)
        channel.add_on_return_callback(lambda c, how, properties, body: self.on_return(properties))
        channel.confirm_delivery(self.on_confirm)
        self.tick()

    def on_channel_closed(self, channel, why):
        if not (self.connection.is_closing or self.connection.is_closed):
            self.connection.close()

    def tick(self):
        self.publisher.tick()
        if self.publisher.is_done() and self.connection.is_open:
            self.connection.close()
        elif not (self.connection.is_closing or self.connection.is_closed):
            self.connection.ioloop.call_later(TICK_S, self.tick)

    # --- messages ---

    def can_send(self):
        return self.channel and self.channel.is_open

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

    def on_return(self, properties):
        self.returned[properties.message_id] += 1

    def on_confirm(self, frame):
        tag, confirmed = frame.method.delivery_tag, isinstance(frame.method, pika.spec.Basic.Ack)
        tags = [t for t in self.unconfirmed if t <= tag] if frame.method.multiple else [tag]
        for item in [self.unconfirmed.pop(one) for one in tags]:
            self.publisher.settle(item, confirmed and not self.was_returned(item))

    def was_returned(self, item):  # there is no queue for it
        name = f"{item.group}-{item.number}"
        if not self.returned[name]:
            return False
        self.returned[name] -= 1
        return True
