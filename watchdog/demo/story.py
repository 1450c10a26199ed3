"""What happened in a demo, told from what an operator can see. Pure: may not read a file or a clock; run.py gives it each look."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from watchdog.demo.stage import BATCH, GROUP
from watchdog.model.record import IncidentRecord
from watchdog.show.status import ProgramLine

WEDGED: Final = f"{GROUP}:wedged"
SLOW: Final = f"{GROUP}:slow"
HEALTHY: Final = f"{GROUP}:healthy"
IDLE: Final = f"{GROUP}:idle"
LEFT_ALONE: Final = (HEALTHY, IDLE, SLOW)
BATCHING: Final = (HEALTHY, SLOW, WEDGED)

KIND: Final = "queue-lost-item"
"""The lost batch of FACTS without torch: a signature of its own, since its frames are others."""

READY_BATCHES: Final = 3
"""Batches of each before anything goes wrong."""

SLOW_IMAGE: Final = 1.0
"""Seconds per image; a usual one of the sample workers takes 0.1."""

_BATCH = re.compile(BATCH)
_PER_IMAGE = re.compile(r"Batch \d+: ([\d.]+)s/image")


class WorkerLog(NamedTuple):
    """What a sample worker's own log says."""

    lives: tuple[int, ...]
    """Batches of each life: it says once in a life that it processes a job."""
    slowest: float
    """Seconds per image, of all batches."""
    last: str
    """The last line, without its time."""

    @property
    def batches(self) -> int:
        return sum(self.lives)

    @property
    def new(self) -> int:
        """Batches of its second life and later."""
        return sum(self.lives[1:])


def read_log(text: str) -> WorkerLog:
    """A whole log; a last line that is not ended yet counts when it is."""
    lines = text[: text.rfind("\n") + 1].splitlines()
    lives: list[int] = []
    for line in lines:
        if "] Processing job " in line:
            lives.append(0)
        elif lives and _BATCH.search(line):
            lives[-1] += 1
    slowest = max((float(found[1]) for line in lines if (found := _PER_IMAGE.search(line))), default=0.0)
    return WorkerLog(tuple(lives), slowest, lines[-1].partition("] ")[2] if lines else "")


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at the demo. Seconds count from its beginning."""

    at_s: float
    programs: Mapping[str, ProgramLine]
    """By group:name, from the daemon's snapshot; empty until there is one."""
    incidents: Sequence[IncidentRecord]
    logs: Mapping[str, WorkerLog]
    """By group:name."""
    taken: frozenset[str]
    """Programs that took their fault."""

    def incident(self, program: str) -> IncidentRecord | None:
        """The latest of this program."""
        mine = [record for record in self.incidents if record.program == program]
        return max(mine, key=lambda record: record.opened_at, default=None)


class Step(NamedTuple):
    """Something that happened, for people."""

    at_s: float
    name: str
    program: str
    """'' for the demo itself."""
    text: str


class Condition(NamedTuple):
    """One of those under which the demo succeeds."""

    name: str
    holds: bool
    found: str


@dataclass(slots=True)
class Story:
    """Grows with each look; a step is told once."""

    steps: list[Step] = field(default_factory=list)
    pids: dict[str, list[int]] = field(default_factory=dict)
    """By group:name, each pid that the snapshot showed, in order."""
    suspected: set[str] = field(default_factory=set)
    """Programs that were seen CONFIRMING."""
    last: Seen | None = None

    def look(self, seen: Seen) -> list[Step]:
        """The steps that are new."""
        self.last = seen
        for name, line in seen.programs.items():
            pids = self.pids.setdefault(name, [])
            if line["pid"] and line["pid"] not in pids:
                pids.append(line["pid"])
            if line["phase"] == "CONFIRMING":
                self.suspected.add(name)
        self.suspected |= {record.program for record in seen.incidents}
        new = list(self._new_steps(seen))
        self.steps += new
        return new

    def _new_steps(self, seen: Seen) -> Iterator[Step]:
        told = {(step.name, step.program) for step in self.steps}
        for name, program, words in _STEPS:
            if (name, program) not in told and (text := words(self, seen)):
                yield Step(seen.at_s, name, program, text)

    @property
    def ready(self) -> bool:
        """Everything works, and the daemon has seen it: now something may go wrong."""
        return any(step.name == "working" for step in self.steps)

    @property
    def over(self) -> bool:
        """Nothing more is to be waited for."""
        told = {(step.name, step.program) for step in self.steps}
        failed = any(step.name == "outcome" and step.text != "recovered" for step in self.steps)
        return failed or {("outcome", WEDGED), ("first new batch", WEDGED), ("slow batch came", SLOW)} <= told


def _working(story: Story, seen: Seen) -> str | None:
    counts = [_count(seen.programs.get(name)) for name in BATCHING]
    idle = seen.programs.get(IDLE)
    if idle and idle["pid"] and all(count is not None and count >= READY_BATCHES for count in counts):
        return "healthy, slow and wedged do their batches, idle waits for a job"
    return None


def _count(line: ProgramLine | None) -> int | None:
    progress = line["heartbeats"]["progress"] if line else None
    return progress["count"] if progress else None


def _lost(story: Story, seen: Seen) -> str | None:
    return "its loader child loses one batch in the QueueFeederThread" if WEDGED in seen.taken else None


def _slow(story: Story, seen: Seen) -> str | None:
    return "its loader child begins a batch that takes long" if SLOW in seen.taken else None


def _stalled(program: str) -> Callable[[Story, Seen], str | None]:
    def words(story: Story, seen: Seen) -> str | None:
        if program not in story.suspected:
            return None
        return f"no sign of work since batch {seen.logs[program].batches}; its stacks are dumped"

    return words


def _diagnosis(story: Story, seen: Seen) -> str | None:
    line, record = seen.programs.get(WEDGED), seen.incident(WEDGED)
    if line and line["verdict"]:
        return f"{line['verdict']}, {line['kind'] or 'no known kind'}"
    return f"{record.verdict}, {record.kind or 'no known kind'}" if record and record.verdict else None


def _bundle(story: Story, seen: Seen) -> str | None:
    record = seen.incident(WEDGED)
    return record.bundle if record else None


def _restart(story: Story, seen: Seen) -> str | None:
    pids = story.pids.get(WEDGED, [])
    return f"pid {pids[0]} was stopped, pid {pids[1]} runs" if len(pids) > 1 else None


def _first_new_batch(story: Story, seen: Seen) -> str | None:
    log = seen.logs[WEDGED]
    return log.last if log.new else None


def _outcome(story: Story, seen: Seen) -> str | None:
    record = seen.incident(WEDGED)
    return record.outcome if record else None


def _let_be(story: Story, seen: Seen) -> str | None:
    record = seen.incident(SLOW)
    if record is None or record.verdict in (None, "wedged"):
        return None
    return f"verdict {record.verdict}; nothing is done to it"


def _slow_came(story: Story, seen: Seen) -> str | None:
    slowest = seen.logs[SLOW].slowest
    return f"at {slowest:.2f}s/image; it works on" if slowest > SLOW_IMAGE else None


_STEPS: Final[tuple[tuple[str, str, Callable[[Story, Seen], str | None]], ...]] = (
    ("working", "", _working),
    ("lost batch", WEDGED, _lost),
    ("slow batch", SLOW, _slow),
    ("stall", WEDGED, _stalled(WEDGED)),
    ("stall", SLOW, _stalled(SLOW)),
    ("left alone", SLOW, _let_be),
    ("diagnosis", WEDGED, _diagnosis),
    ("bundle", WEDGED, _bundle),
    ("restart", WEDGED, _restart),
    ("first new batch", WEDGED, _first_new_batch),
    ("slow batch came", SLOW, _slow_came),
    ("outcome", WEDGED, _outcome),
)
