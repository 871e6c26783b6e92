"""pgqueuer on PostgreSQL."""

import asyncio

import asyncpg
from driving import BODY, PLACE
from pgqueuer import AsyncpgDriver, PgQueuer, Queries

PAYLOAD = BODY.encode()
SETTINGS = {"synchronous_commit": "on" if PLACE.is_durable else "off"}


async def connect():
    return AsyncpgDriver(await asyncpg.connect(PLACE.postgres, server_settings=SETTINGS))


class Peer:
    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.queries = Queries(self.loop.run_until_complete(connect()))
        if not self.loop.run_until_complete(self.queries.has_table("pgqueuer")):
            self.loop.run_until_complete(self.queries.install())

    def put(self):
        self.loop.run_until_complete(self.queries.enqueue("noop", PAYLOAD))

    def put_many(self, count):
        call = self.queries.enqueue(["noop"] * count, [PAYLOAD] * count, [0] * count)
        self.loop.run_until_complete(call)

    def work(self):
        async def run():
            queuer = PgQueuer(await connect())

            @queuer.entrypoint("noop")
            async def noop(job):
                PLACE.count()

            await queuer.run(batch_size=100)

        asyncio.run(run())
