"""Which bundles of an archive go, so that the next one fits. May remove bundles, their manifests, and left-over temporary files
of this archive; may touch nothing else in its directory, and follows no link.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

BUNDLE = ".tar.gz"
MANIFEST = ".json"
TEMPORARY = re.compile(r"\.[A-Za-z0-9_].*\.tmp")
"""As archive.py names what is not whole yet."""

STALE = 3600.0
"""Seconds after which a temporary file is a crashed run's: writing one takes seconds."""

_STEM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


class Keep(Protocol):
    """How much of an archive is kept: config.Keep, or anything like it."""

    @property
    def count(self) -> int: ...
    @property
    def size(self) -> int:
        """Bytes."""

    @property
    def age(self) -> float:
        """Seconds."""

    @property
    def free(self) -> float:
        """The share of the file system that is left free."""

    @property
    def least(self) -> int:
        """The newest so many stay, whatever the other limits say."""


class Entry(NamedTuple):
    """One sealed incident."""

    stem: str
    bytes: int
    """Of bundle and manifest."""
    mtime: float


def entries(directory: Path) -> list[Entry]:
    """The archive's bundles, oldest first. Raises OSError when the directory cannot be listed."""
    found = []
    for name, status in _regular_files(directory):
        stem = name.removesuffix(BUNDLE)
        if stem != name and _STEM.fullmatch(stem):
            found.append(Entry(stem, status.st_size + _size(directory / (stem + MANIFEST)), status.st_mtime))
    return sorted(found, key=lambda entry: (entry.mtime, entry.stem))


def make_room(
    directory: Path, keep: Keep, *, coming: int = 0, room: int = 0, now: float, newest: str | None = None
) -> tuple[str, ...]:
    """Remove the oldest bundles until `coming` more with `room` bytes keep within the limits; the stems removed.

    Never the newest, and never so many that fewer than `keep.least` stay. `newest` names the stem that is known to be it,
    whatever the wall clock did in between. `now` is wall-clock time. Raises OSError.
    """
    remove_stale(directory, now)
    kept = sorted(entries(directory), key=lambda entry: entry.stem == newest)
    may_go = max(0, len(kept) - max(1, keep.least))
    total = sum(entry.bytes for entry in kept)
    removed: list[str] = []
    for entry in kept[:may_go]:
        left = len(kept) - len(removed)
        too_many = left + coming > keep.count or total + room > keep.size
        if not (too_many or now - entry.mtime > keep.age or _free_after(directory, room) < keep.free):
            break
        _remove(directory, entry.stem)
        total -= entry.bytes
        removed.append(entry.stem)
    return tuple(removed)


def remove_stale(directory: Path, now: float) -> None:
    """Remove temporary files that a crashed run left, older than STALE. Raises OSError when the directory cannot be listed."""
    for name, status in _regular_files(directory):
        if TEMPORARY.fullmatch(name) and now - status.st_mtime > STALE:
            with contextlib.suppress(OSError):
                (directory / name).unlink()


def _regular_files(directory: Path) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(directory) as found:
        for entry in found:
            with contextlib.suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    yield entry.name, status


def _remove(directory: Path, stem: str) -> None:
    """The bundle last: if we are ended in between, it is still found, and removed the next time."""
    (directory / (stem + MANIFEST)).unlink(missing_ok=True)
    (directory / (stem + BUNDLE)).unlink(missing_ok=True)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _free_after(directory: Path, room: int) -> float:
    """The share that is free once `room` bytes are written; a file system that does not tell its size is never full."""
    space = os.statvfs(directory)
    return (space.f_bavail * space.f_frsize - room) / (space.f_blocks * space.f_frsize) if space.f_blocks else 1.0
