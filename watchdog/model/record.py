"""What the journal keeps. May hold values only; journal.py gives them their form on disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from watchdog.model.world import Outcome, Transaction


@dataclass(frozen=True, slots=True)
class IncidentRecord:
    """One incident as `watchdog incidents` lists it. A later record with the same id replaces an earlier one."""

    id: str
    program: str
    opened_at: float
    """Wall-clock seconds since the epoch."""
    rule: str
    group: str
    verdict: str | None = None
    kind: str | None = None
    action: Literal["none", "report", "restart"] = "none"
    outcome: Outcome | None = None
    """None: still open."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds from the last progress to each step."""
    bundle: str | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RestartRecord:
    """One attempt that counts in budgets; `void` takes it back (nothing was stopped after all)."""

    incident: str
    program: str
    rule: str
    wall: float
    mono: float
    boot_id: str
    void: bool = False


@dataclass(frozen=True, slots=True)
class PauseRecord:
    """`until_wall` None: resumed."""

    program: str
    until_wall: float | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class GivenUpRecord:
    """`until_wall` None: over."""

    program: str
    until_wall: float | None


@dataclass(frozen=True, slots=True)
class CooldownRecord:
    program: str
    until_wall: float


Record = IncidentRecord | RestartRecord | PauseRecord | GivenUpRecord | CooldownRecord | Transaction
