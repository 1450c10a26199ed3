"""Reads that may block for ever, done by child processes with a deadline.

May read; may not wait for a child that got stuck: it is killed and left behind. A thread in a dead mount, or one that waits for
a wedged process's mmap_lock, cannot be ended, but a process can be left. So files on mounts that are not local, and the /proc
files that take mmap_lock (cmdline, environ, maps, smaps*, exe), are read through here. `read_file` and `read_link` start a
child for one read (about 30 ms); `MountReader` keeps one child for all reads on one mount (about 0.1 ms a read).
"""

from __future__ import annotations

import errno
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, Literal, NamedTuple

from watchdog import killed, readchild
from watchdog.mounts import MOUNTINFO, Mounts

Why = Literal["timed out", "not permitted", "vanished", "not a regular file", "failed"]

BACK_OFF: Final = (5.0, 300.0)
"""Seconds after which a mount that did not answer is tried again: at first, and at most; it doubles in between."""

_VANISHED = frozenset({errno.ENOENT, errno.ESRCH, errno.ESTALE, errno.ENOTDIR})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM})


class ReadFailure(NamedTuple):
    why: Why
    detail: str
    """For people: the path, and what the kernel said."""


class FileStat(NamedTuple):
    dev: int
    ino: int
    size: int
    """Bytes."""
    mtime_ns: int
    """Wall clock of whoever serves the file, nanoseconds."""
    mode: int
    nlink: int


def failure(path: str, code: int) -> ReadFailure:
    """What an errno (or readchild.NOT_REGULAR) of a read means."""
    if code == readchild.NOT_REGULAR:
        return ReadFailure(
            "not a regular file", f"{path}: a directory, FIFO, device or socket is never opened for reading"
        )
    why: Why = "vanished" if code in _VANISHED else "not permitted" if code in _FORBIDDEN else "failed"
    return ReadFailure(why, f"{path}: {os.strerror(code)}")


def read_file(path: str | os.PathLike[str], *, limit: int, within: float) -> bytes | ReadFailure:
    """The first `limit` bytes of a regular file, or why not, within about `within` seconds. Safe in any thread.

    Costs a process. `/proc/self` is the child's.
    """
    return _once("read", os.fspath(path), limit, within)


def read_link(path: str | os.PathLike[str], *, within: float) -> bytes | ReadFailure:
    """Where a link points to (for example /proc/PID/exe), or why not, within about `within` seconds."""
    return _once("link", os.fspath(path), 0, within)


def is_local(path: str | os.PathLike[str], mountinfo: Path = MOUNTINFO) -> bool | None:
    """Is `path` on a filesystem that cannot wait for another machine? None: not to be told. Never touches what is not local."""
    mounts = Mounts(mountinfo)
    try:
        mount = mounts.resolve(path)[1]
    finally:
        mounts.close()
    return None if mount is None else mount.local


def _once(op: str, path: str, limit: int, within: float) -> bytes | ReadFailure:
    child = _start(path)
    if isinstance(child, ReadFailure):
        return child
    result = child.ask(op, path, within, limit=limit)
    child.end(stuck=isinstance(result, ReadFailure) and result.why == "timed out")
    return result


class _Child:
    """One child process that reads. Used by one thread at a time."""

    def __init__(self) -> None:
        """Raises OSError where no process can be started."""
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", readchild.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd="/",  # or it would hold, and depend on, the directory that the daemon was started in
            start_new_session=True,  # a terminal's Ctrl-C is not meant for it
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self._out = self.process.stdin, self.process.stdout
        os.set_blocking(self._out.fileno(), False)
        os.set_blocking(self._in.fileno(), False)

    def ask(
        self, op: str, path: str, within: float, *, handle: int = 0, offset: int = 0, limit: int = 0
    ) -> bytes | ReadFailure:
        """The child's answer, or why there is none; after "timed out" and a broken pipe the child is good for nothing more."""
        request = {"op": op, "path": path, "handle": handle, "offset": offset, "limit": limit}
        deadline = time.monotonic() + within
        late = ReadFailure("timed out", f"{path}: no answer within {within:g} s")
        try:
            os.write(self._in.fileno(), json.dumps(request).encode() + b"\n")
            head = self._receive(readchild.HEAD.size, deadline)
            if head is None:
                return late
            code, length = readchild.HEAD.unpack(head)
            payload = self._receive(length, deadline)
        except (BrokenPipeError, BlockingIOError, EOFError):
            return ReadFailure("failed", f"{path}: the reading process died or took no request")
        if payload is None:
            return late
        return failure(path, code) if code else payload

    def _receive(self, length: int, deadline: float) -> bytes | None:
        """Exactly `length` bytes; None at the deadline. Raises EOFError when the child is gone."""
        poll, data = select.poll(), bytearray()
        poll.register(self._out.fileno(), select.POLLIN)
        while len(data) < length:
            left = deadline - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                return None
            piece = os.read(self._out.fileno(), length - len(data))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    def end(self, *, stuck: bool) -> None:
        """Kill it. One that answered ends at once and is waited for, up to 0.2 s; any other is left, and asked for later."""
        self.process.kill()
        self._in.close()
        self._out.close()
        if stuck:
            killed.leave(self.process)
        else:
            killed.settle(self.process)


def _start(path: str) -> _Child | ReadFailure:
    if (refusal := killed.too_many()) is not None:
        return ReadFailure("failed", f"{path}: {refusal}")
    try:
        return _Child()
    except OSError as error:
        return ReadFailure("failed", f"{path}: no reading process could be started: {error.strerror}")


class MountReader:
    """Reads on one mount through one long-lived child. Used by one thread.

    A child that does not answer in time is killed. While it is stuck in the kernel no other is started; once it has ended, a new
    one is tried after a back-off that grows while the mount stays silent. Until then the answer is "timed out", at once.
    """

    def __init__(self, mount: str, within: float = 0.5) -> None:
        self._mount = mount
        self.within = within
        """Seconds for each request."""
        self._child: _Child | None = None
        self._stuck: subprocess.Popen[bytes] | None = None
        self._generation = 0
        self._pause = BACK_OFF[0]
        self._again = 0.0

    @property
    def child_pid(self) -> int | None:
        return self._child.process.pid if self._child is not None else None

    def close(self) -> None:
        if self._child is not None:
            self._child.end(stuck=False)
            self._child = None

    def stat(self, path: str) -> FileStat | ReadFailure:
        return _as_stat(self._ask("stat", path))

    def open(self, path: str) -> tuple[int, int] | ReadFailure:
        """A handle of a regular file, good until the child is replaced (then its reads say "vanished")."""
        answer = self._ask("open", path)
        return answer if isinstance(answer, ReadFailure) else (self._generation, readchild.HANDLE.unpack(answer)[0])

    def fstat(self, handle: tuple[int, int]) -> FileStat | ReadFailure:
        return _as_stat(self._by_handle("fstat", handle))

    def pread(self, handle: tuple[int, int], limit: int, offset: int) -> bytes | ReadFailure:
        return self._by_handle("pread", handle, offset, limit)

    def release(self, handle: tuple[int, int]) -> None:
        self._by_handle("close", handle)

    def _by_handle(self, op: str, handle: tuple[int, int], offset: int = 0, limit: int = 0) -> bytes | ReadFailure:
        generation, descriptor = handle
        if self._child is None or generation != self._generation:
            return ReadFailure("vanished", f"{self._mount}: the reading process that had this file open was replaced")
        return self._ask(op, self._mount, descriptor, offset, limit)

    def _ask(self, op: str, path: str, handle: int = 0, offset: int = 0, limit: int = 0) -> bytes | ReadFailure:
        child = self._ready(path)
        if isinstance(child, ReadFailure):
            return child
        answer = child.ask(op, path, self.within, handle=handle, offset=offset, limit=limit)
        if not isinstance(answer, ReadFailure):
            self._pause = BACK_OFF[0]
        elif answer.why == "timed out" or child.process.poll() is not None:
            self._give_up(child)
            return self._silent(path)
        return answer

    def _silent(self, path: str) -> ReadFailure:
        """The same words until it answers, so that they are said once."""
        return ReadFailure("timed out", f"{path}: {self._mount} does not answer; it is tried again now and then")

    def _ready(self, path: str) -> _Child | ReadFailure:
        """The child, started if one may be."""
        if self._child is not None:
            return self._child
        if self._stuck is not None and self._stuck.poll() is None:
            return self._silent(path)
        self._stuck = None
        if time.monotonic() < self._again:
            return self._silent(path)
        child = _start(path)
        if isinstance(child, _Child):
            self._child = child
            self._generation += 1
        return child

    def _give_up(self, child: _Child) -> None:
        child.end(stuck=True)
        self._child, self._stuck = None, child.process
        self._again = time.monotonic() + self._pause
        self._pause = min(self._pause * 2, BACK_OFF[1])


def _as_stat(answer: bytes | ReadFailure) -> FileStat | ReadFailure:
    return answer if isinstance(answer, ReadFailure) else FileStat(*readchild.STAT.unpack(answer))
