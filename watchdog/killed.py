"""Children of ours that were killed: taken note of when they end, never waited for without a deadline.

May wait for a child, briefly; sends no signal. One that is stuck in the kernel outlives its SIGKILL, so it is left behind, counted,
and reaped whenever it does end. Any thread may ask.
"""

from __future__ import annotations

import subprocess
import threading
from typing import Final

MOST_LEFT: Final = 32
"""So many killed children may wait for their end in the kernel at once; then nothing new is started. Each holds a pid and 7 MB."""
GRACE: Final = 0.2
"""Seconds that a killed child gets to be reaped at once: that takes under 1 ms, unless it is stuck or the host is loaded."""

_left: list[subprocess.Popen[bytes]] = []
"""Killed, but not ended when we went on. Module-level, since they outlive whoever started them."""
_lock = threading.Lock()


def settle(child: subprocess.Popen[bytes], within: float = GRACE) -> None:
    """Reap a killed child if it ends within so many seconds; else leave it behind, to be reaped later."""
    try:
        child.wait(within)
    except subprocess.TimeoutExpired:
        leave(child)


def leave(child: subprocess.Popen[bytes]) -> None:
    """Leave a killed child behind without waiting for it."""
    with _lock:
        _left.append(child)


def reap() -> int:
    """Take note of those that have ended; never waits. How many are still stuck in the kernel."""
    with _lock:
        _left[:] = [child for child in _left if child.poll() is None]
        return len(_left)


def too_many() -> str | None:
    """Why no other child may be started now, for people; None: it may."""
    stuck = reap()
    return f"{stuck} killed processes are stuck in the kernel already; none is added" if stuck >= MOST_LEFT else None
