"""procrastinate on PostgreSQL."""

import asyncio
import os

from driving import BODY, PLACE
from procrastinate import App, PsycopgConnector, SyncPsycopgConnector

# Its own pool of four connections, whose commits are synced or not.
options = f"-c synchronous_commit={'on' if PLACE.is_durable else 'off'}"
is_worker = os.environ["BENCH_ACTION"] == "work"
connector = PsycopgConnector if is_worker else SyncPsycopgConnector
app = App(connector=connector(conninfo=PLACE.postgres, kwargs={"options": options}))


@app.task(name="noop")
def noop(body):
    PLACE.count()


class Peer:
    def __init__(self):
        if not is_worker:
            app.open()
            if not app.check_connection():
                app.schema_manager.apply_schema()

    def put(self):
        noop.defer(body=BODY)

    def put_many(self, count):
        noop.batch_defer(*[{"body": BODY} for _ in range(count)])

    def work(self):
        async def run():
            async with app.open_async():
                await app.run_worker_async(concurrency=4, delete_jobs="always")

        asyncio.run(run())
