"""COLLECTING: sealed evidence, the last look, and all that a restart waits for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.judge.build import STALL, Story, look, ruleset
from watchdog.judge.confirm import GRACE
from watchdog.model.action import CollectEvidence, DumpStacks, Persist, StopProgram
from watchdog.model.event import BundleSealed, Persisted, Reloaded, SupervisorSilent, Terminating
from watchdog.model.observation import Identity
from watchdog.model.record import GivenUpRecord, RestartRecord
from watchdog.model.rule import HostLimits, Level, RuleLimits
from watchdog.model.world import Phase, RestartEntry, Sealed, Transaction


def last_look(story: Story, name: str = "ami:w0") -> None:
    story.look(story.silent(name))


def waiting_for(story: Story, name: str = "ami:w0") -> str:
    return story.incident(name).waiting


# Evidence


def test_nothing_is_intended_before_the_evidence_is_sealed() -> None:
    story = Story()
    story.to_collecting()
    story.looks(30.0, story.silent())
    assert story.incident().intent == "none"
    story.sealed()
    assert story.incident().intent == "none"
    last_look(story)
    assert story.incident().intent == "asked"


def test_its_fallback_copy_is_evidence_too() -> None:
    story = Story()
    story.to_collecting()
    sealed = Sealed(None, "/run/essential.tar.gz", "no space left")
    story.tell(BundleSealed(story.at, story.wall, "ami:w0", story.incident().id, sealed))
    assert "the archive could not be written" in story.said()
    last_look(story)
    assert story.incident().intent == "asked"


def test_without_bundle_and_fallback_nothing_is_stopped_and_it_is_tried_again_after_the_cooldown() -> None:
    story = Story()
    story.to_collecting()
    story.sealed(None, "no space left")
    assert story.phase() is Phase.COOLDOWN
    assert story.outcome() == ("none", "vetoed")
    assert len(story.notices()) == 1
    story.looks(325.0, story.silent())
    assert story.phase() is Phase.COOLDOWN
    story.looks(10.0, story.silent())
    assert story.phase() is Phase.CONFIRMING


def test_evidence_that_is_not_sealed_in_time_counts_as_none() -> None:
    story = Story()
    story.to_collecting()
    story.looks(STALL.collect_within + GRACE, story.silent())
    assert story.phase() is Phase.COLLECTING
    story.looks(10.0, story.silent())
    assert story.phase() is Phase.COOLDOWN


def test_a_second_or_foreign_bundle_means_nothing() -> None:
    story = Story()
    story.to_collecting()
    for incident in ("another", story.incident().id, story.incident().id):
        story.tell(BundleSealed(story.at, story.wall, "ami:w0", incident, Sealed(f"/{incident}/{len(story.actions)}")))
    first = story.incident().sealed
    story.sealed("/archive/second")
    assert story.incident().sealed is first


def test_a_bundle_that_comes_after_the_end_means_nothing() -> None:
    story = Story()
    story.to_collecting()
    incident = story.incident().id
    story.look(story.silent(log=99))
    story.tell(BundleSealed(story.at, story.wall, "ami:w0", incident, Sealed("/a")))
    assert story.phase() is Phase.WATCHING


# The last look


def test_work_that_goes_on_before_the_stop_clears() -> None:
    story = Story()
    story.to_intent()
    story.look(story.silent(progress=4))
    assert story.phase() is Phase.WATCHING
    assert story.outcome() == ("report", "cleared")
    assert story.journal().transactions == {}
    assert story.world.host.restarts == ()


def test_a_last_look_that_stays_unknown_for_60_s_ends_as_vetoed() -> None:
    story = Story()
    story.to_collecting()
    story.sealed()
    story.looks(60.0, story.silent(log=None))
    assert story.phase() is Phase.COLLECTING
    story.look(story.silent(log=None))
    assert story.phase() is Phase.WATCHING
    assert "the last look stayed unknown" in story.said()
    assert not story.of(StopProgram)


def test_a_look_that_is_known_again_begins_the_60_s_anew() -> None:
    story = Story(ruleset(limits=HostLimits(restarts=0)))
    story.to_collecting()
    story.sealed()
    for _ in range(3):
        story.looks(50.0, story.silent(log=None))
        story.look(story.silent())
    assert story.phase() is Phase.COLLECTING


def test_a_last_look_that_stays_unknown_while_the_intent_is_written_takes_the_intent_back() -> None:
    story = Story()
    story.to_intent()
    story.looks(65.0, story.silent(log=None))
    assert story.phase() is Phase.WATCHING
    assert story.journal().transactions == {}
    assert story.journal().restarts == {}


def test_a_program_that_goes_blind_while_it_waits_is_not_stopped() -> None:
    story = Story(ruleset(limits=HostLimits(restarts=0)))
    story.to_collecting()
    story.sealed()
    last_look(story)
    story.rules = ruleset()
    story.looks(700.0, story.silent(log=None, progress=None))
    assert not story.of(StopProgram)
    assert all(p.step is None for p in story.of(Persist))


def test_a_new_process_ends_the_incident() -> None:
    story = Story()
    story.to_intent()
    story.look(look(pid=777))
    assert story.phase() is Phase.WATCHING
    assert "a new process, by another hand" in story.said()
    story.look(look(pid=None))
    assert story.journal().transactions == {}


def test_a_process_that_is_gone_ends_the_incident() -> None:
    story = Story()
    story.to_collecting()
    story.look(look(pid=None))
    assert "its process is gone" in story.said()


def test_a_rule_that_is_asked_no_more_ends_it() -> None:
    story = Story()
    story.to_collecting()
    story.rules = ruleset(rules=())
    last_look(story)
    assert story.outcome() == ("none", "cleared")


# The intent


def test_the_intent_holds_all_that_a_fresh_daemon_needs() -> None:
    story = Story()
    story.set_info(startsecs=3.0)
    story.answer()
    story.to_intent()
    incident, counted, transaction = story.of(Persist)[-1].records
    assert isinstance(transaction, Transaction)
    assert isinstance(counted, RestartRecord)
    assert transaction.tree == (Identity(101, 1101), Identity(102, 2101))
    assert (transaction.step, transaction.started_at, transaction.stop_within) == ("intent", 50, 20.0)
    assert (transaction.start_within, transaction.verify_within, transaction.cooldown) == (18.0, 150.0, 330.0)
    assert (counted.mono, counted.wall, counted.boot_id) == (story.at, story.wall, "boot-1")
    assert getattr(incident, "outcome", "?") is None


def test_a_tree_that_could_not_be_read_is_at_least_the_main_process() -> None:
    story = Story()
    story.to_collecting()
    story.sealed()
    story.look(story.silent(tree=()))
    transaction = story.incident().transaction
    assert transaction is not None
    assert transaction.tree == (Identity(101, 1101),)


def test_an_intent_that_could_not_be_written_stops_nothing() -> None:
    story = Story()
    story.to_intent()
    story.persisted("no space left")
    assert story.phase() is Phase.COOLDOWN
    assert story.world.host.restarts == ()
    assert not story.of(StopProgram)


@pytest.mark.parametrize("step", ["owed", "started", "closed"])
def test_only_the_intents_own_answer_releases_the_stop(step: str) -> None:
    story = Story()
    story.to_intent()
    incident = story.incident().id
    story.tell(Persisted(story.at, story.wall, "ami:w0", incident, step))  # type: ignore[arg-type]
    story.tell(Persisted(story.at, story.wall, "ami:w0", "another", "intent"))
    assert not story.of(StopProgram)
    story.look(story.silent(progress=9))
    story.tell(Persisted(story.at, story.wall, "ami:w0", incident, "intent"))
    assert not story.of(StopProgram)


def test_a_look_that_changed_while_the_intent_was_written_takes_it_back_and_looks_again() -> None:
    story = Story()
    story.to_intent()
    story.look(story.silent(log=None))
    story.persisted()
    assert not story.of(StopProgram)
    assert story.journal().transactions == {}
    last_look(story)
    assert story.incident().intent == "asked"
    story.persisted()
    assert len(story.of(StopProgram)) == 1


# What it waits for


def test_it_waits_for_supervisord_and_two_looks_after_its_return() -> None:
    story = Story(ruleset(logs=("/var/log/own.log",)))
    story.to_collecting()
    story.sealed()
    story.tell(SupervisorSilent(story.at, story.wall, "no answer"))
    last_look(story)
    assert waiting_for(story) == "for supervisord to answer, and for two looks after that"
    story.answer()
    last_look(story)
    assert story.incident().intent == "none"
    last_look(story)
    assert story.incident().intent == "asked"


def test_it_waits_until_supervisord_calls_this_process_running() -> None:
    story = Story()
    story.to_collecting()
    story.sealed()
    story.told(state="STOPPING")
    last_look(story)
    assert waiting_for(story) == "for supervisord to call this process RUNNING"


def test_the_hosts_spent_budget_makes_it_wait_and_says_so_once() -> None:
    story = Story(ruleset(limits=HostLimits(restarts=1, per=3600.0)))
    past = RestartEntry("earlier", "gpu:other", "stall", story.at)
    story.world = replace(story.world, host=replace(story.world.host, restarts=(past,)))
    story.to_collecting()
    story.sealed()
    story.looks(60.0, story.silent())
    assert waiting_for(story) == "for the host's budget of restarts"
    assert story.said().count("'why': \"waits for the host's budget of restarts\"") == 1
    story.looks(3600.0, story.silent())
    assert story.incident().intent == "asked"


def test_the_cooldown_of_another_rules_restart_makes_it_wait() -> None:
    story = Story()
    story.to_collecting()
    story.sealed()
    past = RestartEntry("earlier", "ami:w0", "leak", story.at)
    story.world = replace(story.world, host=replace(story.world.host, restarts=(past,)))
    last_look(story)
    assert waiting_for(story) == "for the cooldown of the last restart"


def test_the_rules_own_spent_budget_is_given_up_loudly_and_comes_back_after_retry() -> None:
    story = Story(
        ruleset(rules=(replace(STALL, limits=RuleLimits(330.0, 1, 3600.0)),), limits=HostLimits(retry=7200.0))
    )
    story.to_collecting()
    story.sealed()
    past = RestartEntry("earlier", "ami:w0", "stall", story.at - 1000.0)
    story.world = replace(story.world, host=replace(story.world.host, restarts=(past,)))
    last_look(story)
    assert story.phase() is Phase.GIVEN_UP
    assert story.outcome() == ("report", "reported")
    assert len(story.notices()) == 1
    assert GivenUpRecord("ami:w0", story.wall + 7200.0) in story.records()
    story.looks(7195.0, story.silent())
    assert story.phase() is Phase.GIVEN_UP
    story.look(story.silent())
    assert story.phase() is Phase.WATCHING


def test_a_second_program_waits_for_the_slot_until_the_first_has_left_starting() -> None:
    """The sum of DESIGN: 20 s stop, 5 s survivors, 15 s start, at the most."""
    story = Story(programs=("ami:w0", "ami:w1"))
    for seen in (9, 10):
        for name in ("ami:w0", "ami:w1"):
            story.look(story.silent(name, log=seen), after=2.5)
    for _ in range(60):
        for name in ("ami:w0", "ami:w1"):
            story.look(story.silent(name), after=2.5)
    for name in ("ami:w0", "ami:w1"):
        story.dumped(name=name)
        story.sealed(name=name)
    last_look(story, "ami:w0")
    last_look(story, "ami:w1")
    assert waiting_for(story, "ami:w1") == "for the restart slot"
    story.persisted(name="ami:w0")
    story.stop_sent(name="ami:w0")
    last_look(story, "ami:w1")
    assert story.incident("ami:w1").intent == "none"
    story.told("ami:w0", pid=0, state="STOPPED")
    story.reaped(name="ami:w0")
    story.start_sent("ami:w0")
    last_look(story, "ami:w1")
    assert story.incident("ami:w1").intent == "none"
    story.told("ami:w0", pid=901, state="RUNNING", started_at=9000)
    assert story.phase("ami:w0") is Phase.VERIFYING
    last_look(story, "ami:w1")
    assert story.incident("ami:w1").intent == "asked"


def test_two_at_once_where_the_configuration_allows_it() -> None:
    story = Story(ruleset(limits=HostLimits(restarts_at_once=2)), programs=("ami:w0", "ami:w1"))
    story.to_stopping("ami:w0")
    story.looks(10.0, story.silent("ami:w1"))
    story.to_stopping("ami:w1")
    assert len(story.of(StopProgram)) == 2


def test_a_watchdog_that_ends_sends_no_new_stop() -> None:
    story = Story()
    story.to_collecting()
    story.sealed()
    story.tell(Terminating(story.at, story.wall))
    last_look(story)
    assert waiting_for(story) == "for nothing: the watchdog is ending"


def test_a_watchdog_that_ends_while_the_intent_is_written_sends_no_stop() -> None:
    story = Story()
    story.to_intent()
    story.tell(Terminating(story.at, story.wall))
    story.persisted()
    assert not story.of(StopProgram)


@pytest.mark.parametrize("how", ["pause", "reload"])
def test_a_pause_or_reload_before_the_stop_cancels(how: str) -> None:
    story = Story()
    story.to_intent()
    incident = story.incident().id
    if how == "pause":
        story.ask("pause", 60.0)
    else:
        story.tell(Reloaded(story.at, story.wall))
    assert story.phase() is Phase.WATCHING
    story.tell(Persisted(story.at, story.wall, "ami:w0", incident, "intent"))
    assert not story.of(StopProgram)
    assert story.journal().transactions == {}


# By hand


def test_evidence_by_hand_is_collected_and_reported_and_stops_nothing() -> None:
    story = Story()
    story.looks(10.0, story.silent())
    story.ask("collect")
    assert story.of(DumpStacks)
    story.dumped()
    story.look(story.silent(progress=44))
    assert story.of(CollectEvidence)[0].case.level is Level.REPORT
    story.sealed()
    assert story.phase() is Phase.WATCHING
    assert story.outcome() == ("report", "reported")
    assert not story.notices()
    assert story.program().reported == ()


def test_evidence_by_hand_that_could_not_be_written_does_not_stop_the_watching() -> None:
    story = Story()
    story.looks(10.0, story.silent())
    story.ask("collect")
    story.dumped()
    story.sealed(None, "no space left")
    assert story.phase() is Phase.WATCHING
