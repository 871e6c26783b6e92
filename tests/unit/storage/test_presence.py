"""`bide.storage.presence`: who lives is known at once, and who sleeps can be woken."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from bide.model.limits import LEASES_MAX
from bide.storage import presence as presence_module
from bide.storage.presence import (
    BOARD_SIZE,
    LISTING_TRUSTED_S,
    DiskPresence,
    MemoryPresence,
    Presence,
    Seat,
)
from bide.testing import ManualClock
from tests.unit.storage.children import GUARD_S, Child, fork, in_child
from tests.unit.storage.histories import disk_store, do, put, waiting_args


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def disk(tmp_path: Path, clock: ManualClock) -> Iterator[DiskPresence]:
    presence = DiskPresence(tmp_path, clock.monotonic)
    yield presence
    presence.close()


@pytest.fixture(params=["memory", "disk"])
def presence(request: pytest.FixtureRequest) -> Presence:
    chosen: Presence = (
        MemoryPresence() if request.param == "memory" else request.getfixturevalue("disk")
    )
    return chosen


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has a seat wait for its bell alone, and not for the next look around."""
    monkeypatch.setattr(presence_module, "POLL_S", 2 * GUARD_S)


class Sleeper:
    """A thread that waits on a seat."""

    def __init__(self, seat: Seat) -> None:
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._sleep, args=(seat,), daemon=True)
        self._thread.start()

    def _sleep(self, seat: Seat) -> None:
        seat.wait(2 * GUARD_S)
        self._woken.set()

    def wakes(self) -> bool:
        return self._woken.wait(GUARD_S)


def hold_seat(presence: Presence, token: str) -> Child:
    """Another process that has taken a seat and started two runs."""

    def work(pipe: Connection) -> None:
        seat = presence.take_seat(token)
        seat.start(7, 1)
        seat.clear(seat.start(8, 1))
        seat.start(9, 3)
        pipe.send("seated")
        pipe.recv()

    child = Child(work)
    assert child.receive() == "seated", child.result()
    return child


# ---------------------------------------------------------------- what both promise


def test_a_seat_is_alive_until_it_is_left(presence: Presence) -> None:
    assert not presence.is_alive("token")
    seat = presence.take_seat("token")
    assert seat.token == "token"
    assert presence.is_alive("token")
    assert not presence.is_alive("toke")
    seat.leave()
    assert not presence.is_alive("token")
    seat.leave()


def test_the_board_says_what_was_started_and_not_settled(presence: Presence) -> None:
    seat = presence.take_seat("token")
    assert presence.started("token") == frozenset()
    first = seat.start(1, 1)
    second = seat.start(2, 7)
    assert presence.started("token") == {(1, 1), (2, 7)}
    seat.clear(first)
    assert presence.started("token") == {(2, 7)}
    third = seat.start(3, 1)
    seat.clear(second)
    seat.clear(third)
    assert presence.started("token") == frozenset()
    assert presence.started("nobody") == frozenset()
    seat.leave()


def test_the_board_has_room_for_every_lease(presence: Presence) -> None:
    seat = presence.take_seat("token")
    big = (1 << 64) - 1
    slots = [seat.start(big - number, number + 1) for number in range(LEASES_MAX)]
    assert len(set(slots)) == LEASES_MAX
    assert presence.started("token") == {(big - n, n + 1) for n in range(LEASES_MAX)}
    for slot in slots:
        seat.clear(slot)
    assert presence.started("token") == frozenset()
    seat.leave()


@pytest.mark.usefixtures("patient")
def test_a_ring_wakes_everyone(presence: Presence) -> None:
    seats = [presence.take_seat(f"token {number}") for number in range(3)]
    for _ in range(2):
        sleepers = [Sleeper(seat) for seat in seats]
        presence.ring()
        assert all(sleeper.wakes() for sleeper in sleepers)
    for seat in seats:
        seat.leave()


@pytest.mark.usefixtures("patient")
def test_a_wake_ends_one_seats_wait_also_the_next(presence: Presence) -> None:
    seat, other = presence.take_seat("one"), presence.take_seat("other")
    sleeper, undisturbed = Sleeper(seat), Sleeper(other)
    seat.wake()
    assert sleeper.wakes()
    seat.wake()
    seat.wake()
    seat.wait(2 * GUARD_S)  # returns, for it was woken before it began
    assert not undisturbed._woken.is_set()
    other.wake()
    assert undisturbed.wakes()
    seat.leave()
    other.leave()


def test_a_wait_ends_by_itself(presence: Presence) -> None:
    seat = presence.take_seat("token")
    seat.wait(0)
    seat.wait(0.001)
    seat.wait(1e9)  # after POLL_S: it looks around then
    seat.leave()


def test_ringing_and_waking_the_absent_is_harmless(presence: Presence) -> None:
    presence.ring()
    seat = presence.take_seat("token")
    for _ in range(2_000):  # more than any bell holds
        presence.ring()
        seat.wake()
    seat.wait(0)
    seat.leave()
    presence.ring()
    presence.forget("token")
    presence.forget("nobody")
    presence.ring()


def test_what_is_forgotten_leaves_nothing(presence: Presence, tmp_path: Path) -> None:
    seat = presence.take_seat("token")
    seat.start(1, 1)
    seat.leave()
    presence.forget("token")
    assert presence.started("token") == frozenset()
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_leaves_the_living_and_the_known(presence: Presence) -> None:
    living = presence.take_seat("living")
    living.start(1, 1)
    presence.sweep(frozenset({"known"}))
    assert presence.is_alive("living")
    assert presence.started("living") == {(1, 1)}
    living.leave()


# ---------------------------------------------------------------- processes that die


def test_a_killed_holder_is_dead_at_once_and_its_board_stays(disk: DiskPresence) -> None:
    child = hold_seat(disk, "token")
    assert disk.is_alive("token")
    assert disk.started("token") == {(7, 1), (9, 3)}
    child.kill()
    assert not disk.is_alive("token")
    assert disk.started("token") == {(7, 1), (9, 3)}
    disk.forget("token")
    assert disk.started("token") == frozenset()


def test_many_look_at_once_and_none_takes_the_other_for_a_holder(disk: DiskPresence) -> None:
    hold_seat(disk, "dead").kill()
    children = [Child(lambda _: any(disk.is_alive("dead") for _ in range(300))) for _ in range(4)]
    assert not any(child.result() for child in children)


def test_a_holders_child_does_not_keep_its_seat_alive(disk: DiskPresence) -> None:
    go_on, keep = os.pipe()

    def work(pipe: Connection) -> None:
        seat = disk.take_seat("token")
        seat.start(7, 1)
        pid = fork()
        if pid == 0:
            os.close(keep)
            pipe.send(os.getpid())
            os.read(go_on, 1)  # until the test closes its end
            os._exit(0)
        pipe.recv()

    child = Child(work)
    grandchild = child.receive()
    assert disk.is_alive("token")
    child.kill()
    os.kill(grandchild, 0)  # it lives
    assert not disk.is_alive("token")
    assert disk.started("token") == {(7, 1)}
    os.close(keep)
    os.close(go_on)


@pytest.mark.parametrize("has_left", [True, False])
def test_the_children_of_a_worker_use_the_store(
    tmp_path: Path, disk: DiskPresence, *, has_left: bool
) -> None:
    store = disk_store(tmp_path / "store")
    do(store, put(b"parent"))
    seat = disk.take_seat("token")
    if has_left:
        seat.leave()

    def child() -> None:
        do(store, put(b"child"))
        in_child(lambda: do(store, put(b"grandchild")))

    in_child(child)
    assert waiting_args(store) == [b"parent", b"child", b"grandchild"]
    assert disk.is_alive("token") == (not has_left)
    seat.leave()
    store.close()


def test_a_child_that_leaves_its_parents_seat_changes_nothing(disk: DiskPresence) -> None:
    seat = disk.take_seat("token")
    seat.start(1, 1)
    in_child(seat.leave)
    assert disk.is_alive("token")
    assert disk.started("token") == {(1, 1)}
    seat.start(2, 1)
    assert disk.started("token") == {(1, 1), (2, 1)}
    seat.leave()


@pytest.mark.usefixtures("patient")
def test_a_ring_reaches_other_processes_past_dead_bells(disk: DiskPresence) -> None:
    hold_seat(disk, "dead 1").kill()

    def work(pipe: Connection) -> str:
        seat = disk.take_seat("living")
        pipe.send("seated")
        seat.wait(2 * GUARD_S)
        return "woken"

    child = Child(work)
    assert child.receive() == "seated"
    hold_seat(disk, "zombie 2").kill()
    disk.ring()
    assert child.result() == "woken"


@pytest.mark.usefixtures("patient")
def test_a_bell_that_a_listing_missed_is_found_soon(
    tmp_path: Path, disk: DiskPresence, clock: ManualClock
) -> None:
    # Two changes within one tick of the file system's clock leave one mtime.
    disk.ring()
    status = tmp_path.stat()
    seat = disk.take_seat("token")
    os.utime(tmp_path, ns=(status.st_atime_ns, status.st_mtime_ns))
    sleeper = Sleeper(seat)
    clock.advance(LISTING_TRUSTED_S + 0.001)
    disk.ring()
    assert sleeper.wakes()
    seat.leave()


def test_a_directory_taken_away_rings_nobody(tmp_path: Path, clock: ManualClock) -> None:
    (tmp_path / "owners").mkdir()
    disk = DiskPresence(tmp_path / "owners", clock.monotonic)
    disk.take_seat("token").leave()
    (tmp_path / "owners").rmdir()
    disk.ring()
    disk.close()


# ---------------------------------------------------------------- files


def test_a_seat_is_two_private_files_which_go_with_it(tmp_path: Path, disk: DiskPresence) -> None:
    seat = disk.take_seat("token")
    board = tmp_path / "token"
    assert {path.name for path in tmp_path.iterdir()} == {"token", "token.bell"}
    assert board.stat().st_mode & 0o777 == 0o600
    assert board.stat().st_size == BOARD_SIZE
    # Mapped memory without space behind it is a SIGBUS on a full disk.
    assert board.stat().st_blocks * 512 >= BOARD_SIZE
    seat.leave()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_a_directory_may_be_deep(tmp_path: Path, clock: ManualClock, depth: int) -> None:
    path = tmp_path.joinpath(*["d" * 100] * depth)
    path.mkdir(parents=True)
    assert len(str(path)) > 108  # what an address of a socket holds
    disk = DiskPresence(path, clock.monotonic)
    hold_seat(disk, "dead").kill()
    seat = disk.take_seat("token")
    sleeper = Sleeper(seat)
    disk.ring()
    assert sleeper.wakes()
    sleeper = Sleeper(seat)
    seat.wake()
    assert sleeper.wakes()
    disk.sweep(frozenset())
    assert {entry.name for entry in path.iterdir()} == {"token", "token.bell"}
    seat.leave()
    disk.close()


def test_no_descriptor_is_left_behind(tmp_path: Path, clock: ManualClock) -> None:
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    path = tmp_path / ("d" * 120)
    path.mkdir()
    before = count()
    disk = DiskPresence(path, clock.monotonic)
    for number in range(5):
        seat = disk.take_seat(f"token {number}")
        disk.ring()
        assert disk.is_alive(seat.token)
        assert disk.started(seat.token) == frozenset()
        seat.leave()
        disk.sweep(frozenset())
    disk.close()
    assert count() == before


def test_a_seat_that_cannot_be_taken_leaves_no_lock_behind(
    tmp_path: Path, disk: DiskPresence
) -> None:
    (tmp_path / "token.bell").mkdir()  # the bell cannot be made
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(Exception, match="token"):
        disk.take_seat("token")
    assert not disk.is_alive("token")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


# ---------------------------------------------------------------- sweeping


def test_a_sweep_removes_what_the_dead_left(tmp_path: Path, disk: DiskPresence) -> None:
    for token in ("dead", "known"):
        hold_seat(disk, token).kill()
    (tmp_path / "alone.bell").touch()
    (tmp_path / "half").touch()  # died between making and locking
    living = disk.take_seat("living")
    disk.sweep(frozenset({"known"}))
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"known", "known.bell", "living", "living.bell"}
    assert disk.started("known") == {(7, 1), (9, 3)}
    living.leave()


def test_a_seat_being_taken_is_never_swept_up(disk: DiskPresence) -> None:
    def sweep(pipe: Connection) -> None:
        while not pipe.poll():
            disk.sweep(frozenset())

    sweepers = [Child(sweep) for _ in range(2)]
    for number in range(300):
        seat = disk.take_seat(f"token {number}")
        assert disk.is_alive(seat.token)
        assert disk.started(seat.token) == frozenset()
        seat.leave()
    for sweeper in sweepers:
        sweeper.pipe.send("stop")
        sweeper.result()


def test_a_seat_can_be_taken_while_others_look_at_it(disk: DiskPresence) -> None:
    def look(pipe: Connection) -> None:
        while not pipe.poll():
            for number in range(100):
                disk.is_alive(f"token {number}")

    looker = Child(look)
    for number in range(100):
        seat = disk.take_seat(f"token {number}")
        assert disk.is_alive(seat.token)
        seat.leave()
    looker.pipe.send("stop")
    looker.result()
