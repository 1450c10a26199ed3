"""The progress file of one program. Real files."""

import json
import os
import socket
import time
from pathlib import Path

import pytest

from watchdog.childread import ReadFailure
from watchdog.look.files import Files
from watchdog.look.progress import LARGEST, NONE_YET, FileSeen, ProgressFile, parse, path_of
from watchdog.model.observation import Identity, ProcessInfo

INFO = ProcessInfo("grp:prc_07", "grp", "prc_07", "RUNNING", 4711, 100, 0, "", "")
IDENT = Identity(4711, 55)


class Watched:
    """A progress file, and a process that began before it is written."""

    def __init__(self, files: Files, path: Path) -> None:
        self.path = path
        self.file = ProgressFile(files)
        self.began_ns = time.time_ns()

    def look(self) -> FileSeen:
        return self.file.look(str(self.path), self.began_ns)

    def write(self, content: str | bytes) -> FileSeen:
        """By rename, as it should be."""
        fresh = self.path.with_suffix(".new")
        fresh.write_bytes(content if isinstance(content, bytes) else content.encode())
        fresh.rename(self.path)
        return self.look()


@pytest.fixture
def watched(files: Files, tmp_path: Path) -> Watched:
    return Watched(files, tmp_path / "progress")


def test_a_file_that_was_never_there_is_none_yet(watched: Watched) -> None:
    assert watched.look() == NONE_YET


def test_each_change_of_content_is_a_heartbeat(watched: Watched) -> None:
    assert [watched.write(text).progress for text in ("a", "b", "a")] == [1, 2, 3]
    assert watched.look().progress == 3


def test_the_same_content_again_is_none(watched: Watched) -> None:
    assert watched.write("a").progress == 1
    assert watched.write("a").progress == 1
    os.utime(watched.path, (time.time() + 5, time.time() + 5))
    assert watched.look().progress == 1


def test_a_change_in_place_of_the_same_size_is_seen(watched: Watched) -> None:
    watched.write("batch 1")
    watched.path.write_text("batch 2")
    os.utime(watched.path, ns=(0, watched.path.stat().st_mtime_ns + 1))
    assert watched.look().progress == 2


def test_the_keys_of_a_json_object_have_meaning(watched: Watched) -> None:
    said = {"count": 12, "total": "40", "state": "working", "phase": "upload", "in_flight": 3.0, "other": [1]}
    assert watched.write(json.dumps(said)) == FileSeen(1, 12, 40, "working", 3, "upload")
    assert watched.write('{"state": "idle"}') == FileSeen(2, says="idle")


@pytest.mark.parametrize("value", ["twelve", True, 1.5, [1], "9" * 40, 10**20])
def test_numbers_that_are_none_are_said_and_unknown(watched: Watched, value: object) -> None:
    seen = watched.write(json.dumps({"count": value, "total": 4}))
    assert (seen.progress, seen.progress_count, seen.progress_total) == (1, None, 4)
    assert seen.trouble is not None
    assert "count" in seen.trouble
    assert str(watched.path) in seen.trouble


def test_a_state_of_another_name_is_said(watched: Watched) -> None:
    seen = watched.write('{"state": "busy", "phase": 5}')
    assert (seen.says, seen.phase) == (None, None)
    assert seen.trouble is not None
    assert "state" in seen.trouble


@pytest.mark.parametrize("torn", ['{"count": 1', '{"count": 1}}', "{" * 100_000, '{"a":' * 100_000, "{'a': 1}"])
def test_a_torn_file_is_unknown_until_it_is_whole(watched: Watched, torn: str) -> None:
    watched.write('{"count": 1}')
    seen = watched.write(torn)
    assert seen.progress is None
    assert seen.trouble is not None
    assert watched.write('{"count": 1}').progress == 1
    assert watched.write('{"count": 2}').progress == 2


@pytest.mark.parametrize("content", [b"", b"  \n", b"\x00\x01", b"\xff\xfe\x00", b"text\0text"])
def test_an_empty_or_binary_file_is_unknown(watched: Watched, content: bytes) -> None:
    assert watched.write(content).progress is None
    assert watched.look().trouble is not None


def test_a_huge_file_is_unknown_and_not_read(watched: Watched) -> None:
    assert watched.write(b"x" * LARGEST).progress == 1
    seen = watched.write(b"x" * (LARGEST + 1))
    assert seen.progress is None
    assert seen.trouble is not None
    assert "larger" in seen.trouble


@pytest.mark.parametrize("began", ["before it", "after it"])
@pytest.mark.parametrize("kind", ["fifo", "directory", "device", "socket"])
def test_what_is_no_regular_file_is_unknown_whatever_its_age(watched: Watched, kind: str, began: str) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        if kind == "fifo":
            os.mkfifo(watched.path)
        elif kind == "directory":
            watched.path.mkdir()
        elif kind == "device":
            watched.path.symlink_to("/dev/zero")
        else:
            server.bind(str(watched.path))
        watched.began_ns = 0 if began == "before it" else time.time_ns() + 3600 * 10**9
        seen = watched.look()
    assert seen.progress is None
    assert seen.trouble is not None
    assert "regular file" in seen.trouble


def test_a_vanished_file_is_unknown_and_comes_back_unchanged(watched: Watched) -> None:
    watched.write("a")
    content = watched.path.read_text()
    watched.path.unlink()
    gone = watched.look()
    assert gone.progress is None
    assert gone.trouble is not None
    assert watched.write(content).progress == 1


def test_a_file_older_than_the_process_is_none_yet(watched: Watched) -> None:
    watched.path.write_text('{"count": 400}')
    os.utime(watched.path, ns=(0, watched.began_ns - 5_000_000_000))
    assert watched.look() == NONE_YET
    assert watched.write('{"count": 1}') == FileSeen(1, 1)


def test_after_the_wall_clock_was_set_back_every_write_counts_all_the_same(watched: Watched) -> None:
    """An hour: whatever is written until then looks older than the process."""
    hour_ago = watched.began_ns - 3600 * 10**9

    def write(content: str) -> FileSeen:
        fresh = watched.path.with_suffix(".new")
        fresh.write_text(content)
        os.utime(fresh, ns=(hour_ago, hour_ago + len(content)))
        fresh.rename(watched.path)
        return watched.look()

    assert write("a") == NONE_YET
    assert watched.look() == NONE_YET
    assert [write("bb").progress, write("ccc").progress] == [1, 2]
    watched.file.restart()
    assert watched.look() == NONE_YET
    assert write("dddd").progress == 1


def test_a_file_that_was_not_there_when_watching_began_counts_whatever_its_time(watched: Watched) -> None:
    assert watched.look() == NONE_YET
    watched.path.write_text("a")
    os.utime(watched.path, ns=(0, watched.began_ns - 3600 * 10**9))
    assert watched.look().progress == 1


def test_what_the_last_process_left_does_not_count_when_it_is_seen_late(watched: Watched) -> None:
    watched.write("a")
    watched.path.rename(watched.path.with_suffix(".aside"))
    watched.file.restart()
    assert watched.look() == NONE_YET
    watched.path.with_suffix(".aside").rename(watched.path)
    assert watched.look() == NONE_YET


def test_what_the_last_process_left_is_none_yet(watched: Watched) -> None:
    """Even where it is not older: a crash and a restart within one second."""
    watched.write('{"count": 400}')
    watched.file.restart()
    assert watched.look() == NONE_YET
    watched.file.restart()
    assert watched.look() == NONE_YET
    assert watched.write('{"count": 400}') == FileSeen(1, 400)


def test_a_process_of_unknown_age_owns_the_file(files: Files, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a")
    assert ProgressFile(files).look(str(tmp_path / "file"), None).progress == 1


def test_a_file_on_a_mount_that_is_not_local(remote: Files, tmp_path: Path) -> None:
    watched = Watched(remote, tmp_path / "progress")
    assert watched.look() == NONE_YET
    assert [watched.write(text).progress for text in ("a", "b")] == [1, 2]


def test_a_file_that_may_not_be_read_is_said(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = ReadFailure("not permitted", "/p: Permission denied")
    watched.path.write_text("a")
    monkeypatch.setattr(Files, "open", lambda *_: refusal)
    seen = watched.look()
    assert seen.progress is None
    assert seen.trouble is not None
    assert "Permission denied" in seen.trouble
    monkeypatch.setattr(Files, "stat", lambda *_: refusal)
    assert watched.look().progress is None


def test_text_that_is_no_object_has_no_keys() -> None:
    assert parse(b"[1, 2]") == NONE_YET
    assert parse(b"12") == NONE_YET
    assert parse(b'{"count": NaN}') == FileSeen(
        0, trouble="has count that cannot be understood (whole numbers; state: working or idle)"
    )


def test_the_path_holds_the_names_of_the_program() -> None:
    assert path_of("/run/{group}/{process}.{pid}.json", INFO, IDENT) == "/run/grp/prc_07.4711.json"
    assert path_of("/run/{program}", INFO, IDENT) == "/run/grp:prc_07"
    assert path_of("/run/{other}/../x", INFO, IDENT) == "/run/{other}/../x"


@pytest.mark.parametrize("name", ["../../etc/passwd", "..", "a/../b", "/etc/passwd", "x\0y", "."])
def test_hostile_names_do_not_leave_the_directory(name: str) -> None:
    info = INFO._replace(group=name, name=name, program=f"{name}:{name}")
    for template in (
        "/run/{group}",
        "/run/{process}/x",
        "/run/{program}.json",
        "/run/{group}{process}",
        "/run/.{group}/x",
    ):
        path = path_of(template, info, IDENT)
        assert path is None or (os.path.normpath(path).startswith("/run") and "\0" not in path), (template, path)


def test_a_refused_name_is_unknown_and_said(watched: Watched) -> None:
    assert path_of("/run/{group}{process}/x", INFO._replace(group=".", name="."), IDENT) is None
    assert path_of("/run/{group}", INFO._replace(group="../x"), IDENT) == "/run/.._x"
    seen = watched.file.look(None, watched.began_ns)
    assert seen.progress is None
    assert seen.trouble is not None
