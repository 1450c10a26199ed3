"""Files that programs write, wherever they are: local ones directly, all others through the one child of their mount (childread).

May stat and read; may not open anything but regular files. What could not be read is a ReadFailure, never an exception.
"""

# os, not Path: its calls take descriptors, and cost a third.
# ruff: noqa: PTH116

from __future__ import annotations

import os
import stat
from typing import Final

from watchdog.childread import FileStat, MountReader, ReadFailure, failure
from watchdog.mounts import Mounts
from watchdog.readchild import NotRegularError, open_regular

NOT_A_FILE: Final = "is a directory, FIFO, device or socket, which is never read; name a regular file"


def is_regular(seen: FileStat) -> bool:
    """May it be opened for reading?"""
    return stat.S_ISREG(seen.mode)


def as_file_stat(seen: os.stat_result) -> FileStat:
    """`seen` as a child of childread tells it."""
    return FileStat(seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_mode, seen.st_nlink)


class OpenFile:
    """One open regular file: a descriptor here, or a handle of a mount's child."""

    __slots__ = ("_descriptor", "_handle", "_path", "_reader")

    def __init__(self, path: str, descriptor: int, reader: MountReader | None, handle: tuple[int, int]) -> None:
        self._path, self._descriptor = path, descriptor
        self._reader, self._handle = reader, handle

    def fstat(self) -> FileStat | ReadFailure:
        if self._reader is not None:
            return self._reader.fstat(self._handle)
        try:
            return as_file_stat(os.fstat(self._descriptor))
        except OSError as error:
            return failure(self._path, error.errno or 0)

    def pread(self, limit: int, offset: int) -> bytes | ReadFailure:
        """At most `limit` bytes from `offset` on; empty at the end of the file."""
        if self._reader is not None:
            return self._reader.pread(self._handle, limit, offset)
        try:
            return os.pread(self._descriptor, limit, offset)
        except OSError as error:
            return failure(self._path, error.errno or 0)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.release(self._handle)
        elif self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class Files:
    """Reads by path. Used by one thread. Where a path leads is remembered until `refresh` or a change of the mounts."""

    def __init__(self, mounts: Mounts | None = None, within: float = 0.5) -> None:
        """`within`: seconds that one request to a mount that is not local may take."""
        self._mounts = Mounts() if mounts is None else mounts
        self._within = within
        self._readers: dict[str, MountReader] = {}
        self._routes: dict[str, MountReader | None] = {}

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()
        self._routes.clear()
        self._mounts.close()

    def refresh(self) -> None:
        """Follow all links anew."""
        self._routes.clear()
        self._mounts.refresh()

    def refresh_if_mounted(self) -> None:
        """Follow all links anew if a mount came or went; 1 us."""
        if self._mounts.refresh():
            self._routes.clear()

    def resolve(self, path: str) -> str:
        """`path` without links, as far as it is local."""
        return self._mounts.resolve(path)[0]

    def stat(self, path: str) -> FileStat | ReadFailure:
        reader = self._reader(path)
        if reader is not None:
            return reader.stat(path)
        try:
            return as_file_stat(os.stat(path))
        except OSError as error:
            return failure(path, error.errno or 0)
        except ValueError:  # an embedded NUL, in a name that a fake server sent
            return ReadFailure("failed", f"{path!r}: not a path")

    def open(self, path: str) -> OpenFile | ReadFailure:
        reader = self._reader(path)
        if reader is not None:
            handle = reader.open(path)
            return handle if isinstance(handle, ReadFailure) else OpenFile(path, -1, reader, handle)
        try:
            return OpenFile(path, open_regular(path), None, (0, 0))
        except NotRegularError:
            return ReadFailure("not a regular file", f"{path} {NOT_A_FILE}")
        except OSError as error:
            return failure(path, error.errno or 0)
        except ValueError:
            return ReadFailure("failed", f"{path!r}: not a path")

    def _reader(self, path: str) -> MountReader | None:
        """The reader of the mount that `path` is on; None: it is local. A mount that cannot be told counts as not local."""
        if path in self._routes:
            return self._routes[path]
        mount = self._mounts.resolve(path)[1]
        reader = None
        if mount is None or not mount.local:
            point = mount.point if mount is not None else "(unknown mount)"
            reader = self._readers.setdefault(point, MountReader(point, self._within))
        self._routes[path] = reader
        return reader
