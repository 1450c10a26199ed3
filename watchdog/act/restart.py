"""The three orders of a restart: stop, kill, start. May give each once to supervisord; may not poll, repeat or decide.

A stop and a kill look first whether it is still the process they are meant for, since a pid is reused and a program may have been
restarted by another hand while evidence was collected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from watchdog.model.event import StopResult
from watchdog.model.observation import Identity
from watchdog.supervisor import Fault, FaultKind, Supervisor

StarttimeOf = Callable[[int], int | None]
"""A pid's start in clock ticks since boot; None: gone. Raises OSError where it cannot be told, for want of descriptors for one."""


class StopOutcome(NamedTuple):
    result: StopResult
    detail: str
    """For people; '' when it was sent."""


class StartOutcome(NamedTuple):
    gone: bool
    """supervisord has no such program."""
    error: str | None


_NO_ANSWER: Final = frozenset({FaultKind.UNREACHABLE, FaultKind.TIMEOUT})


def stop(
    supervisor: Supervisor, program: str, ident: Identity, started_at: int, starttime_of: StarttimeOf
) -> StopOutcome:
    """stopProcess(wait=False), if `program` still is the process `ident` that supervisord started at `started_at` (its own clock).

    At most two calls, so at most twice the supervisor's timeout. What came of the stop is not told here: supervisord's next answer
    tells it.
    """
    refusal = _not_the_same(supervisor, program, ident, starttime_of, started_at)
    if refusal is not None:
        return refusal
    fault = supervisor.stop(program)
    if fault is None:
        return StopOutcome("sent", "")
    return StopOutcome(_result_of_stop(fault), fault.hint())


def _result_of_stop(fault: Fault) -> StopResult:
    if fault.maybe_done:
        return "unsure"
    if fault.kind is FaultKind.UNREACHABLE:
        return "unreachable"
    if fault.kind is FaultKind.BAD_NAME:
        return "gone"
    return "not_running" if fault.kind is FaultKind.NOT_RUNNING else "refused"


def kill(supervisor: Supervisor, program: str, ident: Identity, starttime_of: StarttimeOf) -> str | None:
    """signalProcess KILL, which reaches the main process only, if that still is `ident`. None: sent; else why not, for people."""
    refusal = _not_the_same(supervisor, program, ident, starttime_of)
    if refusal is not None:
        return f"{program} was not killed: {refusal.detail}"
    fault = supervisor.kill(program)
    return None if fault is None else fault.hint()


def start(supervisor: Supervisor, program: str) -> StartOutcome:
    """startProcess(wait=False). A program that is up already is no error. In STOPPING supervisord says yes and does nothing."""
    fault = supervisor.start(program)
    if fault is None or fault.kind is FaultKind.ALREADY_STARTED:
        return StartOutcome(False, None)
    return StartOutcome(fault.kind is FaultKind.BAD_NAME, fault.hint())


def _not_the_same(
    supervisor: Supervisor, program: str, ident: Identity, starttime_of: StarttimeOf, started_at: int | None = None
) -> StopOutcome | None:
    """Why nothing may be sent; None: `program` is `ident`, a moment ago. Nothing was sent yet, so no answer is `unreachable`."""
    info = supervisor.process(program)
    if isinstance(info, Fault):
        if info.kind is FaultKind.BAD_NAME:
            return StopOutcome("gone", info.hint())
        return StopOutcome("unreachable" if info.kind in _NO_ANSWER else "refused", info.hint())
    if info.pid == 0:
        return StopOutcome("not_running", f"{program} is {info.state} and has no process")
    if info.pid != ident.pid:
        return StopOutcome("changed", f"{program} is pid {info.pid} now, not {ident.pid}")
    if started_at is not None and info.started_at != started_at:
        return StopOutcome("changed", f"{program} was started anew, at {info.started_at} and not at {started_at}")
    return _began_otherwise(program, ident, starttime_of)


def _began_otherwise(program: str, ident: Identity, starttime_of: StarttimeOf) -> StopOutcome | None:
    """Why the process that has the pid of `ident` is not it, or cannot be told to be it; None: it is."""
    try:
        starttime = starttime_of(ident.pid)
    except OSError as error:
        why = f"/proc does not tell when pid {ident.pid} of {program} began: {error.strerror or error}"
        return StopOutcome("unreachable", f"{why}; nothing was sent")
    if starttime is None:
        return StopOutcome("changed", f"pid {ident.pid} of {program} is gone")
    if starttime != ident.starttime:
        return StopOutcome(
            "changed", f"pid {ident.pid} of {program} began at tick {starttime}, not at {ident.starttime}"
        )
    return None
