"""localqueue, Rust on SQLite."""

from driving import BODY, PLACE
from localqueue import DurabilityMode, SimpleQueue, Worker

queue = SimpleQueue(
    f"{PLACE.path}/local",
    durability=DurabilityMode.DURABLE if PLACE.is_durable else DurabilityMode.RELAXED,
)


class Peer:
    def put(self):
        queue.put(BODY)

    def put_many(self, count):
        queue.put_many([BODY] * count)

    def work(self):
        Worker(queue, lambda _: PLACE.count(), poll_interval=0.01).run()
