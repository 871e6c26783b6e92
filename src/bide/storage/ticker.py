"""A sync that nobody waits for: one thread does it, started when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable

SYNC_INTERVAL_S = 0.05


class Ticker:
    """Syncs soon after it was asked to.

    A child of a fork has no thread of its parent's: it makes a ticker of its own.

    Args:
        sync: Syncs; False: the store is closed, so that there is nothing more to do.
        lock: Held while the thread is started: no fork comes in the midst of that.
    """

    def __init__(self, sync: Callable[[], bool], lock: threading.Lock) -> None:
        self._sync = sync
        self._lock = lock
        self._thread: threading.Thread | None = None
        self._dirty = threading.Event()  # there is something to sync
        self._hurry = threading.Event()  # and not only within the interval

    def ask(self, *, hurry: bool) -> None:
        """Have it sync within the interval, or at once."""
        if hurry:
            self._hurry.set()  # before _dirty, which has the thread look at it
        self._dirty.set()
        self._have_thread()

    def stop(self) -> None:
        """Have it ask once more, and find the store closed."""
        self._dirty.set()

    def _have_thread(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        with self._lock:  # one thread for all who come
            # Not alive: none yet, or an interrupt came between the making and the start of one.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._tick, name="bide-sync", daemon=True)
                self._thread.start()

    def _tick(self) -> None:
        while self._dirty.wait():
            self._hurry.wait(SYNC_INTERVAL_S / 2)
            self._hurry.clear()
            self._dirty.clear()
            if not self._sync():  # asked after the clear
                return
