"""Rules, and how they apply to programs: what `decide` is given. May hold values only; may not read files (config.py does).

All durations are seconds, all sizes bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from fnmatch import fnmatchcase
from typing import Literal

from watchdog.model.observation import GaugeName, Heartbeat, LogStream, MatchKey
from watchdog.model.signature import Signature


class Level(IntEnum):
    """How far something may go; the least of several counts."""

    OBSERVE = 0
    """Gauges only."""
    REPORT = 1
    """Dumps, bundle, and what it would do."""
    RESTART = 2

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The heartbeat did not change for so long."""

    heartbeat: Heartbeat
    for_: float


@dataclass(frozen=True, slots=True)
class Above:
    """The gauge is above the value, in every look of the last `for_` seconds."""

    gauge: GaugeName
    value: float
    for_: float = 0.0


@dataclass(frozen=True, slots=True)
class Below:
    """The gauge is below the value, in every look of the last `for_` seconds."""

    gauge: GaugeName
    value: float
    for_: float = 0.0


@dataclass(frozen=True, slots=True)
class CpuBelow:
    """The tree used less than `cores`, in every look of the last `for_` seconds."""

    cores: float
    for_: float = 0.0


@dataclass(frozen=True, slots=True)
class CpuAbove:
    """The tree used more than `cores`, in every look of the last `for_` seconds."""

    cores: float
    for_: float = 0.0


@dataclass(frozen=True, slots=True)
class Working:
    """The program has, or has not, said that it has work to do."""

    working: bool = True


@dataclass(frozen=True, slots=True)
class Matches:
    """A matching line was appended in the last `within` seconds of looked-at time."""

    log: LogStream
    pattern: str
    within: float

    @property
    def key(self) -> MatchKey:
        return MatchKey(self.log, self.pattern)


@dataclass(frozen=True, slots=True)
class InState:
    """Some process of the tree is in one of these states (letters of /proc/PID/stat), in every look of the last `for_` s."""

    state: str
    for_: float = 0.0


Detector = Unchanged | Above | Below | CpuBelow | CpuAbove | Working | Matches | InState

Held = Above | Below | CpuBelow | CpuAbove | InState
"""Detectors about a level, which must hold for a time."""

HELD = (Above, Below, CpuBelow, CpuAbove, InState)


@dataclass(frozen=True, slots=True)
class Group:
    """A named set of detectors that must all hold."""

    name: str
    all: tuple[Detector, ...]


@dataclass(frozen=True, slots=True)
class Confirm:
    """How a firing rule is confirmed by stack dumps, and the most it may do where they do not settle it."""

    dumps: int = 2
    every: float = 15.0
    unknown: Level = Level.REPORT
    unreadable: Level = Level.REPORT


@dataclass(frozen=True, slots=True)
class Stop:
    within: float = 20.0
    orphans: Literal["end", "keep"] = "end"


@dataclass(frozen=True, slots=True)
class RuleLimits:
    """A rule's own budget for one program."""

    cooldown: float = 330.0
    restarts: int = 3
    per: float = 3600.0


@dataclass(frozen=True, slots=True)
class Rule:
    """Any group fires it; in a group every detector must hold."""

    name: str
    summary: str
    when: tuple[Group, ...]
    confirm: Confirm | None = field(default_factory=Confirm)
    """None: `confirm: none`, for rules about gauges."""
    collect_within: float = 30.0
    stop: Stop = field(default_factory=Stop)
    start_within: float = 15.0
    then: Level = Level.RESTART
    verify_within: float = 150.0
    limits: RuleLimits = field(default_factory=RuleLimits)
    source: str = "built-in"
    """The file it was read from."""


@dataclass(frozen=True, slots=True)
class Progress:
    log: str | None = None
    """A regular expression on log lines; named groups `count` and `total` have meaning."""
    file: str | None = None
    """A path with {program}, {group}, {process}, {pid}."""


@dataclass(frozen=True, slots=True)
class Idle:
    line: str
    """A regular expression: while it matches the last record line, silence is no stall."""
    for_: float = 1800.0


@dataclass(frozen=True, slots=True)
class Policy:
    """How the programs that match are watched."""

    match: str
    """A shell pattern on group:name."""
    mode: Level = Level.REPORT
    rules: tuple[Rule, ...] = ()
    logs: tuple[str, ...] = ()
    """Instead of the paths that supervisord reports."""
    progress: Progress | None = None
    idle: Idle | None = None

    held: tuple[Held, ...] = field(init=False, repr=False, compare=False)
    """Every detector about a level, each once: the order of Look.held."""

    def __post_init__(self) -> None:
        levels = {d: None for d in self._detectors() if isinstance(d, HELD)}
        object.__setattr__(self, "held", tuple(levels))

    def _detectors(self) -> Iterator[Detector]:
        return (d for r in self.rules for g in r.when for d in g.all)

    def patterns(self) -> tuple[MatchKey, ...]:
        """Every log pattern that the rules of this policy want counted, each once."""
        return tuple({d.key: None for d in self._detectors() if isinstance(d, Matches)})


@dataclass(frozen=True, slots=True)
class CommonCause:
    share: float = 0.5
    within: float = 60.0


@dataclass(frozen=True, slots=True)
class HostLimits:
    """The host's budget, over all programs and rules."""

    restarts_at_once: int = 1
    restarts: int = 6
    per: float = 3600.0
    retry: float = 21600.0
    common_cause: CommonCause = field(default_factory=CommonCause)


@dataclass(frozen=True, slots=True)
class Ruleset:
    """Everything that `decide` knows from configuration."""

    interval: float = 5.0
    policies: tuple[Policy, ...] = ()
    limits: HostLimits = field(default_factory=HostLimits)
    signatures: tuple[Signature, ...] = ()
    _found: dict[str, Policy | None] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What policy_for answered: it is asked for every program at every tick."""

    def policy_for(self, program: str) -> Policy | None:
        """The first policy that matches `program` (group:name); None: unwatched, never touched."""
        try:
            return self._found[program]
        except KeyError:
            found = next((p for p in self.policies if fnmatchcase(program, p.match)), None)
            return self._found.setdefault(program, found)
