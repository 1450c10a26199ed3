"""How near each rule of a program is to firing. Pure: judge's findings in, one line per rule out; decides nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from watchdog.judge.detectors import findings
from watchdog.model.rule import Group, Policy, Unchanged
from watchdog.model.world import Finding, Look, Status


class RuleState(NamedTuple):
    """One rule of one program, by the group that is nearest to firing."""

    rule: str
    firing: bool
    group: str | None
    """None: no group has a distance that can be told."""
    ratio: float | None
    """1.0 or more: the group holds. None: not known."""
    holds_back: str
    """The detector that keeps the group from firing, and why; '' when it fires or no distance is known."""


def rule_states(policy: Policy, look: Look) -> list[RuleState]:
    """Every rule of `policy`, in its order. `findings` has one finding for each detector, in the same order."""
    firing = {f.rule for f in look.firing}
    found = iter(findings(policy, look))
    states = []
    for rule in policy.rules:
        limits = [_limit(group, list(islice(found, len(group.all)))) for group in rule.when]
        states.append(_rule_state(rule.name, rule.name in firing, [limit for limit in limits if limit is not None]))
    return states


def _rule_state(rule: str, firing: bool, limits: Sequence[tuple[float, Finding]]) -> RuleState:
    if not limits:
        return RuleState(rule, firing, None, None, "")
    ratio, weakest = max(limits, key=lambda limit: limit[0])
    return RuleState(rule, firing, weakest.group, ratio, "" if firing else f"{weakest.detector}: {weakest.reason}")


def _limit(group: Group, found: Sequence[Finding]) -> tuple[float, Finding] | None:
    """The detector that is furthest from holding, with its ratio.

    None: the group cannot fire (it has lost every `unchanged`, or is empty), or a detector is unknown, and with it the distance.
    """
    if not _can_fire(group, found):
        return None
    limits = []
    for finding in found:
        if finding.status is Status.ABSENT:
            continue
        ratio = _ratio(finding)
        if ratio is None:
            return None
        limits.append((ratio, finding))
    return min(limits, key=lambda limit: limit[0], default=None)


def _can_fire(group: Group, found: Sequence[Finding]) -> bool:
    heartbeats = [f for d, f in zip(group.all, found, strict=True) if isinstance(d, Unchanged)]
    return not heartbeats or any(f.status is not Status.ABSENT for f in heartbeats)


def _ratio(finding: Finding) -> float | None:
    """A detector without a scale, such as `working`, is at 0 or at 1."""
    if finding.status is Status.UNKNOWN:
        return None
    if finding.ratio is None or not math.isfinite(finding.ratio):
        return 1.0 if finding.status is Status.HOLDS else 0.0
    return finding.ratio
