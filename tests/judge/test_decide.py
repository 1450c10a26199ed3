"""The whole of `decide`: looks, supervisord, an operator, a reload; and which phase each of them leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.judge.build import STALL, Story, look, ruleset
from watchdog.judge.decide import decide
from watchdog.model.action import DumpStacks, Say
from watchdog.model.event import HostObserved, Observed, Reloaded, Requested, SupervisorSilent, Terminating, Unobserved
from watchdog.model.observation import ABSENT, HostSample
from watchdog.model.record import GivenUpRecord, PauseRecord
from watchdog.model.rule import Level, Progress, RuleLimits
from watchdog.model.world import Phase

# The happy path


def test_a_wedged_worker_is_seen_dumped_sealed_stopped_started_and_verified() -> None:
    story = Story()
    story.to_verifying()
    story.look(look(pid=901, progress=0))
    story.look(look(pid=901, progress=1))
    way = [a.message for a in story.of(Say) if "->" in a.message]
    assert way == [
        "WATCHING -> CONFIRMING",
        "CONFIRMING -> COLLECTING",
        "COLLECTING -> STOPPING",
        "STOPPING -> STARTING",
        "STARTING -> VERIFYING",
        "VERIFYING -> COOLDOWN",
    ]
    assert all(a.incident for a in story.of(Say) if "->" in a.message)
    assert not story.notices()


def test_the_same_inputs_give_the_same_outputs() -> None:
    one, two = Story(), Story()
    one.to_verifying()
    two.to_verifying()
    assert (one.world, one.actions) == (two.world, two.actions)


def test_a_quiet_tick_touches_nothing_but_the_look() -> None:
    story = Story()
    story.look()
    programs = story.world.programs
    assert story.look(look(log=11)) == []
    assert story.world.programs is programs


# Strangers


def test_events_about_unknown_programs_change_nothing() -> None:
    story = Story()
    world = story.world
    for event in (
        Observed(1.0, 2.0, look("who:knows")),
        Unobserved(1.0, 2.0, "who:knows", "late"),
        Unobserved(1.0, 2.0, "ami:w0", "no look yet"),
        Requested(1.0, 2.0, "who:knows", "pause", 5.0),
    ):
        assert decide(story.rules, world, event) == (world, ())


# What is told once


def test_troubles_are_said_once_and_so_is_their_end() -> None:
    story = Story()
    story.look(look(troubles=("progress file: torn", "log: a FIFO")))
    assert story.look(look(troubles=("progress file: torn", "log: a FIFO"))) == []
    story.look(look(troubles=("progress file: torn",)))
    assert story.said().count("cannot be read {") == 2
    assert story.said().count("can be read again, or is gone {'what': 'log: a FIFO'}") == 1


def test_the_host_is_remembered_as_it_was_seen() -> None:
    story = Story()
    story.tell(HostObserved(1.0, 2.0, HostSample(64, 32, 16, 8)))
    assert story.world.host.sample == HostSample(64, 32, 16, 8)


def test_ending_is_remembered() -> None:
    story = Story()
    story.tell(Terminating(1.0, 2.0))
    assert story.world.host.terminating


# supervisord


def test_supervisords_silence_is_paged_once_for_each_reason_and_its_return_said() -> None:
    story = Story()
    for why in ("no answer", "no answer", "refused"):
        story.tell(SupervisorSilent(story.at, story.wall, why))
    assert len(story.notices()) == 1
    assert (story.world.host.supervisor_up, story.world.host.supervisor_why) == (False, "refused")
    story.answer()
    assert story.said().count("supervisord answers") == 2


def test_a_supervisord_that_never_answered_is_paged_too() -> None:
    story = Story()
    story.world = type(story.world)()
    story.tell(SupervisorSilent(1.0, 2.0, "no such socket"))
    assert len(story.notices()) == 1


def test_while_supervisord_is_silent_nothing_fires_and_its_logs_begin_anew_when_it_is_back() -> None:
    story = Story()
    story.look(look(log=9))
    story.looks(265.0)
    story.tell(SupervisorSilent(story.at, story.wall, "frozen"))
    story.looks(400.0)
    assert story.phase() is Phase.WATCHING
    story.answer()
    story.looks(265.0)
    assert story.phase() is Phase.WATCHING
    story.looks(10.0)
    assert story.phase() is Phase.CONFIRMING


def test_a_worker_whose_silence_was_supervisords_own_is_not_confirmed_when_it_is_back() -> None:
    story = Story()
    story.stall()
    story.tell(SupervisorSilent(story.at, story.wall, "frozen"))
    story.looks(30.0)
    assert story.phase() is Phase.CONFIRMING, "unknown does not clear"
    story.answer()
    story.look()
    assert story.phase() is Phase.WATCHING


def test_logs_that_supervisord_does_not_write_go_on() -> None:
    story = Story(ruleset(logs=("/var/log/own.log",)))
    story.look(look(log=9))
    story.tell(SupervisorSilent(story.at, story.wall, "frozen"))
    story.looks(275.0)
    assert story.phase() is Phase.CONFIRMING
    story.answer()
    assert story.world.looks["ami:w0"].log.age == 270.0


def test_a_progress_file_goes_on_while_supervisord_is_silent() -> None:
    rules = ruleset()
    policy = replace(rules.policies[0], progress=Progress(file="/run/p.json"))
    story = Story(replace(rules, policies=(policy,)))
    story.looks(20.0)
    story.tell(SupervisorSilent(story.at, story.wall, "frozen"))
    story.looks(20.0)
    assert story.world.looks["ami:w0"].observation.progress == 3
    story.answer()
    assert story.world.looks["ami:w0"].progress.age == 35.0


def test_an_unwatched_programs_clocks_begin_anew_too() -> None:
    story = Story(ruleset(match="other:*"))
    story.looks(20.0)
    story.tell(SupervisorSilent(story.at, story.wall, "frozen"))
    story.look()
    assert story.world.looks["ami:w0"].observation.log is None
    story.answer()
    assert story.world.looks["ami:w0"].log.age == 0.0


def test_programs_appear_change_and_are_forgotten_with_supervisords_answers() -> None:
    story = Story()
    story.answer()
    before = story.world.programs
    story.answer()
    assert story.world.programs is before
    story.told(pid=102, started_at=60)
    assert story.program().info == story.infos["ami:w0"]
    story.look(look(pid=102))
    story.infos.clear()
    story.answer()
    assert (story.world.programs, story.world.looks) == ({}, {})
    assert "removed from supervisord; forgotten" in story.said()


@pytest.mark.parametrize("phase", [Phase.CONFIRMING, Phase.COLLECTING, Phase.COOLDOWN])
def test_a_removed_program_leaves_whatever_it_was_in(phase: Phase) -> None:
    story = Story()
    story.stall()
    if phase is not Phase.CONFIRMING:
        story.dumped()
    if phase is Phase.COOLDOWN:
        story.sealed(None, "no space left")
    assert story.phase() is phase
    story.infos.clear()
    story.answer()
    assert story.world.programs == {}


def test_a_pause_outlives_the_programs_removal_and_ends_by_itself() -> None:
    story = Story()
    story.look()
    kept = dict(story.infos)
    story.ask("pause", 100.0)
    story.infos.clear()
    story.answer()
    assert story.program().info is None
    story.infos = kept
    story.told(pid=300, started_at=900)
    story.looks(60.0, look(pid=300))
    assert story.program().paused_until_wall is not None
    story.infos = {}
    story.at += 100.0
    story.answer()
    assert story.world.programs == {}


# By hand


def test_a_pause_is_written_leaves_the_phase_and_expires_by_itself() -> None:
    story = Story()
    story.stall()
    story.ask("pause", 100.0)
    assert story.phase() is Phase.WATCHING
    assert PauseRecord("ami:w0", story.wall + 100.0, "a reason") in story.records()
    story.looks(95.0)
    assert story.phase() is Phase.WATCHING
    assert len(story.of(DumpStacks)) == 1
    story.look()
    assert "the pause is over" in story.said()
    assert story.phase() is Phase.CONFIRMING


def test_a_pause_ends_the_vetoed_incidents_too() -> None:
    story = Story()
    story.stall()
    story.dumped("next_job", "next_job")
    story.ask("pause", 100.0)
    assert story.program().vetoed == ()
    assert story.outcome() == ("none", "vetoed")


def test_resume_ends_a_pause() -> None:
    story = Story()
    story.stall()
    story.ask("pause", 1000.0)
    story.ask("resume")
    assert PauseRecord("ami:w0", None) in story.records()
    story.look()
    assert story.phase() is Phase.CONFIRMING


def given_up() -> Story:
    story = Story(ruleset(rules=(replace(STALL, limits=RuleLimits(restarts=0)),)))
    story.to_collecting()
    story.sealed()
    story.look(story.silent())
    assert story.phase() is Phase.GIVEN_UP
    return story


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_given_up_ends_by_hand(verb: str) -> None:
    story = given_up()
    story.ask(verb, 10.0)  # type: ignore[arg-type]
    assert story.phase() is Phase.WATCHING
    assert GivenUpRecord("ami:w0", None) in story.records()


def test_given_up_ends_with_a_new_process() -> None:
    story = given_up()
    story.look(look(pid=500))
    assert story.phase() is Phase.WATCHING


@pytest.mark.parametrize(
    ("words", "rules", "pid"),
    [
        ("it is not running", ruleset(), None),
        ("no entry of the configuration matches it, so it is not touched", ruleset(match="x:*"), 101),
    ],
)
def test_evidence_cannot_be_collected_of_what_does_not_run_or_is_unwatched(
    words: str, rules: object, pid: int | None
) -> None:
    story = Story(rules)  # type: ignore[arg-type]
    story.ask("collect")
    story.look(look(pid=pid))
    story.ask("collect")
    assert words in story.said()
    assert not story.of(DumpStacks)


def test_evidence_cannot_be_collected_while_an_incident_is_open() -> None:
    story = Story()
    story.stall()
    story.ask("collect")
    assert "it is in CONFIRMING" in story.said()


# Reload


def test_a_reload_ends_what_has_stopped_nothing_and_measures_levels_anew() -> None:
    story = Story(ruleset(mode=Level.REPORT))
    story.stall()
    story.dumped()
    story.sealed()
    assert story.program().reported == ("stall",)
    story.tell(Reloaded(story.at, story.wall))
    assert story.program().reported == ()
    assert story.world.looks["ami:w0"].held == ()
    story.looks(60.0)
    assert story.phase() is Phase.WATCHING
    story.looks(10.0)
    assert story.phase() is Phase.CONFIRMING


def test_a_reload_leaves_cooldown_and_the_budgets_stay() -> None:
    story = Story()
    story.to_verifying()
    story.look(look(pid=901, progress=0))
    story.look(look(pid=901, progress=1))
    story.tell(Reloaded(story.at, story.wall))
    assert story.phase() is Phase.WATCHING
    assert len(story.world.host.restarts) == 1


# Absence


def test_a_heartbeat_that_is_absent_leaves_its_detectors_out() -> None:
    story = Story()
    story.look(look(log=9, progress=ABSENT))
    story.looks(275.0, look(progress=ABSENT))
    assert story.phase() is Phase.CONFIRMING


def test_a_suspended_host_declares_no_stall() -> None:
    story = Story()
    story.look()
    for _ in range(10):
        story.look(after=3600.0)
    assert story.phase() is Phase.WATCHING
