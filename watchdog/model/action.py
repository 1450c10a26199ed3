"""What is to be done. May hold values only. Each is performed in the background, with a deadline, and answered by an event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from watchdog.model.observation import Identity
from watchdog.model.record import Record
from watchdog.model.world import Case, Step


@dataclass(frozen=True, slots=True)
class DumpStacks:
    """Dump every process of the tree `dumps` times, `every` seconds apart. Answer: StacksDumped."""

    program: str
    incident: str
    ident: Identity
    dumps: int
    every: float
    within: float
    """Seconds for each dump of the whole tree."""


@dataclass(frozen=True, slots=True)
class CollectEvidence:
    """Gather, redact and seal. Answer: BundleSealed."""

    program: str
    incident: str
    case: Case
    within: float


@dataclass(frozen=True, slots=True)
class Persist:
    """Write these records, in this order, and fsync. Answer: Persisted, when `step` is given."""

    program: str
    incident: str
    records: tuple[Record, ...]
    step: Step | None = None


@dataclass(frozen=True, slots=True)
class StopProgram:
    """Compare pid and start with getProcessInfo, then stopProcess(wait=False). Answer: StopSent."""

    program: str
    incident: str
    ident: Identity
    started_at: int


@dataclass(frozen=True, slots=True)
class KillProgram:
    """signalProcess KILL, of this pid only. Answer: KillSent."""

    program: str
    incident: str
    ident: Identity


@dataclass(frozen=True, slots=True)
class ReapTree:
    """End survivors of the recorded tree: TERM, KILL after 5 s. Answer: Reaped."""

    program: str
    incident: str
    tree: tuple[Identity, ...]
    boot_id: str
    orphans: Literal["end", "keep"]


@dataclass(frozen=True, slots=True)
class StartProgram:
    """startProcess(wait=False). Answer: StartSent."""

    program: str
    incident: str


@dataclass(frozen=True, slots=True)
class AskSupervisor:
    """Ask for every program's state now. Answer: SupervisorAnswered or SupervisorSilent."""


@dataclass(frozen=True, slots=True)
class Say:
    """A line for the log; `notice`: page the operator, too."""

    level: Literal["debug", "info", "warning", "error"]
    program: str | None
    incident: str | None
    message: str
    fields: tuple[tuple[str, str | int | float | None], ...] = ()
    notice: bool = False


Action = (
    DumpStacks | CollectEvidence | Persist | StopProgram | KillProgram | ReapTree | StartProgram | AskSupervisor | Say
)
