"""Runs collectors one after another, each with a deadline and a line of its own in the manifest.

May start threads; may not wait for one beyond its deadline. A collector that fails or hangs never ends the bundle. What
is read by a collector in this process cannot block in the kernel (see details.py); a thread that hangs all the same is a daemon
thread, and left behind.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeVar

CollectorStatus = Literal["ok", "failed", "timed out", "skipped"]

T = TypeVar("T")

NO_THREAD = (
    "no thread could be started: the limit of processes and threads (ulimit -u, pids.max) or of memory is reached"
)

LEAST = 0.05
"""Seconds: with less left there is no use in beginning."""


class Found(NamedTuple):
    """What one collector found, not redacted yet."""

    files: Mapping[str, object] = {}
    """By path in the bundle: text (str), or a value that becomes JSON (a list under a name in .jsonl: one row a line)."""
    notes: tuple[str, ...] = ()
    """What could not be had, and why."""
    status: Literal["ok", "failed", "skipped"] = "ok"


class Collector(NamedTuple):
    name: str
    within: float
    """Seconds it may take."""
    collect: Callable[[float], Found]
    """Is given the seconds it has. May raise OSError or ValueError, which mean: failed."""


@dataclass(slots=True)
class Outcome:
    """One collector's line in the manifest, and what it found."""

    name: str
    status: CollectorStatus
    why: str = ""
    seconds: float = 0.0
    bytes: int = 0
    """As written, that is, redacted."""
    files: Mapping[str, object] = field(default_factory=dict)


def skipped(why: str) -> Found:
    """Nothing was tried, and why."""
    return Found({}, (why,), "skipped")


def failed(why: str) -> Found:
    """It was tried, and did not work."""
    return Found({}, (why,), "failed")


def gather(
    collectors: Sequence[Collector], *, deadline: float, clock: Callable[[], float] = time.monotonic
) -> list[Outcome]:
    """Run each in order, until its own deadline or `deadline` (on `clock`), whichever is first."""
    outcomes = []
    for collector in collectors:
        left = min(collector.within, deadline - clock())
        if left < LEAST:
            outcomes.append(Outcome(collector.name, "skipped", "no time was left for it"))
            continue
        began = clock()
        outcome = under_deadline(collector, left)
        outcome.seconds = round(clock() - began, 3)
        outcomes.append(outcome)
    return outcomes


def under_deadline(collector: Collector, within: float) -> Outcome:
    """Run one collector for at most `within` seconds; whatever comes of it is an Outcome."""
    try:
        files, notes, status = in_time(f"collect {collector.name}", lambda: collector.collect(within), within)
    except TimeoutError as problem:
        return Outcome(collector.name, "timed out", _words(problem))
    except (OSError, ValueError) as problem:
        return Outcome(collector.name, "failed", _words(problem))
    return Outcome(collector.name, status, "; ".join(notes)[:2000], files=files)


def in_time(name: str, work: Callable[[], T], within: float) -> T:
    """What `work` returns, run in a daemon thread. Raises the OSError or ValueError that it raised, OSError when no thread could be
    started, and TimeoutError when it did not end within `within` seconds: its thread is left behind then, since a thread cannot be
    ended."""
    results: list[T] = []
    problems: list[OSError | ValueError] = []

    def run() -> None:
        try:
            results.append(work())
        except (OSError, ValueError) as problem:
            problems.append(problem)

    thread = threading.Thread(target=run, name=name, daemon=True)
    if not started(thread):
        raise OSError(NO_THREAD)
    thread.join(max(0.0, within))
    if results:
        return results[0]
    if problems:
        raise problems[0]
    if thread.is_alive():
        raise TimeoutError(f"no answer within {within:.3g} s; left behind")
    raise ValueError(f"{name} ended by a bug; the log has it")


def started(thread: threading.Thread) -> bool:
    """Start it; False: the kernel gives no more threads."""
    try:
        thread.start()
    except RuntimeError:  # "can't start new thread", and nothing else: it was not started before
        return False
    return True


def _words(problem: Exception) -> str:
    text = str(problem)
    return text if text else type(problem).__name__
