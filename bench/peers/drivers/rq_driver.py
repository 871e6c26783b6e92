"""RQ on Redis, with the worker that does not fork for each job."""

from driving import BODY, PLACE
from redis import Redis
from rq import Queue, SimpleWorker

connection = Redis.from_url(PLACE.redis)
queue = Queue("bench", connection=connection)


def noop(body):
    PLACE.count()


class Peer:
    def put(self):
        queue.enqueue(noop, BODY, result_ttl=0)

    def put_many(self, count):
        queue.enqueue_many([Queue.prepare_data(noop, [BODY], result_ttl=0) for _ in range(count)])

    def work(self):
        SimpleWorker([queue], connection=connection).work(logging_level="CRITICAL")
