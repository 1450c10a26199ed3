"""One log file, as programs, supervisord and logrotate treat it. Real files, on a local mount and read by a mount's real child."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from watchdog.childread import ReadFailure
from watchdog.look.files import Files, OpenFile
from watchdog.look.tail import MOST_A_LOOK, MOST_OF_A_LINE, MOST_OF_A_PARTIAL, Growth, LogTail


@pytest.fixture(params=["local", "remote"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def tail(log: Path, request: pytest.FixtureRequest) -> Iterator[LogTail]:
    """A log that holds `old` at first, on a local mount and on one that is not."""
    log.write_text("old\n")
    kind: str = request.node.callspec.params["log"]
    files: Files = request.getfixturevalue("files" if kind == "local" else "remote")
    tail = LogTail(files, str(log))
    assert tail.look(read=True) == Growth("there")
    yield tail
    tail.close()


def add(path: Path, text: str | bytes) -> int:
    """Append, as supervisord does; how many bytes."""
    data = text.encode() if isinstance(text, str) else text
    with path.open("ab") as file:
        file.write(data)
    return len(data)


def test_growth_is_what_was_appended(tail: LogTail, log: Path) -> None:
    added = add(log, "one\ntwo\n")
    assert tail.look(read=True) == Growth("there", added, ("one", "two"))
    assert tail.look(read=True) == Growth("there")


def test_growth_without_reading(tail: LogTail, log: Path) -> None:
    added = add(log, "one\n")
    assert tail.look(read=False) == Growth("there", added)
    add(log, "two\n")
    assert tail.look(read=True).lines == ("two",)


def test_a_line_without_end_waits_for_it(tail: LogTail, log: Path) -> None:
    assert tail.look(read=True).lines == ()
    assert add(log, "Batch 1") == tail.look(read=True).grown
    add(log, "2: done\nBa")
    assert tail.look(read=True).lines == ("Batch 12: done",)


def test_a_touch_is_no_growth(tail: LogTail, log: Path) -> None:
    os.utime(log, (1, 1))
    assert tail.look(read=True) == Growth("there")
    log.touch()
    assert tail.look(read=True) == Growth("there")


def test_rename_rotation_reads_the_old_file_to_its_end_first(tail: LogTail, log: Path) -> None:
    last = add(log, "last of old\n")
    log.rename(log.with_suffix(".1"))
    log.write_text("first of new\n")
    assert tail.look(read=True) == Growth("there", last, ("last of old", "first of new"))
    added = add(log, "second of new\n")
    assert tail.look(read=True) == Growth("there", added, ("second of new",))


def test_a_renamed_log_goes_on_until_the_name_is_back(tail: LogTail, log: Path) -> None:
    log.rename(log.with_suffix(".1"))
    late = add(log.with_suffix(".1"), "written after the rename\n")
    assert tail.look(read=True) == Growth("there", late, ("written after the rename",))
    log.write_text("new\n")
    assert tail.look(read=True) == Growth("there", 0, ("new",))


def test_copytruncate_is_a_new_baseline(tail: LogTail, log: Path) -> None:
    log.write_bytes(b"")
    add(log, "x\n")
    assert tail.look(read=True) == Growth("there", 0, ("x",))
    assert tail.look(read=True) == Growth("there")
    added = add(log, "y\n")
    assert tail.look(read=True) == Growth("there", added, ("y",))


def test_a_partial_line_does_not_survive_truncation(tail: LogTail, log: Path) -> None:
    add(log, "half a ")
    tail.look(read=True)
    log.write_bytes(b"new\n")
    assert tail.look(read=True).lines == ("new",)


def test_the_hole_after_copytruncate_is_no_text(tail: LogTail, log: Path) -> None:
    """A writer without O_APPEND goes on at its old offset: the file has a hole of NULs before it."""
    log.write_bytes(b"")
    tail.look(read=True)
    with log.open("r+b") as file:
        file.seek(100_000)
        file.write(b"Batch 7\nBatch 8\n")
    seen = tail.look(read=True)
    assert seen.lines == ("Batch 7", "Batch 8")
    assert seen.grown > 0


def test_clear_process_logs_makes_a_new_file(tail: LogTail, log: Path) -> None:
    log.unlink()
    log.write_text("")
    assert tail.look(read=True) == Growth("there")
    added = add(log, "again\n")
    assert tail.look(read=True) == Growth("there", added, ("again",))


def test_a_deleted_log_is_said_so_and_let_go(tail: LogTail, log: Path) -> None:
    log.unlink()
    seen = tail.look(read=True)
    assert seen.state == "deleted"
    assert seen.trouble is not None
    assert tail.look(read=True) == seen
    log.write_text("reborn\n")
    assert tail.look(read=True) == Growth("there", 0, ("reborn",))


def test_more_than_a_look_may_read_is_skipped_but_counts(tail: LogTail, log: Path) -> None:
    filler = "x" * 99 + "\n"
    added = add(log, "FIRST\n" + filler * (MOST_A_LOOK // 100 + 500) + "LAST\n")
    seen = tail.look(read=True)
    assert seen.grown == added
    assert "FIRST" not in seen.lines
    assert seen.lines[-1] == "LAST"
    assert set(seen.lines[:-1]) == {filler.strip()}, "a line that was cut by skipping was taken for a whole one"
    assert len(seen.lines) * 100 <= MOST_A_LOOK + 200


def test_a_line_without_end_takes_bounded_memory(tail: LogTail, log: Path) -> None:
    for _ in range(12):
        add(log, b"y" * 900_000)
        assert tail.look(read=True).lines == ()
        assert len(tail._partial) <= MOST_OF_A_PARTIAL
    add(log, "\nnext\n")
    cut, following = tail.look(read=True).lines
    assert cut == "y" * MOST_OF_A_LINE
    assert following == "next"


def test_a_huge_line_that_is_skipped_leaves_no_false_line(tail: LogTail, log: Path) -> None:
    add(log, b"z" * (MOST_A_LOOK + 10))
    assert tail.look(read=True).lines == ()
    add(log, "rest of it\nnext\n")
    assert tail.look(read=True).lines == ("next",)


def test_each_state_of_a_progress_bar_is_a_line(tail: LogTail, log: Path) -> None:
    add(log, "\r 10%|#   |\r 20%|##  |\r 30%|### |")
    assert tail.look(read=True).lines == (" 10%|#   |", " 20%|##  |")
    add(log, "\r\n")
    assert tail.look(read=True).lines == (" 30%|### |",)


def test_colours_blank_lines_and_bad_bytes(tail: LogTail, log: Path) -> None:
    add(log, b"\x1b[32minfo\x1b[0m Batch \x1b]0;title\x07 1\n\n   \n\x1b[0m\n\xff\xfe bad\r\n")
    assert tail.look(read=True).lines == ("info Batch  1", "\ufffd\ufffd bad")


def test_a_log_that_is_created_later_is_read_from_its_start(files: Files, tmp_path: Path) -> None:
    tail = LogTail(files, str(tmp_path / "log"))
    seen = tail.look(read=True)
    assert seen.state == "unknown"
    assert seen.trouble is not None
    assert tail.look(read=True) == seen
    (tmp_path / "log").write_text("first\n")
    assert tail.look(read=True) == Growth("there", 0, ("first",))
    tail.close()


@pytest.mark.parametrize("kind", ["fifo", "directory", "device", "dangling"])
def test_what_is_no_file_is_unknown_and_never_opened(files: Files, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "log"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "device" else tmp_path / "nowhere")
    tail = LogTail(files, str(path))
    first = tail.look(read=True)
    assert first.state == "unknown"
    assert first.trouble is not None
    assert str(path) in first.trouble
    assert tail.look(read=True) == first
    tail.close()


def test_a_log_that_turns_into_a_fifo_is_unknown(tail: LogTail, log: Path) -> None:
    log.unlink()
    os.mkfifo(log)
    assert tail.look(read=True).state == "unknown"


def test_the_last_line_before_watching_began(files: Files, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("x" * 70_000 + "\nfirst\nlast\n\n  \nhalf")
    tail = LogTail(files, str(log))
    assert tail.last_line() is None
    tail.look(read=True)
    assert tail.last_line() == "last"
    tail.close()


def test_no_last_line_where_none_is_complete(files: Files, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("half")
    tail = LogTail(files, str(tmp_path / "log"))
    tail.look(read=True)
    assert tail.last_line() is None
    tail.close()


def test_a_silent_mount_makes_the_log_unknown_and_it_goes_on_after(
    remote: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was appended meanwhile is growth: the inode is the same, so reading goes on where it was left."""
    monkeypatch.setattr("watchdog.childread.BACK_OFF", (0.0, 0.0))
    log = tmp_path / "log"
    log.write_text("old\n")
    tail = LogTail(remote, str(log))
    tail.look(read=True)
    (reader,) = remote._readers.values()
    assert reader.child_pid is not None
    os.kill(reader.child_pid, signal.SIGSTOP)
    reader.within = 0.05
    added = add(log, "meanwhile\n")
    silent = tail.look(read=True)
    assert silent.state == "unknown"
    assert silent.trouble is not None
    reader.within = 5.0
    while (seen := tail.look(read=True)).state == "unknown":
        assert seen == silent  # until the killed child has ended
    assert seen == Growth("there", added, ("meanwhile",))
    tail.close()


def test_a_read_error_is_unknown(tail: LogTail, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(log, "lost\n")
    monkeypatch.setattr(OpenFile, "pread", lambda *_: ReadFailure("failed", "Input/output error"))
    assert tail.look(read=True) == Growth("unknown", trouble="log Input/output error")
    monkeypatch.undo()
    assert tail.look(read=True) == Growth("there", len("lost\n"), ("lost",))


def test_a_file_that_a_server_forgot_is_opened_once_more_and_no_oftener(
    tail: LogTail, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ESTALE of every read, while the name is there."""
    opened: list[str] = []
    really = Files.open

    def count(self: Files, path: str) -> OpenFile | ReadFailure:
        opened.append(path)
        return really(self, path)

    added = add(log, "kept\n")
    with monkeypatch.context() as patched:
        patched.setattr(Files, "open", count)
        patched.setattr(OpenFile, "pread", lambda *_: ReadFailure("vanished", "Stale file handle"))
        assert tail.look(read=True) == Growth("unknown", trouble="log Stale file handle")
        assert opened == [str(log)]
    assert tail.look(read=True) == Growth("there", added, ("kept",))


def test_a_rotated_file_that_a_server_forgot_costs_no_line_of_the_new_one(
    tail: LogTail, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(log, "lost\n")
    log.rename(log.with_suffix(".1"))
    log.write_text("first of new\n")
    really = OpenFile.pread
    answers = iter([ReadFailure("vanished", "Stale file handle")])
    monkeypatch.setattr(OpenFile, "pread", lambda self, *args: next(answers, None) or really(self, *args))
    assert tail.look(read=True).lines == ("first of new",)


def test_a_file_that_cannot_be_asked_is_not_left_open(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log").write_text("old\n")
    tail = LogTail(files, str(tmp_path / "log"))
    before = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patched:
        patched.setattr(OpenFile, "fstat", lambda *_: ReadFailure("failed", "Input/output error"))
        for _ in range(3):
            assert tail.look(read=True) == Growth("unknown", trouble="log Input/output error")
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("escape", ["\x1b(B", "\x1bc", "\x1b7", "\x1b[38;5;1m", "\x1b=", "\x1b]0;t\x1b\\"])
def test_escapes_of_terminals_are_no_text(tail: LogTail, log: Path, escape: str) -> None:
    add(log, f"{escape}Batch{escape} 7{escape}\n")
    assert tail.look(read=True).lines == ("Batch 7",)


def test_nothing_stays_open_after_close(files: Files, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("x\n")
    before = len(os.listdir("/proc/self/fd"))
    tail = LogTail(files, str(log))
    tail.look(read=True)
    for _ in range(3):
        log.rename(tmp_path / "log.1")
        log.write_text("y\n")
        tail.look(read=True)
    assert len(os.listdir("/proc/self/fd")) == before + 1
    tail.close()
    assert len(os.listdir("/proc/self/fd")) == before
