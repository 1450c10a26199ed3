"""What happened. May hold values only. Every event carries both clocks: `at` (CLOCK_MONOTONIC) and `wall` (time.time())."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from watchdog.model.evidence import Dump, LogLines
from watchdog.model.observation import HostSample, Identity, Observation, ProcessInfo
from watchdog.model.world import Sealed, Step


@dataclass(frozen=True, slots=True)
class Observed:
    at: float
    wall: float
    observation: Observation


@dataclass(frozen=True, slots=True)
class Unobserved:
    """The look at this program did not come back by the tick's deadline, or could not be made."""

    at: float
    wall: float
    program: str
    why: str


@dataclass(frozen=True, slots=True)
class HostObserved:
    at: float
    wall: float
    sample: HostSample


@dataclass(frozen=True, slots=True)
class SupervisorAnswered:
    """Every program that supervisord has, by group:name."""

    at: float
    wall: float
    processes: Mapping[str, ProcessInfo]


@dataclass(frozen=True, slots=True)
class SupervisorSilent:
    at: float
    wall: float
    why: str


@dataclass(frozen=True, slots=True)
class StacksDumped:
    at: float
    wall: float
    program: str
    incident: str
    dumps: tuple[Dump, ...]
    log: LogLines
    troubles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BundleSealed:
    at: float
    wall: float
    program: str
    incident: str
    sealed: Sealed


@dataclass(frozen=True, slots=True)
class Persisted:
    """The records of this incident's step are on disk, or (`error`) could not be written."""

    at: float
    wall: float
    program: str
    incident: str
    step: Step
    error: str | None = None


StopResult = Literal["sent", "unsure", "changed", "not_running", "gone", "refused", "unreachable"]
"""sent: supervisord took it. unsure: it may have. changed: another process now, nothing was sent. gone: no such program.
refused: any other fault, nothing will happen. unreachable: it could not be sent."""


@dataclass(frozen=True, slots=True)
class StopSent:
    at: float
    wall: float
    program: str
    incident: str
    result: StopResult
    detail: str = ""
    tree: tuple[Identity, ...] = ()
    """The tree as it was right before: a child that was forked since the last look is to be ended, too."""


@dataclass(frozen=True, slots=True)
class KillSent:
    at: float
    wall: float
    program: str
    incident: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Reaped:
    """The recorded tree's survivors were looked for: those ended, and those that could not be."""

    at: float
    wall: float
    program: str
    incident: str
    ended: tuple[Identity, ...]
    left: tuple[Identity, ...]
    detail: str = ""


@dataclass(frozen=True, slots=True)
class StartSent:
    at: float
    wall: float
    program: str
    incident: str
    gone: bool = False
    """supervisord has no such program any more."""
    error: str | None = None


Verb = Literal["collect", "pause", "resume"]
"""What an operator may ask of the daemon for one program."""

LONGEST_PAUSE: Final = 7 * 86400.0
"""Seconds: a pause that nobody remembers is a program that nobody watches. It can be renewed."""


@dataclass(frozen=True, slots=True)
class Requested:
    """An operator asked, through a request file."""

    at: float
    wall: float
    program: str
    verb: Verb
    for_: float = 0.0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The ruleset that `decide` is given from now on is a new one."""

    at: float
    wall: float


@dataclass(frozen=True, slots=True)
class Terminating:
    at: float
    wall: float


Event = (
    Observed
    | Unobserved
    | HostObserved
    | SupervisorAnswered
    | SupervisorSilent
    | StacksDumped
    | BundleSealed
    | Persisted
    | StopSent
    | KillSent
    | Reaped
    | StartSent
    | Requested
    | Reloaded
    | Terminating
)
