"""Which job runs next."""

from __future__ import annotations

import random
import threading

import pytest

import bide
from bide.jobs.app import App
from bide.testing.clock import ManualClock
from bide.worker.worker import AHEAD_MAX, WorkerSummary
from tests.worker.conftest import MakeApp
from tests.worker.running import PATIENCE_S, burst, wait

PRIORITIES = (-100, -1, 0, 1, 100)
DELAYS_S = (0, 1, 1, 60)


def put_shuffled(task: bide.Task[[int], None], count: int) -> list[int]:
    """Put *count* jobs of all kinds, numbered as they are put; the numbers in order of service."""
    chance = random.Random(5)
    kinds = [(chance.choice(PRIORITIES), chance.choice(DELAYS_S)) for _ in range(count)]
    for number, (priority, delay_s) in enumerate(kinds):
        task.using(priority=priority, delay=delay_s).enqueue(number)
    return sorted(range(count), key=lambda number: (-kinds[number][0], kinds[number][1], number))


def test_one_thread_runs_by_priority_then_due_time_then_id(app: App, clock: ManualClock) -> None:
    ran: list[int] = []

    @app.task
    def task(number: int) -> None:
        ran.append(number)

    expected = put_shuffled(task, 200)
    clock.advance(60)
    assert burst(app, threads=1) == WorkerSummary(succeeded=200)
    assert ran == expected


def test_several_threads_start_jobs_in_the_same_order(app: App, clock: ManualClock) -> None:
    threads = 4
    ran: list[int] = []
    all_started = threading.Barrier(threads)

    @app.task
    def task(number: int) -> None:
        ran.append(number)
        all_started.wait(PATIENCE_S)  # the next four start when these have

    expected = put_shuffled(task, 80)
    clock.advance(60)
    assert burst(app, threads=threads) == WorkerSummary(succeeded=80)
    for start in range(0, 80, threads):
        four = slice(start, start + threads)
        assert set(ran[four]) == set(expected[four])


def test_what_is_not_due_holds_up_nothing_however_urgent(app: App, clock: ManualClock) -> None:
    ran: list[str] = []

    @app.task
    def task(name: str) -> None:
        ran.append(name)

    for _ in range(50):
        task.using(priority=100, delay=1).enqueue("urgent")
    task.using(priority=-100).enqueue("due")
    assert burst(app) == WorkerSummary(succeeded=1)
    assert ran == ["due"]
    clock.advance(1)
    assert burst(app) == WorkerSummary(succeeded=50)


def test_queues_are_served_in_the_order_given_whatever_the_priorities(app: App) -> None:
    ran: list[str] = []

    def task(name: str) -> None:
        ran.append(name)

    for queue in ("a", "b", "c"):
        app.task(name=queue, queue=queue)(task)
    for number in range(20):
        for queue, priority in (("a", 100), ("b", 0), ("c", -100)):
            app.tasks[queue].using(priority=priority).enqueue(f"{queue}{number:02}")
    assert burst(app, threads=1, queues=("c", "a", "b")) == WorkerSummary(succeeded=60)
    assert ran == [f"{queue}{number:02}" for queue in "cab" for number in range(20)]


def test_a_queue_that_is_not_named_is_not_served(app: App) -> None:
    ran: list[str] = []
    for queue in ("a", "b"):
        app.task(name=queue, queue=queue)(lambda queue=queue: ran.append(queue))
        app.tasks[queue].enqueue()
    assert burst(app, queues=("b",)) == WorkerSummary(succeeded=1)
    assert ran == ["b"]


def test_a_job_put_in_an_earlier_queue_goes_before_the_rest_of_a_later_one(
    make_app: MakeApp, any_url: str
) -> None:
    app, watched = make_app(any_url)
    put: list[tuple[int, int]] = []

    @app.task(queue="later")
    def later(number: int) -> None:
        if number == 100:
            with watched.between_commits():
                put.append((len(watched.reserved), earlier.enqueue().id))

    @app.task(queue="earlier")
    def earlier() -> None: ...

    app.enqueue_many(later.request(number) for number in range(3_000))
    assert burst(app, threads=1, queues=("earlier", "later")) == WorkerSummary(succeeded=3_001)
    ((leased, job_id),) = put
    assert leased < 3_000  # else there was no rest to go before
    assert watched.reserved[leased].job.id == job_id


@pytest.mark.parametrize("threads", [1, 4])
def test_an_urgent_job_is_at_most_one_batch_away(
    make_app: MakeApp, any_url: str, threads: int
) -> None:
    backlog, put_at = 4_000, 200
    app, watched = make_app(any_url)
    is_put = threading.Event()
    moments: list[tuple[int, int, int]] = []
    ran: list[int] = []

    @app.task
    def short(number: int) -> None:
        ran.append(number)
        if number == put_at:
            with watched.between_commits():
                urgent_id = urgent.enqueue().id
                moments.append((urgent_id, len(watched.reserved), len(ran)))
            is_put.set()
        elif number > put_at + 100:  # other threads do not work off all of it meanwhile
            wait(is_put)

    @app.task(priority=1)
    def urgent() -> None:
        ran.append(-1)

    app.enqueue_many(short.request(number) for number in range(backlog))
    assert burst(app, threads=threads) == WorkerSummary(succeeded=backlog + 1)
    ((urgent_id, leased, ran_count),) = moments
    assert leased < backlog  # else nothing was left to overtake
    assert watched.reserved[leased].job.id == urgent_id  # the very next
    assert watched.in_hand_max <= threads + AHEAD_MAX
    if threads == 1:  # of more, one may have taken it, and not come to say so yet
        assert ran.index(-1) - ran_count <= AHEAD_MAX
