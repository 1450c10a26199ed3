"""WATCHING, CONFIRMING, COLLECTING: from a firing rule to a diagnosis, its evidence, and the intent to restart. Pure.

Nothing here stops anything; the last step, `intend`, hands over to judge/restart.py once the intent is on disk.
"""

from __future__ import annotations

import re
from dataclasses import replace
from time import gmtime, strftime

from watchdog.judge import budget
from watchdog.judge.detectors import BLIND_GROUP, about_silence, findings, working
from watchdog.judge.diagnose import diagnose
from watchdog.judge.turn import OPERATOR, Turn
from watchdog.model.action import CollectEvidence, DumpStacks
from watchdog.model.event import BundleSealed, StacksDumped
from watchdog.model.evidence import Diagnosis, Evidence
from watchdog.model.observation import ABSENT
from watchdog.model.record import GivenUpRecord, RestartRecord
from watchdog.model.rule import Confirm, Level, Rule
from watchdog.model.world import (
    Case,
    ConfirmEnd,
    Firing,
    Incident,
    Look,
    Phase,
    RestartEntry,
    Status,
    Transaction,
)

VETO_FIRST = 60.0
VETO_MOST = 900.0
"""Seconds until a vetoed incident is confirmed anew: the first wait, doubled up to the last."""

UNSURE_LOOK = 60.0
"""Seconds for which the last look may stay unknown."""

LOOKS_AFTER_RETURN = 2
"""Looks after supervisord's return before anything is stopped."""

DUMP_WITHIN = 10.0
"""Seconds for one dump of a whole tree: 18-80 ms a process (measured), and py-spy's own deadline for each."""

_GRACE = 30.0
"""Seconds beyond a background step's own deadline after which its answer is not waited for any more."""


# WATCHING


def watching(turn: Turn) -> None:
    """A look came in WATCHING: end what cleared, confirm anew what is due, open what fires for the first time."""
    assert turn.look is not None
    _end_cleared(turn)
    if turn.policy is None or turn.policy.mode is Level.OBSERVE or turn.paused or turn.look.ident is None:
        return
    for firing in turn.look.firing:
        if firing.rule in turn.program.reported:
            continue
        vetoed = next((i for i in turn.program.vetoed if i.rule == firing.rule), None)
        if vetoed is None:
            rule = turn.rule(firing.rule)
            if rule is not None and rule.then is not Level.OBSERVE:
                open_incident(turn, firing)
                return
        elif turn.at >= vetoed.confirm_at or firing not in vetoed.asked:
            _confirm_anew(turn, vetoed)
            return


def _end_cleared(turn: Turn) -> None:
    """A rule that cleared ends its incident, and its latch. Unknown never clears."""
    program = turn.program
    if not program.vetoed and not program.reported:
        return
    done = {Status.CLEAR, Status.ABSENT}
    for incident in program.vetoed:
        if turn.status(incident.rule) in done:
            _end_vetoed(turn, incident, "the rule does not hold any more")
    turn.set(reported=tuple(r for r in program.reported if turn.status(r) not in done))


def _end_vetoed(turn: Turn, incident: Incident, why: str) -> None:
    turn.close(incident, "reported" if incident.filed else "vetoed", why)
    turn.set(vetoed=tuple(i for i in turn.program.vetoed if i.id != incident.id))


def end_all(turn: Turn, why: str) -> None:
    """The process is gone, or may not be acted on: every open incident ends."""
    for incident in turn.program.vetoed:
        _end_vetoed(turn, incident, why)
    if turn.program.incident is not None:
        turn.close(turn.program.incident, "reported" if turn.program.incident.filed else "cleared", why)
    turn.set(incident=None, reported=())


def incident_id(program: str, pid: int, wall: float) -> str:
    """Sortable by time, safe as a file name whatever the program is called, and unlike that of any other process."""
    slug = re.sub(r"[^A-Za-z0-9_-]+", "-", program).strip("-")[:60] or "program"
    return f"{strftime('%Y%m%dT%H%M%SZ', gmtime(wall))}-{slug}-{pid}"


def open_incident(turn: Turn, firing: Firing) -> None:
    """A rule fires: one incident more, and its first dumps."""
    look = turn.look
    assert look is not None and look.ident is not None
    quiet = _quiet(look)
    incident = Incident(
        id=incident_id(turn.program.name, look.ident.pid, turn.wall),
        program=turn.program.name,
        rule=firing.rule,
        group=firing.group,
        ident=look.ident,
        opened=turn.at,
        opened_wall=turn.wall,
        marks=(("heartbeat", turn.at - (quiet or 0.0)), ("detected", turn.at)),
    )
    turn.set(incident=incident)
    turn.persist(turn.record(incident))
    _confirm(turn, f"rule {firing.rule} fires: {firing.group}")


def _confirm_anew(turn: Turn, vetoed: Incident) -> None:
    turn.set(incident=vetoed, vetoed=tuple(i for i in turn.program.vetoed if i.id != vetoed.id))
    _confirm(turn, f"rule {vetoed.rule} still holds")


def _confirm(turn: Turn, why: str) -> None:
    """Ask for stacks. A rule about gauges takes one dump, for the record only."""
    incident = turn.program.incident
    assert incident is not None and turn.look is not None
    rule = turn.rule(incident.rule)
    confirm = rule.confirm if rule else None
    groups = tuple(f for f in turn.look.firing if f.rule == incident.rule)
    group = groups[0].group if groups else incident.group
    turn.set_incident(tried=incident.tried + 1, asked=groups, group=group, evidence=None, diagnosis=None, sealed=None)
    turn.go(Phase.CONFIRMING, why, rule=incident.rule, group=group)
    dumps, every = (confirm.dumps, confirm.every) if confirm else (1, 0.0)
    turn.actions.append(DumpStacks(turn.program.name, incident.id, incident.ident, dumps, every, DUMP_WITHIN))


def _quiet(look: Look) -> float | None:
    """Seconds since progress changed; where it is absent, since the log did; where the program is blind, of idle CPU."""
    if look.blind:
        return look.cpu_quiet
    clock, value = (look.progress, look.observation.progress)
    if value is ABSENT:
        clock, value = look.log, look.observation.log
    return None if value is None else clock.age


# CONFIRMING


def confirming(turn: Turn) -> None:
    """A look came in CONFIRMING: the rule may have cleared, or the dumps may be overdue."""
    incident = turn.program.incident
    assert incident is not None
    if turn.status(incident.rule) in (Status.CLEAR, Status.ABSENT):
        _cleared(turn, "the rule does not hold any more")
        return
    rule = turn.rule(incident.rule)
    confirm = (rule.confirm if rule else None) or Confirm(dumps=1)
    if turn.at - turn.program.since > confirm.dumps * (DUMP_WITHIN + confirm.every) + _GRACE:
        evidence = _evidence(turn, None)
        _judge(turn, incident, evidence, diagnose(turn.rules.signatures, evidence))


def stacks_dumped(turn: Turn, event: StacksDumped) -> None:
    """The dumps are here: diagnose, and go on, back, or report."""
    incident = turn.program.incident
    if turn.program.phase is not Phase.CONFIRMING or incident is None or incident.id != event.incident:
        return
    for trouble in event.troubles:
        turn.trace(f"dump: {trouble}")
    turn.mark("dumped")
    if turn.status(incident.rule) in (Status.CLEAR, Status.ABSENT):
        _cleared(turn, "work went on while stacks were dumped")
        return
    evidence = _evidence(turn, event)
    _judge(turn, incident, evidence, diagnose(turn.rules.signatures, evidence))


def _evidence(turn: Turn, event: StacksDumped | None) -> Evidence:
    look = turn.look
    assert look is not None
    found = Evidence(
        program=turn.program.name,
        dumps=event.dumps if event else (),
        quiet_s=_quiet(look),
        working=working(turn.policy, look) if turn.policy else None,
        cpu_cores=look.observation.gauges.cpu,
    )
    return replace(found, log=event.log) if event else found


def _judge(turn: Turn, incident: Incident, evidence: Evidence, diagnosis: Diagnosis) -> None:
    """What the diagnosis allows: the one place where a verdict becomes a level."""
    rule = turn.rule(incident.rule)
    if rule is None or turn.policy is None:
        _cleared(turn, "the rule is not asked for this program any more")
        return
    would, veto = _allowed(rule, incident, diagnosis)
    level = min(would, turn.policy.mode) if incident.rule != OPERATOR else would
    suspected = diagnosis.verdict == "unknown" or (diagnosis.verdict == "wedged" and diagnosis.cause != "inside")
    ever = turn.look is not None and (turn.look.log.changes > 0 or turn.look.progress.changes > 0)
    end = ConfirmEnd(turn.at, turn.program.name, suspect=suspected and ever and not veto)
    turn.host = replace(turn.host, confirm_ends=(*turn.host.confirm_ends, end))
    turn.set_incident(evidence=evidence, diagnosis=diagnosis, confirmed=turn.at, level=level, would=would)
    turn.mark("diagnosed")
    turn.trace(f"verdict {diagnosis.verdict}, kind {diagnosis.kind}: {diagnosis.summary}")
    if veto or (diagnosis.verdict == "unknown" and level is Level.REPORT and incident.filed):
        _veto(turn, veto or "the verdict is still unknown, and was reported")
        return
    _collect(turn, rule, diagnosis)


def _allowed(rule: Rule, incident: Incident, diagnosis: Diagnosis) -> tuple[Level, str]:
    """(the most that may be done in mode restart, why nothing at all may be: '' or a veto)."""
    if rule.confirm is None or incident.rule == OPERATOR:
        return rule.then, ""
    silent = incident.group == BLIND_GROUP or any(about_silence(g) for g in rule.when if g.name == incident.group)
    most = min(rule.then, Level.REPORT) if incident.group == BLIND_GROUP else rule.then
    healthy = diagnosis.verdict in ("idle", "busy") or diagnosis.moved is True
    if healthy and silent:
        return Level.OBSERVE, "the stacks moved" if diagnosis.moved else f"verdict {diagnosis.verdict}"
    if healthy:
        return min(most, Level.REPORT), ""
    if diagnosis.verdict == "unknown":
        most = min(most, rule.confirm.unreadable if diagnosis.unreadable else rule.confirm.unknown)
    return most, "the verdict is unknown" if most is Level.OBSERVE else ""


def _cleared(turn: Turn, why: str) -> None:
    incident = turn.program.incident
    assert incident is not None
    turn.go(Phase.WATCHING, why, outcome="cleared")
    turn.close(incident, "reported" if incident.filed else "cleared", why)
    turn.set(incident=None)


def _veto(turn: Turn, why: str) -> None:
    """Back to WATCHING; while the rule holds it is confirmed anew, later and later."""
    incident = turn.program.incident
    assert incident is not None
    wait = min(VETO_FIRST * 2 ** (incident.tried - 1), VETO_MOST)
    if incident.intent != "none":
        turn.void(incident)
    incident = turn.set_incident(confirm_at=turn.at + wait, intent="none", waiting="", unknown_since=None)
    turn.go(Phase.WATCHING, why, outcome="vetoed", again_s=wait)
    turn.persist(turn.record(incident))
    turn.set(incident=None, vetoed=(*turn.program.vetoed, incident))


# COLLECTING


def _collect(turn: Turn, rule: Rule, diagnosis: Diagnosis) -> None:
    incident = turn.program.incident
    assert incident is not None and incident.evidence is not None and turn.look is not None
    turn.go(
        Phase.COLLECTING,
        f"verdict {diagnosis.verdict}",
        verdict=diagnosis.verdict,
        kind=diagnosis.kind,
        may=str(incident.level),
    )
    case = Case(
        incident=incident.id,
        program=incident.program,
        ident=incident.ident,
        rule=incident.rule,
        group=incident.group,
        opened_wall=incident.opened_wall,
        level=incident.level,
        would=incident.would,
        evidence=incident.evidence,
        diagnosis=diagnosis,
        findings=findings(turn.policy, turn.look),
        trace=turn.program.trace,
        tree=turn.look.observation.tree,
    )
    turn.actions.append(CollectEvidence(turn.program.name, incident.id, case, rule.collect_within))


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
        _unwritten(
            turn, rule, event.sealed.error or "unknown", "its evidence could not be written; nothing was stopped"
        )
    elif incident.level is Level.RESTART and rule is not None:
        turn.say("info", "evidence sealed", bundle=event.sealed.bundle or event.sealed.fallback)
    else:
        _report(turn, "")


def _unwritten(turn: Turn, rule: Rule | None, error: str, detail: str) -> None:
    """Neither evidence nor intent: leave it, say so, and try again after the cooldown."""
    incident = turn.program.incident
    assert incident is not None
    cooldown = rule.limits.cooldown if rule else VETO_MOST
    turn.go(Phase.COOLDOWN, detail, "error", notice=True, error=error, again_s=cooldown)
    turn.close(incident, "vetoed", f"{detail}: {error}")
    turn.set(incident=None, until=turn.at + cooldown)


def _report(turn: Turn, why: str) -> None:
    """Reported. A wedge latches, one stall being one incident; an unknown verdict is filed once and confirmed anew."""
    incident = turn.program.incident
    assert incident is not None and incident.diagnosis is not None
    would = f"would have done: {incident.would}" if incident.would > incident.level else "reported"
    if incident.diagnosis.verdict == "unknown" and incident.rule != OPERATOR and not why:
        turn.set_incident(filed=True)
        _veto(turn, f"the verdict is unknown; {would}")
        return
    told = incident.rule != OPERATOR
    turn.go(
        Phase.WATCHING,
        why or would,
        "warning" if told else "info",
        notice=told,
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
        _cleared(turn, "the rule is not asked for this program any more")
        return
    status = turn.status(incident.rule)
    if status in (Status.CLEAR, Status.ABSENT):
        _cleared(turn, "work went on before anything was stopped")
        return
    if incident.sealed is None:
        if turn.at - turn.program.since > rule.collect_within + _GRACE:
            _unwritten(turn, rule, "no answer", "its evidence was not sealed in time; nothing was stopped")
        return
    if status is Status.UNKNOWN:
        since = incident.unknown_since if incident.unknown_since is not None else turn.at
        turn.set_incident(unknown_since=since)
        if turn.at - since >= UNSURE_LOOK:
            _veto(turn, "the last look stayed unknown")
        return
    turn.set_incident(unknown_since=None)
    if incident.intent == "none":
        _wait_or_intend(turn, rule, incident)


def _wait_or_intend(turn: Turn, rule: Rule, incident: Incident) -> None:
    limits, at, host = turn.rules.limits, turn.at, turn.host
    span = limits.common_cause.within
    outside = incident.diagnosis is None or incident.diagnosis.cause != "inside"
    confirmed = incident.confirmed if incident.confirmed is not None else at
    if outside and _suspects(turn, confirmed):
        _report(turn, "a common cause is suspected: several programs stalled within a minute; nothing was restarted")
        return
    own = budget.rule_free_at(rule, incident.program, host.restarts, at)
    if own > at:
        _give_up(turn, rule)
        return
    waits = (
        (outside and at < confirmed + span, "for other programs that may share the cause"),
        (budget.cooled_at(rule, incident.program, host.restarts) > at, "for the cooldown of the last restart"),
        (budget.host_free_at(limits, host.restarts, at) > at, "for the host's budget of restarts"),
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
    watched = [
        p for p in turn.others if p.info is not None and p.info.pid and turn.rules.policy_for(p.name) is not None
    ]
    named = budget.suspect(turn.host.confirm_ends, confirmed, len(watched), turn.rules.limits)
    return named if turn.program.name in named else frozenset()


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
    turn.set_incident(intent="asked", transaction=transaction, waiting="for its intent to be on disk")
    turn.persist(turn.record(incident), counted, transaction, step="intent")
