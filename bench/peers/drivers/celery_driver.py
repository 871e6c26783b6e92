"""Celery on Redis."""

from celery import Celery
from driving import BODY, PLACE

app = Celery("celery_driver", broker=PLACE.redis)
app.conf.task_ignore_result = True
app.conf.worker_prefetch_multiplier = 128
app.conf.broker_connection_retry_on_startup = True


@app.task(name="noop")
def noop(body):
    PLACE.count()


class Peer:
    def put(self):
        noop.delay(BODY)

    def put_many(self, count):
        raise NotImplementedError

    def work(self):
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        app.worker_main(["worker", "--pool=solo", "--loglevel=CRITICAL", *quiet])
