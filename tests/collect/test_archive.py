"""What is in the archive is whole; what is not in it went by the rules."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog.collect import archive, retention

NOW = 1_796_000_000.0


@dataclass(frozen=True)
class Keep:
    count: int = 100
    size: int = 1 << 40
    age: float = 1e9
    free: float = 0.0
    least: int = 1


def fill(directory: Path, sizes: list[int], *, step: float = 60.0) -> list[str]:
    """Bundles a, b, c, ... from the oldest to the newest, each with a manifest of 10 bytes."""
    stems = [chr(ord("a") + n) for n in range(len(sizes))]
    for n, (stem, size) in enumerate(zip(stems, sizes, strict=True)):
        (directory / f"{stem}.tar.gz").write_bytes(b"x" * size)
        (directory / f"{stem}.json").write_bytes(b"x" * 10)
        at = NOW - (len(sizes) - n) * step
        os.utime(directory / f"{stem}.tar.gz", (at, at))
    return stems


def left(directory: Path) -> list[str]:
    return [entry.stem for entry in retention.entries(directory)]


def test_files_appear_whole_with_their_modes(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        archive.make_directory(tmp_path / "var" / "incidents")
        archive.write_whole(tmp_path / "var" / "incidents", [("a.tar.gz", b"bundle"), ("a.json", b"manifest")])
    finally:
        os.umask(before)
    directory = tmp_path / "var" / "incidents"
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == {
        "a.tar.gz": b"bundle",
        "a.json": b"manifest",
    }
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o640}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o750


def test_everything_is_synced_before_it_is_renamed_and_the_directory_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def noted_fsync(descriptor: int) -> None:
        done.append(f"sync {'directory' if stat.S_ISDIR(os.fstat(descriptor).st_mode) else 'file'}")
        fsync(descriptor)

    def noted_rename(path: Path, target: Path) -> Path:
        done.append(f"rename {target.name}")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "rename", noted_rename)
    archive.write_whole(tmp_path, [("a.tar.gz", b"1"), ("a.json", b"2")])
    assert done == ["sync file", "sync file", "rename a.tar.gz", "rename a.json", "sync directory"]


@pytest.mark.parametrize("failing", [1, 2])
def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int) -> None:
    write, calls = os.write, 0

    def full(descriptor: int, data: memoryview) -> int:
        nonlocal calls
        calls += 1
        if calls >= failing * 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data[:2])  # a short write first: what a disk that fills up does

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        archive.write_whole(tmp_path, [("a.tar.gz", b"1234"), ("a.json", b"5678")])
    assert list(tmp_path.iterdir()) == []


@given(st.text(max_size=300))
def test_an_incidents_name_never_leaves_its_directory(incident: str) -> None:
    stem = archive.stem_of(incident)
    assert stem and "/" not in stem and "\0" not in stem and not stem.startswith(".")
    assert len(f".{stem}-999.tar.gz.4194304.ffffffffffffffff.tmp".encode()) < 255


def test_an_incident_that_is_sealed_twice_keeps_both(tmp_path: Path) -> None:
    assert archive.free_stem(tmp_path, "x/1") == "x_1"
    (tmp_path / "x_1.json").touch()
    (tmp_path / "x_1-2.tar.gz").symlink_to("/nowhere")
    assert archive.free_stem(tmp_path, "x/1") == "x_1-3"


def test_too_many_go_oldest_first(tmp_path: Path) -> None:
    fill(tmp_path, [1] * 6)
    assert retention.make_room(tmp_path, Keep(count=4), coming=1, room=1, now=NOW) == ("a", "b", "c")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "d.json",
        "d.tar.gz",
        "e.json",
        "e.tar.gz",
        "f.json",
        "f.tar.gz",
    ]


def test_too_large_go_until_the_next_one_fits(tmp_path: Path) -> None:
    fill(tmp_path, [100, 100, 100, 100])
    assert retention.make_room(tmp_path, Keep(size=350), coming=1, room=100, now=NOW) == ("a", "b")


def test_too_old_go(tmp_path: Path) -> None:
    fill(tmp_path, [1] * 4, step=100.0)
    assert retention.make_room(tmp_path, Keep(age=250.0), coming=1, room=1, now=NOW) == ("a", "b")


def test_a_full_disk_makes_them_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, [1] * 5)

    def space(_: Path) -> os.statvfs_result:
        free = 100 + 50 * (5 - len(left(tmp_path)))
        return os.statvfs_result((1, 1, 1000, free, free, 0, 0, 0, 0, 255))

    monkeypatch.setattr(os, "statvfs", space)
    assert retention.make_room(tmp_path, Keep(free=0.2), coming=1, room=20, now=NOW) == ("a", "b", "c")


@pytest.mark.parametrize("least", [0, 1, 3])
def test_the_newest_and_the_least_stay_whatever_the_limits(tmp_path: Path, least: int) -> None:
    stems = fill(tmp_path, [1] * 5)
    keep = Keep(count=0, size=0, age=0.0, free=1.0, least=least)
    retention.make_room(tmp_path, keep, coming=1, room=1 << 40, now=NOW + 1e9)
    assert left(tmp_path) == stems[-max(1, least) :]


def test_only_our_own_files_go(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.tar.gz").touch()
    directory = tmp_path / "incidents"
    directory.mkdir()
    fill(directory, [1, 1])
    kept = ["notes.json", "notes.txt", ".hidden.tar.gz", "folder.tar.gz/", "link.tar.gz@", ".a.tmp", ".b.tmp@"]
    for name in kept:
        if name.endswith("/"):
            (directory / name[:-1]).mkdir()
        elif name.endswith("@"):
            (directory / name[:-1]).symlink_to(outside / "x.tar.gz")
        else:
            (directory / name).touch()
            os.utime(directory / name, (NOW, NOW))
    (directory / ".a.tar.gz.12.ff.tmp").touch()
    os.utime(directory / ".a.tar.gz.12.ff.tmp", (NOW - 3601, NOW - 3601))
    retention.make_room(directory, Keep(count=1), coming=1, room=1, now=NOW)
    names = {name.rstrip("/@") for name in kept} | {"b.json", "b.tar.gz"}
    assert {path.name for path in directory.iterdir()} == names
    assert (outside / "x.tar.gz").exists()


def test_a_bundle_whose_manifest_is_gone_still_counts(tmp_path: Path) -> None:
    fill(tmp_path, [1, 1, 1])
    (tmp_path / "a.json").unlink()
    assert retention.make_room(tmp_path, Keep(count=3), coming=1, room=1, now=NOW) == ("a",)


def test_when_one_cannot_be_renamed_what_is_there_is_whole(tmp_path: Path) -> None:
    (tmp_path / "a.json").mkdir()  # nothing can be renamed over a directory
    with pytest.raises(OSError, match="directory"):
        archive.write_whole(tmp_path, [("a.tar.gz", b"bundle"), ("a.json", b"manifest")])
    assert (tmp_path / "a.tar.gz").read_bytes() == b"bundle"
    assert {path.name for path in tmp_path.iterdir()} == {"a.tar.gz", "a.json"}


def test_a_mode_that_cannot_be_set_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "fchmod", refuse)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(PermissionError):
        archive.write_whole(tmp_path, [("a.json", b"manifest")])
    assert list(tmp_path.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == before


def test_status_of_an_archive_whose_name_is_none(tmp_path: Path) -> None:
    status = archive.archive_status(Path(f"{tmp_path}/a\0b"))
    assert not status.writable and "null byte" in status.why


def test_status_of_an_archive_that_can_be_written(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "incidents"
    assert archive.archive_status(directory) == archive.ArchiveStatus(True, "", 0)
    assert list(directory.iterdir()) == []
    fill(directory, [90, 900])
    assert archive.archive_status(directory).bytes == 1010


def test_status_of_an_archive_that_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    for directory in (tmp_path / "file", tmp_path / "file" / "below"):
        status = archive.archive_status(directory)
        assert not status.writable and str(directory) in status.why and "archive.directory" in status.why
    fill(tmp_path, [90])

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    status = archive.archive_status(tmp_path)
    assert not status.writable and "No space left on device" in status.why and status.bytes == 100
    assert not list(tmp_path.glob(".*"))
