"""An App's hold on its store: opened on first use, by any thread, also in a forked child."""

from __future__ import annotations

import threading

from bide.backends.port import Backend, Opener, Sync
from bide.clock import Clock
from bide.errors import InvalidOption, InvalidUrl, StoreClosed
from bide.jobs.task import check_sync
from bide.storage.fork import ForkOrder, watch_forks


class Connection:
    """Where the jobs are kept, and the backend that keeps them once it is open.

    Args:
        url: None: given later, by `bind`.
        opener: Makes the backend.
        sync: As the backend is opened; None: as *url* says.
    """

    def __init__(self, url: str | None, *, opener: Opener, clock: Clock, sync: Sync | None) -> None:
        if url is not None and not isinstance(url, str):
            raise InvalidUrl(f"url {url!r}: use a str, such as file:///path/to/jobs")
        check_sync(sync)
        self.url = url
        self._opener = opener
        self._clock = clock
        self._sync: Sync | None = sync
        self._create = True
        self._read_only = False
        self._closed = False
        self._lock = threading.Lock()
        self._backend: Backend | None = None
        watch_forks(self, ForkOrder.APP)

    def bind(self, url: str, *, create: bool, read_only: bool) -> None:
        """Say where the jobs are kept, before the store is first used."""
        if self._backend is not None:
            raise InvalidOption(f"the App already uses {self.url}: bind it before its first use")
        self.url = url
        self._create = create
        self._read_only = read_only

    @property
    def backend(self) -> Backend:
        """The store, opened now if it was not."""
        if self._backend is None:
            with self._lock:
                if self._backend is None:
                    if self._closed:
                        raise StoreClosed(
                            "this App was closed; make a new one", path=self.url or ""
                        )
                    if self.url is None:
                        raise InvalidUrl(
                            'the App has no store: write App("file:///path/to/jobs"), or set '
                            "BIDE_URL for the command line"
                        )
                    self._backend = self._opener(
                        self.url,
                        self._clock,
                        sync=self._sync,
                        create=self._create,
                        read_only=self._read_only,
                    )
        return self._backend

    def close(self) -> None:
        """Let go of the store, for good."""
        with self._lock:
            self._closed = True
            if self._backend is not None:
                self._backend.close()

    def before_fork(self) -> None:
        self._lock.acquire()

    def after_fork_in_parent(self) -> None:
        self._lock.release()

    def after_fork_in_child(self) -> None:
        self._lock.release()
