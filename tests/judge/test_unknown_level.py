"""A look that knew nothing neither fires nor clears a level."""

from __future__ import annotations

from tests.judge.build import look, ruleset
from watchdog.judge.clocks import first_look, next_look, unseen
from watchdog.judge.detectors import status_of
from watchdog.model.rule import CpuBelow
from watchdog.model.world import Status

POLICY = ruleset().policies[0]


def test_a_late_tick_does_not_clear_a_level_that_held() -> None:
    (level,) = (d for d in POLICY.held if isinstance(d, CpuBelow))
    found = first_look(POLICY, look(cpu=0.001), 0.0)
    for number in range(1, 14):
        found = next_look(found, POLICY, look(cpu=0.001), 5.0 * number, 5.0)
    assert status_of(level, POLICY, found) is Status.HOLDS
    found = next_look(found, POLICY, unseen(found), 75.0, 5.0)
    assert status_of(level, POLICY, found) is Status.UNKNOWN
    found = next_look(found, POLICY, look(cpu=0.001), 76.0, 5.0)
    assert status_of(level, POLICY, found) is Status.HOLDS
    assert status_of(level, POLICY, next_look(found, POLICY, look(cpu=0.9), 81.0, 5.0)) is Status.CLEAR
