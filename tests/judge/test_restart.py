"""STOPPING and STARTING: the transaction, told by supervisord's answers."""

from __future__ import annotations

import pytest

from tests.judge.build import Story
from watchdog.model.action import AskSupervisor, KillProgram, ReapTree, StartProgram, StopProgram
from watchdog.model.event import KillSent, Reloaded, StopResult
from watchdog.model.observation import Identity
from watchdog.model.world import Phase


def restarting(story: Story) -> object:
    return story.program().restarting


def alive(story: Story, seconds: float, state: str = "STOPPING") -> None:
    """supervisord shows the old process for so long, asked every half second."""
    for _ in range(round(seconds * 2)):
        story.told(state=state)


# STOPPING


def test_the_stop_names_the_process_it_is_meant_for() -> None:
    story = Story()
    story.to_stopping()
    (stop,) = story.of(StopProgram)
    assert (stop.ident, stop.started_at) == (Identity(101, 1101), 50)
    assert story.stop_sent() == [AskSupervisor()]


def test_once_the_process_is_down_its_survivors_end_before_anything_is_started() -> None:
    story = Story()
    story.to_stopping()
    story.stop_sent()
    story.told(pid=0, state="STOPPED")
    (reap,) = story.of(ReapTree)
    assert (reap.tree, reap.boot_id, reap.orphans) == ((Identity(101, 1101), Identity(102, 2101)), "boot-1", "end")
    assert story.journal().transactions["ami:w0"].step == "owed"
    story.told()
    assert len(story.of(ReapTree)) == 1
    assert not story.of(StartProgram)
    story.reaped(ended=(Identity(102, 2101),))
    assert len(story.of(StartProgram)) == 1
    assert "survivors of the old process ended" in story.said()


def test_survivors_that_cannot_be_ended_are_named_and_paged_and_the_start_goes_on() -> None:
    story = Story()
    story.to_stopping()
    story.stop_sent()
    story.told(pid=0, state="STOPPED")
    story.reaped(left=(Identity(102, 2101),))
    assert "survivors of the old process could not be ended" in story.notices()
    assert story.phase() is Phase.STARTING


def test_kill_is_sent_once_when_the_stop_takes_too_long() -> None:
    story = Story()
    story.to_stopping()
    story.stop_sent()
    alive(story, 20.0)
    assert not story.of(KillProgram)
    alive(story, 1.0)
    assert [k.ident for k in story.of(KillProgram)] == [Identity(101, 1101)]


def test_a_stop_that_was_taken_counts_also_while_the_state_does_not_show_it() -> None:
    story = Story()
    story.to_stopping()
    story.stop_sent()
    alive(story, 21.0, "RUNNING")
    assert len(story.of(KillProgram)) == 1


def test_a_supervisord_that_was_frozen_took_no_time() -> None:
    story = Story()
    story.to_stopping()
    story.stop_sent()
    alive(story, 2.0)
    story.at += 600.0
    story.told(state="STOPPING")
    assert not story.of(KillProgram)


def test_a_process_that_cannot_be_killed_is_named_paged_and_not_stopped_again() -> None:
    story = Story()
    story.to_stopping()
    story.stop_sent()
    alive(story, 27.0)
    assert story.phase() is Phase.COOLDOWN
    assert story.outcome() == ("restart", "unkillable")
    assert "pid 101 cannot be killed (state S)" in story.said()
    assert story.notices() == ["STOPPING -> COOLDOWN"]
    alive(story, 600.0)
    story.looks(600.0, story.silent())
    assert len(story.of(StopProgram)) == len(story.of(KillProgram)) == 1
    assert story.journal().transactions["ami:w0"].step == "owed"


def test_an_unkillable_process_that_dies_later_is_reaped_and_started() -> None:
    story = Story()
    story.to_stopping()
    story.stop_sent()
    alive(story, 27.0)
    story.told(pid=0, state="STOPPED")
    story.reaped()
    assert story.phase() is Phase.COOLDOWN
    story.told()
    assert story.phase() is Phase.STARTING
    story.start_sent()
    story.told(pid=901, state="RUNNING", started_at=5000)
    story.look(story.silent(progress=0))
    story.look(story.silent(progress=1))
    assert story.outcome() == ("restart", "unkillable")
    assert story.journal().transactions == {}


def test_a_kill_that_was_not_taken_is_sent_again() -> None:
    story = Story()
    story.to_stopping()
    story.stop_sent()
    alive(story, 21.0)
    story.tell(KillSent(story.at, story.wall, "ami:w0", story.incident().id, "no answer"))
    alive(story, 1.0)
    assert len(story.of(KillProgram)) == 2
    story.tell(KillSent(story.at, story.wall, "ami:w0", story.incident().id))
    alive(story, 6.0)
    assert story.phase() is Phase.COOLDOWN


def test_a_kill_that_is_never_taken_does_not_hold_the_slot_for_ever() -> None:
    story = Story()
    story.to_stopping()
    story.stop_sent()
    for _ in range(110):
        alive(story, 0.5)
        if story.phase() is Phase.STOPPING:
            story.tell(KillSent(story.at, story.wall, "ami:w0", story.incident().id, "refused"))
    assert story.phase() is Phase.COOLDOWN


def test_the_answer_of_a_kill_that_comes_too_late_changes_nothing() -> None:
    story = Story()
    story.to_starting()
    story.tell(KillSent(story.at, story.wall, "ami:w0", story.incident().id, "another process by now"))
    assert story.phase() is Phase.STARTING


@pytest.mark.parametrize("result", ["changed", "not_running", "gone"])
def test_a_stop_that_found_another_process_or_none_is_cleared_and_counts_nowhere(result: StopResult) -> None:
    story = Story()
    story.to_stopping()
    story.stop_sent(result)
    assert story.phase() is Phase.WATCHING
    assert story.outcome() == ("report", "cleared")
    assert story.journal().transactions == {}
    assert story.journal().restarts == {}
    assert story.world.host.restarts == ()
    assert not story.of(StartProgram)


@pytest.mark.parametrize("result", ["refused", "unreachable"])
def test_a_stop_that_could_not_be_sent_is_put_off_in_the_same_incident(result: StopResult) -> None:
    story = Story()
    story.to_stopping()
    incident = story.incident().id
    story.stop_sent(result)
    assert story.phase() is Phase.WATCHING
    assert restarting(story) is None
    assert story.journal().transactions == {}
    assert [i.id for i in story.program().vetoed] == [incident]
    story.looks(65.0, story.silent())
    assert story.incident().id == incident


def test_a_stop_without_an_answer_that_did_not_arrive_is_put_off_after_two_answers() -> None:
    story = Story()
    story.to_stopping()
    story.stop_sent("unsure")
    story.told(state="RUNNING")
    assert story.phase() is Phase.STOPPING
    story.told()
    assert story.phase() is Phase.WATCHING
    assert story.world.host.restarts == ()


def test_a_stop_without_an_answer_that_did_arrive_is_seen_through() -> None:
    story = Story()
    story.to_stopping()
    story.stop_sent("unsure")
    story.told(state="RUNNING")
    story.told(state="STOPPING")
    story.told(pid=0, state="STOPPED")
    assert story.of(ReapTree)


def test_nothing_is_concluded_before_the_stop_itself_has_answered() -> None:
    story = Story()
    story.to_stopping()
    story.told(pid=0, state="STOPPED")
    assert not story.of(ReapTree)
    story.stop_sent()
    story.stop_sent("refused")
    story.told()
    assert story.of(ReapTree)


def test_a_stop_that_never_answers_is_unsure_after_30_s_in_which_supervisord_did() -> None:
    story = Story()
    story.to_stopping()
    story.at += 500.0  # the daemon was stopped, say: no time for the call
    alive(story, 29.0, "RUNNING")
    assert story.phase() is Phase.STOPPING
    alive(story, 3.0, "RUNNING")
    assert story.phase() is Phase.WATCHING


def test_a_program_that_is_removed_while_it_is_stopped_is_owed_nothing() -> None:
    story = Story()
    story.to_stopping()
    story.stop_sent()
    del story.infos["ami:w0"]
    story.answer()
    assert story.world.programs == {}
    assert story.journal().transactions == {}


@pytest.mark.parametrize("how", ["pause", "reload"])
def test_a_pause_or_reload_after_the_stop_lets_the_transaction_finish(how: str) -> None:
    story = Story()
    story.to_stopping()
    if how == "pause":
        story.ask("pause", 600.0)
    else:
        story.tell(Reloaded(story.at, story.wall))
    assert story.phase() is Phase.STOPPING
    story.stop_sent()
    story.told(pid=0, state="STOPPED")
    story.reaped()
    assert story.phase() is Phase.STARTING


def test_looks_change_nothing_between_stop_and_start() -> None:
    story = Story()
    story.to_starting()
    story.look(story.silent())
    assert story.phase() is Phase.STARTING


def test_another_hand_that_started_it_during_our_stop_saves_us_the_wait() -> None:
    story = Story()
    story.to_stopping()
    story.stop_sent()
    story.told(pid=555, state="RUNNING", started_at=7000)
    story.reaped()
    story.told()
    assert story.phase() is Phase.VERIFYING


def test_a_process_that_another_hand_started_and_stopped_during_our_stop_is_left_alone() -> None:
    story = Story()
    story.to_stopping()
    story.stop_sent()
    story.told(pid=0, state="STOPPED", started_at=7000)
    story.reaped()
    assert story.phase() is Phase.WATCHING
    assert not story.of(StartProgram)


# STARTING


def test_a_new_process_that_is_running_is_verified() -> None:
    story = Story()
    story.to_starting()
    story.start_sent()
    story.told(pid=901, state="STARTING", started_at=5000)
    assert story.phase() is Phase.STARTING
    story.told(state="RUNNING")
    assert story.phase() is Phase.VERIFYING
    kept = story.journal().transactions["ami:w0"]
    assert (kept.step, kept.new_pid) == ("started", 901)


def test_a_new_process_with_the_old_pid_is_a_new_process() -> None:
    story = Story()
    story.to_starting()
    story.start_sent()
    story.told(pid=101, state="RUNNING", started_at=5000)
    assert story.phase() is Phase.VERIFYING


def test_a_start_during_stopping_says_yes_and_does_nothing_so_it_is_sent_again() -> None:
    story = Story()
    story.to_starting()
    story.start_sent()
    story.told()
    assert len(story.of(StartProgram)) == 1
    story.told()
    assert len(story.of(StartProgram)) == 2


def test_an_answer_from_before_the_start_concludes_nothing() -> None:
    story = Story()
    story.to_starting()
    for _ in range(5):
        story.told(state="EXITED")
    assert len(story.of(StartProgram)) == 1


def test_a_start_that_was_not_taken_is_said_and_sent_again() -> None:
    story = Story()
    story.to_starting()
    story.start_sent(error="no answer")
    story.told()
    story.told()
    assert "the start was not taken" in story.said()
    assert len(story.of(StartProgram)) == 2


@pytest.mark.parametrize(("state", "new"), [("FATAL", False), ("EXITED", True)])
def test_fatal_or_an_exit_is_start_failed_and_paged(state: str, new: bool) -> None:
    story = Story()
    story.to_starting()
    story.start_sent()
    for _ in range(2):
        story.told(state=state, spawnerr="no such file", started_at=5000 if new else 50)
    assert story.phase() is Phase.COOLDOWN
    assert story.outcome() == ("restart", "start_failed")
    assert story.notices()[-1] == "STARTING -> COOLDOWN"
    assert "no such file" in story.said()


def test_a_start_that_takes_too_long_is_start_failed() -> None:
    story = Story()
    story.to_starting()
    story.start_sent()
    for _ in range(31):
        story.told(state="BACKOFF")
    assert story.phase() is Phase.STARTING
    for _ in range(4):
        story.told(state="BACKOFF")
    assert story.phase() is Phase.COOLDOWN
    assert "not RUNNING within 16 s" in story.said()


def test_stopped_after_the_new_process_was_seen_is_an_operators() -> None:
    story = Story()
    story.to_starting()
    story.start_sent()
    story.told(pid=901, state="STARTING", started_at=5000)
    story.told(pid=0, state="STOPPED")
    assert story.phase() is Phase.WATCHING
    assert "stopped by an operator" in story.said()
    assert story.journal().transactions == {}


@pytest.mark.parametrize("by_answer", [True, False])
def test_a_program_that_is_removed_while_it_is_started_is_owed_nothing(by_answer: bool) -> None:
    story = Story()
    story.to_starting()
    if by_answer:
        del story.infos["ami:w0"]
        story.answer()
        assert story.world.programs == {}
    else:
        story.start_sent(gone=True)
        assert story.phase() is Phase.WATCHING
    assert story.journal().transactions == {}


def test_a_late_answer_of_an_earlier_step_means_nothing() -> None:
    story = Story()
    story.to_verifying()
    incident = story.incident().id
    story.start_sent(gone=True)
    story.reaped()
    story.stop_sent("gone")
    assert story.phase() is Phase.VERIFYING
    assert story.incident().id == incident
