"""Publishes numbered messages for ever, and tells of each that was accepted: ``NUMBER``.

Every other one is published by a transaction, together with a job. Run as
a worker's App, it receives them on two channels.
"""

from __future__ import annotations

import sys
from itertools import count

from tests.crash.app import app, nothing, tell


@app.subscribe("numbers", "left")
def left(number: int) -> None:
    tell("left", number)


@app.subscribe("numbers", "right")
def right(number: int) -> None:
    tell("right", number)


@app.checker
def check(_prepared: object) -> bool:
    return False


def main(first: int) -> None:
    for number in count(first):
        message = app.message("numbers", {"number": number}, delay=number % 3 / 100)
        if number % 2:
            app.enqueue(message)
        else:
            with app.prepare(message, nothing.request(), check_after=0.05) as prepared:
                prepared.commit()
        tell(number)


if __name__ == "__main__":
    main(int(sys.argv[1]))
