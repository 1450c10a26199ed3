"""One file of /proc, kept open where there are descriptors left, else opened for each read. May read /proc, nothing else."""

from __future__ import annotations

import errno
import os
import resource
from typing import Final

RESERVED: Final = 200
"""Descriptors that are never kept here."""

_NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
_PAGE = 4096
_PIECE = 4000
"""A list of many children comes in pieces of just under a page; what is shorter is whole."""


def read_whole(path: str) -> bytes:
    """The whole of one file of /proc. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _pread(descriptor)
    finally:
        os.close(descriptor)


def _pread(descriptor: int) -> bytes:
    """The whole of an open file of /proc, read from its start. Raises OSError (ESRCH: the process is gone)."""
    data = os.pread(descriptor, _PAGE, 0)
    return data if len(data) < _PIECE else _with_rest(descriptor, data)


def _with_rest(descriptor: int, data: bytes) -> bytes:
    while piece := os.pread(descriptor, _PAGE, len(data)):
        data += piece
    return data


class Allowance:
    """How many descriptors may be kept: all but the reserve, which is for sockets, logs, the journal and children's pipes."""

    def __init__(self) -> None:
        self.kept = 0

    def left(self) -> bool:
        return self.kept < resource.getrlimit(resource.RLIMIT_NOFILE)[0] - RESERVED


class ProcFile:
    """One file of /proc, kept open where there are descriptors left, else opened for each read."""

    __slots__ = ("_allowance", "_descriptor", "path")

    def __init__(self, path: str, allowance: Allowance) -> None:
        """Raises OSError, but not for want of descriptors."""
        self.path = path
        self._allowance = allowance
        self._descriptor = -1
        if allowance.left():
            try:
                self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                if error.errno not in _NO_DESCRIPTOR:
                    raise
            else:
                allowance.kept += 1

    @property
    def kept(self) -> bool:
        return self._descriptor >= 0

    def read(self) -> bytes:
        """Raises OSError."""
        return _pread(self._descriptor) if self._descriptor >= 0 else read_whole(self.path)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._allowance.kept -= 1


def raise_descriptor_limit() -> tuple[int, int]:
    """Raise the soft limit of open files to the hard one (systemd's 1024 is too few for 1,000 processes). (before, now)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft, hard
