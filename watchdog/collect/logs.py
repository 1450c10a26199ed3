"""The last lines of log files, as an operator would read them.

May read regular files: local ones by itself, others by a child process with a deadline. Never opens a FIFO or a device,
which could block or act, and never writes.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from watchdog import childread, readchild
from watchdog.ansi import ANSI

LONGEST_LINE = 8192
"""Characters: a progress bar that never ends its line would else be the whole tail."""

WITHIN = 3.0
"""Seconds for a file that is not on a local filesystem."""


class Tail(NamedTuple):
    lines: tuple[str, ...]
    """Oldest first, without line ends, ANSI escapes and NULs."""
    size: int | None
    """Bytes of the whole file."""
    why: str | None
    """Why it could not be read; None when it was."""


def tail(path: str | os.PathLike[str], *, lines: int = 200, limit: int = 256 << 10) -> tuple[str, ...]:
    """The last `lines` lines of a regular file, of its last `limit` bytes; none where it cannot be read."""
    return read_tail(path, lines=lines, limit=limit).lines


def read_tail(
    path: str | os.PathLike[str], *, lines: int = 200, limit: int = 256 << 10, within: float = WITHIN
) -> Tail:
    """The same, with the file's size, and why it could not be read. Raises nothing that the world can cause."""
    name = os.fspath(path)
    found = _read_here(name, limit) if childread.is_local(name) else _read_by_child(name, limit, within)
    if isinstance(found, str):
        return Tail((), None, found)
    size, data = found
    return Tail(_lines(data, whole=len(data) >= size, most=lines), size, None)


def _read_here(path: str, limit: int) -> tuple[int, bytes] | str:
    """Size and last `limit` bytes of a local file, or why not."""
    try:
        descriptor = readchild.open_regular(path)  # looks before it opens: a device acts on open
    except readchild.NotRegularError:
        return childread.failure(path, readchild.NOT_REGULAR).detail
    except (OSError, ValueError) as problem:  # ValueError: a NUL in the path
        return f"{path}: {getattr(problem, 'strerror', None) or problem}"
    try:
        size = os.fstat(descriptor).st_size
        return size, os.pread(descriptor, limit, max(0, size - limit))
    except OSError as problem:
        return f"{path}: {problem.strerror}"
    finally:
        os.close(descriptor)


def _read_by_child(path: str, limit: int, within: float) -> tuple[int, bytes] | str:
    reader = childread.MountReader(path, within / 3)  # three requests: open, fstat, pread
    try:
        handle = reader.open(path)
        if isinstance(handle, childread.ReadFailure):
            return handle.detail
        seen = reader.fstat(handle)
        if isinstance(seen, childread.ReadFailure):
            return seen.detail
        data = reader.pread(handle, limit, max(0, seen.size - limit))
        return data.detail if isinstance(data, childread.ReadFailure) else (seen.size, data)
    finally:
        reader.close()


def _lines(data: bytes, *, whole: bool, most: int) -> tuple[str, ...]:
    """Text lines; the first is left out where the file began before it, since only its end is here."""
    text = ANSI.sub("", data.replace(b"\0", b"").decode("utf-8", errors="replace"))
    found = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if found and found[-1] == "":
        found.pop()
    if not whole and len(found) > 1:
        found = found[1:]
    kept = found[-most:] if most > 0 else []
    return tuple(line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…" for line in kept)
