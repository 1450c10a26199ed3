"""One daemon for one state directory, and one for one supervisord. May open a lock file and bind a socket; waits for nobody.

The state directory is locked by flock. supervisord is locked by an abstract unix socket named after its url, since two daemons with
different state directories have no file in common; the kernel frees both when the process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
import struct
from pathlib import Path
from typing import Final, NamedTuple

_UCRED: Final = struct.Struct("3i")
"""pid, uid, gid of SO_PEERCRED."""


class Taken(NamedTuple):
    """Somebody else has it."""

    what: str
    pid: int | None

    def __str__(self) -> str:
        who = f"pid {self.pid}" if self.pid else "another process"
        return (
            f"another watchdog ({who}) has {self.what}. Two would restart the same programs.\n"
            f"End that one first{f' (ps -p {self.pid} shows it)' if self.pid else ''}, or give this one its own "
            "`state.directory` and supervisord."
        )


def lock_state(directory: Path) -> int | Taken:
    """The descriptor that holds the lock, to be kept open; or who has it. Makes the directory (0750). Raises OSError."""
    directory.mkdir(mode=0o750, parents=True, exist_ok=True)
    fd = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o640)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.read(fd, 32).strip()
        os.close(fd)
        return Taken(f"the state directory {directory}", int(text) if text.isdigit() else None)
    except OSError:
        os.close(fd)
        raise
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    except OSError:
        pass  # a full disk: the lock holds all the same, and only its holder's pid cannot be told
    return fd


def lock_supervisor(key: str) -> socket.socket | Taken:
    """The socket that holds the lock, to be kept open; or who has it. `key`: supervisor.lock_key(url).

    A name that is held by a user who is neither root nor ourselves is a squatter's, and does not count: anybody can bind one.
    """
    name = "\0worker-watchdog-" + hashlib.sha256(key.encode()).hexdigest()[:32]
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        lock.bind(name)
        lock.listen(1)
    except OSError:
        holder = _holder(name)
        if holder is not None and holder.uid not in (0, os.geteuid()):
            return lock
        lock.close()
        return Taken(f"supervisord at {key}", holder.pid if holder else None)
    return lock


class _Holder(NamedTuple):
    pid: int
    uid: int


def _holder(name: str) -> _Holder | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(name)
        except OSError:
            return None
        pid, uid, _ = _UCRED.unpack(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
        return _Holder(pid, uid)
