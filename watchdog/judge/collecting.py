"""COLLECTING: sealed evidence, the last look, the budgets, and the intent to restart. Pure.

Nothing here stops anything; once the intent is on disk, judge/restart.py takes over.
"""

from __future__ import annotations

from dataclasses import replace

from watchdog.judge import budget
from watchdog.judge.confirm import GRACE
from watchdog.judge.incident import VETO_MOST, cleared, veto
from watchdog.judge.turn import OPERATOR, Turn
from watchdog.model.action import Say
from watchdog.model.event import BundleSealed
from watchdog.model.record import GivenUpRecord, RestartRecord
from watchdog.model.rule import Level, Rule
from watchdog.model.world import Incident, Phase, RestartEntry, Status, Transaction

UNSURE_LOOK = 60.0
"""Seconds for which the last look may stay unknown."""

LOOKS_AFTER_RETURN = 2
"""Looks after supervisord's return before anything is stopped."""


def bundle_sealed(turn: Turn, event: BundleSealed) -> None:
    """The evidence is on disk, or could not be written: then nothing is stopped."""
    incident = turn.program.incident
    if (
        turn.program.phase is not Phase.COLLECTING
        or incident is None
        or incident.id != event.incident
        or incident.sealed
    ):
        return
    rule = turn.rule(incident.rule)
    incident = turn.set_incident(sealed=event.sealed)
    turn.mark("sealed")
    if event.sealed.error:
        turn.say("error", "the archive could not be written", why=event.sealed.error, fallback=event.sealed.fallback)
    if not event.sealed.exists:
        unwritten(turn, rule, event.sealed.error or "unknown", "its evidence could not be written; nothing was stopped")
    elif incident.level is Level.RESTART and rule is not None:
        turn.say("info", "evidence sealed", bundle=event.sealed.bundle or event.sealed.fallback)
    else:
        _report(turn, "")


def unwritten(turn: Turn, rule: Rule | None, error: str, detail: str) -> None:
    """Neither evidence nor intent: leave it, say so, and try again after the cooldown; what an operator asked for, not again."""
    incident = turn.program.incident
    assert incident is not None
    cooldown = rule.limits.cooldown if rule else VETO_MOST
    if incident.rule == OPERATOR:
        turn.go(Phase.WATCHING, detail, "error", error=error)
    else:
        turn.go(Phase.COOLDOWN, detail, "error", notice=True, error=error, again_s=cooldown)
    turn.close(incident, "vetoed", f"{detail}: {error}")
    turn.set(incident=None, until=turn.at + cooldown)


def _report(turn: Turn, why: str, *, page: bool = True) -> None:
    """Reported. Only a wedge latches, one stall being one incident; any other verdict is filed once and confirmed anew."""
    incident = turn.program.incident
    assert incident is not None and incident.diagnosis is not None
    would = f"would have done: {incident.would}" if incident.would > incident.level else "reported"
    if incident.diagnosis.verdict != "wedged" and incident.rule != OPERATOR:
        first = not incident.filed
        turn.set_incident(filed=True)
        veto(turn, why or f"the verdict is {incident.diagnosis.verdict}; {would}", reported=first)
        return
    told = incident.rule != OPERATOR
    turn.go(
        Phase.WATCHING,
        why or would,
        "warning" if told else "info",
        notice=told and page,
        outcome="reported",
        verdict=incident.diagnosis.verdict,
        kind=incident.diagnosis.kind,
        bundle=incident.sealed.bundle or incident.sealed.fallback if incident.sealed else None,
    )
    turn.close(incident, "reported", why or would)
    turn.set(incident=None, reported=(*turn.program.reported, incident.rule) if told else turn.program.reported)


def collecting(turn: Turn) -> None:
    """A look came in COLLECTING: the last look, and what it still has to wait for."""
    incident = turn.program.incident
    assert incident is not None
    rule = turn.rule(incident.rule)
    if rule is None:
        cleared(turn, "the rule is not asked for this program any more")
        return
    # A program that went blind meanwhile is reported at most: its idle CPU does not stand in for silence before a stop.
    status = turn.status(incident.rule, blind=incident.level is not Level.RESTART)
    if status in (Status.CLEAR, Status.ABSENT):
        cleared(turn, "work went on before anything was stopped")
        return
    if incident.sealed is None:
        if turn.at - turn.program.since > rule.collect_within + GRACE:
            unwritten(turn, rule, "no answer", "its evidence was not sealed in time; nothing was stopped")
        return
    if status is Status.UNKNOWN:
        since = incident.unknown_since if incident.unknown_since is not None else turn.at
        turn.set_incident(unknown_since=since)
        if turn.at - since >= UNSURE_LOOK:
            veto(turn, "the last look stayed unknown")
        return
    incident = turn.set_incident(unknown_since=None)
    if incident.intent == "none":
        _wait_or_intend(turn, rule, incident)
    elif incident.intended is not None and turn.at - incident.intended > GRACE:
        turn.refuse("its intent is still not on disk; nothing is stopped before it is", "error")


def _wait_or_intend(turn: Turn, rule: Rule, incident: Incident) -> None:
    limits, at, host = turn.rules.limits, turn.at, turn.host
    span = limits.common_cause.within
    outside = incident.diagnosis is None or incident.diagnosis.cause != "inside"
    confirmed = incident.confirmed if incident.confirmed is not None else at
    shared = _suspects(turn, confirmed) if outside else frozenset()
    if shared:
        _suspect_host(turn, shared)
        return
    own = budget.rule_free_at(rule, incident.program, host.restarts, at)
    if own > at:
        _give_up(turn, rule)
        return
    waits = (
        (outside and at < confirmed + span, "for other programs that may share the cause"),
        (budget.cooled_at(rule, incident.program, host.restarts) > at, "for the cooldown of the last restart"),
        (budget.host_free_at(limits, host.restarts, at) > at, "for the host's budget of restarts"),
        (not runs(turn, incident), "for supervisord to call this process RUNNING"),
        (not may_stop(turn), "for supervisord to answer, and for two looks after that"),
        (host.terminating, "for nothing: the watchdog is ending"),
        (budget.slots_taken(turn.others) >= limits.restarts_at_once, "for the restart slot"),
    )
    waiting = next((text for so, text in waits if so), "")
    if waiting:
        turn.set_incident(waiting=waiting)
        turn.refuse(f"waits {waiting}")
        return
    intend(turn, rule, incident)


def _suspects(turn: Turn, confirmed: float) -> frozenset[str]:
    everyone = (turn.program, *turn.others)
    watched = [p for p in everyone if p.info is not None and p.info.pid and turn.rules.policy_for(p.name) is not None]
    named = budget.suspect(turn.host.confirm_ends, confirmed, len(watched), turn.rules.limits)
    return named if turn.program.name in named else frozenset()


def _suspect_host(turn: Turn, named: frozenset[str]) -> None:
    """Not this program but the host is suspected: one page for all that share the cause, and a report of each."""
    told = turn.host.common_cause_told
    why = "a common cause is suspected: several programs stalled at once; nothing was restarted"
    if told is None or turn.at - told > turn.rules.limits.common_cause.within:
        turn.actions.append(Say("error", None, None, why, (("programs", ",".join(sorted(named))),), notice=True))
    turn.host = replace(turn.host, common_cause_told=turn.at)
    _report(turn, why, page=False)


def runs(turn: Turn, incident: Incident) -> bool:
    """supervisord's newest word is that this process is RUNNING. One that is STOPPING is being stopped by an operator."""
    info = turn.program.info
    return info is not None and info.pid == incident.ident.pid and info.state == "RUNNING"


def may_stop(turn: Turn) -> bool:
    """supervisord answers, and has for two looks."""
    return turn.host.supervisor_up is True and turn.look is not None and turn.look.looks >= LOOKS_AFTER_RETURN


def _give_up(turn: Turn, rule: Rule) -> None:
    """The rule's own budget is spent: restarting does not help this program. Loudly, and not for ever."""
    incident = turn.program.incident
    assert incident is not None
    retry = turn.rules.limits.retry
    why = f"{rule.limits.restarts} restarts in {rule.limits.per:g} s did not help"
    turn.go(Phase.GIVEN_UP, why, "error", notice=True, rule=rule.name, again_s=retry)
    turn.close(incident, "reported", f"given up: {why}")
    turn.set(incident=None, until=turn.at + retry)
    turn.persist(GivenUpRecord(turn.program.name, turn.wall + retry))


def intend(turn: Turn, rule: Rule, incident: Incident) -> None:
    """Write down what is about to be done. It counts in the budgets from here, and holds the slot."""
    info, look = turn.program.info, turn.look
    assert info is not None and look is not None
    transaction = Transaction(
        incident=incident.id,
        program=incident.program,
        rule=incident.rule,
        group=incident.group,
        ident=incident.ident,
        boot_id=turn.host.boot_id,
        tree=tuple(p.identity for p in look.observation.tree) or (incident.ident,),
        step="intent",
        opened_wall=incident.opened_wall,
        started_at=info.started_at,
        stop_within=rule.stop.within,
        start_within=rule.start_within + info.startsecs,
        verify_within=rule.verify_within,
        cooldown=rule.limits.cooldown,
        orphans=rule.stop.orphans,
    )
    entry = RestartEntry(incident.id, incident.program, incident.rule, turn.at)
    turn.host = replace(turn.host, restarts=(*turn.host.restarts, entry))
    counted = RestartRecord(incident.id, incident.program, incident.rule, turn.wall, turn.at, turn.host.boot_id)
    turn.set_incident(intent="asked", intended=turn.at, transaction=transaction, waiting="for its intent to be on disk")
    turn.persist(turn.record(incident), counted, transaction, step="intent")
