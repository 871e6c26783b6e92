"""Has pytest explain the suite's own assertions."""

import pytest

pytest.register_assert_rewrite("bide.testing")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all-points",
        action="store_true",
        help="Kill at each call that changes the disk, not at some of them.",
    )
