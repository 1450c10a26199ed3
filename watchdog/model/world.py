"""What the core knows: every program, and the host. May hold values only; `judge` alone makes new ones.

Clocks here are CLOCK_MONOTONIC seconds unless a name says wall. "Looked-at time" is time that looks covered; see judge/clocks.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple

from watchdog.model.evidence import Diagnosis, Evidence
from watchdog.model.observation import HostSample, Identity, MatchKey, Observation, ProcessInfo, ProcessSample, Reading
from watchdog.model.rule import Level


class Phase(StrEnum):
    WATCHING = "WATCHING"
    CONFIRMING = "CONFIRMING"
    COLLECTING = "COLLECTING"
    STOPPING = "STOPPING"
    STARTING = "STARTING"
    VERIFYING = "VERIFYING"
    COOLDOWN = "COOLDOWN"
    GIVEN_UP = "GIVEN_UP"


Outcome = Literal["recovered", "no_progress", "start_failed", "unkillable", "cleared", "vetoed", "reported"]


class Status(StrEnum):
    """What a detector says. Unknown never fires and never clears; an absent heartbeat leaves its detectors out."""

    HOLDS = "holds"
    CLEAR = "clear"
    UNKNOWN = "unknown"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Finding:
    """One detector's value, for people: what it is, what it is compared with, and how near it is."""

    rule: str
    group: str
    detector: str
    """As the rule writes it, for example `unchanged log for 270 s`."""
    status: Status
    value: float | None
    threshold: float | None
    ratio: float | None
    """value / threshold towards firing, 1.0 or more holds; None: no distance can be told."""
    reason: str


class Clock(NamedTuple):
    """One heartbeat: its value, and the looked-at time since it was seen to change."""

    value: Reading
    age: float
    changes: int
    """How often this daemon saw it change in this process."""
    unknown: float
    """Looked-at seconds that it has been unknown in a row."""


class Firing(NamedTuple):
    rule: str
    group: str


class Look(NamedTuple):
    """What looking taught about one main process. Nothing of it survives that process, or the daemon."""

    ident: Identity | None
    at: float
    observation: Observation
    log: Clock
    progress: Clock
    matches: Mapping[MatchKey, Clock]
    held: tuple[float | None, ...]
    """For each detector of Policy.held: seconds for which its level has held in every look that could read it; -1.0: clear in the
    last of those; None: it was never read."""
    cpu_quiet: float
    """Looked-at seconds for which the tree's CPU has been near zero; stands in for `quiet` where a program is blind."""
    looks: int
    """Of this process since supervisord last came back."""
    looked: float
    """Looked-at seconds of this process."""
    firing: tuple[Firing, ...]
    """Rule and group, one for each group that holds."""
    blind: bool


@dataclass(frozen=True, slots=True)
class Sealed:
    """Where an incident's evidence is. Paths are absolute."""

    bundle: str | None
    fallback: str | None = None
    """The essential part, in the runtime directory, where the archive could not be written."""
    error: str | None = None

    @property
    def exists(self) -> bool:
        return self.bundle is not None or self.fallback is not None


@dataclass(frozen=True, slots=True)
class Incident:
    """One episode with an id, while it is open."""

    id: str
    program: str
    rule: str
    group: str
    ident: Identity
    opened: float
    opened_wall: float
    tried: int = 0
    """How often stacks were asked for."""
    asked: tuple[Firing, ...] = ()
    """Groups that fired when it was last confirmed."""
    confirm_at: float = 0.0
    """While vetoed: when it is confirmed anew."""
    confirmed: float | None = None
    evidence: Evidence | None = None
    diagnosis: Diagnosis | None = None
    level: Level = Level.OBSERVE
    """The most it may do."""
    would: Level = Level.OBSERVE
    """The most it would do in mode restart."""
    sealed: Sealed | None = None
    filed: bool = False
    """A bundle of this incident was reported already."""
    waiting: str = ""
    """What COLLECTING waits for, for people."""
    unknown_since: float | None = None
    """The last look has been unknown since."""
    intent: Literal["none", "asked", "written"] = "none"
    intended: float | None = None
    """When the intent was handed to the journal."""
    transaction: Transaction | None = None
    """What was intended."""
    marks: tuple[tuple[str, float], ...] = ()
    """(step, monotonic time), in order; the first is the last heartbeat."""
    known: tuple[tuple[str, str | None], ...] = ()
    """Verdict, kind and bundle, where an earlier daemon, or an earlier confirmation, found them."""


Step = Literal["intent", "owed", "started", "closed"]


@dataclass(frozen=True, slots=True)
class Transaction:
    """A restart, as the journal keeps it: all that a fresh daemon needs to finish it without any configuration."""

    incident: str
    program: str
    rule: str
    group: str
    ident: Identity
    boot_id: str
    tree: tuple[Identity, ...]
    """Every process of the tree, recorded before the stop; the main process first."""
    step: Step
    opened_wall: float
    started_at: int
    """supervisord's own start time of the process to be stopped."""
    stop_within: float
    start_within: float
    verify_within: float
    cooldown: float
    orphans: Literal["end", "keep"] = "end"
    new_pid: int = 0
    tries: int = 0
    """Starts that failed."""


@dataclass(frozen=True, slots=True)
class Restarting:
    """The part of a transaction that only this daemon's life knows."""

    transaction: Transaction
    began: float
    """When the attempt began: the cooldown counts from here."""
    resumed: bool = False
    """Taken over from the journal: a stop is never sent."""
    stop: Literal["asked", "unsure", "accepted"] = "asked"
    """asked: the stop was handed on, and what became of it is not known yet. accepted: supervisord took it."""
    waited: float = 0.0
    """Seconds, with supervisord answering, since this step began."""
    polled: float | None = None
    """When supervisord last answered in this step."""
    answers: int = 0
    """Answers of supervisord since the result of the stop, or start, was known."""
    kill: bool = False
    """KILL was asked for."""
    kill_waited: float = 0.0
    reap: Literal["none", "asked", "done"] = "none"
    start: Literal["none", "asked", "done"] = "none"
    start_at: float = 0.0
    """An owed start is not sent before."""
    new_seen: bool = False
    """supervisord showed a new pid after our start."""
    verify_from: float = 0.0
    verified: float = 0.0
    """Looked-at seconds in VERIFYING, whichever process was there to be looked at."""
    verify_at: float = 0.0
    grew: int = 0
    """Looks in which the log grew while verifying."""
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """One supervisord process, `group:name`."""

    name: str
    phase: Phase = Phase.WATCHING
    since: float = 0.0
    since_wall: float = 0.0
    info: ProcessInfo | None = None
    """supervisord's last word on it; None: not known to it (yet, or any more)."""
    incident: Incident | None = None
    """The one that is being confirmed, collected or acted on."""
    vetoed: tuple[Incident, ...] = ()
    """Incidents whose rule still holds, to be confirmed anew; one for each rule."""
    reported: tuple[str, ...] = ()
    """Rules whose stall was reported as wedged in this process."""
    restarting: Restarting | None = None
    until: float = 0.0
    """COOLDOWN, GIVEN_UP: when it ends."""
    paused_until_wall: float | None = None
    paused_why: str = ""
    troubles: tuple[str, ...] = ()
    trace: tuple[str, ...] = ()
    """The latest decisions and refusals, oldest first."""
    refused: str = ""
    """The last refusal that was said, so that it is said once."""


class RestartEntry(NamedTuple):
    """One restart that counts in budgets."""

    incident: str
    program: str
    rule: str
    at: float
    """Monotonic seconds of this boot; negative for one before it."""


class ConfirmEnd(NamedTuple):
    """A program left CONFIRMING; `suspect` when it counts towards a common cause."""

    at: float
    program: str
    suspect: bool


@dataclass(frozen=True, slots=True)
class Host:
    boot_id: str = ""
    supervisor_up: bool | None = None
    """None: not asked yet."""
    supervisor_why: str = ""
    supervisor_since: float = 0.0
    sample: HostSample | None = None
    restarts: tuple[RestartEntry, ...] = ()
    confirm_ends: tuple[ConfirmEnd, ...] = ()
    common_cause_told: float | None = None
    """When a program was last held back for a suspected common cause; the operator is paged once for all of them."""
    terminating: bool = False


@dataclass(frozen=True, slots=True)
class World:
    host: Host = field(default_factory=Host)
    programs: Mapping[str, Program] = field(default_factory=dict)
    looks: Mapping[str, Look] = field(default_factory=dict)
    """By program. Beside `programs`, since this part changes at every tick and that one seldom."""


@dataclass(frozen=True, slots=True)
class Case:
    """All that the core knows of an incident when its evidence is collected."""

    incident: str
    program: str
    ident: Identity
    rule: str
    group: str
    opened_wall: float
    level: Level
    would: Level
    evidence: Evidence
    diagnosis: Diagnosis
    findings: tuple[Finding, ...]
    trace: tuple[str, ...]
    tree: tuple[ProcessSample, ...]
