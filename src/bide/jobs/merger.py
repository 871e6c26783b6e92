"""Puts that are awaited together, merged into one batch.

While one batch is being stored on a thread, what other coroutines put
gathers for the next: the same leader-and-followers as in the store, without
a thread for each coroutine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from bide.backends.port import Sync
from bide.errors import BideError
from bide.model.commands import PutResult
from bide.model.job import NewJob
from bide.model.limits import BATCH_COUNT_MAX

Put = Callable[[Sequence[NewJob], Sync | None], tuple[PutResult, ...]]
_Waiting = tuple[NewJob, asyncio.Future[PutResult]]


class Merger:
    """Merges the puts of one event loop."""

    def __init__(self, put: Put) -> None:
        self._put = put
        self._waiting: dict[Sync | None, list[_Waiting]] = {}
        self._storing: asyncio.Task[None] | None = None

    async def put(self, new: NewJob, sync: Sync | None) -> PutResult:
        """Put one job. A caller that is cancelled meanwhile may have put it all the same."""
        future: asyncio.Future[PutResult] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(sync, []).append((new, future))
        if self._storing is None:
            self._storing = asyncio.create_task(self._store())
        return await future

    async def _store(self) -> None:
        try:
            while self._waiting:
                sync, waiting = self._waiting.popitem()
                for start in range(0, len(waiting), BATCH_COUNT_MAX):
                    await self._store_batch(waiting[start : start + BATCH_COUNT_MAX], sync)
        finally:
            self._storing = None
            for waiting in self._waiting.values():  # the loop is closing: nobody is left waiting
                for _, future in waiting:
                    future.cancel()
            self._waiting.clear()

    async def _store_batch(self, batch: Sequence[_Waiting], sync: Sync | None) -> None:
        try:
            results = await asyncio.to_thread(self._put, [new for new, _ in batch], sync)
        except BideError as error:
            if len(batch) == 1:
                _fail(batch[0][1], error)
            else:  # a put is all or none: find out whose job was refused
                for one in batch:
                    await self._store_batch([one], sync)
        except Exception as error:  # noqa: BLE001  each awaiter raises it
            for _, future in batch:
                _fail(future, error)
        else:
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)


def _fail(future: asyncio.Future[PutResult], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
