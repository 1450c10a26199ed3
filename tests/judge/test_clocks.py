"""Change clocks: what adds to silence, and what does not."""

from __future__ import annotations

import pytest

from tests.judge.build import MARKER, STALL, look, ruleset, sample
from watchdog.judge.clocks import (
    CLEAR,
    advance,
    anew,
    first_look,
    level_holds,
    next_look,
    unseen,
    without_logs,
)
from watchdog.model.observation import ABSENT, Gauges, Identity, Observation
from watchdog.model.rule import Above, Below, CpuAbove, CpuBelow, Group, InState, Policy, Rule
from watchdog.model.world import Clock, Look

POLICY = ruleset().policies[0]


def seen(*observations: Observation, every: float = 5.0, policy: Policy = POLICY) -> Look:
    """Looks `every` seconds apart, with an interval of 5 s."""
    found = first_look(policy, observations[0], 100.0)
    for number, each in enumerate(observations[1:], 1):
        found = next_look(found, policy, each, 100.0 + number * every, 5.0)
    return found


def test_silence_is_the_time_since_the_value_was_seen_to_change() -> None:
    found = seen(look(log=1), look(log=2), look(log=2), look(log=2))
    assert (found.log.age, found.log.changes) == (10.0, 1)


def test_the_first_look_begins_every_clock_however_old_the_log_is() -> None:
    assert seen(look()).log == Clock(10, 0.0, 0, 0.0)


@pytest.mark.parametrize("gap", [15.0, 16.0, 4000.0])
def test_a_suspended_host_or_a_late_tick_adds_at_most_three_intervals(gap: float) -> None:
    assert seen(look(), look(), every=gap).log.age == 15.0


def test_a_monotonic_clock_that_stood_still_adds_nothing() -> None:
    assert seen(look(), look(), every=0.0).log.age == 0.0


def test_time_in_which_a_heartbeat_was_unknown_is_not_silence() -> None:
    found = seen(look(), look(), look(log=None), look(log=None), look())
    assert (found.log.age, found.log.unknown) == (10.0, 0.0)


def test_an_unknown_heartbeat_keeps_its_value_and_counts_how_long_it_is_unknown() -> None:
    found = seen(look(), look(log=None), look(log=None))
    assert found.log == Clock(10, 0.0, 0, 10.0)


def test_a_change_behind_an_unknown_look_is_a_change() -> None:
    assert seen(look(log=1), look(log=None), look(log=2)).log == Clock(2, 0.0, 1, 0.0)


def test_a_heartbeat_that_appears_begins_anew_and_did_not_change() -> None:
    assert advance(Clock(ABSENT, 50.0, 3, 0.0), 7, 5.0) == Clock(7, 0.0, 0, 0.0)


def test_anew_keeps_the_value_and_forgets_the_silence() -> None:
    assert anew(Clock(7, 300.0, 4, 0.0)) == Clock(7, 0.0, 4, 0.0)


def test_marker_lines_found_at_the_first_look_were_written_under_this_process() -> None:
    assert seen(look(matches={MARKER: 2})).matches[MARKER] == Clock(2, 0.0, 1, 0.0)


def test_a_marker_that_was_never_seen_has_not_changed() -> None:
    assert seen(look(matches={MARKER: 0}), look(matches={MARKER: 0})).matches[MARKER] == Clock(0, 5.0, 0, 0.0)


def test_a_pattern_of_new_rules_is_counted_from_its_first_look_on() -> None:
    assert seen(look(matches={}), look(matches={MARKER: 0}), look(matches={MARKER: 1})).matches[MARKER].changes == 1


def test_a_look_that_did_not_come_back_knows_nothing_of_what_there_is() -> None:
    made_up = unseen(seen(look(log=ABSENT)))
    assert (made_up.log, made_up.progress, made_up.matches) == (ABSENT, None, {MARKER: None})
    assert made_up.ident == Identity(101, 1101)
    assert made_up.gauges == Gauges()
    assert unseen(seen(look(progress=ABSENT))).progress is ABSENT


def test_while_supervisord_does_not_answer_its_logs_are_unknown() -> None:
    dark = without_logs(look(idle_line=True, progress_after_idle=True), True)
    assert (dark.log, dark.progress, dark.idle_line, dark.progress_after_idle) == (None, None, None, None)
    assert dark.matches == {MARKER: None}


def test_while_supervisord_does_not_answer_a_progress_file_is_still_seen() -> None:
    assert without_logs(look(), False).progress == 3


def test_while_supervisord_does_not_answer_an_absent_heartbeat_stays_absent() -> None:
    dark = without_logs(look(log=ABSENT, progress=ABSENT), True)
    assert (dark.log, dark.progress) == (ABSENT, ABSENT)


def test_a_level_must_hold_in_every_look_and_one_that_was_unknown_neither_adds_nor_ends() -> None:
    assert seen(look(cpu=0.001), look(cpu=0.001), look(cpu=0.001)).held == (10.0,)
    assert seen(look(cpu=0.001), look(cpu=None)).held == (0.0,)
    assert seen(look(cpu=None)).held == (None,)
    assert seen(look(cpu=0.001), look(cpu=None), look(cpu=0.001), look(cpu=0.001)).held == (10.0,)
    assert seen(look(cpu=0.001), look(cpu=0.9)).held == (CLEAR,)
    assert seen(look(cpu=0.9), look(cpu=0.001)).held == (0.0,)


def test_levels_begin_anew_with_other_detectors() -> None:
    before = seen(look(), look())._replace(held=())
    assert next_look(before, POLICY, look(), 200.0, 5.0).held == (0.0,)


def test_an_unwatched_program_has_no_levels() -> None:
    found = first_look(None, look(), 1.0)
    assert next_look(found, None, look(), 6.0, 5.0).held == ()


def test_quiet_cpu_is_counted_and_unknown_cpu_adds_nothing() -> None:
    assert seen(look(), look(), look()).cpu_quiet == 10.0
    assert seen(look(), look(), look(cpu=None)).cpu_quiet == 5.0
    assert seen(look(), look(), look(cpu=0.5)).cpu_quiet == 0.0


@pytest.mark.parametrize(
    ("detector", "low", "high"),
    [
        (CpuBelow(0.05), True, False),
        (CpuAbove(0.05), False, True),
        (Above("rss", 500.0), False, True),
        (Below("rss", 500.0), True, False),
    ],
)
def test_a_level_is_on_one_side_or_on_the_other(
    detector: CpuBelow | CpuAbove | Above | Below, low: bool, high: bool
) -> None:
    quiet, loud = Gauges(cpu=0.01, rss=100), Gauges(cpu=0.9, rss=900)
    assert level_holds(detector, look(gauges=quiet)) is low
    assert level_holds(detector, look(gauges=loud)) is high
    assert level_holds(detector, look(gauges=Gauges())) is None


def test_one_process_of_the_tree_in_a_state_is_enough() -> None:
    stuck = look(tree=(sample(101, 1101), sample(102, 1102, 101, state="D")))
    assert level_holds(InState("DT"), stuck) is True
    assert level_holds(InState("Z"), stuck) is False
    assert level_holds(InState("D"), look(tree=())) is None


def test_each_level_is_held_once_however_many_rules_ask() -> None:
    twice = Rule("other", "x", (Group("g", STALL.when[0].all),))
    assert len(Policy("*", rules=(STALL, twice)).held) == 1
