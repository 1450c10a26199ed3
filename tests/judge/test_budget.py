"""Budgets, the slot, the common cause, and the sums that must stay under 600 s."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.judge.build import STALL, Story
from watchdog.config import load_rules
from watchdog.judge.budget import (
    DEADLINE,
    KEEP,
    cooled_at,
    forget,
    host_free_at,
    rule_free_at,
    slot_wait,
    slots_taken,
    suspect,
    time_to_recover,
)
from watchdog.model.rule import CommonCause, HostLimits, Rule, RuleLimits
from watchdog.model.world import ConfirmEnd, Incident, Phase, Program, RestartEntry

LIMITS = HostLimits(common_cause=CommonCause(0.5, 60.0))


def entry(at: float, program: str = "ami:w0", rule: str = "stall") -> RestartEntry:
    return RestartEntry(f"i{at}", program, rule, at)


# Budgets


def test_a_rule_has_so_many_restarts_of_a_program_in_any_window() -> None:
    past = [entry(0.0), entry(100.0), entry(200.0)]
    assert rule_free_at(STALL, "ami:w0", past, 300.0) == 3600.0
    assert rule_free_at(STALL, "ami:w0", past, 3600.0) == 3600.0
    assert rule_free_at(STALL, "ami:w0", past[:2], 300.0) == 300.0


def test_a_rules_budget_is_for_its_own_restarts_of_this_program() -> None:
    past = [entry(1.0), entry(2.0, program="gpu:x"), entry(3.0, rule="leak"), entry(4.0)]
    assert rule_free_at(STALL, "ami:w0", past, 5.0) == 5.0


def test_the_hosts_budget_counts_everything() -> None:
    past = [entry(float(n), program=f"p:{n}", rule=f"r{n}") for n in range(6)]
    assert host_free_at(LIMITS, past, 10.0) == 3600.0
    assert host_free_at(LIMITS, past[1:], 10.0) == 10.0


def test_more_restarts_than_allowed_free_the_budget_only_when_enough_are_over() -> None:
    past = [entry(float(n)) for n in range(8)]  # a configuration that allows fewer came later
    assert host_free_at(LIMITS, past, 10.0) == 2.0 + 3600.0


def test_a_budget_of_none_is_never_free() -> None:
    never = replace(STALL, limits=RuleLimits(restarts=0))
    assert rule_free_at(never, "ami:w0", [], 5.0) == float("inf")


def test_the_cooldown_counts_from_the_attempt_by_whichever_rule() -> None:
    assert cooled_at(STALL, "ami:w0", [entry(10.0, rule="leak"), entry(99.0, program="b:c")]) == 340.0
    assert cooled_at(STALL, "ami:w0", []) == float("-inf")


def test_restarts_that_no_budget_counts_are_forgotten() -> None:
    old, new = entry(0.0), entry(KEEP)
    assert forget((old, new), KEEP + 1.0) == (new,)
    assert forget((new,), KEEP + 1.0) == (new,)
    assert forget((), 5.0) == ()


# The slot


def test_the_slot_is_held_from_the_intent_until_stopping_and_starting_are_left() -> None:
    story = Story()
    story.looks(300.0)
    incident = story.world.programs["ami:w0"].incident
    assert isinstance(incident, Incident)
    intended = replace(incident, intent="written")

    def taken(phase: Phase, with_incident: Incident | None = intended) -> int:
        return slots_taken([Program("ami:w0", phase=phase, incident=with_incident)])

    assert taken(Phase.COLLECTING) == 1
    assert taken(Phase.COLLECTING, incident) == 0
    assert taken(Phase.COLLECTING, None) == 0
    assert taken(Phase.STOPPING) == 1
    assert taken(Phase.STARTING) == 1
    assert taken(Phase.VERIFYING) == 0
    assert taken(Phase.COOLDOWN) == 0


# Common cause


def ends(*at: tuple[str, float, bool]) -> tuple[ConfirmEnd, ...]:
    return tuple(ConfirmEnd(when, name, suspected) for name, when, suspected in at)


def test_half_of_the_watched_programs_within_a_minute_share_a_cause() -> None:
    assert suspect(ends(("a", 0.0, True), ("b", 60.0, True)), 0.0, 4, LIMITS) == {"a", "b"}


def test_fewer_than_half_or_only_one_share_nothing() -> None:
    assert suspect(ends(("a", 0.0, True), ("b", 1.0, True)), 0.0, 5, LIMITS) == frozenset()
    assert suspect(ends(("a", 0.0, True), ("a", 1.0, True)), 0.0, 1, LIMITS) == frozenset()


def test_more_than_a_minute_apart_is_apart() -> None:
    assert suspect(ends(("a", 0.0, True), ("b", 61.0, True)), 30.0, 2, LIMITS) == frozenset()
    assert suspect((), 0.0, 2, LIMITS) == frozenset()


def test_what_does_not_count_does_not_count() -> None:
    assert suspect(ends(("a", 0.0, True), ("b", 1.0, False)), 0.0, 2, LIMITS) == frozenset()


# The sums


@pytest.fixture(scope="module")
def stall() -> Rule:
    """The built-in rule, as it is shipped."""
    return load_rules(())["stall"]


def test_from_the_last_progress_to_the_first_new_batch_takes_520_s_at_most(stall: Rule) -> None:
    assert time_to_recover(stall, 5.0) == 520.0 < DEADLINE == 600.0


def test_a_second_worker_that_wedged_in_the_same_second_waits_40_s_for_the_slot(stall: Rule) -> None:
    assert slot_wait(stall) == 40.0
    assert time_to_recover(stall, 5.0) + slot_wait(stall) == 560.0 < DEADLINE


def test_startsecs_count_in_both(stall: Rule) -> None:
    assert time_to_recover(stall, 5.0, 10.0) == 530.0
    assert slot_wait(stall, 10.0) == 50.0


def test_a_rule_that_does_not_confirm_needs_no_time_for_dumps() -> None:
    assert time_to_recover(replace(STALL, confirm=None), 5.0) == 505.0
    assert time_to_recover(replace(STALL, when=()), 5.0) == 250.0


def test_the_built_in_rule_is_the_one_that_these_tests_use(stall: Rule) -> None:
    numbers = ("confirm", "collect_within", "stop", "start_within", "verify_within", "limits", "then")
    assert [getattr(stall, n) for n in numbers] == [getattr(STALL, n) for n in numbers]
    assert [tuple(type(d) for d in g.all) for g in stall.when] == [tuple(type(d) for d in g.all) for g in STALL.when]
