"""WATCHING and CONFIRMING: from a suspicion to a verdict, and from the verdict to the most that may be done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.judge.build import MARKER, STALL, Story, look, ruleset
from watchdog.judge.confirm import GRACE
from watchdog.judge.detectors import BLIND_GROUP
from watchdog.judge.incident import incident_id
from watchdog.model.action import CollectEvidence, DumpStacks, Say, StopProgram
from watchdog.model.event import StacksDumped, Unobserved
from watchdog.model.evidence import LogLines
from watchdog.model.observation import ABSENT
from watchdog.model.rule import Above, Confirm, Group, Level, Rule, Ruleset
from watchdog.model.world import Firing, Phase

LEAK = Rule("leak", "too many descriptors", (Group("fds", (Above("fds", 900.0, 10.0),)),), confirm=None)
LEAKS = {"fds": 950, "cpu": 0.5}


def unknown(level: Level, unreadable: Level = Level.REPORT) -> Ruleset:
    return ruleset(rules=(replace(STALL, confirm=Confirm(2, 15.0, level, unreadable)),))


# WATCHING


def test_a_rule_that_fires_opens_an_incident_and_asks_for_dumps_of_the_whole_tree() -> None:
    story = Story()
    story.stall()
    (dumps,) = story.of(DumpStacks)
    assert (dumps.dumps, dumps.every, dumps.ident) == (2, 15.0, story.ident())
    assert story.outcome() == ("none", None)
    assert story.incident().group == "everything is silent"


def test_nothing_is_suspected_before_its_time() -> None:
    story = Story()
    story.look(story.silent(log=9))
    story.looks(270.0, story.silent())
    assert story.phase() is Phase.WATCHING
    story.look(story.silent())
    assert story.phase() is Phase.CONFIRMING


def test_unknown_heartbeats_never_fire() -> None:
    story = Story()
    story.looks(300.0, story.silent(log=None, progress=None))
    assert story.phase() is Phase.WATCHING


def test_looks_that_do_not_come_back_never_fire() -> None:
    story = Story()
    story.look(story.silent())
    for _ in range(100):
        story.at += 5.0
        story.tell(Unobserved(story.at, story.wall, "ami:w0", "stuck"))
    assert story.phase() is Phase.WATCHING


@pytest.mark.parametrize("mode", [Level.OBSERVE])
def test_in_mode_observe_nothing_is_opened(mode: Level) -> None:
    story = Story(ruleset(mode=mode))
    story.looks(400.0, story.silent())
    assert story.phase() is Phase.WATCHING


def test_a_rule_that_only_observes_opens_nothing() -> None:
    story = Story(ruleset(rules=(replace(STALL, then=Level.OBSERVE),)))
    story.looks(400.0, story.silent())
    assert story.phase() is Phase.WATCHING


def test_an_unwatched_program_is_never_touched() -> None:
    story = Story(ruleset(match="other:*"))
    story.looks(400.0, story.silent())
    assert story.phase() is Phase.WATCHING
    assert not story.of(DumpStacks)


def test_a_marker_makes_it_quicker() -> None:
    story = Story()
    story.look(look(matches={MARKER: 1}))
    story.looks(150.0, look(matches={MARKER: 1}))
    assert story.phase() is Phase.CONFIRMING
    assert story.incident().group == "a batch was lost"


def test_an_incidents_id_is_a_safe_file_name() -> None:
    assert incident_id("a/../b:ü c", 7, 0.0) == "19700101T000000Z-a-b-c-7"
    assert incident_id("::", 7, 0.0) == "19700101T000000Z-program-7"


# CONFIRMING


def test_work_that_goes_on_clears() -> None:
    story = Story()
    story.stall()
    story.look(story.silent(progress=4))
    assert story.phase() is Phase.WATCHING
    assert story.outcome() == ("none", "cleared")


def test_work_that_went_on_while_stacks_were_dumped_clears() -> None:
    story = Story()
    story.stall()
    story.world = replace(
        story.world, looks={n: k._replace(firing=(), log=k.log._replace(age=0.0)) for n, k in story.world.looks.items()}
    )
    story.dumped()
    assert story.outcome() == ("none", "cleared")


def test_a_wedged_verdict_goes_on_to_collect_its_evidence() -> None:
    story = Story()
    story.stall()
    story.dumped()
    assert story.phase() is Phase.COLLECTING
    (collect,) = story.of(CollectEvidence)
    assert collect.case.diagnosis.kind == "lost_batch"
    assert (collect.case.level, collect.case.would, collect.within) == (Level.RESTART, Level.RESTART, 30.0)
    assert len(collect.case.findings) == 7


@pytest.mark.parametrize(("kind", "why"), [("next_job", "verdict idle"), ("long_batch", "verdict busy")])
def test_an_idle_or_busy_verdict_is_vetoed_where_the_group_is_about_silence(kind: str, why: str) -> None:
    story = Story()
    story.stall()
    story.dumped(kind, kind)
    assert story.phase() is Phase.WATCHING
    assert f"'why': '{why}'" in story.said()
    assert not story.of(CollectEvidence)


def test_stacks_that_move_are_a_veto_whatever_their_shape() -> None:
    story = Story()
    story.stall()
    story.dumped("lost_batch", "lost_batch", moves=True)
    assert story.phase() is Phase.WATCHING
    assert "the stacks moved" in story.said()


@pytest.mark.parametrize(
    ("level", "phase", "may"),
    [
        (Level.OBSERVE, Phase.WATCHING, None),
        (Level.REPORT, Phase.COLLECTING, Level.REPORT),
        (Level.RESTART, Phase.COLLECTING, Level.RESTART),
    ],
)
def test_an_unknown_verdict_may_do_what_the_rule_says(level: Level, phase: Phase, may: Level | None) -> None:
    story = Story(unknown(level))
    story.stall()
    story.dumped("never_seen", "never_seen")
    assert story.phase() is phase
    if may is not None:
        assert story.incident().level is may


def test_unreadable_stacks_may_do_what_the_rule_says_of_them() -> None:
    story = Story(unknown(Level.OBSERVE, Level.RESTART))
    story.stall()
    story.dumped("x", "x", error="not permitted")
    assert story.incident().level is Level.RESTART


def test_in_mode_report_it_says_what_it_would_do() -> None:
    story = Story(ruleset(mode=Level.REPORT))
    story.stall()
    story.dumped()
    assert (story.incident().level, story.incident().would) == (Level.REPORT, Level.RESTART)


def test_dumps_that_do_not_come_are_unreadable() -> None:
    story = Story()
    story.stall()
    story.looks(50.0 + GRACE, story.silent())  # twice 10 s for the dumps and 15 s between them
    assert story.phase() is Phase.CONFIRMING
    story.look(story.silent())
    assert story.phase() is Phase.COLLECTING
    assert story.incident().level is Level.REPORT


def test_a_late_or_foreign_answer_means_nothing() -> None:
    story = Story()
    story.stall()
    story.tell(StacksDumped(story.at, story.wall, "ami:w0", "another", (), LogLines()))
    assert story.phase() is Phase.CONFIRMING
    story.tell(StacksDumped(story.at, story.wall, "nobody:x", "another", (), LogLines()))
    incident = story.incident().id
    story.look(story.silent(progress=9))
    story.tell(StacksDumped(story.at, story.wall, "ami:w0", incident, (), LogLines()))
    assert story.phase() is Phase.WATCHING


def test_troubles_of_the_dumps_stand_in_the_trace() -> None:
    story = Story()
    story.stall()
    story.tell(StacksDumped(story.at, story.wall, "ami:w0", story.incident().id, (), LogLines(), ("pid 102: gone",)))
    assert any("dump: pid 102: gone" in line for line in story.program().trace)


def test_a_rule_that_is_asked_no_more_ends_its_incident() -> None:
    story = Story()
    story.stall()
    story.rules = ruleset(rules=())  # without the event: answers may overtake it
    story.dumped()
    assert story.outcome() == ("none", "cleared")


# Vetoes


def test_a_vetoed_incident_is_confirmed_anew_after_60_s_doubling_to_15_min() -> None:
    story = Story()
    story.stall()
    waits = []
    for _ in range(6):
        story.dumped("next_job", "next_job")
        vetoed_at, tried = story.at, len(story.of(DumpStacks))
        while len(story.of(DumpStacks)) == tried:
            story.look(story.silent())
        waits.append(story.at - vetoed_at)
    assert [round(w / 60.0) for w in waits] == [1, 2, 4, 8, 15, 15]
    assert len({d.incident for d in story.of(DumpStacks)}) == 1


def test_a_veto_is_not_the_end_even_after_weeks() -> None:
    story = Story()
    story.stall()
    story.dumped("next_job", "next_job")
    (vetoed,) = story.program().vetoed
    program = replace(story.program(), vetoed=(replace(vetoed, tried=5000, confirm_at=0.0),))
    story.world = replace(story.world, programs={"ami:w0": program})
    story.look(story.silent())
    story.dumped("next_job", "next_job")
    assert story.program().vetoed[0].confirm_at == story.at + 900.0


def test_a_veto_is_over_at_once_when_another_group_fires() -> None:
    story = Story()
    story.stall()
    story.dumped("next_job", "next_job")
    story.look(story.silent())
    assert story.phase() is Phase.WATCHING
    story.look(story.silent(matches={MARKER: 1}))
    assert story.phase() is Phase.CONFIRMING
    assert story.incident().asked == (Firing("stall", "everything is silent"), Firing("stall", "a batch was lost"))


def test_a_worker_that_was_busy_and_then_wedges_without_one_more_heartbeat_is_found() -> None:
    story = Story()
    story.stall()
    story.dumped("long_batch", "long_batch")
    story.looks(65.0, story.silent())
    story.dumped()
    assert story.phase() is Phase.COLLECTING


def test_a_vetoed_incident_ends_when_its_rule_clears_and_unknown_does_not_clear_it() -> None:
    story = Story()
    story.stall()
    story.dumped("next_job", "next_job")
    story.look(story.silent(log=None, progress=None))
    assert story.program().vetoed
    story.look(story.silent(log=99))
    assert not story.program().vetoed
    assert story.outcome() == ("none", "vetoed")


def test_an_unknown_verdict_is_filed_once_and_confirmed_anew_in_the_same_incident() -> None:
    story = Story()
    story.stall()
    story.dumped("never_seen", "never_seen")
    story.sealed("/archive/first.tar.gz")
    assert story.phase() is Phase.WATCHING
    told = [dict(say.fields).get("outcome") for say in story.of(Say) if say.level == "warning"]
    assert told == ["reported"], "said as a warning, once, with the word that `incidents` will use"
    story.looks(65.0, story.silent())
    story.dumped("never_seen", "never_seen")
    assert [say.level for say in story.of(Say)].count("warning") == 1
    assert len(story.of(CollectEvidence)) == 1
    assert "the verdict is still unknown, and was reported" in story.said()
    story.look(story.silent(log=99))
    (record,) = story.journal().incidents.values()
    assert (record.action, record.outcome, record.bundle) == ("report", "reported", "/archive/first.tar.gz")


def test_an_unknown_verdict_that_turns_into_a_wedge_is_acted_on() -> None:
    story = Story()
    story.stall()
    story.dumped("never_seen", "never_seen")
    story.sealed()
    story.looks(65.0, story.silent())
    story.dumped()
    assert story.incident().level is Level.RESTART


def test_a_filed_incident_that_clears_while_confirmed_was_reported() -> None:
    story = Story()
    story.stall()
    story.dumped("never_seen", "never_seen")
    story.sealed()
    story.looks(65.0, story.silent())
    assert story.phase() is Phase.CONFIRMING
    story.look(story.silent(log=99))
    assert story.outcome() == ("report", "reported")


# Reports


def test_the_report_of_a_wedge_latches_and_other_rules_go_on() -> None:
    story = Story(ruleset(mode=Level.REPORT, rules=(STALL, LEAK)))
    story.stall()
    story.dumped()
    story.sealed()
    assert story.program().reported == ("stall",)
    assert story.outcome() == ("report", "reported")
    story.looks(600.0, story.silent())
    assert len(story.of(DumpStacks)) == 1
    seen = story.silent()
    story.looks(15.0, seen._replace(gauges=seen.gauges._replace(fds=950)))
    assert story.incident().rule == "leak"


def test_a_latch_ends_when_the_rule_clears() -> None:
    story = Story(ruleset(mode=Level.REPORT))
    story.stall()
    story.dumped()
    story.sealed()
    story.look(story.silent(log=99))
    assert story.program().reported == ()


def test_a_rule_about_gauges_takes_one_dump_for_the_record_and_no_verdict_vetoes_it() -> None:
    story = Story(ruleset(rules=(LEAK,)))
    seen = look()._replace(gauges=look().gauges._replace(fds=950))
    story.looks(15.0, seen)
    assert story.of(DumpStacks)[0].dumps == 1
    story.dumped("long_batch")
    assert story.incident().level is Level.RESTART


def test_a_rule_that_confirms_reports_a_busy_program_at_most_and_once_where_it_is_not_about_silence() -> None:
    story = Story(ruleset(rules=(replace(LEAK, confirm=Confirm()),)))
    seen = look()._replace(gauges=look().gauges._replace(fds=950))
    story.looks(15.0, seen)
    story.dumped("long_batch", "long_batch")
    assert story.incident().level is Level.REPORT
    story.sealed()
    assert story.program().reported == ()
    story.looks(65.0, seen)
    story.dumped("long_batch", "long_batch")
    assert len(story.of(CollectEvidence)) == 1


# Blind


def blind_story() -> Story:
    story = Story()
    story.looks(280.0, look(log=ABSENT, progress=ABSENT))
    return story


def test_a_blind_program_is_said_once_and_paged_and_idle_cpu_opens_confirming() -> None:
    story = blind_story()
    assert len(story.notices()) == 1
    assert story.incident().group == BLIND_GROUP


def test_a_blind_program_is_reported_at_most() -> None:
    story = blind_story()
    story.dumped()
    assert story.incident().level is Level.REPORT
    story.sealed()
    assert not story.of(StopProgram)
    assert story.outcome() == ("report", "reported")


def test_a_program_that_can_be_seen_again_is_not_blind_any_more() -> None:
    story = blind_story()
    story.look(look())
    assert "not blind any more" in story.said()
    assert story.phase() is Phase.WATCHING
