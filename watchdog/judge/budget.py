"""Budgets: how many restarts, one at a time, and the common cause. Pure.

Times are monotonic seconds; a restart of an earlier boot has a negative one. A restart counts from its intent.
"""

from __future__ import annotations

from collections.abc import Iterable

from watchdog.model.rule import HostLimits, Rule
from watchdog.model.world import ConfirmEnd, Phase, Program, RestartEntry

KEEP = 7 * 86400.0
"""Seconds for which restarts are kept in the world: the longest `per` that makes sense, and then some."""

DEADLINE = 600.0
"""Seconds from the last progress after which the server fails the job's images (RolnickLab/ami-data-companion#140)."""

REAP = 5.0
"""Seconds between TERM and KILL for survivors of the recorded tree."""


def rule_free_at(rule: Rule, program: str, restarts: Iterable[RestartEntry], at: float) -> float:
    """When this rule may restart this program again by its own budget; <= `at`: now."""
    own = [r.at for r in restarts if r.program == program and r.rule == rule.name]
    return _free_at(own, rule.limits.restarts, rule.limits.per, at)


def cooled_at(rule: Rule, program: str, restarts: Iterable[RestartEntry]) -> float:
    """When the cooldown after the program's last restart, by whichever rule, ends; it counts from the attempt."""
    return max((r.at + rule.limits.cooldown for r in restarts if r.program == program), default=float("-inf"))


def host_free_at(limits: HostLimits, restarts: Iterable[RestartEntry], at: float) -> float:
    """When the host's budget allows another restart; <= `at`: now."""
    return _free_at([r.at for r in restarts], limits.restarts, limits.per, at)


def _free_at(times: list[float], most: int, per: float, at: float) -> float:
    """The moment at which fewer than `most` of `times` lie in the last `per` seconds."""
    recent = sorted(t for t in times if t > at - per)
    if len(recent) < most:
        return at
    return recent[len(recent) - most] + per if most > 0 else float("inf")


def slots_taken(programs: Iterable[Program]) -> int:
    """Restarts under way: from the intent until STOPPING and STARTING are left."""
    return sum(_holds_slot(p) for p in programs)


def _holds_slot(program: Program) -> bool:
    if program.phase is Phase.STOPPING:
        return True
    if program.phase is Phase.STARTING:
        # An owed start, tried anew, needs no slot and holds none: its program is down already, and waiting would keep it down.
        return program.restarting is None or program.restarting.transaction.tries == 0
    # An intent is a promise of the slot; later phases keep their incident, and hold nothing.
    return program.phase is Phase.COLLECTING and program.incident is not None and program.incident.intent != "none"


def suspect(ends: Iterable[ConfirmEnd], around: float, watched: int, limits: HostLimits) -> frozenset[str]:
    """Programs that share a suspected common cause with a confirmation that ended at `around`; empty: no such suspicion.

    At least half of the watched programs (`share`), and two or more, ended CONFIRMING within `within` of each other, with a verdict
    of unknown or wedged by something outside of them.
    """
    span = limits.common_cause.within
    near = sorted((e for e in ends if e.suspect and abs(e.at - around) <= span), key=lambda e: e.at)
    for first in near:
        named = frozenset(e.program for e in near if first.at <= e.at <= first.at + span)
        if len(named) >= 2 and len(named) >= limits.common_cause.share * watched:
            return named
    return frozenset()


def forget(host_restarts: tuple[RestartEntry, ...], at: float) -> tuple[RestartEntry, ...]:
    """Without the restarts that no budget can count any more."""
    if not host_restarts or host_restarts[0].at > at - KEEP:
        return host_restarts
    return tuple(r for r in host_restarts if r.at > at - KEEP)


def time_to_recover(rule: Rule, interval: float, startsecs: float = 0.0) -> float:
    """Seconds from the last progress until VERIFYING must have ended, in the worst case that goes well.

    See, silence, see, dumps, collect, last look, stop, survivors, start, verify: DESIGN's sum, 520 s with the defaults.
    """
    silence = max((getattr(d, "for_", 0.0) for d in rule.when[0].all), default=0.0) if rule.when else 0.0
    dumps = rule.confirm.every * (rule.confirm.dumps - 1) if rule.confirm else 0.0
    restart = rule.stop.within + REAP + rule.start_within + startsecs
    return interval + silence + interval + dumps + rule.collect_within + interval + restart + rule.verify_within


def slot_wait(rule: Rule, startsecs: float = 0.0) -> float:
    """Seconds that a second program, wedged in the same second, waits for the restart slot: stop, survivors, start."""
    return rule.stop.within + REAP + rule.start_within + startsecs
