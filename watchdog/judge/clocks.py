"""Change clocks: what a look teaches about one main process. Pure; reads no clock of its own.

A clock knows a heartbeat's value and how much looked-at time has passed since it was seen to change. There is no `now - mtime`
anywhere: a look adds the time since the look before, and at most MAX_LOOKS intervals, so that a suspend, starvation or a SIGSTOP
of the daemon adds next to nothing. Time in which a heartbeat was unknown is not time in which it was silent.
"""

from __future__ import annotations

from collections.abc import Mapping

from watchdog.model.observation import ABSENT, MatchKey, Observation, Reading
from watchdog.model.rule import Above, CpuAbove, CpuBelow, Held, InState, Policy
from watchdog.model.world import Clock, Look

MAX_LOOKS = 3
"""Intervals that one look adds at most."""

QUIET_CORES = 0.05
"""CPU of a tree that does nothing: a wedged loader polls every 5 s and used 0.0007 cores over 23 h (measured)."""

CLEAR = -1.0
"""Value in Look.held of a level that does not hold."""

_NEVER = Clock(value=None, age=0.0, changes=0, unknown=0.0)


def advance(clock: Clock, value: Reading, dt: float) -> Clock:
    """The clock after a look that read `value`, `dt` seconds of looked-at time after the one before."""
    if value is None:
        return Clock(clock.value, clock.age, clock.changes, clock.unknown + dt)
    if value is ABSENT or clock.value is None or clock.value is ABSENT:
        return Clock(value, 0.0, 0, 0.0)
    if value != clock.value:
        return Clock(value, 0.0, clock.changes + 1, 0.0)
    return Clock(value, clock.age + dt, clock.changes, 0.0)


def anew(clock: Clock) -> Clock:
    """The clock of a heartbeat that could not be trusted for a while: same value, and its silence begins now."""
    return clock._replace(age=0.0)


def first_look(policy: Policy | None, seen: Observation, at: float) -> Look:
    """The first look at a main process: every clock begins here."""
    held = () if policy is None else policy.held
    return Look(
        ident=seen.ident,
        at=at,
        observation=seen,
        log=advance(_NEVER, seen.log, 0.0),
        progress=advance(_NEVER, seen.progress, 0.0),
        matches=_matches({}, seen.matches, 0.0),
        held=tuple(_hold(None, level_holds(d, seen), 0.0) for d in held),
        cpu_quiet=0.0,
        looks=1,
        looked=0.0,
        firing=(),
        blind=False,
    )


def next_look(look: Look, policy: Policy | None, seen: Observation, at: float, interval: float) -> Look:
    """The look after `look` at the same main process. `firing` and `blind` are left as they were."""
    dt = min(max(at - look.at, 0.0), MAX_LOOKS * interval)
    detectors = () if policy is None else policy.held
    before = look.held if len(look.held) == len(detectors) else (None,) * len(detectors)
    cpu = seen.gauges.cpu
    return Look(
        look.ident,
        at,
        seen,
        advance(look.log, seen.log, dt),
        advance(look.progress, seen.progress, dt),
        _matches(look.matches, seen.matches, dt) if seen.matches else {},
        tuple(_hold(h, level_holds(d, seen), dt) for h, d in zip(before, detectors, strict=True)),
        look.cpu_quiet if cpu is None else (look.cpu_quiet + dt if cpu < QUIET_CORES else 0.0),
        look.looks + 1,
        look.looked + dt,
        look.firing,
        look.blind,
    )


def _matches(before: Mapping[MatchKey, Clock], seen: Mapping[MatchKey, Reading], dt: float) -> Mapping[MatchKey, Clock]:
    return {key: _match(before.get(key), value, dt) for key, value in seen.items()}


def _match(before: Clock | None, value: Reading, dt: float) -> Clock:
    """A pattern's clock; lines found at the very first look were appended while this process was watched, too."""
    if before is None and isinstance(value, int) and value > 0:
        return Clock(value, 0.0, 1, 0.0)
    return advance(before or _NEVER, value, dt)


def _hold(before: float | None, holds: bool | None, dt: float) -> float | None:
    """Time in which the level was unknown is neither time in which it held, nor the end of that: unknown never clears."""
    if holds is None:
        return before
    if not holds:
        return CLEAR
    return before + dt if before is not None and before >= 0.0 else 0.0


def level_holds(detector: Held, seen: Observation) -> bool | None:
    """Whether the level is on the detector's side in this look; None: could not be read."""
    if isinstance(detector, CpuBelow):
        return None if seen.gauges.cpu is None else seen.gauges.cpu < detector.cores
    if isinstance(detector, CpuAbove):
        return None if seen.gauges.cpu is None else seen.gauges.cpu > detector.cores
    if isinstance(detector, InState):
        return any(p.state in detector.state for p in seen.tree) if seen.tree else None
    value = getattr(seen.gauges, detector.gauge)
    if value is None:
        return None
    return bool(value > detector.value if isinstance(detector, Above) else value < detector.value)


def unseen(look: Look) -> Observation:
    """What is known when a look could not be made: nothing, of what the program has."""
    old = look.observation
    return Observation(
        program=old.program,
        ident=old.ident,
        log=ABSENT if old.log is ABSENT else None,
        progress=ABSENT if old.progress is ABSENT else None,
        matches=dict.fromkeys(old.matches),
    )


def without_logs(seen: Observation, log_progress: bool) -> Observation:
    """The observation while supervisord, which writes the logs, does not answer: what comes from them is unknown.

    `log_progress`: progress is (also) read from the log.
    """
    return seen._replace(
        log=ABSENT if seen.log is ABSENT else None,
        progress=None if log_progress and seen.progress is not ABSENT else seen.progress,
        idle_line=None,
        progress_after_idle=None,
        matches=dict.fromkeys(seen.matches),
    )
