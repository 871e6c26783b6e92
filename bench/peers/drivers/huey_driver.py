"""huey, on SQLite, or on Redis if BENCH_ON says so."""

import os

from driving import BODY, PLACE
from huey import RedisHuey, SqliteHuey

if os.environ.get("BENCH_ON") == "redis":
    huey = RedisHuey("bench", url=PLACE.redis, results=False)
else:
    huey = SqliteHuey(
        "bench", filename=f"{PLACE.path}/huey.db", results=False, fsync=PLACE.is_durable
    )


@huey.task()
def noop(body):
    PLACE.count()


class Peer:
    def put(self):
        noop(BODY)

    def put_many(self, count):
        raise NotImplementedError

    def work(self):
        # An idle one looks again after 0.1 s at most, where its default is 10 s.
        huey.create_consumer(workers=1, periodic=False, initial_delay=0.01, max_delay=0.1).run()
