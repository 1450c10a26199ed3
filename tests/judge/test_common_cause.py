"""A suspected common cause: what counts, who waits, who is reported, and how often somebody is paged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.judge.build import STALL, Story, ruleset
from watchdog.model.action import StopProgram
from watchdog.model.rule import CommonCause, Confirm, HostLimits, Level
from watchdog.model.world import ConfirmEnd, Phase


def last_look(story: Story, name: str = "ami:w0") -> None:
    story.look(story.silent(name))


def waiting_for(story: Story, name: str = "ami:w0") -> str:
    return story.incident(name).waiting


def several(kind: str, *, count: int = 2, watched: int = 4, unknown: Level = Level.RESTART) -> Story:
    """`count` of `watched` programs that wedge together in this shape, sealed."""
    names = tuple(f"ami:w{n}" for n in range(watched))
    rules = ruleset(
        rules=(replace(STALL, confirm=Confirm(2, 15.0, unknown)),),
        limits=HostLimits(common_cause=CommonCause(0.5, 60.0)),
    )
    story = Story(rules, names)
    for name in names:
        story.look(story.silent(name, log=9), after=0.5)
        story.look(story.silent(name), after=0.5)
    for _ in range(56):
        for name in names[:count]:
            story.look(story.silent(name), after=5.0 / count)
    for name in names[:count]:
        story.dumped(kind, kind, name=name)
        story.sealed(name=name)
    return story


def test_half_of_the_programs_wedged_by_something_outside_are_reported_and_not_restarted_with_one_page() -> None:
    story = several("dead_mount")
    last_look(story, "ami:w0")
    last_look(story, "ami:w1")
    assert story.phase("ami:w0") is story.phase("ami:w1") is Phase.WATCHING
    assert story.outcome() == ("report", "reported")
    assert len(story.notices()) == 1
    assert "'programs': 'ami:w0,ami:w1'" in story.said()
    assert not story.of(StopProgram)
    assert story.program("ami:w0").reported == ("stall",)


def test_unknown_verdicts_that_share_a_cause_are_confirmed_anew() -> None:
    story = several("never_seen")
    last_look(story, "ami:w0")
    assert story.phase("ami:w0") is Phase.WATCHING
    assert story.program("ami:w0").reported == ()
    assert story.program("ami:w0").vetoed[0].filed


def test_a_cause_that_comes_back_later_is_paged_anew() -> None:
    story = several("dead_mount")
    story.world = replace(story.world, host=replace(story.world.host, common_cause_told=story.at - 100.0))
    last_look(story, "ami:w0")
    assert len(story.notices()) == 1


def test_programs_wedged_by_something_inside_are_not_held_back() -> None:
    story = several("lost_batch")
    last_look(story, "ami:w0")
    assert story.incident("ami:w0").intent == "asked"


def test_fewer_than_half_share_nothing_and_wait_only_to_see() -> None:
    """2 of 5, the program itself among the watched."""
    story = several("dead_mount", watched=5)
    last_look(story, "ami:w1")
    assert waiting_for(story, "ami:w1") == "for other programs that may share the cause"
    confirmed = story.incident("ami:w1").confirmed
    assert confirmed is not None
    story.looks(60.0, story.silent("ami:w1"))
    assert story.at >= confirmed + 60.0
    assert story.incident("ami:w1").intent == "asked"


@pytest.mark.parametrize(
    ("kind", "counts"), [("dead_mount", True), ("lost_batch", False), ("next_job", False), ("long_batch", False)]
)
def test_only_what_waiting_may_heal_counts_and_idle_or_busy_programs_do_not(kind: str, counts: bool) -> None:
    story = Story()
    story.stall()
    story.dumped(kind, kind)
    assert [e.suspect for e in story.world.host.confirm_ends] == [counts]


def test_a_program_whose_heartbeats_never_changed_does_not_count() -> None:
    story = Story(programs=("ami:w0", "ami:w1"))
    story.look(story.silent())
    story.looks(275.0, story.silent())
    story.dumped("dead_mount", "dead_mount")
    assert [e.suspect for e in story.world.host.confirm_ends] == [False]


def test_unknown_verdicts_that_may_only_be_observed_still_tell_of_the_host() -> None:
    story = Story(ruleset(rules=(replace(STALL, confirm=Confirm(2, 15.0, Level.OBSERVE)),)))
    story.stall()
    story.dumped("never_seen", "never_seen")
    assert [e.suspect for e in story.world.host.confirm_ends] == [True]


def test_evidence_by_hand_tells_nothing_of_the_host() -> None:
    story = Story()
    story.look(story.silent(log=9))
    story.look(story.silent())
    story.ask("collect")
    story.dumped("never_seen", "never_seen")
    assert [e.suspect for e in story.world.host.confirm_ends] == [False]


def test_old_confirmations_are_forgotten() -> None:
    story = Story()
    old = ConfirmEnd(story.at, "gpu:x", True)
    story.world = replace(story.world, host=replace(story.world.host, confirm_ends=(old,)))
    story.stall()
    story.dumped()
    assert old not in story.world.host.confirm_ends
