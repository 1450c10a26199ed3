"""Whether a demo showed what it promises, and its facts for machines. Pure, but that it looks whether the bundle is there."""

from __future__ import annotations

from pathlib import Path
from typing import Final, TypedDict

from watchdog.demo.story import IDLE, KIND, LEFT_ALONE, SLOW, WEDGED, Condition, Seen, Step, Story
from watchdog.model.record import IncidentRecord
from watchdog.show.report import IncidentLine, incident_line

UNSEEN: Final = "was not seen"


class ProgramFacts(TypedDict):
    pids: list[int]
    """Each pid that the daemon's snapshot showed, in order."""
    batches: int
    lives: int
    """How often its own log began a job; 0 for the idle one."""
    suspected: bool


class StepFacts(TypedDict):
    at_s: float
    step: str
    program: str | None
    text: str


class ConditionFacts(TypedDict):
    condition: str
    holds: bool
    found: str


class Facts(TypedDict):
    """What `watchdog demo --json` prints."""

    ok: bool
    seconds: float
    """From the beginning until the last process was gone."""
    problem: str | None
    """Why it ended early; None: it did not."""
    interrupted: bool
    """By a signal, such as Ctrl-C."""
    conditions: list[ConditionFacts]
    programs: dict[str, ProgramFacts]
    steps: list[StepFacts]
    incidents: list[IncidentLine]
    bundle: str | None
    """None: there is none, or it was not kept."""
    kept: str | None
    """The folder with logs, configuration, state and incidents; None: removed."""


def conditions(story: Story) -> list[Condition]:
    """Those of which every one has to hold for exit code 0."""
    record = story.last.incident(WEDGED) if story.last else None
    return [
        _diagnosed(record),
        _sealed_first(record),
        _restarted_once(story),
        _works_again(story, record),
        *(_left_alone(story, name) for name in LEFT_ALONE),
        _suspected(story),
    ]


def _diagnosed(record: IncidentRecord | None) -> Condition:
    found = f"{record.verdict}, {record.kind}" if record else "no incident"
    return Condition(f"{WEDGED} is diagnosed wedged, {KIND}", found == f"wedged, {KIND}", found)


def _sealed_first(record: IncidentRecord | None) -> Condition:
    name = "its evidence was sealed before it was stopped"
    if record is None or record.bundle is None:
        return Condition(name, False, "no bundle")
    if not Path(record.bundle).is_file():
        return Condition(name, False, f"{record.bundle} is not there")
    sealed, stopped = record.seconds.get("sealed"), record.seconds.get("stop")
    if sealed is None or stopped is None:
        return Condition(name, False, f"the incident does not tell: {record.seconds}")
    return Condition(name, sealed <= stopped, f"sealed after {sealed:.1f} s, stopped after {stopped:.1f} s")


def _restarted_once(story: Story) -> Condition:
    """By the snapshot's pids, by the journal, and by the worker's own log."""
    seen = story.last
    pids = story.pids.get(WEDGED, [])
    restarts = sum(i.action == "restart" for i in seen.incidents if i.program == WEDGED) if seen else 0
    lives = len(seen.logs[WEDGED].lives) if seen else 0
    found = f"{len(pids)} pids, {restarts} restarts in the journal, {lives} lives in its log"
    return Condition(f"{WEDGED} was restarted exactly once", (len(pids), restarts, lives) == (2, 1, 2), found)


def _works_again(story: Story, record: IncidentRecord | None) -> Condition:
    new = story.last.logs[WEDGED].new if story.last else 0
    outcome = record.outcome if record else None
    holds = new > 0 and outcome == "recovered"
    return Condition(f"{WEDGED} made new progress", holds, f"{new} new batches, outcome {outcome}")


def _left_alone(story: Story, name: str) -> Condition:
    pids = story.pids.get(name, [])
    lives = len(story.last.logs[name].lives) if story.last else 0
    holds = len(pids) == 1 and (name == IDLE or lives == 1)
    return Condition(f"{name} kept its pid", holds, " then ".join(map(str, pids)) or UNSEEN)


def _suspected(story: Story) -> Condition:
    """Else the demo would not have shown that a long batch is told from a wedged one."""
    holds = SLOW in story.suspected
    return Condition(
        f"{SLOW} was silent long enough to be suspected", holds, "suspected" if holds else "never suspected"
    )


def gather(story: Story, seconds: float, problem: str | None, interrupted: bool, folder: Path) -> Facts:
    """All facts of a demo that has ended."""
    held = conditions(story)
    record = story.last.incident(WEDGED) if story.last else None
    return {
        "ok": problem is None and all(condition.holds for condition in held),
        "seconds": round(seconds, 1),
        "problem": problem,
        "interrupted": interrupted,
        "conditions": [{"condition": c.name, "holds": c.holds, "found": c.found} for c in held],
        "programs": {name: _program(story, story.last, name) for name in (WEDGED, *LEFT_ALONE)},
        "steps": [_step(step) for step in story.steps],
        "incidents": [incident_line(record) for record in story.last.incidents] if story.last else [],
        "bundle": record.bundle if record else None,
        "kept": str(folder),
    }


def without_folder(facts: Facts) -> Facts:
    """The same, once the folder was removed: a path that leads nowhere is no fact."""
    return {**facts, "bundle": None, "kept": None}


def _program(story: Story, seen: Seen | None, name: str) -> ProgramFacts:
    log = seen.logs[name] if seen else None
    return {
        "pids": story.pids.get(name, []),
        "batches": log.batches if log else 0,
        "lives": len(log.lives) if log else 0,
        "suspected": name in story.suspected,
    }


def _step(step: Step) -> StepFacts:
    return {"at_s": round(step.at_s, 1), "step": step.name, "program": step.program or None, "text": step.text}
