"""The one form in which a program's inside is judged: evidence.json. May hold values only.

`None` is "could not be read", everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from watchdog.model.signature import Advice, Cause, Verdict


@dataclass(frozen=True, slots=True)
class Frame:
    function: str
    """As py-spy prints it: `Queue.get` from 0.4.3 on, `get` before."""
    file: str
    line: int | None = None

    @property
    def name(self) -> str:
        """The last dotted part, which is the same in both spellings."""
        return self.function.rpartition(".")[2]

    def __str__(self) -> str:
        return (
            f"{self.function} ({self.file}:{self.line})" if self.line is not None else f"{self.function} ({self.file})"
        )


@dataclass(frozen=True, slots=True)
class ThreadStack:
    tid: int | None
    """The kernel's thread id; the main thread's equals the pid."""
    name: str | None
    frames: tuple[Frame, ...]
    """Innermost first. Zero frames is data."""
    state: str | None = None
    wchan: str | None = None
    active: bool | None = None
    gil: bool | None = None


@dataclass(frozen=True, slots=True)
class ProcessStacks:
    pid: int
    ppid: int | None
    comm: str | None
    threads: tuple[ThreadStack, ...] = ()
    state: str | None = None
    role: Literal["main", "child"] | None = None
    """main: the pid that supervisord reports."""
    cpu_cores: float | None = None
    error: str | None = None
    """Why the stacks could not be read; None when they were."""
    python: bool | None = None
    """False: told by its executable to be no Python process; None: not known."""


@dataclass(frozen=True, slots=True)
class Dump:
    at_s: float
    """Seconds since the first dump."""
    processes: tuple[ProcessStacks, ...]


@dataclass(frozen=True, slots=True)
class LogLines:
    stdout: tuple[str, ...] = ()
    stderr: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """The whole input of `diagnose`."""

    program: str | None
    dumps: tuple[Dump, ...]
    quiet_s: float | None = None
    """Since progress changed; where progress is absent, since the log did."""
    working: bool | None = None
    cpu_cores: float | None = None
    """Of the tree, over the last looks."""
    log: LogLines = field(default_factory=LogLines)
    version: int = 1


@dataclass(frozen=True, slots=True)
class Matched:
    signature: str
    pid: int
    thread: str | None
    frames: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    verdict: Verdict
    kind: str | None
    cause: Cause | None
    summary: str
    advice: Advice
    matched: tuple[Matched, ...] = ()
    why: tuple[str, ...] = ()
    """How the verdict was reached, one sentence each."""
    moved: bool | None = None
    """A thread that does the work moved between dumps; None: not comparable (one dump, or unreadable)."""
    unreadable: bool = False
    """No stack of the program could be read."""
