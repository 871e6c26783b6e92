"""Draws what ``results.json`` says, as SVG files: ``plot.py RESULTS DIRECTORY``."""

import json
import sys
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.ticker import NullFormatter

LEVELS = ("few", "more", "many", "most")
PROCESSES = (1, 2, 4, 8)
OWN, OTHERS = "#1f6f54", "#9aa7b1"

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "bide"  # the same figures make the same file
mpl.rcParams["axes.spines.top"] = mpl.rcParams["axes.spines.right"] = False


def main(results, place):
    document = json.loads(Path(results).read_text())
    medians = {(one["name"], one["sync"]): one["median"] for one in document["figures"]}
    draw = Drawing(Path(place))
    if document["peers"]:
        peers(draw, document["peers"]["figures"])
    distributions(draw, document["histograms"])
    growth(draw, medians, document["sizes"]["pending_counts"])
    processes(draw, medians)


class Drawing:
    def __init__(self, place):
        self.place = place
        place.mkdir(exist_ok=True)

    def save(self, figure, name):
        figure.tight_layout()
        figure.savefig(self.place / f"{name}.svg", metadata={"Date": None})
        plt.close(figure)


def peers(draw, figures):
    titles = {
        "put_many": "put in bulk, batches of 1,000",
        "put": "put one by one",
        "drain_1": "drained by one worker process",
    }
    figure, axes = plt.subplots(1, len(titles), figsize=(15, 6))
    for ax, (action, title) in zip(axes, titles.items(), strict=True):
        found = sorted((f for f in figures if f["action"] == action), key=lambda f: f["median"])
        names = [f["name"] + (" (synced)" if f["is_durable"] else "") for f in found]
        colours = [OWN if f["is_own"] else OTHERS for f in found]
        ax.barh(names, [f["median"] for f in found], color=colours)
        ax.set_xscale("log")
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_title(title)
        ax.set_xlabel("jobs per second")
        ax.tick_params(axis="y", labelsize=7)
    draw.save(figure, "peers")


def distributions(draw, histograms):
    for name, title in (
        ("put to start in another process", "from a put to the start in another process"),
        ("lateness at 1,000 jobs due per second", "lateness of jobs that were delayed"),
    ):
        figure, ax = plt.subplots(figsize=(7, 4))
        for key, one in histograms.items():
            if key.startswith(name):
                total, done, shares = sum(one["counts"]), 0, []
                for count in one["counts"]:
                    done += count
                    shares.append(100 * done / total)
                ax.step(one["bounds_ms"], shares, where="post", label=key.removeprefix(name + ", "))
        ax.set_xscale("log")
        ax.set_xlabel("ms")
        ax.set_ylabel("% of the jobs, at most so long")
        ax.set_title(title)
        ax.legend()
        draw.save(figure, name.split()[0])


def growth(draw, medians, counts):
    figure, (cost, rate, memory) = plt.subplots(1, 3, figsize=(15, 4))
    for what in ("put", "reserve and settle, of 100", "cancel by key", "move by key"):
        values = [medians.get((f"{what}, {level} pending", "never")) for level in LEVELS]
        cost.plot(counts, values, marker="o", label=what)
    cost.set_ylabel("us, the disk not waited for")
    cost.legend()
    drained = [medians.get((f"worker, no-op jobs, {x} pending", "always")) for x in LEVELS]
    rate.plot(counts, drained, marker="o", color=OWN)
    rate.set_ylabel("no-op jobs per second, one worker, sync=always")
    sizes = [medians.get((f"worker's own memory, {level} pending", None)) for level in LEVELS]
    if None not in sizes:
        memory.plot(counts, sizes, marker="o", color=OWN)
    memory.set_ylabel("worker's own memory, MiB")
    for ax in (cost, rate, memory):
        ax.set_xscale("log")
        ax.set_ylim(bottom=0)
        ax.set_xlabel("jobs pending")
    draw.save(figure, "pending")


def processes(draw, medians):
    figure, axes = plt.subplots(1, 2, figsize=(10, 4))
    for ax, what in zip(axes, ("enqueue", "worker, no-op jobs"), strict=True):
        values = [medians.get((f"{what}, {n} processes", "always")) for n in PROCESSES]
        ax.plot(PROCESSES, values, marker="o", color=OWN)
        ax.set_ylim(bottom=0)
        ax.set_title(f"{what}, sync=always")
        ax.set_xlabel("processes")
        ax.set_ylabel("jobs per second")
    draw.save(figure, "processes")


if __name__ == "__main__":
    main(*sys.argv[1:])
