"""bide itself, by the same harness as its peers."""

import os

from driving import BODY, PLACE

import bide
from bide.worker.options import WorkerOptions
from bide.worker.worker import Worker

SYNC = os.environ.get("BENCH_SYNC", "always")
app = bide.App(f"file://{PLACE.path}/bide", sync=SYNC)


@app.task()
def noop(body: str) -> None:
    PLACE.count()


class Peer:
    def put(self) -> None:
        noop.enqueue(BODY)

    def put_many(self, count: int) -> None:
        app.enqueue_many([noop.request(BODY) for _ in range(count)])

    def work(self) -> None:
        Worker(app, WorkerOptions(threads=1)).run()
