"""Detectors: holds, clear, unknown or absent, with a reason. Pure.

`evaluate` runs at every tick for every program and makes no text; `findings` says the same for people, on demand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from watchdog.judge.clocks import CLEAR, level_holds
from watchdog.model.observation import ABSENT
from watchdog.model.rule import (
    HELD,
    Above,
    Below,
    CpuAbove,
    CpuBelow,
    Detector,
    Group,
    Held,
    InState,
    Matches,
    Policy,
    Rule,
    Unchanged,
    Working,
)
from watchdog.model.world import Finding, Firing, Look, Status

BLIND_AFTER = 600.0
"""Looked-at seconds after which a heartbeat that stays unknown counts as none."""

BLIND_GROUP = "blind: no heartbeat, and the CPU is idle"


def working(policy: Policy, look: Look) -> bool | None:
    """True: the program has work in hand. False: it says itself that it is idle. None: cannot be told.

    A worker in a blocking wait for its next job has also counted batches, so a count on its own is no sign of work.
    """
    seen = look.observation
    if seen.says == "idle" or rests(policy, look):
        return False
    if seen.says == "working" or seen.progress_after_idle or (seen.in_flight or 0) > 0:
        return True
    short = seen.progress_count is not None and seen.progress_total is not None
    return True if short and (seen.progress_count or 0) < (seen.progress_total or 0) else None


def rests(policy: Policy, look: Look) -> bool:
    """The idle line is the program's last, and has not been for longer than it may."""
    idle, seen = policy.idle, look.observation
    known = isinstance(
        seen.log, int
    )  # a log that cannot be read says nothing of the last line, nor for how long it is that
    return idle is not None and known and seen.idle_line is True and look.log.age < idle.for_


def status_of(detector: Detector, policy: Policy, look: Look) -> Status:
    """What one detector says of the newest look."""
    if isinstance(detector, Unchanged):
        return _unchanged(detector, policy, look)
    if isinstance(detector, Working):
        fact = working(policy, look)
        return Status.UNKNOWN if fact is None else _either(fact is detector.working)
    if isinstance(detector, Matches):
        return _matched(detector, look)
    held = _held(detector, policy, look)
    return Status.UNKNOWN if held is None else _either(held >= max(detector.for_, 0.0))


def _either(holds: bool) -> Status:
    return Status.HOLDS if holds else Status.CLEAR


def _unchanged(detector: Unchanged, policy: Policy, look: Look) -> Status:
    seen, clock = look.observation, look.log
    value = seen.log
    if detector.heartbeat == "progress":
        value, clock = seen.progress, look.progress
    if value is ABSENT:
        return Status.ABSENT
    if value is None:
        return Status.UNKNOWN
    if clock.age < detector.for_ or rests(policy, look):
        return Status.CLEAR
    # While the log cannot be read, the idle line may well be its last.
    return Status.UNKNOWN if policy.idle is not None and seen.log is None else Status.HOLDS


def _matched(detector: Matches, look: Look) -> Status:
    """A marker is a sign that must be seen: a log that the program does not have shows none, so this is clear, not left out."""
    clock = look.matches.get(detector.key)
    if clock is None or look.observation.matches.get(detector.key) is None:
        return Status.UNKNOWN
    return _either(clock.value is not ABSENT and clock.changes > 0 and clock.age <= detector.within)


def _held(detector: Held, policy: Policy, look: Look) -> float | None:
    """Seconds that the level has held; CLEAR; or None (unknown, in this look or so far)."""
    if level_holds(detector, look.observation) is None:
        return None
    at = policy.held.index(detector)
    return look.held[at] if at < len(look.held) else None


def group_status(group: Group, policy: Policy, look: Look) -> Status:
    """Every detector must hold. One that is clear settles it; an absent heartbeat leaves its detector out, and a group that
    has no `unchanged` left cannot fire (absent)."""
    worst, left, silent = Status.HOLDS, 0, 0
    for detector in group.all:
        status = status_of(detector, policy, look)
        if status is Status.CLEAR:
            return Status.CLEAR
        if status is Status.UNKNOWN:
            worst = Status.UNKNOWN
        if status is not Status.ABSENT:
            left += 1
            silent += isinstance(detector, Unchanged)
    lost = about_silence(group) and not silent
    return Status.ABSENT if lost or not left else worst


def about_silence(group: Group) -> bool:
    """The group has an `unchanged`: it is about a stall, not about a level."""
    return any(isinstance(d, Unchanged) for d in group.all)


def rule_status(rule: Rule, policy: Policy, look: Look, *, blind: bool = True) -> Status:
    """holds: some group does. unknown: none does, and some may. clear or absent: none can. `blind` False: the idle CPU of a
    program whose heartbeats cannot be seen does not count."""
    if any(f.rule == rule.name and (blind or f.group != BLIND_GROUP) for f in look.firing):
        return Status.HOLDS
    found = {group_status(g, policy, look) for g in rule.when}
    if blind and look.blind and any(about_silence(g) for g in rule.when):
        found.add(_blind_status(rule, look))
    return next((s for s in (Status.HOLDS, Status.UNKNOWN, Status.CLEAR) if s in found), Status.ABSENT)


def evaluate(policy: Policy | None, look: Look) -> Look:
    """The look with every rule run over it: which groups fire, and whether the program is blind."""
    if policy is None or look.ident is None:
        return look._replace(firing=(), blind=False) if look.firing or look.blind else look
    firing = tuple(_firing(policy, look))
    blind = is_blind(policy, look)
    if blind:
        stalls = (r for r in policy.rules if any(about_silence(g) for g in r.when))
        firing += tuple(Firing(r.name, BLIND_GROUP) for r in stalls if _blind_status(r, look) is Status.HOLDS)
    if firing == look.firing and blind == look.blind:
        return look
    return look._replace(firing=firing, blind=blind)


def blind_for(rule: Rule) -> float:
    """Seconds of near-zero CPU that stand in for silence where a program is blind: what the rule's first group about silence asks
    of a heartbeat, 270 s in `stall`."""
    waits = [d.for_ for g in rule.when for d in g.all if isinstance(d, Unchanged)]
    return waits[0] if waits else float("inf")


def _blind_status(rule: Rule, look: Look) -> Status:
    if look.observation.gauges.cpu is None:
        return Status.UNKNOWN
    return _either(look.cpu_quiet >= blind_for(rule))


def _firing(policy: Policy, look: Look) -> Iterator[Firing]:
    for rule in policy.rules:
        for group in rule.when:
            if group_status(group, policy, look) is Status.HOLDS:
                yield Firing(rule.name, group.name)


def is_blind(policy: Policy, look: Look) -> bool:
    """None of the groups about silence can fire: their heartbeats are absent, or unknown for too long."""
    groups = [g for r in policy.rules for g in r.when if about_silence(g)]
    return bool(groups) and not any(_can_fire(g, look) for g in groups)


def _can_fire(group: Group, look: Look) -> bool:
    # What this look read counts, not the clock's last value: one that was absent and is unknown now has only begun to be that.
    seen = {"log": (look.observation.log, look.log), "progress": (look.observation.progress, look.progress)}
    there = [c for v, c in (seen[d.heartbeat] for d in group.all if isinstance(d, Unchanged)) if v is not ABSENT]
    return bool(there) and all(c.unknown < BLIND_AFTER for c in there)


# For people: the same values, with words. Below this line nothing runs in a quiet tick.


def findings(policy: Policy | None, look: Look) -> tuple[Finding, ...]:
    """Every detector of every rule, as it stands in this look."""
    if policy is None:
        return ()
    return tuple(
        describe(rule.name, group.name, detector, policy, look)
        for rule in policy.rules
        for group in rule.when
        for detector in group.all
    )


def describe(rule: str, group: str, detector: Detector, policy: Policy, look: Look) -> Finding:
    """One detector's finding: value, threshold, and how near it is to holding."""
    status = status_of(detector, policy, look)
    value, threshold, reason = _measure(detector, policy, look)
    if status in (Status.UNKNOWN, Status.ABSENT):
        value, reason = None, f"{reason}: {'could not be read' if status is Status.UNKNOWN else 'the program has none'}"
    return Finding(
        rule, group, spell(detector), status, value, threshold, _ratio(detector, status, value, threshold), reason
    )


def spell(detector: Detector) -> str:
    """The detector as one would say it."""
    if isinstance(detector, Unchanged):
        return f"unchanged {detector.heartbeat} for {detector.for_:g} s"
    if isinstance(detector, Working):
        return "working" if detector.working else "not working"
    if isinstance(detector, Matches):
        return f"{detector.log} matches {detector.pattern!r} within {detector.within:g} s"
    held = f" for {detector.for_:g} s" if detector.for_ else ""
    if isinstance(detector, CpuBelow | CpuAbove):
        return f"cpu {'below' if isinstance(detector, CpuBelow) else 'above'} {detector.cores:g} cores{held}"
    if isinstance(detector, InState):
        return f"a process in state {detector.state}{held}"
    return f"{detector.gauge} {'above' if isinstance(detector, Above) else 'below'} {detector.value:g}{held}"


def _measure(detector: Detector, policy: Policy, look: Look) -> tuple[float | None, float | None, str]:
    """(value, threshold, reason) of a detector that could be read."""
    if isinstance(detector, Unchanged):
        return _silence(detector, policy, look)
    if isinstance(detector, Working):
        fact = working(policy, look)
        return (None if fact is None else float(fact)), float(detector.working), "whether the program has work in hand"
    if isinstance(detector, Matches):
        clock = look.matches.get(detector.key)
        seen = clock is not None and clock.changes > 0
        age = clock.age if clock is not None and seen else None
        return age, detector.within, "seconds since the last matching line" if seen else "no matching line was seen"
    return _level(detector, policy, look)


def _silence(detector: Unchanged, policy: Policy, look: Look) -> tuple[float, float, str]:
    clock = look.log if detector.heartbeat == "log" else look.progress
    if rests(policy, look):
        return 0.0, detector.for_, f"its idle line is the last one, for {look.log.age:.0f} s"
    return clock.age, detector.for_, f"{detector.heartbeat} unchanged for {clock.age:.0f} s"


def _level(detector: Held, policy: Policy, look: Look) -> tuple[float | None, float | None, str]:
    seen = look.observation.gauges
    if isinstance(detector, InState):
        states = "".join(sorted({p.state for p in look.observation.tree}))
        return None, None, f"states {states or 'unknown'}"
    if isinstance(detector, CpuBelow | CpuAbove):
        now, limit, name = seen.cpu, detector.cores, "cpu"
    else:
        now, limit, name = getattr(seen, detector.gauge), detector.value, detector.gauge
    held = _held(detector, policy, look)
    return now, limit, f"{name} is {now}" + (f", so for {held:.0f} s" if held is not None and held > CLEAR else "")


_TOWARDS: dict[type, Callable[[float, float], float]] = {
    Unchanged: lambda value, limit: value / limit if limit > 0 else 1.0,
    Above: lambda value, limit: value / limit if limit > 0 else 1.0,
    CpuAbove: lambda value, limit: value / limit if limit > 0 else 1.0,
    Below: lambda value, limit: limit / value if value > 0 else 1.0,
    CpuBelow: lambda value, limit: limit / value if value > 0 else 1.0,
}


def _ratio(detector: Detector, status: Status, value: float | None, threshold: float | None) -> float | None:
    """How near the detector is to holding: 1.0 holds, below it does not; None: unknown or absent."""
    if status in (Status.UNKNOWN, Status.ABSENT):
        return None
    if status is Status.HOLDS:
        return 1.0
    towards = _TOWARDS.get(type(detector))
    if towards is None or value is None or threshold is None:
        return 0.0
    return (
        min(towards(value, threshold), 1.0) if not isinstance(detector, HELD) else min(towards(value, threshold), 0.99)
    )
