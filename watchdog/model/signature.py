"""Signatures: the shape of one known way to be wedged, idle or busy. May hold values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Verdict = Literal["wedged", "idle", "busy", "unknown"]
Cause = Literal["inside", "outside"]


@dataclass(frozen=True, slots=True)
class FramePattern:
    """`function@file-suffix`. The functions are alternatives; the last dotted part of a frame's name counts."""

    functions: tuple[str, ...]
    file: str
    """A suffix of the frame's path, on a path boundary. `multiprocessing` also stands for `multiprocess` and `billiard`."""

    def __str__(self) -> str:
        return f"{'|'.join(self.functions)}@{self.file}"


@dataclass(frozen=True, slots=True)
class ThreadPattern:
    """One thread of a process, by its frames."""

    thread: str = "main"
    """main (tid == pid) | any | a shell pattern on the thread's name."""
    path: tuple[FramePattern, ...] = ()
    """In this order, innermost first, gaps allowed."""
    leaf: tuple[FramePattern, ...] = ()
    """One of them is the innermost frame."""
    direct: bool = False
    """The frames of `path` are neighbours."""
    without: tuple[FramePattern, ...] = ()
    """None of these is anywhere in the stack."""
    wchan: tuple[str, ...] = ()
    """Shell patterns; one of them matches the thread's wait channel."""
    state: str = ""
    """Letters; the thread's state is one of them. '' is any."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Facts beside the stacks. A need whose fact could not be read is not met."""

    working: tuple[bool | None, ...] | None = None
    """Allowed values of evidence.working."""
    quiet: float | None = None
    """At least so many seconds since the last heartbeat."""
    cpu_below: float | None = None
    """Cores of the tree."""
    cpu_above: float | None = None
    same_stacks: bool | None = None
    """The matched threads did, or did not, move between dumps."""

    def count(self) -> int:
        """How many facts are asked for: part of how specific a signature is."""
        return sum(v is not None for v in (self.working, self.quiet, self.cpu_below, self.cpu_above, self.same_stacks))


@dataclass(frozen=True, slots=True)
class Advice:
    now: str = ""
    for_good: str = ""


@dataclass(frozen=True, slots=True)
class Signature:
    kind: str
    verdict: Verdict
    summary: str
    main: tuple[ThreadPattern, ...]
    """Threads of the process that matches, tried from the root down; it and its ancestors are not "others"."""
    cause: Cause = "outside"
    """Would waiting, or another host, heal it? outside: yes."""
    advice: Advice = field(default_factory=Advice)
    sources: tuple[str, ...] = ()
    needs: Needs = field(default_factory=Needs)
    every: tuple[ThreadPattern, ...] = ()
    """Every other Python process but the known helpers matches; at least one does; one that could not be read fails it."""
    any: tuple[ThreadPattern, ...] = ()
    """Some other Python process matches."""
    no: tuple[ThreadPattern, ...] = ()
    """No other Python process matches; one that could not be read fails it."""
    main_no: tuple[ThreadPattern, ...] = ()
    """No thread of the process that matches `main` matches one of these."""
    log: tuple[str, ...] = ()
    """Regular expressions on log lines that raise certainty; never required."""
    source: str = "built-in"
    """The file it was read from."""
