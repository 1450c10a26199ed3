"""What a single stack says: which frame is which, where a forked child's own part ends, and where it merely waits.

Pure: may look at values, nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from watchdog.model.evidence import Frame, ProcessStacks, ThreadStack
from watchdog.model.signature import FramePattern

STANDARD: Final = "multiprocessing/"
ALIASES: Final = ("multiprocess/", "billiard/")
"""Copies of the standard library's package with the same modules and functions: of dill, and of celery."""

PLAIN_WAITS: Final = (
    FramePattern(("select",), "selectors.py"),
    FramePattern(("wait", "wait_for", "acquire", "__enter__", "join", "_wait_for_tstate_lock"), "threading.py"),
    FramePattern(("get", "put", "join"), "queue.py"),
    FramePattern(("get", "put"), "multiprocessing/queues.py"),
    FramePattern(("wait", "poll", "_poll", "accept"), "multiprocessing/connection.py"),
    FramePattern(("recv", "recv_bytes", "_recv", "_recv_bytes"), "multiprocessing/connection.py"),
    FramePattern(("send", "send_bytes", "_send", "_send_bytes"), "multiprocessing/connection.py"),
    FramePattern(("acquire", "__enter__", "wait", "wait_for"), "multiprocessing/synchronize.py"),
    FramePattern(("wait", "poll"), "multiprocessing/popen_fork.py"),
    FramePattern(("wait", "poll"), "multiprocessing/popen_forkserver.py"),
    FramePattern(("join",), "multiprocessing/process.py"),
    FramePattern(("wait", "_wait", "_try_wait", "communicate", "_communicate"), "subprocess.py"),
    FramePattern(("result", "exception", "wait", "as_completed"), "concurrent/futures/_base.py"),
    FramePattern(("accept", "readinto"), "socket.py"),
    FramePattern(("read", "recv", "recv_into"), "ssl.py"),
)
"""Frames that wait and do nothing else. Some wake by themselves and wait again (torch's loader every 5 s), each time at
another of their lines, so a change within them is no movement. C functions (sleep, a lock's acquire) have no frame."""

_CHILD_STARTS: Final = FramePattern(("_bootstrap",), "multiprocessing/process.py")
_FORKS: Final = FramePattern(("_launch",), "multiprocessing/popen_fork.py")


def is_frame(frame: Frame, pattern: FramePattern) -> bool:
    """Whether this frame is one of the pattern's functions, in a file that ends like the pattern's."""
    return frame.name in pattern.functions and _ends_with(frame.file, pattern.file)


def is_any(frame: Frame, patterns: Sequence[FramePattern]) -> bool:
    """Whether this frame is one of several."""
    return any(is_frame(frame, pattern) for pattern in patterns)


def _ends_with(file: str, suffix: str) -> bool:
    if _on_boundary(file, suffix):
        return True
    if not suffix.startswith(STANDARD):
        return False
    rest = suffix.removeprefix(STANDARD)
    return any(_on_boundary(file, alias + rest) for alias in ALIASES)


def _on_boundary(file: str, suffix: str) -> bool:
    """`queues.py` ends `a/queues.py`, and not `my_queues.py`."""
    return file.endswith(suffix) and (len(file) == len(suffix) or file[-len(suffix) - 1] == "/")


def own_frames(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """A stack without what a forked child inherited: below `_bootstrap` it still holds its parent's calls up to the fork.

    A `_launch` that is innermost is a parent in the middle of forking: its calls are its own.
    """
    for index, frame in enumerate(frames):
        if is_frame(frame, _CHILD_STARTS) or (index > 0 and is_frame(frame, _FORKS)):
            return frames[: index + 1]
    return frames


def beyond_waits(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """A stack from the first frame that is not a plain wait outward."""
    for index, frame in enumerate(frames):
        if not is_any(frame, PLAIN_WAITS):
            return frames[index:]
    return ()


def main_thread(process: ProcessStacks) -> ThreadStack | None:
    """The thread whose kernel id is the pid. Where no id tells it, the one named MainThread, or the only one."""
    for thread in process.threads:
        if thread.tid == process.pid:
            return thread
    for thread in process.threads:
        if thread.name == "MainThread":
            return thread
    return process.threads[0] if len(process.threads) == 1 else None
