"""An incident's id, its quiet, and the ways in which it ends before anything was stopped. Pure."""

from __future__ import annotations

import re
from time import gmtime, strftime

from watchdog.judge.turn import Turn
from watchdog.model.observation import ABSENT
from watchdog.model.world import Incident, Look, Phase

VETO_FIRST = 60.0
VETO_MOST = 900.0
"""Seconds until a vetoed incident is confirmed anew: the first wait, doubled up to the last."""

DOUBLINGS = 8
"""More than enough, and few enough for a float: an incident that is vetoed for eleven days is tried a thousand times."""


def incident_id(program: str, pid: int, wall: float) -> str:
    """Sortable by time, safe as a file name whatever the program is called, and unlike that of any other process."""
    slug = re.sub(r"[^A-Za-z0-9_-]+", "-", program).strip("-")[:60] or "program"
    return f"{strftime('%Y%m%dT%H%M%SZ', gmtime(wall))}-{slug}-{pid}"


def quiet_for(look: Look) -> float | None:
    """Seconds since progress changed; where it is absent, since the log did; where the program is blind, of idle CPU."""
    if look.blind:
        return look.cpu_quiet
    clock, value = (look.progress, look.observation.progress)
    if value is ABSENT:
        clock, value = look.log, look.observation.log
    return None if value is None else clock.age


def cleared(turn: Turn, why: str) -> None:
    """The rule does not hold any more, before anything was stopped."""
    incident = turn.program.incident
    assert incident is not None
    turn.go(Phase.WATCHING, why, outcome="cleared")
    turn.close(incident, "reported" if incident.filed else "cleared", why)
    turn.set(incident=None)


def veto(turn: Turn, why: str, *, reported: bool = False) -> None:
    """Back to WATCHING; while the rule holds it is confirmed anew, later and later. `reported`: its bundle is filed just now."""
    incident = turn.program.incident
    assert incident is not None
    wait = min(VETO_FIRST * 2 ** min(incident.tried - 1, DOUBLINGS), VETO_MOST)
    if incident.intent != "none":
        turn.void(incident)
    incident = turn.set_incident(confirm_at=turn.at + wait, intent="none", waiting="", unknown_since=None)
    if reported and incident.sealed is not None:
        bundle = incident.sealed.bundle or incident.sealed.fallback
        turn.go(Phase.WATCHING, why, "warning", outcome="reported", bundle=bundle, again_s=wait)
    else:
        turn.go(Phase.WATCHING, why, outcome="vetoed", again_s=wait)
    turn.persist(turn.record(incident))
    turn.set(incident=None, vetoed=(*turn.program.vetoed, incident))


def end_vetoed(turn: Turn, incident: Incident, why: str) -> None:
    """An incident that waited to be confirmed anew is over."""
    turn.close(incident, "reported" if incident.filed else "vetoed", why)
    turn.set(vetoed=tuple(i for i in turn.program.vetoed if i.id != incident.id))


def end_all(turn: Turn, why: str) -> None:
    """The process is gone, or may not be acted on: every open incident ends."""
    for incident in turn.program.vetoed:
        end_vetoed(turn, incident, why)
    if turn.program.incident is not None:
        turn.close(turn.program.incident, "reported" if turn.program.incident.filed else "cleared", why)
    turn.set(incident=None, reported=())
