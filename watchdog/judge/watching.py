"""WATCHING: from a firing rule to an open incident and its first dumps. Pure."""

from __future__ import annotations

from watchdog.judge.incident import end_vetoed, incident_id, quiet_for
from watchdog.judge.turn import Turn
from watchdog.model.action import DumpStacks
from watchdog.model.rule import Level
from watchdog.model.world import Firing, Incident, Phase, Status

DUMP_WITHIN = 10.0
"""Seconds for one dump of a whole tree: 18-80 ms a process (measured), and py-spy's own deadline for each."""


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
            end_vetoed(turn, incident, "the rule does not hold any more")
    turn.set(reported=tuple(r for r in program.reported if turn.status(r) not in done))


def open_incident(turn: Turn, firing: Firing) -> None:
    """A rule fires: one incident more, and its first dumps."""
    look = turn.look
    assert look is not None and look.ident is not None
    quiet = quiet_for(look)
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
    confirm_stacks(turn, f"rule {firing.rule} fires: {firing.group}")


def _confirm_anew(turn: Turn, vetoed: Incident) -> None:
    turn.set(incident=vetoed, vetoed=tuple(i for i in turn.program.vetoed if i.id != vetoed.id))
    confirm_stacks(turn, f"rule {vetoed.rule} still holds")


def confirm_stacks(turn: Turn, why: str) -> None:
    """Ask for stacks. A rule about gauges takes one dump, for the record only."""
    incident = turn.program.incident
    assert incident is not None and turn.look is not None
    rule = turn.rule(incident.rule)
    confirm = rule.confirm if rule else None
    groups = tuple(f for f in turn.look.firing if f.rule == incident.rule)
    group = groups[0].group if groups else incident.group
    # What was found before stays on record, and allows nothing any more.
    record = turn.record(incident)
    known = (("verdict", record.verdict), ("kind", record.kind), ("bundle", record.bundle))
    turn.set_incident(tried=incident.tried + 1, asked=groups, group=group, known=known)
    turn.set_incident(evidence=None, diagnosis=None, sealed=None)
    turn.go(Phase.CONFIRMING, why, rule=incident.rule, group=group)
    dumps, every = (confirm.dumps, confirm.every) if confirm else (1, 0.0)
    turn.actions.append(DumpStacks(turn.program.name, incident.id, incident.ident, dumps, every, DUMP_WITHIN))
