"""Detectors, groups and rules: holds, clear, unknown, absent; and the same in words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.judge.build import MARKER, STALL, look, ruleset, sample
from watchdog.judge.clocks import first_look
from watchdog.judge.detectors import (
    BLIND_AFTER,
    BLIND_GROUP,
    blind_for,
    describe,
    evaluate,
    findings,
    group_status,
    is_blind,
    rests,
    rule_status,
    spell,
    status_of,
    working,
)
from watchdog.model.observation import ABSENT, Gauges, Observation
from watchdog.model.rule import (
    Above,
    Below,
    CpuAbove,
    CpuBelow,
    Detector,
    Group,
    InState,
    Matches,
    Policy,
    Rule,
    Unchanged,
    Working,
)
from watchdog.model.world import Clock, Firing, Look, Status

POLICY = ruleset().policies[0]
NO_IDLE = ruleset(idle=False).policies[0]
SILENT, MARKED, NO_BATCH = STALL.when


def seen(observation: Observation | None = None, *, log: float = 0.0, progress: float = 0.0, **more: Any) -> Look:
    """A look whose clocks have these ages."""
    found = first_look(POLICY, observation or look(), 100.0)
    return found._replace(
        log=found.log._replace(age=log), progress=found.progress._replace(age=progress), held=(60.0,), **more
    )


# working


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"in_flight": 2}, True),
        ({"in_flight": 0}, None),
        ({"says": "working"}, True),
        ({"says": "idle"}, False),
        ({"says": "idle", "in_flight": 3}, False),
        ({"progress_count": 3, "progress_total": 9}, True),
        ({"progress_count": 9, "progress_total": 9}, None),
        ({"progress_count": 46}, None),
        ({"progress_total": 46}, None),
        ({"progress_after_idle": True}, True),
        ({"progress_after_idle": False}, None),
        ({"idle_line": True}, False),
        ({"idle_line": True, "in_flight": 3}, False),
        ({}, None),
    ],
)
def test_working_is_true_or_false_only_where_the_program_says_so(facts: dict[str, Any], expected: bool | None) -> None:
    assert working(POLICY, seen(look(**facts))) is expected


def test_the_idle_line_excuses_silence_for_so_long_only() -> None:
    assert rests(POLICY, seen(look(idle_line=True), log=1799.0))
    assert not rests(POLICY, seen(look(idle_line=True), log=1800.0))
    assert not rests(NO_IDLE, seen(look(idle_line=True)))
    assert not rests(POLICY, seen(look(idle_line=None)))


# unchanged


def test_unchanged_holds_at_its_time() -> None:
    assert status_of(Unchanged("log", 270.0), POLICY, seen(log=269.0)) is Status.CLEAR
    assert status_of(Unchanged("log", 270.0), POLICY, seen(log=270.0)) is Status.HOLDS
    assert status_of(Unchanged("progress", 270.0), POLICY, seen(progress=270.0)) is Status.HOLDS


def test_unknown_neither_fires_nor_clears_and_absent_is_not_unknown() -> None:
    assert status_of(Unchanged("log", 1.0), POLICY, seen(look(log=None), log=900.0)) is Status.UNKNOWN
    assert status_of(Unchanged("log", 1.0), POLICY, seen(look(log=ABSENT), log=900.0)) is Status.ABSENT


def test_while_the_program_rests_its_silence_is_no_stall() -> None:
    resting = seen(look(idle_line=True), log=1000.0, progress=1000.0)
    assert status_of(Unchanged("progress", 270.0), POLICY, resting) is Status.CLEAR
    assert "its idle line is the last one, for 1000 s" in findings(POLICY, resting)[0].reason


def test_a_log_that_cannot_be_read_says_nothing_of_the_idle_line() -> None:
    """The idle line may be its last, so unchanged progress is neither a stall nor none."""
    dark = seen(look(log=None, idle_line=True), log=1.0, progress=900.0)
    assert not rests(POLICY, dark)
    assert status_of(Unchanged("progress", 270.0), POLICY, dark) is Status.UNKNOWN
    assert status_of(Unchanged("progress", 270.0), NO_IDLE, dark) is Status.HOLDS
    assert status_of(Unchanged("progress", 1000.0), POLICY, dark) is Status.CLEAR


def test_a_heartbeat_that_was_absent_and_is_unknown_now_does_not_make_a_program_blind_at_once() -> None:
    found = seen(look(log=None, progress=ABSENT))
    assert not is_blind(POLICY, found._replace(log=Clock(ABSENT, 0.0, 0, 5.0)))
    assert is_blind(POLICY, found._replace(log=Clock(ABSENT, 0.0, 0, 600.0)))


# matches


def test_a_marker_holds_for_so_long() -> None:
    for age, expected in ((599.0, Status.HOLDS), (601.0, Status.CLEAR)):
        found = seen(look(matches={MARKER: 1}), matches={MARKER: Clock(1, age, 1, 0.0)})
        assert status_of(MARKED.all[0], POLICY, found) is expected


def test_a_marker_in_a_log_that_cannot_be_read_is_unknown_and_in_one_that_is_not_there_clear() -> None:
    assert status_of(MARKED.all[0], POLICY, seen(look(matches={MARKER: None}))) is Status.UNKNOWN
    assert status_of(MARKED.all[0], POLICY, seen(look(matches={}), matches={})) is Status.UNKNOWN
    assert status_of(MARKED.all[0], POLICY, seen(look(matches={MARKER: ABSENT}))) is Status.CLEAR


# levels


def test_a_level_holds_after_its_time_and_is_unknown_without_one() -> None:
    below = SILENT.all[2]
    assert status_of(below, POLICY, seen()._replace(held=(59.0,))) is Status.CLEAR
    assert status_of(below, POLICY, seen()._replace(held=(60.0,))) is Status.HOLDS
    assert status_of(below, POLICY, seen()._replace(held=(None,))) is Status.UNKNOWN
    assert status_of(below, POLICY, seen()._replace(held=())) is Status.UNKNOWN


def test_working_as_a_detector() -> None:
    busy = seen(look(in_flight=1))
    assert status_of(Working(True), POLICY, busy) is Status.HOLDS
    assert status_of(Working(False), POLICY, busy) is Status.CLEAR
    assert status_of(Working(True), POLICY, seen()) is Status.UNKNOWN


# groups


def test_in_a_group_every_detector_must_hold() -> None:
    assert group_status(SILENT, POLICY, seen(log=300.0, progress=300.0)) is Status.HOLDS
    assert group_status(SILENT, POLICY, seen(log=300.0, progress=10.0)) is Status.CLEAR


def test_one_detector_that_is_clear_settles_a_group_and_one_unknown_keeps_it_from_firing() -> None:
    assert group_status(SILENT, POLICY, seen(look(log=None), progress=10.0)) is Status.CLEAR
    assert group_status(SILENT, POLICY, seen(look(log=None), progress=300.0)) is Status.UNKNOWN


def test_an_absent_heartbeat_leaves_its_detector_out() -> None:
    assert group_status(SILENT, POLICY, seen(look(progress=ABSENT), log=300.0)) is Status.HOLDS


def test_a_group_that_has_no_unchanged_left_cannot_fire() -> None:
    assert group_status(SILENT, POLICY, seen(look(log=ABSENT, progress=ABSENT))) is Status.ABSENT
    assert group_status(NO_BATCH, POLICY, seen(look(progress=ABSENT, in_flight=1))) is Status.ABSENT


def test_a_group_of_levels_needs_no_heartbeat() -> None:
    policy = Policy("*", rules=(Rule("cpu", "x", (Group("g", (CpuBelow(0.05, 60.0),)),)),))
    assert group_status(policy.rules[0].when[0], policy, seen(look(log=ABSENT, progress=ABSENT))) is Status.HOLDS


def test_a_group_of_nothing_cannot_fire() -> None:
    assert group_status(Group("none", ()), POLICY, seen()) is Status.ABSENT


# rules


def test_any_group_fires_its_rule() -> None:
    found = evaluate(POLICY, seen(look(in_flight=1), log=0.0, progress=900.0))
    assert found.firing == (Firing("stall", NO_BATCH.name),)
    assert rule_status(STALL, POLICY, found) is Status.HOLDS


def test_a_rule_is_unknown_when_some_group_may_hold_and_absent_when_none_can() -> None:
    assert rule_status(STALL, POLICY, evaluate(POLICY, seen(look(log=None), progress=300.0))) is Status.UNKNOWN
    assert rule_status(STALL, POLICY, evaluate(POLICY, seen())) is Status.CLEAR
    only = Rule("r", "x", (SILENT,))
    policy = Policy("*", rules=(only,))
    gone = first_look(policy, look(log=ABSENT, progress=ABSENT), 1.0)._replace(held=(60.0,))
    assert rule_status(only, policy, gone) is Status.ABSENT


def test_a_program_that_does_not_run_or_is_unwatched_fires_nothing() -> None:
    fired = evaluate(POLICY, seen(log=300.0, progress=300.0))
    assert fired.firing
    assert evaluate(None, fired).firing == ()
    assert evaluate(POLICY, fired._replace(ident=None)).firing == ()
    quiet = seen()
    assert evaluate(None, quiet) is quiet
    assert evaluate(POLICY, quiet) is quiet


# blind


def test_a_program_with_no_heartbeat_at_all_is_blind() -> None:
    assert is_blind(POLICY, seen(look(log=ABSENT, progress=ABSENT)))
    assert not is_blind(POLICY, seen(look(log=ABSENT)))


def test_a_program_is_blind_when_its_heartbeats_are_unknown_for_ten_minutes() -> None:
    def dark(seconds: float) -> Look:
        unknown = Clock(3, 0.0, 0, seconds)
        return seen(look(log=None, progress=None))._replace(log=unknown, progress=unknown)

    assert BLIND_AFTER == 600.0
    assert not is_blind(POLICY, dark(599.0))
    assert is_blind(POLICY, dark(600.0))


def test_a_program_whose_rules_ask_for_no_silence_is_never_blind() -> None:
    policy = Policy("*", rules=(Rule("cpu", "x", (Group("g", (CpuBelow(0.05, 60.0),)),)),))
    assert not is_blind(policy, seen(look(log=ABSENT, progress=ABSENT)))


def test_for_a_blind_program_idle_cpu_for_270_s_stands_in_for_silence() -> None:
    assert blind_for(STALL) == 270.0
    blind = seen(look(log=ABSENT, progress=ABSENT))
    assert evaluate(POLICY, blind._replace(cpu_quiet=269.0)).firing == ()
    found = evaluate(POLICY, blind._replace(cpu_quiet=270.0))
    assert found.blind
    assert found.firing == (Firing("stall", BLIND_GROUP),)
    assert rule_status(STALL, POLICY, found) is Status.HOLDS
    assert rule_status(STALL, POLICY, found._replace(firing=())) is Status.HOLDS


def test_the_idle_cpu_of_a_blind_program_does_not_count_before_a_stop() -> None:
    found = evaluate(POLICY, seen(look(log=ABSENT, progress=ABSENT), cpu_quiet=300.0))
    assert rule_status(STALL, POLICY, found, blind=False) is not Status.HOLDS


def test_a_blind_program_whose_cpu_cannot_be_read_is_unknown() -> None:
    found = evaluate(POLICY, seen(look(log=ABSENT, progress=ABSENT, cpu=None), cpu_quiet=300.0))
    assert found.firing == ()
    assert rule_status(STALL, POLICY, found) is Status.UNKNOWN


def test_blindness_is_for_rules_about_silence_only() -> None:
    rule = Rule("cpu", "x", (Group("g", (CpuAbove(0.5),)),))
    assert blind_for(rule) == float("inf")
    policy = Policy("*", rules=(rule, STALL))
    found = evaluate(policy, first_look(policy, look(log=ABSENT, progress=ABSENT), 1.0)._replace(cpu_quiet=300.0))
    assert found.firing == (Firing("stall", BLIND_GROUP),)
    assert rule_status(rule, policy, found) is Status.CLEAR


# words


@pytest.mark.parametrize(
    ("detector", "words"),
    [
        (Unchanged("log", 270.0), "unchanged log for 270 s"),
        (Working(True), "working"),
        (Working(False), "not working"),
        (Matches("stderr", "a b", 600.0), "stderr matches 'a b' within 600 s"),
        (CpuBelow(0.05, 60.0), "cpu below 0.05 cores for 60 s"),
        (CpuAbove(2.0), "cpu above 2 cores"),
        (InState("D", 30.0), "a process in state D for 30 s"),
        (Above("rss", 5.0), "rss above 5"),
        (Below("fds", 5.0, 9.0), "fds below 5 for 9 s"),
    ],
)
def test_a_detector_is_spelt_as_one_would_say_it(detector: Detector, words: str) -> None:
    assert spell(detector) == words


def one(detector: Detector, found: Look) -> tuple[Status, float | None, float | None, float | None, str]:
    """What `describe` says of one detector, in a policy of its own."""
    policy = Policy("*", rules=(Rule("r", "x", (Group("g", (detector,)),)),), idle=POLICY.idle)
    said = describe("r", "g", detector, policy, found)
    return said.status, said.value, said.threshold, said.ratio, said.reason


def test_findings_tell_value_threshold_and_distance() -> None:
    assert one(Unchanged("log", 200.0), seen(log=50.0)) == (
        Status.CLEAR, 50.0, 200.0, 0.25, "log unchanged for 50 s",
    )  # fmt: skip
    assert one(Unchanged("progress", 200.0), seen(progress=500.0))[3] == 1.0
    assert one(Unchanged("log", 0.0), seen(look(idle_line=True)))[3] == 1.0
    assert one(Unchanged("log", 1.0), seen(look(log=None))) == (
        Status.UNKNOWN, None, 1.0, None, "log unchanged for 0 s: could not be read",
    )  # fmt: skip
    assert one(Unchanged("log", 1.0), seen(look(log=ABSENT)))[4].endswith("the program has none")


def test_findings_about_markers_and_work() -> None:
    never = one(Matches(*MARKER, 600.0), seen())
    assert never == (Status.CLEAR, None, 600.0, 0.0, "no matching line was seen")
    once = seen(look(matches={MARKER: 1}), matches={MARKER: Clock(1, 30.0, 1, 0.0)})
    assert one(Matches(*MARKER, 600.0), once)[1:4] == (30.0, 600.0, 1.0)
    assert one(Working(True), seen(look(in_flight=1)))[:3] == (Status.HOLDS, 1.0, 1.0)
    assert one(Working(True), seen())[:3] == (Status.UNKNOWN, None, 1.0)


@pytest.mark.parametrize(
    ("detector", "gauges", "ratio"),
    [
        (Above("rss", 400.0), Gauges(rss=100), 0.25),
        (Above("rss", 0.0), Gauges(rss=100), 0.99),
        (Below("rss", 100.0), Gauges(rss=400), 0.25),
        (Below("rss", 100.0), Gauges(rss=0), 0.99),
        (CpuAbove(0.4), Gauges(cpu=0.1), 0.25),
        (CpuAbove(0.0), Gauges(cpu=0.1), 0.99),
        (CpuBelow(0.1), Gauges(cpu=0.4), 0.25),
        (CpuBelow(0.1), Gauges(cpu=0.0), 0.99),
    ],
)
def test_a_level_that_does_not_hold_yet_is_never_told_as_if_it_did(
    detector: Detector, gauges: Gauges, ratio: float
) -> None:
    assert one(detector, seen(look(gauges=gauges))._replace(held=(-1.0,)))[3] == pytest.approx(ratio)


def test_a_state_has_no_distance() -> None:
    found = seen(look(tree=(sample(1, 2, state="S"), sample(3, 4, state="D"))))
    assert one(InState("D"), found._replace(held=(5.0,)))[:4] == (Status.HOLDS, None, None, 1.0)
    assert one(InState("T"), found._replace(held=(-1.0,)))[3:] == (0.0, "states DS")
    assert one(InState("T"), seen(look(tree=()))._replace(held=(None,)))[4] == "states unknown: could not be read"


def test_a_level_says_how_long_it_has_held() -> None:
    assert one(CpuBelow(0.05, 90.0), seen())[4] == "cpu is 0.001, so for 60 s"
    assert one(CpuBelow(0.05, 90.0), seen()._replace(held=(-1.0,)))[4] == "cpu is 0.001"


def test_an_unwatched_program_has_no_findings() -> None:
    assert findings(None, seen()) == ()
    assert len(findings(POLICY, seen())) == 7
