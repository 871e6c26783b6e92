"""Puts numbered jobs for ever, and tells of each that was accepted: ``NUMBER JOB``."""

from __future__ import annotations

import sys
from itertools import count

import bide
from tests.crash.app import app, note, tell


def main(first: int, batch: int) -> None:
    for number in count(first, batch):
        if batch == 1:
            tell(number, note.using(delay=number % 3 * 3600).enqueue(number, 0).id)
        else:
            numbers = range(number, number + batch)
            handles = app.enqueue_many(note.request(n, 0) for n in numbers)
            for n, handle in zip(numbers, handles, strict=True):
                tell(n, handle.id)


if __name__ == "__main__":
    assert isinstance(app, bide.App)
    main(int(sys.argv[1]), int(sys.argv[2]))
