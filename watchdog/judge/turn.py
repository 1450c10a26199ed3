"""One program's turn: the state it begins with, what is decided in it, and the words for that. Pure.

A Turn is mutable while one event is decided and never outlives it; what comes out are the frozen Program and Host, and actions.
The table of transitions stands here, and `go` refuses any other: a wrong transition is a bug, and ends the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from watchdog.judge.detectors import rule_status
from watchdog.model.action import Action, Persist, Say
from watchdog.model.record import IncidentRecord, Record, RestartRecord
from watchdog.model.rule import Confirm, Level, Policy, Rule, Ruleset
from watchdog.model.world import Host, Incident, Look, Outcome, Phase, Program, Status, Step, Transaction

_P = Phase
_LEAVE = {_P.WATCHING}
"""The process is gone or new by another hand; paused, removed, reloaded."""

TRANSITIONS: Mapping[Phase, frozenset[Phase]] = {
    _P.WATCHING: frozenset({_P.CONFIRMING}),
    _P.CONFIRMING: frozenset({_P.COLLECTING} | _LEAVE),
    _P.COLLECTING: frozenset({_P.STOPPING, _P.COOLDOWN, _P.GIVEN_UP} | _LEAVE),
    # WATCHING: nothing was sent after all (another process by now, or supervisord could not be reached).
    _P.STOPPING: frozenset({_P.STARTING, _P.COOLDOWN} | _LEAVE),
    # WATCHING: an operator stopped the new process, or removed the program.
    _P.STARTING: frozenset({_P.VERIFYING, _P.COOLDOWN} | _LEAVE),
    _P.VERIFYING: frozenset({_P.COOLDOWN, _P.STARTING} | _LEAVE),
    _P.COOLDOWN: frozenset({_P.STARTING} | _LEAVE),
    _P.GIVEN_UP: frozenset(_LEAVE),
}

TRACE = 40
"""Decisions and refusals kept for each program."""

OPERATOR = "operator"
"""The rule's name in an incident that an operator asked for."""

_BY_HAND = Rule(OPERATOR, "An operator asked for the evidence.", (), confirm=Confirm(), then=Level.REPORT)

Say_Level = Literal["debug", "info", "warning", "error"]


class Turn:
    """What one event does to one program."""

    def __init__(self, rules: Ruleset, host: Host, program: Program, look: Look | None, at: float, wall: float) -> None:
        self.rules = rules
        self.policy: Policy | None = rules.policy_for(program.name)
        self.host = host
        self.program = program
        self.look = look
        self.at = at
        self.wall = wall
        self.actions: list[Action] = []
        self.others: tuple[Program, ...] = ()
        """Every program of the host, where the event needs them."""
        self.removed = False

    # State

    def set(self, **changes: Any) -> None:
        self.program = replace(self.program, **changes)

    def set_incident(self, **changes: Any) -> Incident:
        assert self.program.incident is not None
        incident = replace(self.program.incident, **changes)
        self.set(incident=incident)
        return incident

    def mark(self, step: str) -> None:
        """Note when a step of the incident was reached, the first time."""
        incident = self.program.incident
        if incident is not None and all(name != step for name, _ in incident.marks):
            self.set_incident(marks=(*incident.marks, (step, self.at)))

    def go(self, phase: Phase, why: str, level: Say_Level = "info", *, notice: bool = False, **fields: Any) -> None:
        """Change the phase; one line for the log."""
        was = self.program.phase
        assert phase in TRANSITIONS[was], f"{self.program.name}: no transition {was} -> {phase}"
        self.set(phase=phase, since=self.at, since_wall=self.wall, refused="")
        self.trace(f"{was} -> {phase}: {why}")
        self.say(level, f"{was} -> {phase}", notice=notice, why=why, **fields)

    # Words

    def trace(self, text: str) -> None:
        line = f"{self.wall:.3f} {text}"
        self.set(trace=(*self.program.trace[1 - TRACE :], line))

    def say(self, level: Say_Level, message: str, *, notice: bool = False, **fields: Any) -> None:
        incident = self.program.incident
        self.actions.append(
            Say(level, self.program.name, incident.id if incident else None, message, tuple(fields.items()), notice)
        )

    def refuse(self, why: str, level: Say_Level = "info", **fields: Any) -> None:
        """Say once why what the rule asks is not done now."""
        if self.program.refused != why:
            self.set(refused=why)
            self.trace(f"refused: {why}")
            self.say(level, "not now", why=why, **fields)

    def persist(self, *records: Record, step: Step | None = None) -> None:
        incident = self.program.incident
        self.actions.append(Persist(self.program.name, incident.id if incident else "", records, step))

    # Questions

    def rule(self, name: str) -> Rule | None:
        """The rule of this program's policy; an operator's request is one, too."""
        if name == OPERATOR:
            return _BY_HAND
        return next((r for r in self.policy.rules if r.name == name), None) if self.policy else None

    def status(self, name: str, *, blind: bool = True) -> Status:
        """What the rule says in the newest look. An operator's wish holds until it is done. `blind`: as in rule_status."""
        if name == OPERATOR:
            return Status.HOLDS
        rule = self.rule(name)
        if rule is None or self.policy is None or self.look is None or self.look.ident is None:
            return Status.UNKNOWN
        return rule_status(rule, self.policy, self.look, blind=blind)

    @property
    def paused(self) -> bool:
        until = self.program.paused_until_wall
        return until is not None and self.wall < until

    # Incidents

    def record(self, incident: Incident, **changes: Any) -> IncidentRecord:
        """The incident as the journal keeps it."""
        found, sealed, known = incident.diagnosis, incident.sealed, dict(incident.known)
        bundle = (sealed.bundle or sealed.fallback) if sealed else known.get("bundle")
        record = IncidentRecord(
            id=incident.id,
            program=incident.program,
            opened_at=incident.opened_wall,
            rule=incident.rule,
            group=incident.group,
            verdict=found.verdict if found else known.get("verdict"),
            kind=found.kind if found else known.get("kind"),
            action="report" if bundle else "none",
            seconds=seconds(incident),
            bundle=bundle,
        )
        return replace(record, **changes)

    def close(self, incident: Incident, outcome: Outcome, detail: str = "", **changes: Any) -> None:
        """Write the incident's end; takes back an intent that no stop followed."""
        if incident.intent != "none":
            self.void(incident)
        self.persist(self.record(incident, outcome=outcome, detail=detail, **changes))

    def void(self, incident: Incident) -> None:
        """Nothing was stopped: the intent is closed, and counts in no budget."""
        program, rule = incident.program, incident.rule
        self.host = replace(self.host, restarts=tuple(r for r in self.host.restarts if r.incident != incident.id))
        self.persist(
            RestartRecord(incident.id, program, rule, self.wall, self.at, self.host.boot_id, void=True),
            closed(incident, self.host.boot_id, self.wall),
        )


def closed(incident: Incident, boot_id: str, wall: float) -> Transaction:
    """The record that ends an incident's transaction, whatever it was."""
    return Transaction(
        incident=incident.id,
        program=incident.program,
        rule=incident.rule,
        group=incident.group,
        ident=incident.ident,
        boot_id=boot_id,
        tree=(),
        step="closed",
        opened_wall=incident.opened_wall or wall,
        started_at=0,
        stop_within=0.0,
        start_within=0.0,
        verify_within=0.0,
        cooldown=0.0,
    )


def seconds(incident: Incident) -> dict[str, float]:
    """Seconds from the last heartbeat to each step of the incident."""
    if not incident.marks:
        return {}
    base = incident.marks[0][1]
    return {step: round(at - base, 3) for step, at in incident.marks[1:]}
