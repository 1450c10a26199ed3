"""Reads by child processes: real children, stopped to play a mount that does not answer; recorded mountinfo."""

import errno
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from watchdog import childread, killed, readchild
from watchdog.childread import FileStat, MountReader, ReadFailure, is_local, read_file, read_link
from watchdog.killed import reap
from watchdog.mounts import Mount, Mounts, parse

ROOT_MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:20 / /proc rw,nosuid shared:2 - proc proc rw
31 22 0:44 / /data rw,relatime shared:9 master:1 - nfs4 server:/data rw,vers=4.2
32 31 0:45 / /data/scratch rw - tmpfs tmpfs rw
33 22 0:46 / /mnt/with\\040space rw - fuse.sshfs host:/x rw
34 22 254:9 / /over rw - xfs /dev/vdb rw
35 34 0:50 / /over rw - cifs //host/share rw
"""


@pytest.fixture
def mountinfo(tmp_path: Path) -> Path:
    path = tmp_path / "mountinfo"
    path.write_text(ROOT_MOUNTS)
    return path


@pytest.fixture
def reader() -> Iterator[MountReader]:
    reader = MountReader("/the/mount", within=5.0)
    yield reader
    reader.close()


def stop_child(reader: MountReader) -> int:
    """Stop the reader's child, as a dead mount would; its pid."""
    pid = reader.child_pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    return pid


def wait_until_reaped() -> None:
    deadline = time.monotonic() + 10
    while reap():
        assert time.monotonic() < deadline, "killed children did not end"
        time.sleep(0.01)


def test_reads_the_first_bytes_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    assert read_file(tmp_path / "file", limit=4, within=10) == b"0123"
    assert read_file(tmp_path / "file", limit=100, within=10) == b"0123456789"


def test_reads_a_file_that_comes_in_pieces() -> None:
    mine = read_file(f"/proc/{os.getpid()}/maps", limit=1 << 20, within=10)
    assert isinstance(mine, bytes)
    assert mine.count(b"\n") > 50  # more than the one page that a read of /proc gives


def test_reads_where_a_link_leads() -> None:
    target = read_link(f"/proc/{os.getpid()}/exe", within=10)
    assert target == os.fsencode(os.readlink("/proc/self/exe"))


def test_a_missing_file_has_vanished(tmp_path: Path) -> None:
    found = read_file(tmp_path / "none", limit=1, within=10)
    assert isinstance(found, ReadFailure)
    assert found.why == "vanished"
    assert "none" in found.detail


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for path in ("fifo", "socket", ".", "/dev/null"):
            found = read_file(tmp_path / path, limit=1, within=10)
            assert isinstance(found, ReadFailure)
            assert found.why == "not a regular file", path


@pytest.mark.parametrize(
    ("code", "why"),
    [(errno.EACCES, "not permitted"), (errno.EPERM, "not permitted"), (errno.ESRCH, "vanished"), (errno.EIO, "failed")],
)
def test_what_an_errno_means(code: int, why: str) -> None:
    assert childread.failure("/path", code).why == why


def test_a_read_that_does_not_end_times_out_and_its_child_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hanging = tmp_path / "hanging.py"
    hanging.write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setattr(readchild, "__file__", str(hanging))
    began = time.monotonic()
    found = read_file("/anything", limit=1, within=0.2)
    assert isinstance(found, ReadFailure)
    assert found.why == "timed out"
    assert time.monotonic() - began < 60, "it waited for a child that sleeps for 600 s"
    wait_until_reaped()


def test_no_child_is_added_when_too_many_are_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(killed, "reap", lambda: killed.MOST_LEFT)
    found = read_file("/proc/version", limit=1, within=10)
    assert isinstance(found, ReadFailure)
    assert found.why == "failed"


def test_a_child_that_dies_is_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dying = tmp_path / "dying.py"
    dying.write_text("import sys\nsys.stdin.readline()\n")
    monkeypatch.setattr(readchild, "__file__", str(dying))
    found = read_file("/anything", limit=1, within=10)
    assert isinstance(found, ReadFailure)
    assert found.why == "failed"


def test_a_child_lives_in_a_session_and_directory_of_its_own(reader: MountReader) -> None:
    reader.stat("/")
    pid = reader.child_pid
    assert pid is not None
    assert os.getsid(pid) == pid != os.getsid(0)
    assert os.readlink(f"/proc/{pid}/cwd") == "/"


def test_one_child_answers_everything_on_a_mount(reader: MountReader, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"first second")
    seen = reader.stat(str(path))
    pid = reader.child_pid
    real = path.stat()
    assert seen == FileStat(real.st_dev, real.st_ino, 12, real.st_mtime_ns, real.st_mode, 1)
    handle = reader.open(str(path))
    assert not isinstance(handle, ReadFailure)
    assert reader.pread(handle, 6, 6) == b"second"
    path.unlink()
    after = reader.fstat(handle)
    assert isinstance(after, FileStat)
    assert after.nlink == 0
    reader.release(handle)
    assert isinstance(reader.pread(handle, 6, 6), ReadFailure)
    assert reader.child_pid == pid


def test_a_fifo_on_a_mount_is_not_opened(reader: MountReader, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    found = reader.open(str(tmp_path / "fifo"))
    assert isinstance(found, ReadFailure)
    assert found.why == "not a regular file"


def test_a_silent_mount_gets_a_new_child_after_the_back_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(childread, "BACK_OFF", (0.3, 100.0))
    reader = MountReader("/the/mount", within=5.0)
    try:
        handle = reader.open(__file__)
        assert not isinstance(handle, ReadFailure)
        first = stop_child(reader)
        reader.within = 0.1
        silent = reader.stat("/")
        assert isinstance(silent, ReadFailure)
        assert silent.why == "timed out"
        assert reader.child_pid is None
        wait_until_reaped()
        assert reader.stat("/") == silent, "asked again before the back-off ended"
        assert reader.child_pid is None
        reader.within = 5.0
        time.sleep(0.35)
        assert isinstance(reader.stat("/"), FileStat)
        assert reader.child_pid not in (None, first)
        old = reader.pread(handle, 1, 0)
        assert isinstance(old, ReadFailure)
        assert old.why == "vanished", "a handle of the first child was used with the second"
    finally:
        reader.close()


def test_no_second_child_is_started_while_one_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child in an uninterruptible wait outlives its SIGKILL; here it does because that is not sent."""
    monkeypatch.setattr(childread, "BACK_OFF", (0.0, 0.0))
    reader = MountReader("/the/mount", within=5.0)
    reader.stat("/")
    stuck = stop_child(reader)
    reader.within = 0.1
    try:
        with monkeypatch.context() as patched:
            patched.setattr(subprocess.Popen, "kill", lambda self: None)
            reader.stat("/")
        reader.within = 60.0
        began = time.monotonic()
        found = reader.stat("/")
        assert isinstance(found, ReadFailure)
        assert reader.child_pid is None
        assert time.monotonic() - began < 30.0, "it waited for the mount again"
    finally:
        os.kill(stuck, signal.SIGKILL)
    wait_until_reaped()
    reader.within = 5.0
    assert isinstance(reader.stat("/"), FileStat)
    reader.close()


def test_back_off_doubles_and_a_good_answer_resets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(childread, "BACK_OFF", (0.01, 0.05))
    reader = MountReader("/the/mount", within=5.0)
    pauses = []
    for _ in range(4):
        reader.within = 5.0
        reader._ready("/")  # a child, but no answer of it
        stop_child(reader)
        reader.within = 0.05
        reader.stat("/")
        pauses.append(reader._pause)
        wait_until_reaped()
        time.sleep(0.06)
    reader.within = 5.0
    assert isinstance(reader.stat("/"), FileStat)
    assert pauses == [0.02, 0.04, 0.05, 0.05]
    assert reader._pause == 0.01
    reader.close()


@pytest.mark.parametrize(
    ("path", "local"),
    [
        ("/var/log/x", True),
        ("/proc/1/stat", True),
        ("/data", False),
        ("/data/log/x", False),
        ("/database/log", True),  # no prefix by parts
        ("/data/scratch/x", False),  # a local mount below one that may hang: getting there may hang
        ("/mnt/with space/x", False),
        ("/over/x", False),  # the later mount covers the earlier
        ("/var/../data/x", False),
        ("/data/../var/x", False),
    ],
)
def test_locality_by_the_longest_mount(mountinfo: Path, path: str, local: bool) -> None:
    assert is_local(path, mountinfo) is local


def test_a_link_to_what_is_not_local_is_not_local(tmp_path: Path, mountinfo: Path) -> None:
    (tmp_path / "absolute").symlink_to("/data/deep")
    (tmp_path / "relative").symlink_to("absolute/x")
    (tmp_path / "loop").symlink_to("loop")
    assert is_local(tmp_path / "absolute" / "file", mountinfo) is False
    assert is_local(tmp_path / "relative", mountinfo) is False
    assert is_local(tmp_path / "loop", mountinfo) is True
    assert is_local(tmp_path / "missing" / "file", mountinfo) is True


def test_resolve_follows_links_and_dots(tmp_path: Path, mountinfo: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    mounts = Mounts(mountinfo)
    assert mounts.resolve(tmp_path / "link" / ".." / "link" / "x") == (str(tmp_path / "real" / "x"), Mount("/", "ext4"))
    mounts.close()


def test_a_working_directory_that_was_deleted(tmp_path: Path, mountinfo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    assert is_local("x", mountinfo) is True
    (tmp_path / "gone").rmdir()
    assert is_local("/var/log/x", mountinfo) is True
    assert is_local("/data/x", mountinfo) is False
    assert is_local("x", mountinfo) is None


def test_a_path_that_is_none_does_not_cost_the_mount_its_child(reader: MountReader) -> None:
    assert isinstance(reader.stat("/"), FileStat)
    pid = reader.child_pid
    for found in (reader.stat("/a\0b"), reader.open("/a\0b")):
        assert isinstance(found, ReadFailure)
        assert (found.why, "Invalid argument" in found.detail) == ("failed", True)
    assert reader.child_pid == pid


def test_an_unknown_filesystem_is_not_local() -> None:
    assert Mount("/x", "newfs").local is False
    assert Mount("/x", "fuse").local is False
    assert Mount("/x", "9p").local is False


def test_without_mountinfo_it_cannot_be_told(tmp_path: Path) -> None:
    assert is_local("/var", tmp_path / "none") is None
    (tmp_path / "empty").write_text("nonsense\n\n1 2 3 - \n")
    assert is_local("/var", tmp_path / "empty") is None


def test_mountinfo_of_this_host_is_understood() -> None:
    found = parse(Path("/proc/self/mountinfo").read_text())
    assert found["/proc"] == Mount("/proc", "proc")
    mounts = Mounts()
    assert mounts.refresh() is False
    mounts.close()
