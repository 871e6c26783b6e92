"""cancel and kick."""

import json
from pathlib import Path

import pytest

from bide.model.job import State
from tests.cli.conftest import Cli, Store
from tests.cli.test_inspect import fail, leased

HOUR = 3_600


def test_cancel_several(run: Cli, store: Store) -> None:
    first, second, third = (store.remind.enqueue(n) for n in range(3))
    result = run("cancel", str(first.id), str(third.id))
    assert result.stdout == f"job {first.id}: cancelled\njob {third.id}: cancelled\n"
    assert [h.get() is None for h in (first, second, third)] == [True, False, True]


def test_cancel_by_key(run: Cli, store: Store) -> None:
    handle = store.remind.using(key="order-42", delay=HOUR).enqueue(42)
    result = run("cancel", "--key", "order-42", "--queue", "mail")
    assert result.stdout == "key 'order-42' in queue 'mail': cancelled\n"
    assert handle.get() is None


def test_cancel_a_running_job(run: Cli, store: Store) -> None:
    handle = store.remind.enqueue(1)
    with leased(store.app, "mail") as (_, leases):
        run("cancel", str(handle.id))
        assert store.app.backend.lost(leases) == {handle.id}


def test_what_can_be_done_of_several_is_done(run: Cli, store: Store) -> None:
    handle = store.remind.enqueue(1)
    result = run("cancel", "98", str(handle.id), "99", code=1)
    assert result.stdout == f"job {handle.id}: cancelled\n"
    first, second = result.stderr.splitlines()
    assert first.startswith("bide: error: job 98: no such live job")
    assert second.startswith("bide: error: job 99: no such live job")
    assert handle.get() is None


def test_a_job_named_twice(run: Cli, store: Store) -> None:
    handle = store.remind.enqueue(1)
    result = run("cancel", str(handle.id), str(handle.id), code=1)
    assert "named twice" in result.stderr


def test_kick_a_scheduled_job(run: Cli, store: Store) -> None:
    handle = store.remind.using(delay=HOUR, key="k").enqueue(1)
    assert run("kick", "--key", "k", "--queue", "mail").stdout == (
        "key 'k' in queue 'mail': due now\n"
    )
    info = handle.get()
    assert info is not None
    assert info.state is State.READY


def test_kick_a_failed_job(run: Cli, store: Store) -> None:
    store.explode.enqueue()
    job_id = fail(store.app, "default", "no")
    assert run("kick", str(job_id)).stdout == f"job {job_id}: due now\n"
    info = store.app.get(job_id)
    assert info is not None
    assert (info.state, info.job.attempt) == (State.READY, 0)


def test_kick_a_running_job_is_refused(run: Cli, store: Store) -> None:
    handle = store.remind.enqueue(1)
    with leased(store.app, "mail"):
        message = run.error("kick", str(handle.id), code=1)
    assert message.startswith(f"job {handle.id} is running")


@pytest.mark.parametrize("command", ["cancel", "kick"])
def test_results_for_programs(run: Cli, store: Store, command: str) -> None:
    handle = store.remind.using(delay=HOUR, key="k").enqueue(1)
    done, missing = run.json(command, str(handle.id), "99", code=1)["results"]
    assert done == {
        "id": handle.id,
        "queue": None,
        "key": None,
        "done": True,
        "error": None,
        "message": None,
    }
    assert (missing["id"], missing["done"], missing["error"]) == (99, False, "JobNotFound")
    assert "no such live job" in missing["message"]


def test_results_for_programs_by_key(run: Cli, store: Store) -> None:
    store.remind.using(key="k").enqueue(1)
    (result,) = run.json("cancel", "--key", "k", "--queue", "mail")["results"]
    assert (result["id"], result["queue"], result["key"]) == (None, "mail", "k")


def test_a_key_that_can_be_none(run: Cli, store: Store) -> None:
    store.remind.enqueue(1)
    message = run.error("cancel", "--key", "k" * 256, "--queue", "mail", code=2)
    assert "key of 256 bytes" in message


def test_more_ids_than_a_call_may_have(run: Cli, store: Store) -> None:
    store.remind.enqueue(1)
    assert "the limit is 10000" in run.error("cancel", *["7"] * 10_001, code=2)


def test_what_is_kept_of_the_log_is_said_once_and_stays(run: Cli, store: Store) -> None:
    store.remind.enqueue(1)
    assert "0 segments of the log, 0 bytes, would be removed" in run("compact", "--dry-run").stdout
    run("compact", "--keep-days", "3", "--keep-size", "1024")
    run("compact", "--keep-size", "7")
    state = json.loads(Path("jobs/state.json").read_bytes())
    assert state["retention"] == {"size": 7 << 20, "age_ms": 3 * 86_400_000}
    document = json.loads(run("compact", "--json").stdout)
    assert document["index"] <= document["index_before"]
