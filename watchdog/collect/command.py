"""Runs one program of somebody else's with a hard deadline and a bound on what it may say.

May start and end its own children; may not wait for one without a deadline. A child stuck in the kernel cannot be
ended, so it is never joined: it is killed, left behind, and reaped whenever it does end.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from watchdog import killed

CHUNK = 1 << 16
"""Bytes for each read: what a pipe holds by default on Linux."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended, and what it said: at most `limit` bytes of each stream."""

    rc: int | None
    """Exit status, negative for a signal; None: it did not end by itself."""
    out: bytes
    err: bytes
    trouble: str | None
    """Why it did not end by itself, or could not be started; None when it did end."""
    seconds: float


@dataclass(slots=True)
class _Streams:
    """What has been read so far of each stream."""

    limit: int
    kept: dict[str, bytearray] = field(default_factory=lambda: {"out": bytearray(), "err": bytearray()})
    """In one piece each: what trickles in byte by byte would take forty times its size in a list."""
    sizes: dict[str, int] = field(default_factory=lambda: {"out": 0, "err": 0})

    def take(self, name: str, data: bytes) -> None:
        room = self.limit - self.sizes[name]
        if room > 0:
            self.kept[name] += data[:room]
        self.sizes[name] += len(data)

    def text(self, name: str) -> bytes:
        return bytes(self.kept[name])

    @property
    def over(self) -> bool:
        return self.sizes["out"] > self.limit


def run(argv: Sequence[str], *, within: float, limit: int, env: Mapping[str, str] | None = None) -> Ran:
    """Run `argv` in a session of its own for at most `within` seconds, keeping at most `limit` bytes of each stream.

    It is killed at the deadline, and as soon as it prints more than `limit` bytes on stdout. Raises nothing that the world can
    cause: a program that cannot be started, or listened to for want of descriptors or memory, is a `Ran` with its trouble.
    """
    began = time.monotonic()
    if (refusal := killed.too_many()) is not None:
        return Ran(None, b"", b"", f"was not started: {refusal}", 0.0)
    try:
        child = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if env is None else dict(env),
            start_new_session=True,
        )
    except (OSError, ValueError) as problem:
        return Ran(None, b"", b"", f"could not be started: {problem}", time.monotonic() - began)
    streams = _Streams(limit)
    try:
        trouble = _read(child, streams, began + within) or _ended(child, began + within)
    except OSError as problem:
        trouble = f"could not be listened to and was killed: {problem.strerror or problem}"
    finally:
        _end(child)
    if trouble == "late":
        trouble = f"did not end within {within:.3g} s and was killed"
    elif trouble == "over":
        trouble = f"printed more than {limit} bytes and was killed"
    rc = child.returncode if trouble is None else None
    return Ran(rc, streams.text("out"), streams.text("err"), trouble, time.monotonic() - began)


@contextlib.contextmanager
def sleeper(seconds: float) -> Iterator[int | None]:
    """The pid of a Python child of ours that sleeps, to try things on; None when it could not be started.

    It lets nobody trace it who could not trace the watched programs either (no PR_SET_PTRACER). Ended with the block.
    """
    argv = [sys.executable, "-I", "-S", "-c", f"import time; time.sleep({seconds:.3f})"]
    try:
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
    except OSError:
        yield None
        return
    try:
        yield child.pid
    finally:
        _end(child)


def _read(child: subprocess.Popen[bytes], streams: _Streams, deadline: float) -> str | None:
    """Read both streams to their ends; 'late' or 'over' when that was not to be."""
    assert child.stdout is not None and child.stderr is not None
    with selectors.DefaultSelector() as ready:
        for name, stream in (("out", child.stdout), ("err", child.stderr)):
            os.set_blocking(stream.fileno(), False)
            ready.register(stream, selectors.EVENT_READ, name)
        while ready.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return "late"
            for key, _ in ready.select(left):
                data = _some(key.fd)
                if data:
                    streams.take(key.data, data)
                elif data is not None:
                    ready.unregister(key.fileobj)
            if streams.over:
                return "over"
    return None


def _some(fd: int) -> bytes | None:
    """What is there to be read: b'' at the end, None for nothing yet."""
    try:
        return os.read(fd, CHUNK)
    except BlockingIOError:
        return None


def _ended(child: subprocess.Popen[bytes], deadline: float) -> str | None:
    try:
        child.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return "late"
    return None


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill the child's session if it still runs, let go of its pipes, and leave it behind if it does not end."""
    if child.returncode is None:  # not reaped, so the number is still its own, and its group's
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        killed.settle(child)
    for stream in (child.stdout, child.stderr):
        if stream is not None:
            stream.close()
