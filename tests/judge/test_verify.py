"""VERIFYING, COOLDOWN and GIVEN_UP: does work go on, and what is owed until it does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.judge.build import Story, look
from watchdog.judge.verify import owes_start, under_way
from watchdog.model.action import Persist, StartProgram, StopProgram
from watchdog.model.event import Unobserved
from watchdog.model.observation import ABSENT
from watchdog.model.record import CooldownRecord
from watchdog.model.world import Phase, Program


def failed(story: Story) -> None:
    """A start that ends FATAL."""
    story.to_starting()
    story.start_sent()
    for _ in range(2):
        story.told(state="FATAL", started_at=5000)
    assert story.phase() is Phase.COOLDOWN


# VERIFYING


def test_recovered_when_progress_moved() -> None:
    story = Story()
    story.to_verifying()
    story.look(look(pid=901, progress=0))
    assert story.phase() is Phase.VERIFYING
    story.look(look(pid=901, progress=1))
    assert story.phase() is Phase.COOLDOWN
    assert story.outcome() == ("restart", "recovered")
    assert story.journal().transactions == {}


def test_recovered_when_the_idle_line_came() -> None:
    story = Story()
    story.to_verifying()
    story.look(look(pid=901, log=1, progress=0, idle_line=True))
    assert story.phase() is Phase.VERIFYING, "it may be the old process's line"
    story.look(look(pid=901, log=2, progress=0, idle_line=True))
    assert story.outcome() == ("restart", "recovered")


def test_without_progress_two_looks_with_growth_10_s_after_running_are_work_and_a_banner_is_not() -> None:
    story = Story()
    story.to_verifying()
    for number in range(3):
        story.look(look(pid=901, log=number, progress=ABSENT), after=3.0)
    assert story.phase() is Phase.VERIFYING
    story.look(look(pid=901, log=3, progress=ABSENT))
    story.look(look(pid=901, log=3, progress=ABSENT))
    assert story.phase() is Phase.VERIFYING
    story.look(look(pid=901, log=4, progress=ABSENT))
    assert story.outcome() == ("restart", "recovered")


def test_a_log_that_cannot_be_read_did_not_grow() -> None:
    story = Story()
    story.to_verifying()
    for number in range(2):
        story.look(look(pid=901, log=number, progress=ABSENT), after=6.0)
    for _ in range(3):
        story.at += 5.0
        story.tell(Unobserved(story.at, story.wall, "ami:w0", "stuck"))
    assert story.phase() is Phase.VERIFYING


def test_the_log_of_a_program_that_has_progress_is_no_work() -> None:
    story = Story()
    story.to_verifying()
    for number in range(10):
        story.look(look(pid=901, log=number, progress=0))
    assert story.phase() is Phase.VERIFYING


def test_no_work_within_its_time_is_no_progress_and_paged() -> None:
    story = Story()
    story.to_verifying()
    story.look(look(pid=901, progress=0))
    story.looks(140.0, look(pid=901, progress=0))
    assert story.phase() is Phase.VERIFYING
    story.look(look(pid=901, progress=0))
    assert story.phase() is Phase.COOLDOWN
    assert story.outcome() == ("restart", "no_progress")
    assert story.notices() == ["VERIFYING -> COOLDOWN"]


def test_a_new_process_that_is_never_seen_is_no_progress_too() -> None:
    story = Story()
    story.to_verifying()
    story.looks(150.0, look())
    assert story.outcome() == ("restart", "no_progress")


def test_the_way_of_an_incident_is_told_in_seconds_from_the_last_heartbeat() -> None:
    story = Story()
    story.to_verifying()
    story.look(look(pid=901, progress=0))
    story.look(look(pid=901, progress=1))
    (record,) = story.journal().incidents.values()
    assert list(record.seconds) == ["detected", "dumped", "diagnosed", "sealed", "stop", "down", "running", "recovered"]
    assert record.seconds["detected"] == 270.0
    assert list(record.seconds.values()) == sorted(record.seconds.values())


@pytest.mark.parametrize("state", ["EXITED", "FATAL"])
def test_a_new_process_that_ends_is_start_failed(state: str) -> None:
    story = Story()
    story.to_verifying()
    story.told(pid=0, state=state)
    assert story.phase() is Phase.COOLDOWN
    assert story.outcome() == ("restart", "start_failed")
    assert story.journal().transactions["ami:w0"].step == "owed"


def test_a_new_process_that_an_operator_stops_is_left_alone() -> None:
    story = Story()
    story.to_verifying()
    story.told(pid=0, state="STOPPED")
    assert story.phase() is Phase.WATCHING
    assert story.journal().transactions == {}


def test_a_new_process_that_is_replaced_by_another_is_verified_in_its_place() -> None:
    story = Story()
    story.to_verifying()
    story.told(pid=902, state="STARTING", started_at=6000)
    story.told(state="RUNNING")
    assert story.journal().transactions["ami:w0"].new_pid == 902
    story.look(look(pid=902, progress=0))
    story.look(look(pid=902, progress=1))
    assert story.outcome() == ("restart", "recovered")


def test_a_program_that_is_removed_while_it_is_verified_is_forgotten() -> None:
    story = Story()
    story.to_verifying()
    story.infos.clear()
    story.answer()
    assert story.world.programs == {}


# COOLDOWN


def test_the_cooldown_counts_from_the_attempt_and_is_on_record() -> None:
    story = Story()
    story.to_verifying()
    restarting = story.program().restarting
    assert restarting is not None
    story.look(look(pid=901, progress=0))
    story.look(look(pid=901, progress=1))
    assert story.program().until == restarting.began + 330.0
    (record,) = [r for r in story.records() if isinstance(r, CooldownRecord)]
    assert record.until_wall == pytest.approx(story.wall + story.program().until - story.at)
    while story.phase() is Phase.COOLDOWN:
        story.look(look(pid=901, progress=1))
    assert restarting.began + 330.0 <= story.at < restarting.began + 336.0


def test_an_owed_start_is_tried_again_after_10_60_and_then_every_300_s() -> None:
    story = Story()
    failed(story)
    waits = []
    for _ in range(4):
        since, sent = story.at, len(story.of(StartProgram))
        while len(story.of(StartProgram)) == sent:
            story.told(after=1.0)
        waits.append(story.at - since)
        story.start_sent()
        story.told()
        story.told()
    assert waits == [10.0, 60.0, 300.0, 300.0]
    assert len(story.of(StopProgram)) == 1
    assert story.journal().transactions["ami:w0"].tries == 5


def test_a_start_that_failed_holds_no_slot_when_it_is_tried_again_and_its_first_outcome_stays() -> None:
    story = Story()
    failed(story)
    story.told(after=11.0)
    assert story.phase() is Phase.STARTING
    story.start_sent()
    story.told(pid=903, state="RUNNING")
    story.look(look(pid=903, progress=0))
    story.look(look(pid=903, progress=1))
    assert story.outcome() == ("restart", "start_failed")
    assert story.journal().transactions == {}


def test_the_end_of_the_cooldown_does_not_end_what_is_owed() -> None:
    story = Story()
    failed(story)
    story.looks(700.0, look(pid=None))
    assert story.phase() is Phase.COOLDOWN


def test_a_process_that_another_hand_started_pays_the_debt() -> None:
    story = Story()
    failed(story)
    story.told(pid=904, state="STARTING")
    assert story.phase() is Phase.COOLDOWN
    story.told(state="RUNNING")
    assert story.phase() is Phase.VERIFYING


@pytest.mark.parametrize("seen", [True, False])
def test_stopped_after_a_new_process_came_up_pays_it_too_whether_or_not_it_was_seen(seen: bool) -> None:
    story = Story()
    failed(story)
    if seen:
        story.told(pid=904, state="STARTING")
    story.told(pid=0, state="STOPPED")
    assert story.phase() is Phase.WATCHING
    assert story.journal().transactions == {}


def test_a_pause_suspends_what_is_owed() -> None:
    story = Story()
    failed(story)
    story.ask("pause", 100.0)
    assert story.phase() is Phase.COOLDOWN
    story.told(after=90.0)
    assert story.phase() is Phase.COOLDOWN
    story.told(after=11.0)
    assert story.phase() is Phase.STARTING


def test_a_program_that_is_removed_is_owed_nothing() -> None:
    story = Story()
    failed(story)
    story.infos.clear()
    story.answer()
    assert story.world.programs == {}
    assert story.journal().transactions == {}


def test_survivors_are_looked_for_once() -> None:
    story = Story()
    failed(story)
    count = len(story.of(Persist))
    story.told()
    assert len(story.of(Persist)) == count


def test_cooldown_ends_early_when_the_process_is_replaced_by_another_hand() -> None:
    story = Story()
    story.to_verifying()
    story.look(look(pid=901, progress=0))
    story.look(look(pid=901, progress=1))
    story.look(look(pid=950))
    assert story.phase() is Phase.WATCHING


# Who owes


@pytest.mark.parametrize(
    ("phase", "owes", "way"),
    [
        (Phase.STOPPING, True, True),
        (Phase.STARTING, True, True),
        (Phase.VERIFYING, False, False),
        (Phase.COOLDOWN, True, False),
        (Phase.WATCHING, False, False),
    ],
)
def test_a_start_is_owed_in_these_phases(phase: Phase, owes: bool, way: bool) -> None:
    story = Story()
    story.to_stopping()
    program = replace(story.program(), phase=phase)
    assert (owes_start(program), under_way(program)) == (owes, way)
    assert not owes_start(Program("ami:w1", phase=Phase.COOLDOWN))
