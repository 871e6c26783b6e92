"""dramatiq on Redis."""

import threading

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from driving import BODY, PLACE

broker = RedisBroker(url=PLACE.redis)
dramatiq.set_broker(broker)


@dramatiq.actor
def noop(body):
    PLACE.count()


class Peer:
    def put(self):
        noop.send(BODY)

    def put_many(self, count):
        raise NotImplementedError

    def work(self):
        dramatiq.Worker(broker).start()  # eight threads
        threading.Event().wait()
