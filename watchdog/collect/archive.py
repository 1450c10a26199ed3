"""Files that appear whole or not at all: the archive of incidents, and the fallback in the runtime directory.

May write into the directory that it is given, under temporary names that it renames when they are on disk; nothing outside
of it, whatever an incident is called. All errors are OSErrors with the path.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from watchdog import durable
from watchdog.collect.retention import BUNDLE, MANIFEST, entries, remove_stale

FILE_MODE = 0o640
DIRECTORY_MODE = 0o750

LONGEST_STEM = 120
"""Characters: with suffix, number and temporary name it stays under the 255 bytes of a name."""


class ArchiveStatus(NamedTuple):
    writable: bool
    why: str
    """Why not, and what to do; '' when it is."""
    bytes: int
    """Of all bundles and manifests."""


def archive_status(directory: Path, *, now: float | None = None) -> ArchiveStatus:
    """Try the archive for real: make its directory, write, sync and remove a small file. `now`: wall-clock time."""
    try:
        make_directory(directory)
        remove_stale(directory, time.time() if now is None else now)
        total = sum(entry.bytes for entry in entries(directory))
    except (OSError, ValueError) as problem:  # ValueError: a NUL in the path
        return ArchiveStatus(False, _why(directory, problem), 0)
    try:
        descriptor, temporary = _begin(directory, "probe")
        try:
            durable.write_all(descriptor, b"\0" * 4096)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
            temporary.unlink()
    except OSError as problem:
        return ArchiveStatus(False, _why(directory, problem), total)
    return ArchiveStatus(True, "", total)


def stem_of(incident: str) -> str:
    """A file name's stem for an incident's id, whatever is in it: no slash, no leading dot, not too long, not empty."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", incident).lstrip(".-")[:LONGEST_STEM] or "incident"


def free_stem(directory: Path, incident: str) -> str:
    """`stem_of(incident)`, with a number where that is taken: an incident that is sealed twice keeps both."""
    stem = stem_of(incident)
    number = 1
    while True:
        candidate = stem if number == 1 else f"{stem}-{number}"
        taken = any(os.path.lexists(directory / f"{candidate}{suffix}") for suffix in (BUNDLE, MANIFEST))
        if not taken:
            return candidate
        number += 1


def make_directory(directory: Path) -> None:
    """Make it and its parents; only what is made here gets DIRECTORY_MODE. Raises OSError, also when it is a file."""
    if not directory.is_dir():
        directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        directory.chmod(DIRECTORY_MODE)  # whatever the umask


def write_whole(directory: Path, files: Sequence[tuple[str, bytes]]) -> None:
    """Write every file under a temporary name, sync each, then rename them in the order given and sync the directory.

    Raises OSError. When one cannot be written none appears. When one cannot be renamed, or the directory not be synced, those
    that were renamed before stay, each of them whole. No temporary file stays in any case.
    """
    begun: list[Path] = []
    try:
        for name, data in files:
            descriptor, temporary = _begin(directory, name)
            begun.append(temporary)
            try:
                durable.write_all(descriptor, data)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        for (name, _), temporary in zip(files, begun, strict=True):
            temporary.rename(directory / name)
    except OSError:
        for temporary in begun:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
        raise
    durable.sync_directory(directory)


def _begin(directory: Path, name: str) -> tuple[int, Path]:
    """A new temporary file: its descriptor and path."""
    temporary = directory / f".{name}.{os.getpid()}.{time.monotonic_ns():x}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, FILE_MODE)
    try:
        os.fchmod(descriptor, FILE_MODE)  # whatever the umask
    except OSError:
        os.close(descriptor)
        temporary.unlink()
        raise
    return descriptor, temporary


def _why(directory: Path, problem: OSError | ValueError) -> str:
    said = getattr(problem, "strerror", None) or problem
    return (
        f"the archive {directory} cannot be written: {said}; nothing is stopped without evidence, "
        "so make it writable for the daemon's user, free space on its disk, or set archive.directory"
    )
