"""Which workers live, what they have started, and how to wake them.

A worker process takes a *seat*: files of its own, named by a token that is
never used twice, in the store's ``owners`` directory.

- ``TOKEN``: held under an exclusive `flock`. The kernel drops it when the
  process dies, however it dies, and never before: no heartbeat, so a
  worker that is slow, stopped or holding the GIL is not taken for dead.
- The same file, mapped into memory, is its *board*: the id and attempt of
  each job it has started and not settled, written without a system call.
  The board outlives the process, and tells whoever takes its leases back
  which runs count as attempts, and which jobs were only held.
- ``TOKEN.bell``: a Unix datagram socket. Anyone who makes a job due rings it.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import mmap
import os
import select
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Protocol

from bide.model.limits import LEASES_MAX
from bide.storage.disk import FILE_MODE, OsDisk, store_error
from bide.storage.fork import ForkOrder, unforked, watch_forks

POLL_S = 0.2
"""The longest that a waiting worker sleeps: it then looks for dead ones, and at the clock."""

LISTING_TRUSTED_S = 0.5
LOOK_TRUSTED_S = 0.001

_SLOT = struct.Struct("=QQ")
BOARD_SIZE = LEASES_MAX * _SLOT.size
_BELL_SUFFIX = ".bell"
_SOCKET_PATH_SIZE_MAX = 100


class Seat(Protocol):
    """A worker process's presence in a store, from `Presence.take_seat` to `leave`."""

    @property
    def token(self) -> str: ...
    def start(self, job_id: int, attempt: int) -> int:
        """Note on the board that a run begins; returns its slot."""
        ...

    def clear(self, slot: int) -> None:
        """Take off the board a run whose settlement is stored, or that shall not count."""
        ...

    def wait(self, timeout_s: float) -> None:
        """Sleep until rung, or for *timeout_s* seconds."""
        ...

    def wake(self) -> None:
        """End this seat's `wait`, the next one if none is under way."""
        ...

    def leave(self) -> None:
        """Give the seat up; from now on it counts as dead."""
        ...


class Presence(Protocol):
    """The workers of one store."""

    def take_seat(self, token: str) -> Seat:
        """Be present under *token*, which nothing else has ever used."""
        ...

    def is_alive(self, token: str) -> bool: ...
    def started(self, token: str) -> frozenset[tuple[int, int]]:
        """The (id, attempt) on a seat's board; of a dead one, what it died with."""
        ...

    def forget(self, token: str) -> None:
        """Remove what is left of a dead seat."""
        ...

    def sweep(self, known: frozenset[str]) -> None:
        """Remove what is left of seats that died before the store knew them."""
        ...

    def ring(self) -> None:
        """Wake every worker."""
        ...

    def close(self) -> None: ...


class DiskPresence:
    """Seats as files in directory *path*, for all processes of this machine."""

    def __init__(self, path: Path, monotonic: Callable[[], float]) -> None:
        self._path = path
        self._monotonic = monotonic
        self._sender = _datagram_socket()
        self._bells: tuple[str, ...] = ()
        self._bells_changed_ns = -1
        self._bells_listed_s = 0.0
        self._bells_looked_s = float("-inf")

    def take_seat(self, token: str) -> Seat:
        path = self._path / token
        self._bells_looked_s = float("-inf")
        try:
            with unforked():  # a child with a copy of the lock would keep this seat alive
                return _DiskSeat(self._path, token)
        except OSError as error:
            raise store_error(error, path) from error

    def is_alive(self, token: str) -> bool:
        try:
            fd = os.open(self._path / token, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise store_error(error, self._path / token) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def started(self, token: str) -> frozenset[tuple[int, int]]:
        try:
            board = (self._path / token).read_bytes()
        except FileNotFoundError:
            return frozenset()
        whole = board[: len(board) - len(board) % _SLOT.size]
        return frozenset(slot for slot in _SLOT.iter_unpack(whole) if slot[0])

    def forget(self, token: str) -> None:
        for name in (token + _BELL_SUFFIX, token):
            (self._path / name).unlink(missing_ok=True)

    def ring(self) -> None:
        try:
            bells = self._list_bells()
        except OSError:
            return  # no descriptor left, or the directory taken away: they look by themselves
        for name in bells:
            # Full: it is about to wake. Refused or gone: it is dead.
            with (
                contextlib.suppress(OSError),
                _socket_address(self._path, name) as address,
            ):
                self._sender.sendto(b"!", address)

    def _list_bells(self) -> tuple[str, ...]:
        # Listing a directory costs more than ringing, and so does a look at its mtime, which may
        # stand still through two changes of one tick: neither is trusted for long. Whoever
        # has just hung up a bell looks for jobs by itself before it sleeps.
        now_s = self._monotonic()
        if now_s - self._bells_looked_s < LOOK_TRUSTED_S:
            return self._bells
        self._bells_looked_s = now_s
        changed_ns = os.stat(self._path).st_mtime_ns  # noqa: PTH116  five times as fast
        if changed_ns != self._bells_changed_ns or now_s - self._bells_listed_s > LISTING_TRUSTED_S:
            names = os.listdir(self._path)  # noqa: PTH208  likewise
            self._bells = tuple(name for name in names if name.endswith(_BELL_SUFFIX))
            self._bells_changed_ns, self._bells_listed_s = changed_ns, now_s
        return self._bells

    def sweep(self, known: frozenset[str]) -> None:
        for entry in self._path.iterdir():
            token = entry.name.removesuffix(_BELL_SUFFIX)
            if token not in known:
                self._sweep_up(token)

    def close(self) -> None:
        self._sender.close()

    def _sweep_up(self, token: str) -> None:
        """Remove a seat's files, if it is nobody's; under its lock, so that nobody takes it."""
        try:
            fd = os.open(self._path / token, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            (self._path / (token + _BELL_SUFFIX)).unlink(missing_ok=True)
            return
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.forget(token)
        except BlockingIOError:
            pass  # it lives
        finally:
            os.close(fd)


def _lock_new_file(path: Path) -> int:
    """Make a board's file, with all its space, and hold its lock."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)  # waits for one who looks, or sweeps, no longer
            if os.fstat(fd).st_nlink:
                OsDisk().reserve(fd, BOARD_SIZE)  # mapped without space, a full disk is a SIGBUS
                os.truncate(fd, BOARD_SIZE)
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)  # swept up before it was locked: make it again


def _datagram_socket() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.setblocking(False)
    return made


@contextlib.contextmanager
def _socket_address(directory: Path, name: str) -> Iterator[str]:
    """A path to the socket that fits into an address, for a directory however deep."""
    path = str(directory / name)
    if len(os.fsencode(path)) <= _SOCKET_PATH_SIZE_MAX:
        yield path
        return
    fd = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{name}"
    finally:
        os.close(fd)


class _DiskSeat:
    """A seat that this process has taken."""

    def __init__(self, directory: Path, token: str) -> None:
        self.token = token
        self._directory = directory
        self._free = list(range(0, BOARD_SIZE, _SLOT.size))
        self._held: contextlib.ExitStack | None = None
        with contextlib.ExitStack() as held:
            fd = _lock_new_file(directory / token)
            held.callback(os.close, fd)
            self._board = held.enter_context(mmap.mmap(fd, BOARD_SIZE))
            self._bell = held.enter_context(_datagram_socket())
            self._waker = held.enter_context(_datagram_socket())
            with _socket_address(directory, token + _BELL_SUFFIX) as address:
                self._bell.bind(address)
                self._waker.connect(address)
            self._poll = select.poll()
            self._poll.register(self._bell, select.POLLIN)
            self._held = held.pop_all()
        watch_forks(self, ForkOrder.SEAT)

    def start(self, job_id: int, attempt: int) -> int:
        slot = self._free.pop()
        _SLOT.pack_into(self._board, slot, job_id, attempt)
        return slot

    def clear(self, slot: int) -> None:
        _SLOT.pack_into(self._board, slot, 0, 0)
        self._free.append(slot)

    def wait(self, timeout_s: float) -> None:
        # Rounded up to the poll's ms: to wake early would be to ask again at once.
        self._poll.poll(math.ceil(min(timeout_s, POLL_S) * 1000))
        with contextlib.suppress(BlockingIOError):
            while True:
                self._bell.recv(16)

    def wake(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError, OSError):
            self._waker.send(b"!")

    def leave(self) -> None:
        if self._held is not None:
            for name in (self.token + _BELL_SUFFIX, self.token):
                (self._directory / name).unlink(missing_ok=True)
            self._let_go()

    def before_fork(self) -> None:
        """Nothing moves."""

    def after_fork_in_parent(self) -> None:
        """Nothing has moved."""

    def after_fork_in_child(self) -> None:
        # The lock lives until the last copy of the descriptor is closed: a
        # child that outlived the worker would keep it alive for ever.
        self._let_go()

    def _let_go(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.close()


class MemoryPresence:
    """Seats in this process's memory; they live until they are left."""

    def __init__(self) -> None:
        self._seats: dict[str, _MemorySeat] = {}

    def take_seat(self, token: str) -> Seat:
        seat = self._seats[token] = _MemorySeat(token)
        return seat

    def is_alive(self, token: str) -> bool:
        return token in self._seats and not self._seats[token].left

    def started(self, token: str) -> frozenset[tuple[int, int]]:
        seat = self._seats.get(token)
        return frozenset() if seat is None else frozenset(seat.board.values())

    def forget(self, token: str) -> None:
        self._seats.pop(token, None)

    def sweep(self, known: frozenset[str]) -> None:
        """A seat in memory can't outlive who knows it."""

    def close(self) -> None:
        """Nothing to let go of."""

    def ring(self) -> None:
        for seat in list(self._seats.values()):
            seat.wake()


class _MemorySeat:
    def __init__(self, token: str) -> None:
        self.token = token
        self.board: dict[int, tuple[int, int]] = {}
        self.left = False
        self._rung: SimpleQueue[None] = SimpleQueue()  # an Event is not for signal handlers
        self._slot = 0

    def start(self, job_id: int, attempt: int) -> int:
        self._slot += 1
        self.board[self._slot] = (job_id, attempt)
        return self._slot

    def clear(self, slot: int) -> None:
        del self.board[slot]

    def wait(self, timeout_s: float) -> None:
        with contextlib.suppress(Empty):
            self._rung.get(timeout=min(timeout_s, POLL_S))
            while True:
                self._rung.get_nowait()

    def wake(self) -> None:
        self._rung.put(None)

    def leave(self) -> None:
        self.left = True
