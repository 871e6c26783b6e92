"""flexiq, Rust on SQLite."""

from driving import BODY, PLACE
from flexiq import Queue

queue = Queue(
    db_path=f"{PLACE.path}/flexiq.db",
    workers=4,
    scheduler_poll_interval_ms=1,
    scheduler_batch_size=100,
)


@queue.task(name="noop")
def noop(body):
    PLACE.count()


class Peer:
    def put(self):
        noop.delay(BODY)

    def put_many(self, count):
        queue.enqueue_many("noop", [(BODY,)] * count)

    def work(self):
        queue.run_worker()
