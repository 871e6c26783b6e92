"""honker on SQLite."""

import asyncio

import honker
from driving import BODY, PLACE

database = honker.open(f"{PLACE.path}/honker.db")
queue = database.queue("bench")


class Peer:
    def put(self):
        queue.enqueue({"body": BODY})

    def put_many(self, count):
        with database.transaction() as txn:
            for _ in range(count):
                queue.enqueue({"body": BODY}, tx=txn)

    def work(self):
        async def run():
            async for job in queue.claim("bench"):
                PLACE.count()
                job.ack()

        asyncio.run(run())
