"""One daemon for one state directory, and one for one supervisord. May open a lock file and bind a socket; waits for nobody.

The state directory is locked by flock. supervisord is locked by an abstract unix socket named after its url, since two daemons with
different state directories have no file in common; the kernel frees both when the process ends, however it ends.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import socket
import struct
import threading
import time
from pathlib import Path
from typing import Final, NamedTuple

LISTENS_WITHIN: Final = 0.2
"""Seconds from bind to listen of a watchdog that starts in the same moment; they are two calls in a row."""

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
    """The descriptor that holds the lock, to be kept open; or who has it. Makes the directory (0750). Raises OSError.

    A disk that became read-only, or full, must not keep a begun restart from being finished: a lock needs no writing.
    """
    directory.mkdir(mode=0o750, parents=True, exist_ok=True)
    path, flags = directory / "lock", os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        fd = os.open(path, flags | os.O_RDWR | os.O_CREAT, 0o640)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.ENOSPC, errno.EDQUOT):
            raise
        fd = os.open(path, flags | os.O_RDONLY)
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

    A name that is held by a user who is neither root nor ourselves is a squatter's, and does not count: anybody can bind one. So is
    one that is bound and not listened on: a watchdog does the second right after the first.
    """
    name = "\0worker-watchdog-" + hashlib.sha256(key.encode()).hexdigest()[:32]
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        lock.bind(name)
        lock.listen()
    except OSError:
        holder = _holder(name)
        if holder is None or holder.uid not in (0, os.geteuid()):
            return lock
        lock.close()
        return Taken(f"supervisord at {key}", holder.pid)
    threading.Thread(target=_turn_away, args=(lock,), name="lock", daemon=True).start()
    return lock


def _turn_away(lock: socket.socket) -> None:
    """Take every caller and let it go: one that is never taken fills the queue, and the next could not ask whose this is."""
    while True:
        try:
            caller, _ = lock.accept()
        except OSError:  # closed
            return
        caller.close()


class _Holder(NamedTuple):
    pid: int
    uid: int


def _holder(name: str) -> _Holder | None:
    """Who listens on the name; None: nobody, also not a moment later."""
    found = _ask_holder(name)
    if found is None:
        time.sleep(LISTENS_WITHIN)
        found = _ask_holder(name)
    return found


def _ask_holder(name: str) -> _Holder | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(name)
        except OSError:
            return None
        pid, uid, _ = _UCRED.unpack(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
        return _Holder(pid, uid)
