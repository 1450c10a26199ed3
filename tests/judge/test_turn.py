"""The table of transitions, and what a turn refuses."""

from __future__ import annotations

import pytest

from tests.judge.build import BOOT, Story
from tests.judge.laws import TRANSITIONS as TABLE
from watchdog.judge.turn import OPERATOR, TRACE, TRANSITIONS, Turn, seconds
from watchdog.model.world import Host, Incident, Phase, Program, Status


def turn(story: Story | None = None) -> Turn:
    story = story or Story()
    return Turn(story.rules, Host(BOOT), story.program(), story.world.looks.get("ami:w0"), story.at, story.wall)


def test_the_table_is_designs() -> None:
    assert {(str(was), str(now)) for was, ways in TRANSITIONS.items() for now in ways} == TABLE


@pytest.mark.parametrize("was", Phase)
@pytest.mark.parametrize("now", Phase)
def test_any_other_transition_is_a_bug_and_ends_the_process(was: Phase, now: Phase) -> None:
    mine = turn()
    mine.program = Program("ami:w0", phase=was)
    if (str(was), str(now)) in TABLE:
        mine.go(now, "a reason")
        assert mine.program.phase is now
        assert mine.program.since == mine.at
    else:
        with pytest.raises(AssertionError, match=f"no transition {was} -> {now}"):
            mine.go(now, "a reason")


def test_the_trace_keeps_the_latest_lines() -> None:
    mine = turn()
    for number in range(TRACE + 5):
        mine.trace(str(number))
    assert len(mine.program.trace) == TRACE
    assert mine.program.trace[-1].endswith(f" {TRACE + 4}")


def test_a_refusal_is_said_once_until_the_phase_changes() -> None:
    mine = turn()
    mine.refuse("no slot")
    mine.refuse("no slot")
    assert len(mine.actions) == 1
    mine.go(Phase.CONFIRMING, "fires")
    mine.refuse("no slot")
    assert len(mine.actions) == 3


def test_an_operators_wish_holds_and_an_unknown_rule_is_unknown() -> None:
    story = Story()
    assert turn(story).status("stall") is Status.UNKNOWN, "no look yet"
    story.look()
    mine = turn(story)
    assert mine.status(OPERATOR) is Status.HOLDS
    assert mine.status("stall") is Status.CLEAR
    assert mine.status("no such rule") is Status.UNKNOWN
    mine.policy = None
    assert mine.rule("stall") is None
    assert mine.status("stall") is Status.UNKNOWN


def test_an_incident_without_marks_has_no_seconds() -> None:
    story = Story()
    story.stall()
    incident = story.incident()
    assert isinstance(incident, Incident)
    assert seconds(incident)["detected"] == 270.0
    mine = turn(story)
    mine.set_incident(marks=())
    assert mine.program.incident is not None
    assert seconds(mine.program.incident) == {}


def test_a_step_is_marked_the_first_time_only() -> None:
    story = Story()
    story.stall()
    mine = turn(story)
    mine.mark("detected")
    assert mine.program.incident == story.incident()
    mine.set(incident=None)
    mine.mark("detected")
    assert mine.program.incident is None
