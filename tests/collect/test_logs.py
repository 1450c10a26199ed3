"""Tails of log files: local, on a mount that is not, and things that only look like files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from watchdog import childread
from watchdog.collect import logs


@pytest.fixture(params=["here", "by a child"])
def far(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test twice: as on a local filesystem, and as on one that may wait for another machine."""
    if request.param == "by a child":
        monkeypatch.setattr(childread, "is_local", lambda path: None)
    return str(request.param)


def test_the_last_lines(tmp_path: Path, far: str) -> None:
    path = tmp_path / "out.log"
    path.write_text("".join(f"line {n}\n" for n in range(1000)) + "unfinished")
    assert logs.tail(path, lines=3) == ("line 998", "line 999", "unfinished")
    assert logs.read_tail(path, lines=3).size == path.stat().st_size


def test_a_first_line_that_is_not_whole_is_left_out(tmp_path: Path, far: str) -> None:
    path = tmp_path / "out.log"
    path.write_text("x" * 50 + "\nsecond\nthird\n")
    assert logs.tail(path, limit=20) == ("second", "third")
    assert logs.tail(path, limit=9) == ("third",)


def test_what_is_no_text_is_made_text(tmp_path: Path, far: str) -> None:
    path = tmp_path / "out.log"
    path.write_bytes(b"\0\0\0\x1b[31mred\x1b[0m\r\n 10%\r 20%\r\nbad \xff byte\n\n")
    assert logs.tail(path) == ("red", " 10%", " 20%", "bad \ufffd byte", "")


def test_an_endless_line_is_cut(tmp_path: Path, far: str) -> None:
    path = tmp_path / "out.log"
    path.write_text("x" * 100_000)
    assert logs.tail(path) == ("x" * logs.LONGEST_LINE + "…",)


def test_an_empty_file_has_no_lines(tmp_path: Path, far: str) -> None:
    path = tmp_path / "out.log"
    path.touch()
    assert logs.read_tail(path) == logs.Tail((), 0, None)


def test_what_is_no_regular_file_is_never_opened(tmp_path: Path, far: str) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)  # opened for reading, it would block
    for path in (fifo, tmp_path, Path("/dev/zero")):
        found = logs.read_tail(path, within=5.0)
        assert found.lines == () and found.why is not None
        assert found.why == f"{path}: a directory, FIFO, device or socket is never opened for reading"


def test_a_missing_file_says_so(tmp_path: Path, far: str) -> None:
    found = logs.read_tail(tmp_path / "none.log")
    assert found == logs.Tail((), None, f"{tmp_path}/none.log: No such file or directory")
    assert logs.tail("a\0b") == ()
