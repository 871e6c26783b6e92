"""The soak, with few jobs: it counts them all, and measures what it says."""

import io
from pathlib import Path

from rich.console import Console

from bench.soak import directory_size, soak


def test_few_jobs_go_in_and_out(tmp_path: Path) -> None:
    shown = io.StringIO()
    soak(20_000, tmp_path / "store", Console(file=shown, width=200))
    assert "soak: jobs=20000 lost=0 sync=always" in shown.getvalue()


def test_a_directory_is_as_large_as_its_files(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "file").write_bytes(bytes(1 << 20))
    assert 1 << 20 <= directory_size(tmp_path) < (1 << 20) + (64 << 10)
