#!/usr/bin/python3
"""The broker of check_services.sh, seen by a client that is not ours: Debian's python3-pika.

    services_broker.py URL clear     removes the queue and the exchange that an earlier run left
    services_broker.py URL ready     how many messages wait in the queue
    services_broker.py URL publish   orders from standard input, a line each: ID|ITEM|AMOUNT
"""
import json
import sys

import pika


def publish(channel, lines):
    channel.confirm_delivery()
    for line in lines:
        order, item, amount = line.strip().split("|")
        properties = pika.BasicProperties(message_id=order, type="order.placed", delivery_mode=2,
                                          content_type="application/json")
        body = json.dumps({"item": item, "amount": int(amount)})
        channel.basic_publish("shop", "order.placed", body, properties, mandatory=True)


def main():
    url, command = sys.argv[1:]
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    if command == "clear":
        channel.queue_delete("inventory")
        channel.exchange_delete("shop")
    elif command == "ready":
        print(channel.queue_declare("inventory", passive=True).method.message_count)
    elif command == "publish":
        publish(channel, sys.stdin)
    else:
        sys.exit(__doc__)
    connection.close()


main()
