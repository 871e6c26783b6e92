"""The page that a full run leaves: what is in the document is in it."""

from __future__ import annotations

from bench.machine import Machine
from bench.page import PLOTS, make_page
from bench.peers.report import PeerVerdict
from bench.peers.run import Figure, PeerResults
from bench.report import Document
from bench.series import Summary, Verdict
from bench.sizes import QUICK

PEER = Figure(
    name="another",
    version="1.2",
    policy="nothing synced",
    is_durable=False,
    is_own=False,
    action="put_many",
    median=3_000,
    min=2_000,
    max=4_000,
    rounds=(2_000, 4_000),
)
DOCUMENT = Document(
    sizes=QUICK,
    took_s=1,
    machine=Machine(
        at="2026-01-01T00:00:00+00:00",
        core_count=2,
        cpu="a processor",
        kernel="Linux 6",
        filesystem="ext4",
        load=(0, 0, 0),
        python="CPython 3.11",
        libraries={"lmdb": "1"},
    ),
    figures=[
        Summary(name="a rate", unit="jobs/s", sync="always", median=5, min=4, max=6, rounds=(5,))
    ],
    ratios=[Summary(name="a ratio", unit="times", median=0.5, min=0.5, max=0.5, rounds=(0.5,))],
    goals=[
        Verdict(
            name="a rate",
            sync="always",
            unit="jobs/s",
            value=5,
            at_least=9,
            at_most=None,
            reached=False,
        )
    ],
    peers=PeerResults(figures=(PEER,), missing={"a third": "no wheel"}, took_s=1),
    peer_goals=[
        PeerVerdict(name="bide to others", value=2, best="another", at_least=1.5, reached=True)
    ],
)


def test_it_says_what_was_found_and_what_was_missed() -> None:
    page = make_page(DOCUMENT, "plots")
    for line in (
        "| a rate, sync=always | 5 jobs/s | at least 9 | no |",
        "| bide to others (another) | 2 times | at least 1.5 | yes |",
        "| another | 1.2 | - | - | 3,000 | - | - | nothing synced |",
        "- a third: no wheel",
        "| a ratio | - | 0.5 | 0.5 .. 0.5 | times |",
        *(f"![{text}](plots/{name}.svg)" for name, text in PLOTS.items()),
    ):
        assert line in page.splitlines()


def test_without_plots_it_shows_none() -> None:
    assert "svg" not in make_page(DOCUMENT, "")
