"""litequeue on SQLite."""

import threading

from driving import BODY, PLACE
from litequeue import LiteQueue

queue = LiteQueue(f"{PLACE.path}/lite.db")
if PLACE.is_durable:
    queue.conn.execute("PRAGMA synchronous = FULL")


class Peer:
    def put(self):
        queue.put(BODY)

    def put_many(self, count):
        with queue.transaction("IMMEDIATE"):
            for _ in range(count):
                queue.put(BODY)

    def work(self):
        never = threading.Event()
        while True:
            message = queue.pop()
            if message is None:
                never.wait(0.005)
                continue
            PLACE.count()
            queue.done(message.message_id)
