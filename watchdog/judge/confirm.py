"""CONFIRMING: from stack dumps to a verdict, and from the verdict to the most that may be done. Pure; stops nothing."""

from __future__ import annotations

from dataclasses import replace

from watchdog.judge.detectors import BLIND_GROUP, about_silence, findings, working
from watchdog.judge.diagnose import diagnose
from watchdog.judge.incident import cleared, quiet_for, veto
from watchdog.judge.turn import OPERATOR, Turn
from watchdog.judge.watching import DUMP_WITHIN
from watchdog.model.action import CollectEvidence
from watchdog.model.event import StacksDumped
from watchdog.model.evidence import Diagnosis, Evidence
from watchdog.model.rule import Confirm, Level, Rule
from watchdog.model.world import Case, ConfirmEnd, Incident, Phase, Status

GRACE = 120.0
"""Seconds beyond a background step's own deadline after which its answer is not waited for any more: where many programs stall at
once, dumps and bundles wait for one another (daemon/perform.py)."""


def confirming(turn: Turn) -> None:
    """A look came in CONFIRMING: the rule may have cleared, or the dumps may be overdue."""
    incident = turn.program.incident
    assert incident is not None
    if turn.status(incident.rule) in (Status.CLEAR, Status.ABSENT):
        cleared(turn, "the rule does not hold any more")
        return
    rule = turn.rule(incident.rule)
    confirm = (rule.confirm if rule else None) or Confirm(dumps=1)
    if turn.at - turn.program.since > confirm.dumps * (DUMP_WITHIN + confirm.every) + GRACE:
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
        cleared(turn, "work went on while stacks were dumped")
        return
    evidence = _evidence(turn, event)
    _judge(turn, incident, evidence, diagnose(turn.rules.signatures, evidence))


def _evidence(turn: Turn, event: StacksDumped | None) -> Evidence:
    look = turn.look
    assert look is not None
    found = Evidence(
        program=turn.program.name,
        dumps=event.dumps if event else (),
        quiet_s=quiet_for(look),
        working=working(turn.policy, look) if turn.policy else None,
        cpu_cores=look.observation.gauges.cpu,
    )
    return replace(found, log=event.log) if event else found


def _judge(turn: Turn, incident: Incident, evidence: Evidence, diagnosis: Diagnosis) -> None:
    """What the diagnosis allows: the one place where a verdict becomes a level."""
    rule = turn.rule(incident.rule)
    if rule is None or turn.policy is None:
        cleared(turn, "the rule is not asked for this program any more")
        return
    would, against = _allowed(rule, incident, diagnosis)
    level = min(would, turn.policy.mode) if incident.rule != OPERATOR else would
    suspected = diagnosis.verdict == "unknown" or (diagnosis.verdict == "wedged" and diagnosis.cause != "inside")
    ever = turn.look is not None and (turn.look.log.changes > 0 or turn.look.progress.changes > 0)
    counts = suspected and ever and diagnosis.moved is not True and incident.rule != OPERATOR
    end = ConfirmEnd(turn.at, turn.program.name, suspect=counts)
    recent = (e for e in turn.host.confirm_ends if e.at > turn.at - 2 * turn.rules.limits.common_cause.within)
    turn.host = replace(turn.host, confirm_ends=(*recent, end))
    turn.set_incident(evidence=evidence, diagnosis=diagnosis, confirmed=turn.at, level=level, would=would)
    turn.mark("diagnosed")
    turn.trace(f"verdict {diagnosis.verdict}, kind {diagnosis.kind}: {diagnosis.summary}")
    if against or (diagnosis.verdict != "wedged" and level is Level.REPORT and incident.filed):
        veto(turn, against or f"the verdict is still {diagnosis.verdict}, and was reported")
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
