"""STOPPING and STARTING: the restart as a journalled transaction. Pure.

Everything is learnt from supervisord's answers, never from a return value; everything needed stands in the Transaction, so that a
fresh daemon finishes what another began without any rule or configuration. From the stop on a start is owed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from watchdog.judge.collecting import may_stop, runs, unwritten
from watchdog.judge.incident import veto
from watchdog.judge.turn import Turn, closed
from watchdog.model.action import KillProgram, ReapTree, StartProgram, StopProgram
from watchdog.model.event import KillSent, Persisted, Reaped, StartSent, StopSent
from watchdog.model.observation import ProcessInfo
from watchdog.model.record import CooldownRecord
from watchdog.model.rule import Level
from watchdog.model.world import Incident, Outcome, Phase, Restarting, Status

KILL_GRACE = 5.0
"""Seconds after KILL before a process is called unkillable; a runnable one is gone in milliseconds."""

KILL_PATIENCE = 30.0
"""Seconds for which KILL is sent again and again, where supervisord does not take it, until the restart slot is given up."""

RETRIES = (10.0, 60.0, 300.0)
"""Seconds until an owed start is tried again; the last one from then on."""

SURE = 2
"""Answers of supervisord that must agree, since one may have been on its way before our call was served."""

ANSWER_STEP = 5.0
"""Seconds that one answer adds at most to a step's own clock: a supervisord that was frozen took no time."""

STOPPED_BY_HAND = "the new process was stopped by an operator; left alone"

STOP_OVERDUE = 30.0
"""Seconds after which the stop's own result is not waited for any more: two calls with their deadlines, and then some."""


def persisted(turn: Turn, event: Persisted) -> None:
    """The intent is on disk, or could not be written. The stop is released here and nowhere else."""
    incident = turn.program.incident
    asked = incident is not None and incident.id == event.incident and incident.intent == "asked"
    if turn.program.phase is not Phase.COLLECTING or event.step != "intent" or incident is None or not asked:
        return
    if event.error is not None:
        detail = "its intent could not be written to the journal; nothing was stopped"
        unwritten(turn, turn.rule(incident.rule), event.error, detail)
        return
    incident = turn.set_incident(intent="written")
    if not _still_holds(turn, incident):
        turn.void(incident)
        turn.set_incident(intent="none", waiting="for one more look")
        turn.refuse("the last look changed while the intent was written")
        return
    _stop(turn, incident)


def _still_holds(turn: Turn, incident: Incident) -> bool:
    look = turn.look
    return (
        turn.status(incident.rule, blind=False) is Status.HOLDS
        and look is not None
        and look.ident == incident.ident
        and runs(turn, incident)
        and turn.policy is not None
        and turn.policy.mode is Level.RESTART
        and may_stop(turn)
        and not turn.paused
        and not turn.host.terminating
    )


def _stop(turn: Turn, incident: Incident) -> None:
    transaction = incident.transaction
    assert transaction is not None
    turn.set(restarting=Restarting(transaction, began=turn.at))
    turn.mark("stop")
    turn.go(Phase.STOPPING, f"rule {incident.rule} holds in the last look", "warning", pid=incident.ident.pid)
    stop = StopProgram(turn.program.name, incident.id, incident.ident, transaction.started_at)
    turn.actions.append(stop)


def stop_sent(turn: Turn, event: StopSent) -> None:
    """What became of the stop: sent, perhaps sent, or not sent for a reason."""
    restarting = _mine(turn, event.incident, Phase.STOPPING)
    if restarting is None or restarting.stop != "asked":
        return
    if event.result in ("sent", "unsure"):
        # Identities are kept in order, the main process first, and each once.
        tree = tuple(dict.fromkeys((*restarting.transaction.tree, *event.tree)))
        transaction = replace(restarting.transaction, tree=tree)
        stop: Literal["accepted", "unsure"] = "accepted" if event.result == "sent" else "unsure"
        turn.set(restarting=replace(restarting, transaction=transaction, stop=stop, answers=0))
        if event.result == "unsure":
            turn.say("warning", "supervisord did not answer the stop in time", why=event.detail)
        return
    words = {
        "changed": "another process runs by now",
        "not_running": "it was stopped by another hand",
        "gone": "supervisord has no such program any more",
        "refused": "supervisord refused the stop",
        "unreachable": "supervisord could not be reached",
    }
    why = f"{words[event.result]}; nothing was stopped"
    if event.result in ("refused", "unreachable"):
        _put_off(turn, why)
    else:
        _cancel(turn, why, event.detail)


def _put_off(turn: Turn, why: str) -> None:
    """The same process stalls on, and could not be stopped: the same incident, confirmed anew later."""
    veto(turn, why)
    turn.set(restarting=None)


def _cancel(turn: Turn, why: str, detail: str = "") -> None:
    """No stop was sent after all: the intent is closed, and counts nowhere."""
    incident = turn.program.incident
    assert incident is not None
    turn.go(Phase.WATCHING, why, "warning", outcome="cleared", detail=detail)
    turn.close(incident, "cleared", why)
    turn.set(incident=None, restarting=None)


def stopping(turn: Turn, info: ProcessInfo | None) -> None:
    """supervisord answered while STOPPING."""
    restarting = turn.program.restarting
    assert restarting is not None
    restarting = _count_answer(turn, restarting)
    if restarting.stop == "asked" and not restarting.resumed:
        if restarting.waited > STOP_OVERDUE:
            turn.set(restarting=replace(restarting, stop="unsure", answers=0))
        return
    if info is None:
        removed(turn)
    elif not is_old(turn, restarting, info):
        down(turn, restarting)
    elif info.state == "STOPPING" or not (restarting.resumed or restarting.stop == "unsure"):
        _escalate(turn, restarting)
    elif restarting.answers >= SURE and restarting.resumed:
        _cancel(turn, "its process is alive and was not asked to stop")
    elif restarting.answers >= SURE:
        _put_off(turn, "the stop did not reach supervisord")


def is_old(turn: Turn, restarting: Restarting, info: ProcessInfo) -> bool:
    """supervisord still shows the process that we stopped. A pid alone is reused: in a container that is started anew, at once."""
    transaction = restarting.transaction
    same = info.pid == transaction.ident.pid and info.started_at == transaction.started_at
    return same and turn.host.boot_id == transaction.boot_id


def came_up(restarting: Restarting, info: ProcessInfo) -> bool:
    """A process was started after our stop, though no answer may have shown it: supervisord's own start time tells."""
    return restarting.new_seen or info.started_at > restarting.transaction.started_at


def _count_answer(turn: Turn, restarting: Restarting) -> Restarting:
    """One more answer in this step, and the time since the one before."""
    since = restarting.polled if restarting.polled is not None else turn.at
    dt = min(max(turn.at - since, 0.0), ANSWER_STEP)
    restarting = replace(
        restarting,
        polled=turn.at,
        waited=restarting.waited + dt,
        kill_waited=restarting.kill_waited + (dt if restarting.kill else 0.0),
        answers=restarting.answers + 1,
    )
    turn.set(restarting=restarting)
    return restarting


def _escalate(turn: Turn, restarting: Restarting) -> None:
    transaction = restarting.transaction
    if restarting.waited >= transaction.stop_within + KILL_PATIENCE:
        _unkillable(turn, restarting)
    elif not restarting.kill:
        if restarting.waited >= transaction.stop_within:
            turn.set(restarting=replace(restarting, kill=True))
            if not turn.program.refused:  # said once, though it may have to be sent again
                pid = transaction.ident.pid
                turn.say("warning", "still there after its stop: KILL", after_s=transaction.stop_within, pid=pid)
            turn.actions.append(KillProgram(turn.program.name, transaction.incident, transaction.ident))
    elif restarting.kill_waited >= KILL_GRACE:
        _unkillable(turn, restarting)


def kill_sent(turn: Turn, event: KillSent) -> None:
    """A KILL that was not taken proves nothing about the process: it is sent once more, with supervisord's next answer."""
    if event.error is None:
        return
    restarting = _mine(turn, event.incident, Phase.STOPPING)
    if restarting is not None:
        turn.refuse(f"KILL was not taken: {event.error}", "warning")
        turn.set(restarting=replace(restarting, kill=False, kill_waited=0.0))


def _unkillable(turn: Turn, restarting: Restarting) -> None:
    """KILL did not end it: it hangs in the kernel. No second attempt; a start stays owed for when it is gone."""
    pid = restarting.transaction.ident.pid
    state = _main_state(turn, pid)
    why = f"pid {pid} cannot be killed (state {state}); it hangs in the kernel, and only the host can free it"
    _settle(turn, "unkillable", why)
    turn.set(restarting=replace(restarting, outcome="unkillable", start_at=turn.at))
    turn.go(Phase.COOLDOWN, why, "error", notice=True, outcome="unkillable", pid=pid)
    turn.set(until=restarting.began + restarting.transaction.cooldown)
    _owe(turn)


def _main_state(turn: Turn, pid: int) -> str:
    tree = turn.look.observation.tree if turn.look else ()
    return next((p.state for p in tree if p.pid == pid), "unknown")


def down(turn: Turn, restarting: Restarting) -> None:
    """The main process is gone: what is left of its recorded tree goes, too, before anything is started."""
    if restarting.reap != "none":
        return
    transaction = restarting.transaction
    turn.mark("down")
    turn.set(restarting=replace(restarting, reap="asked"))
    turn.actions.append(
        ReapTree(turn.program.name, transaction.incident, transaction.tree, transaction.boot_id, transaction.orphans)
    )
    _owe(turn)


def _owe(turn: Turn) -> None:
    """Write that a start is owed. Nothing waits for this write."""
    restarting = turn.program.restarting
    assert restarting is not None
    transaction = replace(restarting.transaction, step="owed")
    turn.set(restarting=replace(restarting, transaction=transaction))
    turn.persist(transaction, step="owed")


def reaped(turn: Turn, event: Reaped) -> None:
    """Survivors are ended, or named: start. In COOLDOWN the process was unkillable, and the start comes with the next answer."""
    restarting = _mine(turn, event.incident, turn.program.phase)
    if restarting is None or restarting.reap != "asked":
        return
    if event.left:
        pids = ",".join(str(i.pid) for i in event.left)
        turn.say("error", "survivors of the old process could not be ended", notice=True, pids=pids, why=event.detail)
    elif event.ended:
        turn.say("info", "survivors of the old process ended", pids=",".join(str(i.pid) for i in event.ended))
    restarting = replace(restarting, reap="done")
    turn.set(restarting=restarting)
    info = turn.program.info
    if (
        turn.program.phase is Phase.STOPPING
        and info is not None
        and info.state == "STOPPED"
        and came_up(restarting, info)
    ):
        finish(turn, Phase.WATCHING, "cleared", STOPPED_BY_HAND)
    elif turn.program.phase is Phase.STOPPING:
        start(turn, "the old process is gone")


def removed(turn: Turn) -> None:
    """The program was removed from supervisord while we restarted it: nothing is left to start."""
    finish(turn, Phase.WATCHING, "cleared", "supervisord has no such program any more; nothing is owed")


def start(turn: Turn, why: str) -> None:
    """Send a start. Never held back by anything."""
    restarting = turn.program.restarting
    assert restarting is not None
    fresh = replace(restarting, waited=0.0, polled=None, answers=0, start="asked", new_seen=False)
    turn.set(restarting=fresh)
    turn.go(Phase.STARTING, why)
    turn.actions.append(StartProgram(turn.program.name, restarting.transaction.incident))


def start_sent(turn: Turn, event: StartSent) -> None:
    """The start was sent. Whether it worked is told by supervisord's next answers."""
    restarting = _mine(turn, event.incident, Phase.STARTING)
    if restarting is None:
        return
    if event.gone:
        removed(turn)
        return
    if event.error:
        turn.say("warning", "the start was not taken", why=event.error)
    turn.set(restarting=replace(restarting, start="done", answers=0))


def starting(turn: Turn, info: ProcessInfo | None) -> None:
    """supervisord answered while STARTING."""
    restarting = turn.program.restarting
    assert restarting is not None
    restarting = _count_answer(turn, restarting)
    if info is None:
        removed(turn)
    elif info.pid and not is_old(turn, restarting, info):
        _new_pid(turn, restarting, info)
    elif restarting.start == "done" and restarting.answers >= SURE:
        _not_up(turn, restarting, info)
    _start_overdue(turn)


def _new_pid(turn: Turn, restarting: Restarting, info: ProcessInfo) -> None:
    restarting = replace(restarting, new_seen=True)
    turn.set(restarting=restarting)
    if info.state != "RUNNING":
        return
    transaction = replace(restarting.transaction, step="started", new_pid=info.pid)
    turn.set(restarting=replace(restarting, transaction=transaction, verify_from=turn.at, grew=0))
    turn.mark("running")
    turn.go(Phase.VERIFYING, "a new process is RUNNING", pid=info.pid)
    turn.persist(transaction, step="started")


def _not_up(turn: Turn, restarting: Restarting, info: ProcessInfo) -> None:
    """The start was sent, supervisord has answered since, and there is no new process."""
    ran = came_up(restarting, info)
    if info.state == "STOPPED" and ran:
        finish(turn, Phase.WATCHING, "cleared", STOPPED_BY_HAND)
    elif info.state == "FATAL" or (info.state == "EXITED" and ran):
        start_failed(turn, f"supervisord says {info.state} {info.spawnerr or info.description}".strip())
    elif info.state in ("STOPPED", "EXITED"):
        # A start during STOPPING is answered with True and does nothing (measured): send it once more.
        turn.set(restarting=replace(restarting, start="asked"))
        turn.actions.append(StartProgram(turn.program.name, restarting.transaction.incident))


def _start_overdue(turn: Turn) -> None:
    restarting = turn.program.restarting
    if turn.program.phase is Phase.STARTING and restarting is not None:
        within = restarting.transaction.start_within
        if restarting.waited >= within:
            start_failed(turn, f"not RUNNING within {within:g} s")


def start_failed(turn: Turn, why: str) -> None:
    """A start stays owed: tried again, ever more seldom, without a stop. Paged."""
    restarting = turn.program.restarting
    assert restarting is not None
    tries = restarting.transaction.tries + 1
    wait = RETRIES[min(tries, len(RETRIES)) - 1]
    _settle(turn, "start_failed", why)
    restarting = turn.program.restarting or restarting
    transaction = replace(restarting.transaction, tries=tries)
    turn.set(restarting=replace(restarting, transaction=transaction, start_at=turn.at + wait))
    turn.go(Phase.COOLDOWN, why, "error", notice=True, outcome="start_failed", tries=tries, again_s=wait)
    turn.set(until=restarting.began + transaction.cooldown)
    _owe(turn)


def _settle(turn: Turn, outcome: Outcome, detail: str) -> None:
    """The incident has its outcome, though a start is still owed; the first one stays."""
    restarting, incident = turn.program.restarting, turn.program.incident
    assert restarting is not None and incident is not None
    if restarting.outcome is None:
        turn.set(restarting=replace(restarting, outcome=outcome))
        turn.persist(turn.record(incident, outcome=outcome, detail=detail, action="restart"))


def finish(turn: Turn, phase: Phase, outcome: Outcome, why: str) -> None:
    """The transaction ends: nothing is owed any more."""
    restarting, incident = turn.program.restarting, turn.program.incident
    assert restarting is not None and incident is not None
    final = restarting.outcome or outcome
    bad = outcome in ("no_progress", "start_failed", "unkillable")
    turn.go(phase, why, "error" if bad else "info", notice=bad, outcome=outcome)
    transaction = restarting.transaction
    turn.persist(turn.record(incident, outcome=final, detail=why, action="restart"))
    turn.persist(closed(incident, transaction.boot_id, turn.wall))
    until = restarting.began + transaction.cooldown
    if phase is Phase.COOLDOWN:
        turn.persist(CooldownRecord(turn.program.name, turn.wall + max(until - turn.at, 0.0)))
    turn.set(incident=None, restarting=None, until=until)


def _mine(turn: Turn, incident: str, phase: Phase) -> Restarting | None:
    restarting = turn.program.restarting
    if restarting is None or turn.program.phase is not phase or restarting.transaction.incident != incident:
        return None
    return restarting
