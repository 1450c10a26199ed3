"""A fresh daemon: what the journal remembers, and how a begun restart is finished."""

from __future__ import annotations

from typing import Any

import pytest

from tests.judge.build import BOOT, WALL, Story, look
from watchdog.journal import JournalState
from watchdog.judge.resume import INTERRUPTED, interrupted, resume, settle
from watchdog.model.action import KillProgram, ReapTree, StartProgram, StopProgram
from watchdog.model.record import CooldownRecord, GivenUpRecord, IncidentRecord, PauseRecord, RestartRecord
from watchdog.model.world import Phase


def reborn(before: Story, *, boot: str = BOOT, later: float = 30.0, kept: JournalState | None = None) -> Story:
    """A second daemon, from the journal of the first alone; supervisord has not been asked yet."""
    kept = kept or before.journal()
    story = Story()
    story.infos, story.at = before.infos, before.at + later
    story.actions = []
    story.world = resume(kept.transactions, kept.incidents, kept.restarts, kept.pauses, boot, story.at, story.wall)
    return story


def after(how: str) -> Story:
    story = Story()
    getattr(story, f"to_{how}")()
    return story


# A bare intent


def test_a_bare_intent_whose_process_is_alive_is_cleared_and_nothing_is_touched() -> None:
    story = reborn(after("intent"))
    assert story.phase() is Phase.STOPPING
    story.told()
    story.told()
    assert story.phase() is Phase.WATCHING
    assert story.outcome() == ("report", "cleared")
    assert not story.of(StopProgram)
    assert not story.of(StartProgram)
    assert story.world.host.restarts == ()
    assert [r for r in story.records() if isinstance(r, RestartRecord)][-1].void


def test_a_bare_intent_whose_process_is_down_has_its_survivors_ended_and_is_started() -> None:
    story = reborn(after("intent"))
    story.told(pid=0, state="STOPPED")
    assert story.of(ReapTree)
    story.reaped()
    assert story.of(StartProgram)


def test_a_bare_intent_whose_process_is_stopping_gets_kill_at_the_deadline() -> None:
    story = reborn(after("intent"))
    for _ in range(39):
        story.told(state="STOPPING")
    assert not story.of(KillProgram)
    for _ in range(3):
        story.told()
    assert story.of(KillProgram)
    assert not story.of(StopProgram)


# Owed


@pytest.mark.parametrize("how", ["starting", "stopping"])
def test_a_program_that_is_down_is_started_at_once(how: str) -> None:
    story = reborn(after(how))
    story.told(pid=0, state="STOPPED")
    story.reaped()
    story.told()
    assert story.of(StartProgram)
    story.start_sent()
    story.told(pid=901, state="RUNNING", started_at=5000)
    assert story.phase() is Phase.VERIFYING
    story.look(look(pid=901, progress=0))
    story.look(look(pid=901, progress=1))
    assert story.outcome() == ("restart", "recovered")
    assert story.journal().transactions == {}


def test_a_program_that_runs_again_is_verified() -> None:
    story = reborn(after("starting"))
    story.told(pid=901, state="RUNNING", started_at=5000)
    assert story.of(ReapTree)
    story.reaped()
    story.told()
    assert story.phase() is Phase.VERIFYING
    assert not story.of(StartProgram)


def test_a_started_one_is_verified_on() -> None:
    story = reborn(after("verifying"))
    assert story.phase() is Phase.VERIFYING
    story.look(look(pid=901, progress=0))
    story.look(look(pid=901, progress=1))
    assert story.outcome() == ("restart", "recovered")
    (record,) = story.journal().incidents.values()
    assert (record.verdict, record.kind, record.bundle) == ("wedged", "lost_batch", "/archive/a.tar.gz")
    assert record.seconds["detected"] == 270.0


def test_an_unkillable_process_that_is_still_there_is_waited_for() -> None:
    before = after("stopping")
    before.stop_sent()
    for _ in range(60):
        before.told(state="STOPPING")
    assert before.phase() is Phase.COOLDOWN
    story = reborn(before)
    story.told()
    assert not story.of(ReapTree)
    story.told(pid=0, state="STOPPED")
    story.reaped()
    story.told()
    assert story.of(StartProgram)


@pytest.mark.parametrize("boot", ["boot-1", "boot-2"])
def test_another_process_with_the_old_pid_is_not_the_old_process(boot: str) -> None:
    """A container that is started anew gives the same pids; so may another boot."""
    before = after("starting")
    before.start_sent()
    story = reborn(before, boot=boot)
    story.told(pid=101, state="RUNNING", started_at=50 if boot == "boot-2" else 9000)
    story.reaped()
    story.told()
    assert story.phase() is Phase.VERIFYING


def test_how_often_a_start_failed_and_its_outcome_are_remembered() -> None:
    before = after("starting")
    before.start_sent()
    for _ in range(2):
        before.told(state="FATAL", started_at=5000)
    story = reborn(before)
    restarting = story.program().restarting
    assert restarting is not None
    assert (restarting.transaction.tries, restarting.outcome) == (1, "start_failed")


def test_a_transaction_without_its_incidents_record_is_finished_all_the_same() -> None:
    before = after("starting")
    kept = before.journal()
    kept.incidents.clear()
    story = reborn(before, kept=kept)
    story.told(pid=901, state="RUNNING", started_at=5000)
    story.reaped()
    story.told()
    assert story.phase() is Phase.VERIFYING


# Pauses


def test_a_pause_suspends_an_owed_start_in_the_next_life_too() -> None:
    before = after("starting")
    before.start_sent()
    for _ in range(2):
        before.told(state="FATAL", started_at=5000)
    before.ask("pause", 100.0)
    story = reborn(before)
    story.told(after=1.0)
    story.reaped()
    story.told(after=1.0)
    assert not story.of(StartProgram)
    story.told(after=100.0)
    assert story.of(StartProgram)


def test_a_restart_that_a_crash_cut_short_is_finished_as_it_began_though_it_is_paused() -> None:
    before = after("starting")
    before.ask("pause", 1000.0)
    story = reborn(before)
    story.told()
    story.reaped()
    story.told()
    assert story.of(StartProgram)


# Budgets


def test_restarts_count_across_lives_and_boots_and_a_clock_that_was_set_back_makes_them_recent() -> None:
    records = {
        n: RestartRecord(n, "ami:w0", "stall", wall, mono, boot)
        for n, wall, mono, boot in (
            ("here", WALL + 100.0, 900.0, BOOT),
            ("earlier", WALL - 500.0, 77.0, "boot-0"),
            ("ahead", WALL + 9e9, 77.0, "boot-0"),
        )
    }
    world = resume({}, {}, records, {}, BOOT, 1000.0, WALL + 1000.0)
    assert [(r.incident, r.at) for r in world.host.restarts] == [
        ("earlier", -500.0),
        ("here", 900.0),
        ("ahead", 1000.0),
    ]


# What was left open


def incident(number: str, **more: Any) -> IncidentRecord:
    return IncidentRecord(number, "ami:w0", WALL, "stall", "silent", **more)


def test_incidents_that_stopped_nothing_are_closed_and_others_are_not_touched() -> None:
    before = after("starting")
    kept = before.journal()
    (begun,) = kept.incidents
    kept.incidents |= {
        "bare": incident("bare"),
        "filed": incident("filed", bundle="/a.tar.gz"),
        "done": incident("done", outcome="recovered"),
    }
    closed = {a.incident: a.records[0] for a in interrupted(kept.incidents, kept.transactions)}
    assert begun not in closed
    assert {i: getattr(r, "outcome", None) for i, r in closed.items()} == {"bare": "cleared", "filed": "reported"}
    assert {getattr(r, "detail", None) for r in closed.values()} == {INTERRUPTED}


# Settling


def settled(**kept: Any) -> Story:
    story = Story()
    state = JournalState(**kept)
    story.world = settle(story.world, state.pauses, state.given_up, state.cooldowns, story.at, story.wall)
    return story


def test_a_cooldown_and_a_given_up_program_go_on() -> None:
    wall = Story().wall
    story = settled(cooldowns={"ami:w0": CooldownRecord("ami:w0", wall + 60.0)})
    assert (story.phase(), story.program().until) == (Phase.COOLDOWN, story.at + 60.0)
    story = settled(
        cooldowns={"ami:w0": CooldownRecord("ami:w0", wall + 60.0)},
        given_up={"ami:w0": GivenUpRecord("ami:w0", wall + 600.0)},
    )
    assert (story.phase(), story.program().until) == (Phase.GIVEN_UP, story.at + 600.0)


def test_what_has_expired_is_over() -> None:
    wall = Story().wall
    story = settled(
        cooldowns={"ami:w0": CooldownRecord("ami:w0", wall - 1.0)},
        given_up={"ami:w0": GivenUpRecord("ami:w0", wall - 1.0)},
        pauses={"ami:w0": PauseRecord("ami:w0", wall - 1.0)},
    )
    assert story.phase() is Phase.WATCHING
    assert story.program().paused_until_wall is None


def test_a_pause_goes_on() -> None:
    wall = Story().wall
    story = settled(pauses={"ami:w0": PauseRecord("ami:w0", wall + 60.0, "tests")})
    assert (story.program().paused_until_wall, story.program().paused_why) == (wall + 60.0, "tests")


def test_a_begun_restart_is_not_settled_into_anything_else() -> None:
    story = reborn(after("starting"))
    wall = story.wall + 900.0
    world = settle(story.world, {}, {}, {"ami:w0": CooldownRecord("ami:w0", wall)}, story.at, story.wall)
    assert world.programs["ami:w0"].until == 0.0
