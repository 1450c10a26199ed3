"""Cases in which a plausible core does harm: each is one that a reader found, and none is found by walking the happy path."""

from __future__ import annotations

from tests.judge.build import Story, look, ruleset
from watchdog.judge.confirm import GRACE
from watchdog.model.action import ReapTree
from watchdog.model.event import Requested, StopSent
from watchdog.model.observation import Identity
from watchdog.model.rule import Group, Level, Rule, Unchanged
from watchdog.model.world import Phase


def test_a_new_process_that_is_replaced_again_and_again_is_no_progress_in_the_end() -> None:
    story = Story()
    story.to_verifying()
    for pid in range(902, 912):
        story.told(pid=pid, state="RUNNING", started_at=5000 + pid)
        story.looks(30.0, look(pid=pid, progress=0))
        if story.phase() is not Phase.VERIFYING:
            break
    assert story.outcome() == ("restart", "no_progress")


def test_a_pause_outlives_an_update_that_removes_the_program_and_adds_it_again() -> None:
    story = Story()
    story.looks(20.0)
    story.tell(Requested(story.at, story.wall, "ami:w0", "pause", 3600.0, "new GPUs"))
    kept = story.infos.pop("ami:w0")
    story.answer()
    story.infos["ami:w0"] = kept._replace(pid=777, started_at=9000)
    story.answer()
    story.look(look(pid=777))
    assert story.world.programs["ami:w0"].paused_until_wall is not None
    story.looks(400.0, look(pid=777))
    assert story.phase() is Phase.WATCHING


def test_a_program_that_is_removed_and_not_paused_is_forgotten() -> None:
    story = Story()
    story.looks(20.0)
    story.infos.clear()
    story.answer()
    assert "ami:w0" not in story.world.programs
    assert "ami:w0" not in story.world.looks


def test_a_child_that_was_forked_after_the_last_look_is_ended_with_the_tree() -> None:
    story = Story()
    story.to_stopping()
    late = Identity(4711, 99_000)
    incident = story.incident()
    event = StopSent(story.at, story.wall, "ami:w0", incident.id, "sent", tree=(incident.ident, late))
    story.tell(event)
    story.told(pid=0, state="STOPPED")
    (reap,) = story.of(ReapTree)
    assert isinstance(reap, ReapTree)
    assert reap.tree[0] == incident.ident
    assert late in reap.tree
    assert len(set(reap.tree)) == len(reap.tree)
    assert late in story.journal().transactions["ami:w0"].tree


PROGRESS_ONLY = Rule("stuck", "No progress.", (Group("no progress", (Unchanged("progress", 60.0),)),))


def test_an_idle_worker_whose_log_cannot_be_read_is_not_suspected() -> None:
    story = Story(ruleset(rules=(PROGRESS_ONLY,)))
    story.looks(20.0, look(idle_line=True))
    story.looks(600.0, look(log=None, idle_line=None))
    assert story.phase() is Phase.WATCHING
    story.looks(600.0, look(log=None, idle_line=True))
    assert story.phase() is Phase.WATCHING


def test_a_worker_that_has_written_no_line_yet_is_suspected_all_the_same() -> None:
    story = Story(ruleset(rules=(PROGRESS_ONLY,)))
    story.looks(100.0, look(log=0, progress=0, idle_line=None))
    assert story.phase() is Phase.CONFIRMING


def test_an_intent_that_does_not_come_to_disk_is_said_once_and_stops_nothing() -> None:
    story = Story()
    story.to_collecting()
    story.sealed()
    story.looks(GRACE + 60.0, story.silent())
    assert story.phase() is Phase.COLLECTING
    said = [a for a in story.actions if "still not on disk" in str(getattr(a, "fields", ""))]
    assert len(said) == 1
    assert story.incident().level is Level.RESTART
