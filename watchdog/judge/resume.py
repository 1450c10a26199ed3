"""The world that a fresh daemon begins with: what the journal remembers, and nothing learnt by looking. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from watchdog.model.action import Persist
from watchdog.model.record import CooldownRecord, GivenUpRecord, IncidentRecord, PauseRecord, RestartRecord
from watchdog.model.world import Host, Incident, Phase, Program, RestartEntry, Restarting, Step, Transaction, World

INTERRUPTED = "the watchdog ended before anything was stopped"

_PHASE: Mapping[Step, Phase] = {"intent": Phase.STOPPING, "owed": Phase.COOLDOWN, "started": Phase.VERIFYING}


def resume(
    transactions: Mapping[str, Transaction],
    incidents: Mapping[str, IncidentRecord],
    restarts: Mapping[str, RestartRecord],
    pauses: Mapping[str, PauseRecord],
    boot_id: str,
    at: float,
    wall: float,
) -> World:
    """A world with every begun restart in the phase in which a fresh daemon finishes it, and the restarts that budgets count.

    A bare intent goes to STOPPING, resumed: a stop is never sent. An owed start goes to COOLDOWN with its start due at once, where
    supervisord's first answer decides; a started one to VERIFYING.
    """
    entries = [_entry(r, boot_id, at, wall) for r in restarts.values()]
    programs = {
        p: _paused(_program(t, incidents.get(t.incident), at, wall), pauses.get(p), wall)
        for p, t in transactions.items()
    }
    ordered = tuple(sorted(entries, key=lambda e: e.at))
    return World(Host(boot_id=boot_id, restarts=ordered), programs, {})


def _entry(record: RestartRecord, boot_id: str, at: float, wall: float) -> RestartEntry:
    """When a restart was, on this boot's clock. A wall clock that was stepped back makes it recent, never forgotten."""
    when = record.mono if record.boot_id == boot_id else at - max(wall - record.wall, 0.0)
    return RestartEntry(record.incident, record.program, record.rule, min(when, at))


def _program(transaction: Transaction, record: IncidentRecord | None, at: float, wall: float) -> Program:
    phase = _PHASE[transaction.step]
    began = at - max(wall - transaction.opened_wall, 0.0)
    restarting = Restarting(
        transaction=transaction,
        began=began,
        resumed=True,
        stop="accepted",
        reap="none" if transaction.step != "started" else "done",
        start_at=at,
        verify_from=at,
        outcome=record.outcome if record else None,
    )
    return Program(
        name=transaction.program,
        phase=phase,
        since=at,
        since_wall=wall,
        incident=_incident(transaction, record, began),
        restarting=restarting,
        trace=(f"{wall:.3f} resumed from the journal in {phase}",),
    )


def _incident(transaction: Transaction, record: IncidentRecord | None, began: float) -> Incident:
    """The incident, with the times that its record has: they count from the last heartbeat."""
    seconds = dict(record.seconds) if record else {}
    base = began - seconds.get("detected", 0.0)
    return Incident(
        id=transaction.incident,
        program=transaction.program,
        rule=transaction.rule,
        group=transaction.group,
        ident=transaction.ident,
        opened=began,
        opened_wall=transaction.opened_wall,
        intent="written",
        transaction=transaction,
        marks=(("heartbeat", base), *((step, base + s) for step, s in seconds.items())),
        known=(("verdict", record.verdict), ("kind", record.kind), ("bundle", record.bundle)) if record else (),
    )


def interrupted(
    incidents: Mapping[str, IncidentRecord], transactions: Mapping[str, Transaction]
) -> tuple[Persist, ...]:
    """What closes the incidents that the last daemon left open before it stopped anything."""
    begun = {t.incident for t in transactions.values()}
    left = [i for i in incidents.values() if i.outcome is None and i.id not in begun]
    closed = [replace(i, outcome="reported" if i.bundle else "cleared", detail=INTERRUPTED) for i in left]
    return tuple(Persist(i.program, i.id, (i,)) for i in closed)


def settle(
    world: World,
    pauses: Mapping[str, PauseRecord],
    given_up: Mapping[str, GivenUpRecord],
    cooldowns: Mapping[str, CooldownRecord],
    at: float,
    wall: float,
) -> World:
    """The world once supervisord has told its programs: pauses, cooldowns and given-up programs go on."""
    programs = dict(world.programs)
    for name, program in world.programs.items():
        program = _paused(program, pauses.get(name), wall)
        if program.phase is Phase.WATCHING:
            program = _held_back(program, given_up.get(name), cooldowns.get(name), at, wall)
        programs[name] = program
    return replace(world, programs=programs)


def _paused(program: Program, pause: PauseRecord | None, wall: float) -> Program:
    if pause is None or pause.until_wall is None or pause.until_wall <= wall:
        return program
    return replace(program, paused_until_wall=pause.until_wall, paused_why=pause.why)


def _held_back(
    program: Program, given_up: GivenUpRecord | None, cooldown: CooldownRecord | None, at: float, wall: float
) -> Program:
    for phase, until in (
        (Phase.GIVEN_UP, given_up.until_wall if given_up else None),
        (Phase.COOLDOWN, cooldown.until_wall if cooldown else None),
    ):
        if until is not None and until > wall:
            return replace(program, phase=phase, since=at, since_wall=wall, until=at + until - wall)
    return program
