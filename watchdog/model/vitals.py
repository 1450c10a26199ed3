"""What the daemon knows of itself, for `status` and metrics. May hold values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Tally(NamedTuple):
    """Closed incidents of one program and rule with one outcome, since the journal began."""

    program: str
    rule: str
    outcome: str


class Counts(NamedTuple):
    incidents: int
    restarts: int
    """How many of them stopped the program."""


@dataclass(frozen=True, slots=True)
class Vitals:
    """Wall-clock seconds since the epoch, seconds, bytes; None is "not known (yet)"."""

    pid: int
    started_wall: float
    ticks: int = 0
    last_tick_wall: float | None = None
    tick_seconds: float | None = None
    supervisor_url: str | None = None
    rpc_seconds: float | None = None
    capture_usable: bool | None = None
    capture_why: str = ""
    archive_directory: str = ""
    archive_bytes: int | None = None
    archive_writable: bool | None = None
    archive_why: str = ""
    metrics_listen: str | None = None
    """host:port as bound; None: off."""
    totals: Mapping[Tally, Counts] = field(default_factory=dict)
