"""VERIFYING, COOLDOWN, GIVEN_UP: does work go on, and what is owed until it does. Pure."""

from __future__ import annotations

from dataclasses import replace

from watchdog.judge.clocks import MAX_LOOKS
from watchdog.judge.restart import STOPPED_BY_HAND, came_up, down, finish, is_old, removed, start, start_failed
from watchdog.judge.turn import Turn
from watchdog.model.observation import ABSENT, ProcessInfo
from watchdog.model.world import Phase, Program, Restarting

LOG_AFTER = 10.0
"""Seconds after RUNNING before growth of the log is work: a start banner is none."""

LOG_LOOKS = 2
"""Looks in which the log must have grown."""


def verifying(turn: Turn) -> None:
    """A look came in VERIFYING: does work go on?"""
    restarting, look = turn.program.restarting, turn.look
    assert restarting is not None
    ours = look is not None and look.ident is not None and look.ident.pid == restarting.transaction.new_pid
    if ours and _recovered(turn, restarting):
        turn.mark("recovered")
        finish(turn, Phase.COOLDOWN, "recovered", "work goes on")
        return
    if _verified(turn) >= restarting.transaction.verify_within:
        why = f"no work within {restarting.transaction.verify_within:g} s of its start"
        finish(turn, Phase.COOLDOWN, "no_progress", why)


def _verified(turn: Turn) -> float:
    """Looked-at seconds so far, over all processes: one that is started anew every minute must not be verified for ever."""
    restarting = turn.program.restarting
    assert restarting is not None
    since = max(restarting.verify_at, restarting.verify_from)
    dt = min(max(turn.at - since, 0.0), MAX_LOOKS * turn.rules.interval)
    turn.set(restarting=replace(restarting, verified=restarting.verified + dt, verify_at=turn.at))
    return restarting.verified + dt


def _recovered(turn: Turn, restarting: Restarting) -> bool:
    """Progress moved, or the idle line came; without progress, the log grew in two looks well after the start."""
    look = turn.look
    assert look is not None
    seen = look.observation
    if seen.progress is not ABSENT and look.progress.changes > 0:
        return True
    if seen.idle_line and look.log.changes > 0:
        return True
    known = isinstance(seen.log, int)  # an unknown log leaves its clock where it was
    grown = seen.progress is ABSENT and known and look.log.changes > 0 and look.log.age == 0.0
    if not grown or turn.at - restarting.verify_from < LOG_AFTER:
        return False
    turn.set(restarting=replace(restarting, grew=restarting.grew + 1))
    return restarting.grew + 1 >= LOG_LOOKS


def verify_answer(turn: Turn, info: ProcessInfo | None) -> None:
    """supervisord answered while VERIFYING: the new process may have ended, by itself or by an operator."""
    restarting = turn.program.restarting
    assert restarting is not None
    if info is None:
        removed(turn)
    elif info.state == "STOPPED":
        finish(turn, Phase.WATCHING, "cleared", STOPPED_BY_HAND)
    elif info.state in ("EXITED", "FATAL"):
        start_failed(turn, f"the new process ended: supervisord says {info.state} {info.description}".strip())
    elif info.pid and info.pid != restarting.transaction.new_pid and info.state == "RUNNING":
        transaction = replace(restarting.transaction, new_pid=info.pid)
        turn.set(restarting=replace(restarting, transaction=transaction, grew=0))
        turn.say("warning", "the new process was replaced by another", pid=info.pid)
        turn.persist(transaction, step="started")


def cooldown(turn: Turn) -> None:
    """Time passed in COOLDOWN or GIVEN_UP. With a start owed, only its success ends it."""
    program = turn.program
    if program.restarting is None and turn.at >= program.until:
        over = "the cooldown is over" if program.phase is Phase.COOLDOWN else "given up for long enough: watched again"
        turn.go(Phase.WATCHING, over)


def cooldown_answer(turn: Turn, info: ProcessInfo | None) -> None:
    """supervisord answered in COOLDOWN with a start owed."""
    restarting = turn.program.restarting
    assert restarting is not None
    if info is None:
        removed(turn)
    elif is_old(turn, restarting, info):
        return  # unkillable, and still there
    elif restarting.reap == "none":
        down(turn, restarting)
    elif info.pid and info.state == "RUNNING":
        _adopt(turn, restarting, "a new process is RUNNING")
    elif info.pid:
        turn.set(restarting=replace(restarting, new_seen=True))
    elif info.state == "STOPPED" and came_up(restarting, info):
        finish(turn, Phase.WATCHING, "cleared", STOPPED_BY_HAND)
    elif restarting.reap == "done" and turn.at >= restarting.start_at and not _suspended(turn, restarting):
        start(turn, "a start is owed")


def _suspended(turn: Turn, restarting: Restarting) -> bool:
    """A pause suspends what is owed; but a first start that a crash cut short is finished as it began."""
    return turn.paused and restarting.outcome is not None


def _adopt(turn: Turn, restarting: Restarting, why: str) -> None:
    """A new process runs already, by another hand: nothing to start; STARTING sees that in this very answer."""
    turn.set(restarting=replace(restarting, waited=0.0, polled=None, answers=0, start="done"))
    turn.go(Phase.STARTING, why)


def owes_start(program: Program) -> bool:
    """A start is owed to this program, or its stop is under way."""
    return program.restarting is not None and program.phase in (Phase.STOPPING, Phase.STARTING, Phase.COOLDOWN)


def under_way(program: Program) -> bool:
    """Between our stop and our start: the time in which nothing but us would bring it up again."""
    return program.phase in (Phase.STOPPING, Phase.STARTING)
