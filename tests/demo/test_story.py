from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from watchdog.demo.facts import conditions, gather, without_folder
from watchdog.demo.screen import ending
from watchdog.demo.story import HEALTHY, IDLE, KIND, SLOW, WEDGED, Condition, Seen, Story, WorkerLog, read_log
from watchdog.model.record import IncidentRecord
from watchdog.show.status import ProgramLine

LOG = """\
2026-11-30 03:05:50 [info     ] No jobs found, sleeping for 0.4 seconds
2026-11-30 03:05:50 [info     ] Processing job 1 with pipeline 1
2026-11-30 03:05:51 [info     ] Batch 1: 0.10s/image, Classification time: 0.40s
2026-11-30 03:05:55 [info     ] Batch 2: 1.30s/image, Classification time: 0.40s
"""

PIDS = {HEALTHY: 11, IDLE: 12, SLOW: 13, WEDGED: 14}


def program(
    name: str, phase: str = "WATCHING", pid: int | None = None, count: int | None = 5, **more: object
) -> ProgramLine:
    progress = None if name == IDLE else {"age_s": 0.1, "count": count, "total": None}
    line = {"program": name, "pid": pid or PIDS[name], "phase": phase, "verdict": None, "kind": None}
    return cast(ProgramLine, {**line, "heartbeats": {"log": {"age_s": 0.1}, "progress": progress}, **more})


def log(*lives: int, slowest: float = 0.1) -> WorkerLog:
    return WorkerLog(lives, slowest, "Batch 3: 0.10s/image")


def seen(at_s: float, **changes: Any) -> Seen:
    """Everything works."""
    programs = {name: program(name) for name in PIDS}
    logs = {HEALTHY: log(7), IDLE: log(), SLOW: log(8), WEDGED: log(9)}
    usual = Seen(at_s=at_s, programs=programs, incidents=(), logs=logs, taken=frozenset())
    return replace(usual, **changes)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    path = tmp_path / "incident.tar.gz"
    path.touch()
    return path


SUSPECTED = IncidentRecord("20261130T030556Z-demo-slow-13", SLOW, 99.0, "stall", "everything is silent", verdict="busy")


def restarted(sealed: Path, **changes: object) -> IncidentRecord:
    record = IncidentRecord(
        id="20261130T030557Z-demo-wedged-14",
        program=WEDGED,
        opened_at=100.0,
        rule="stall",
        group="everything is silent",
        verdict="wedged",
        kind=KIND,
        action="restart",
        outcome="recovered",
        seconds={"detected": 6.1, "sealed": 9.5, "stop": 10.2, "recovered": 13.0},
        bundle=str(sealed),
    )
    return replace(record, **cast(Any, changes))


def told(sealed: Path, **changes: object) -> Story:
    """A demo in which everything went as it should, but for the changes to the incident."""
    story = Story()
    story.look(seen(3.0))
    story.look(seen(4.0, taken=frozenset({WEDGED, SLOW})))
    story.look(seen(11.0, programs={n: program(n, "WATCHING" if n in (HEALTHY, IDLE) else "CONFIRMING") for n in PIDS}))
    after = {**{n: program(n) for n in PIDS}, WEDGED: program(WEDGED, pid=24)}
    logs = {HEALTHY: log(30), IDLE: log(), SLOW: log(25, slowest=3.2), WEDGED: log(9, 3)}
    story.look(seen(24.0, programs=after, logs=logs, incidents=(restarted(sealed, **changes), SUSPECTED)))
    return story


def failed(held: list[Condition]) -> list[str]:
    return [condition.name for condition in held if not condition.holds]


def test_read_log_counts_the_batches_of_each_life() -> None:
    assert read_log("") == WorkerLog((), 0.0, "")
    assert read_log(LOG) == WorkerLog((2,), 1.3, "Batch 2: 1.30s/image, Classification time: 0.40s")
    twice = read_log(LOG + LOG)
    assert (twice.lives, twice.batches, twice.new) == ((2, 2), 4, 2)


def test_read_log_leaves_out_a_line_that_is_still_written() -> None:
    torn = LOG + "2026-11-30 03:05:56 [info     ] Batch 3: 0.1"
    assert read_log(torn) == read_log(LOG)


def test_nothing_goes_wrong_before_the_daemon_has_seen_everything_work() -> None:
    story = Story()
    story.look(seen(1.0, programs={}))
    story.look(seen(2.0, programs={n: program(n, count=2 if n == SLOW else 5) for n in PIDS}))
    assert not story.ready
    assert [step.name for step in story.look(seen(3.0))] == ["working"]
    assert story.ready


def test_every_step_is_told_once_in_order(bundle: Path) -> None:
    story = told(bundle)
    assert [(step.at_s, step.name, step.program) for step in story.steps] == [
        (3.0, "working", ""),
        (4.0, "lost batch", WEDGED),
        (4.0, "slow batch", SLOW),
        (11.0, "stall", WEDGED),
        (11.0, "stall", SLOW),
        (24.0, "left alone", SLOW),
        (24.0, "diagnosis", WEDGED),
        (24.0, "bundle", WEDGED),
        (24.0, "restart", WEDGED),
        (24.0, "first new batch", WEDGED),
        (24.0, "slow batch came", SLOW),
        (24.0, "outcome", WEDGED),
    ]
    assert story.over
    assert story.last is not None
    assert story.look(story.last) == []


def test_it_is_over_at_once_when_the_restart_failed(bundle: Path) -> None:
    story = Story()
    story.look(seen(3.0))
    assert not story.over
    story.look(seen(20.0, incidents=(restarted(bundle, outcome="no_progress"),)))
    assert story.over


def test_all_conditions_hold_when_all_went_well(bundle: Path) -> None:
    story = told(bundle)
    assert failed(conditions(story)) == []
    facts = gather(story, 26.04, None, False, Path("/somewhere"))
    assert (facts["ok"], facts["seconds"], facts["bundle"], facts["kept"]) == (True, 26.0, str(bundle), "/somewhere")
    assert facts["programs"][WEDGED] == {"pids": [14, 24], "batches": 12, "lives": 2, "suspected": True}
    assert facts["steps"][0]["program"] is None
    assert facts["incidents"][0]["outcome"] == "recovered"
    assert f"diagnose {bundle}" in ending(facts)
    bare = without_folder(facts)
    assert (bare["bundle"], bare["kept"]) == (None, None)
    assert "--keep DIR" in ending(bare)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"kind": "dataloader-in-fetch"}, f"{WEDGED} is diagnosed wedged, {KIND}"),
        ({"verdict": "unknown", "kind": None}, f"{WEDGED} is diagnosed wedged, {KIND}"),
        ({"bundle": None}, "its evidence was sealed before it was stopped"),
        ({"bundle": "/nowhere/incident.tar.gz"}, "its evidence was sealed before it was stopped"),
        ({"seconds": {"sealed": 9.5, "stop": 9.4}}, "its evidence was sealed before it was stopped"),
        ({"seconds": {"stop": 9.4}}, "its evidence was sealed before it was stopped"),
        ({"action": "report"}, f"{WEDGED} was restarted exactly once"),
        ({"outcome": None}, f"{WEDGED} made new progress"),
    ],
)
def test_each_condition_can_fail_by_the_incident(bundle: Path, changes: dict[str, object], name: str) -> None:
    assert failed(conditions(told(bundle, **changes))) == [name]


@pytest.mark.parametrize("name", [HEALTHY, IDLE, SLOW])
def test_a_new_pid_of_another_program_fails(bundle: Path, name: str) -> None:
    story = told(bundle)
    assert story.last is not None
    programs = {**story.last.programs, name: program(name, pid=99)}
    story.look(replace(story.last, programs=programs))
    assert failed(conditions(story)) == [f"{name} kept its pid"]


def test_a_second_life_between_two_snapshots_fails(bundle: Path) -> None:
    """The pid may be seen only at the beginning and at the end; the worker's own log tells the lives between."""
    story = told(bundle)
    assert story.last is not None
    story.look(replace(story.last, logs={**story.last.logs, WEDGED: log(9, 1, 3), HEALTHY: log(9, 3)}))
    assert failed(conditions(story)) == [f"{WEDGED} was restarted exactly once", f"{HEALTHY} kept its pid"]


def test_a_slow_worker_that_was_never_suspected_shows_nothing(bundle: Path) -> None:
    story = told(bundle)
    story.suspected.discard(SLOW)
    assert failed(conditions(story)) == [f"{SLOW} was silent long enough to be suspected"]


def test_a_demo_that_ended_early_failed(bundle: Path) -> None:
    facts = gather(told(bundle), 12.0, "interrupted by SIGTERM", True, Path("/somewhere"))
    assert not facts["ok"]
    assert "interrupted by SIGTERM" in ending(facts)
    assert "FAILED" not in ending(facts)
    empty = gather(Story(), 0.4, "watchdog run ended by itself", False, Path("/somewhere"))
    assert not any(condition["holds"] for condition in empty["conditions"])
    assert "watchdog run ended by itself" in ending(empty)
    assert ending(empty).count("FAILED") == len(empty["conditions"])
