"""The only place that decides: (rules, world, event) to (world, actions). Pure, and the same for the same inputs.

Laws, each a property test (tests/judge/test_laws.py): L1 no stop before the incident's evidence is sealed; L2 no stop unless the
rule holds in the latest look at the same pid; L3 budgets hold in every window; L4 only listed transitions (judge/turn.py has the
table); L5 a program that we stopped is never left down; L6 an unknown detector never fires; L7 same inputs, same outputs; L8 an
idle or busy verdict never stops anything under a rule that confirms; L9 never more restarts at once than configured; L10 a program
stopped by an operator is left alone, where that can be told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import assert_never

from watchdog.judge import budget, collecting, confirm, restart, verify, watching
from watchdog.judge.clocks import anew, first_look, next_look, unseen, without_logs
from watchdog.judge.detectors import evaluate
from watchdog.judge.incident import end_all
from watchdog.judge.turn import OPERATOR, Turn
from watchdog.model.action import Action, AskSupervisor, Say
from watchdog.model.event import (
    BundleSealed,
    Event,
    HostObserved,
    KillSent,
    Observed,
    Persisted,
    Reaped,
    Reloaded,
    Requested,
    StacksDumped,
    StartSent,
    StopSent,
    SupervisorAnswered,
    SupervisorSilent,
    Terminating,
    Unobserved,
)
from watchdog.model.observation import Observation, ProcessInfo
from watchdog.model.record import GivenUpRecord, PauseRecord
from watchdog.model.rule import Policy, Ruleset
from watchdog.model.world import Firing, Host, Look, Phase, Program, World

Decided = tuple[World, tuple[Action, ...]]

MANUAL_GROUP = "asked for by an operator"


def decide(rules: Ruleset, world: World, event: Event) -> Decided:
    """The world after `event`, and what is to be done."""
    if isinstance(event, Observed):
        return _observed(rules, world, event, event.observation)
    if isinstance(event, Unobserved):
        look = world.looks.get(event.program)
        return (world, ()) if look is None else _observed(rules, world, event, unseen(look))
    if isinstance(event, SupervisorAnswered):
        return _answered(rules, world, event)
    if isinstance(event, SupervisorSilent):
        return _silent(world, event)
    if isinstance(event, HostObserved):
        return replace(world, host=replace(world.host, sample=event.sample)), ()
    if isinstance(event, Reloaded):
        return _reloaded(rules, world, event)
    if isinstance(event, Terminating):
        return replace(world, host=replace(world.host, terminating=True)), ()
    return _turn(rules, world, event, event.program, lambda turn: _answer(turn, event))


_Answer = StacksDumped | BundleSealed | Persisted | StopSent | KillSent | Reaped | StartSent | Requested


def _answer(turn: Turn, event: _Answer) -> None:
    """An action's answer, or an operator's request, for one program."""
    if isinstance(event, StacksDumped):
        confirm.stacks_dumped(turn, event)
    elif isinstance(event, BundleSealed):
        collecting.bundle_sealed(turn, event)
    elif isinstance(event, Persisted):
        restart.persisted(turn, event)
    elif isinstance(event, StopSent):
        restart.stop_sent(turn, event)
        turn.actions.append(AskSupervisor())
    elif isinstance(event, KillSent):
        restart.kill_sent(turn, event)
    elif isinstance(event, Reaped):
        restart.reaped(turn, event)
    elif isinstance(event, StartSent):
        restart.start_sent(turn, event)
        turn.actions.append(AskSupervisor())
    elif isinstance(event, Requested):
        _requested(turn, event)
    else:
        assert_never(event)


def _turn(rules: Ruleset, world: World, event: Event, name: str, what: Callable[[Turn], None]) -> Decided:
    """Let one program have its turn, if it is known."""
    program = world.programs.get(name)
    if program is None:
        return world, ()
    turn = Turn(rules, world.host, program, world.looks.get(name), event.at, event.wall)
    turn.others = tuple(p for p in world.programs.values() if p.name != name)
    what(turn)
    return _merge(world, turn), tuple(turn.actions)


def _merge(world: World, turn: Turn) -> World:
    programs, looks, name = world.programs, world.looks, turn.program.name
    if turn.removed:
        programs = {k: v for k, v in programs.items() if k != name}
        looks = {k: v for k, v in looks.items() if k != name}
        return World(turn.host, programs, looks)
    if programs.get(name) is not turn.program:
        programs = {**programs, name: turn.program}
    if turn.look is not None and looks.get(name) is not turn.look:
        looks = {**looks, name: turn.look}
    return World(turn.host, programs, looks)


# Looks


def _observed(rules: Ruleset, world: World, event: Observed | Unobserved, seen: Observation) -> Decided:
    """A look at one program: its clocks, its rules, and what its phase makes of them."""
    name = seen.program
    program = world.programs.get(name)
    if program is None:
        return world, ()
    policy = rules.policy_for(name)
    before = world.looks.get(name)
    look = _look(rules, world.host, policy, before, seen, event.at)
    if _nothing_to_do(program, look, before, event.wall):
        return World(world.host, world.programs, {**world.looks, name: look}), ()
    turn = Turn(rules, world.host, program, look, event.at, event.wall)
    turn.others = tuple(p for p in world.programs.values() if p.name != name)
    _looked(turn, before)
    return _merge(world, turn), tuple(turn.actions)


def _look(rules: Ruleset, host: Host, policy: Policy | None, before: Look | None, seen: Observation, at: float) -> Look:
    if host.supervisor_up is False and (policy is None or not policy.logs):
        seen = without_logs(
            seen, policy is not None and policy.progress is not None and policy.progress.log is not None
        )
    if before is None or before.ident != seen.ident:
        return evaluate(policy, first_look(policy, seen, at))
    return evaluate(policy, next_look(before, policy, seen, at, rules.interval))


def _nothing_to_do(program: Program, look: Look, before: Look | None, wall: float) -> bool:
    """The quiet tick, which is nearly all of them."""
    return (
        program.phase is Phase.WATCHING
        and before is not None
        and before.ident == look.ident
        and not look.firing
        and look.blind == before.blind
        and not program.vetoed
        and not program.reported
        and program.troubles == look.observation.troubles
        and (program.paused_until_wall is None or wall < program.paused_until_wall)
    )


def _looked(turn: Turn, before: Look | None) -> None:
    look, program = turn.look, turn.program
    assert look is not None
    _tell_troubles(turn, look, before)
    _expire_pause(turn)
    new = before is not None and before.ident is not None and before.ident != look.ident
    if new and _leaves_when_gone(program):
        why = "its process is gone" if look.ident is None else "a new process, by another hand"
        _leave(turn, why)
    _PHASES[turn.program.phase](turn)


def _nothing(turn: Turn) -> None:
    """Only supervisord's answers move this phase."""


_PHASES: Mapping[Phase, Callable[[Turn], None]] = {
    Phase.WATCHING: watching.watching,
    Phase.CONFIRMING: confirm.confirming,
    Phase.COLLECTING: collecting.collecting,
    Phase.STOPPING: _nothing,
    Phase.STARTING: _nothing,
    Phase.VERIFYING: verify.verifying,
    Phase.COOLDOWN: verify.cooldown,
    Phase.GIVEN_UP: verify.cooldown,
}


def _leaves_when_gone(program: Program) -> bool:
    """A transaction goes its own way; everything else belongs to the process that is gone."""
    return program.restarting is None


def _leave(turn: Turn, why: str) -> None:
    """Whatever was going on for this process ends; nothing is owed."""
    given_up = turn.program.phase is Phase.GIVEN_UP
    if turn.program.phase is not Phase.WATCHING:
        turn.go(Phase.WATCHING, why)
    end_all(turn, why)
    if given_up:
        turn.persist(GivenUpRecord(turn.program.name, None))


def _tell_troubles(turn: Turn, look: Look, before: Look | None) -> None:
    """What cannot be read is said once, and so is that it can be again."""
    was, now = turn.program.troubles, look.observation.troubles
    if was != now:
        for text in (t for t in now if t not in was):
            turn.say("warning", "cannot be read", what=text)
        for text in (t for t in was if t not in now):
            turn.say("info", "can be read again, or is gone", what=text)
        turn.set(troubles=now)
    if look.blind and not (before is not None and before.blind):
        text = "blind: none of its heartbeats can be seen, so a stall can be suspected from its CPU only, and is reported at most"
        turn.say("warning", text, notice=True)
        turn.trace(text)
    elif before is not None and before.blind and not look.blind:
        turn.say("info", "not blind any more")


def _expire_pause(turn: Turn) -> None:
    if turn.program.paused_until_wall is not None and not turn.paused:
        turn.set(paused_until_wall=None, paused_why="")
        turn.say("info", "the pause is over: watched again")


# supervisord


def _answered(rules: Ruleset, world: World, event: SupervisorAnswered) -> Decided:
    """supervisord told every program's state: new truth for each of them, and for the transactions most of all."""
    actions: list[Action] = []
    back = world.host.supervisor_up is False
    host = world.host
    if world.host.supervisor_up is not True:
        host = replace(host, supervisor_up=True, supervisor_why="", supervisor_since=event.at)
        actions.append(Say("info", None, None, "supervisord answers", (("programs", len(event.processes)),)))
    host = replace(host, restarts=budget.forget(host.restarts, event.at))
    looks = _logs_anew(rules, world.looks) if back else world.looks
    programs = _told(world.programs, event)
    world = World(host, programs, looks)
    for name in _concerned(programs, event.processes):
        world, more = _turn(rules, world, event, name, _told_turn)
        actions.extend(more)
    return world, tuple(actions)


def _told(programs: Mapping[str, Program], event: SupervisorAnswered) -> Mapping[str, Program]:
    """Every program with supervisord's newest word on it."""
    changed = {}
    for name, info in event.processes.items():
        program = programs.get(name)
        if program is None:
            changed[name] = Program(name, since=event.at, since_wall=event.wall, info=info)
        elif program.info != info:
            changed[name] = replace(program, info=info)
    gone = {n: replace(p, info=None) for n, p in programs.items() if n not in event.processes and p.info is not None}
    return {**programs, **changed, **gone} if changed or gone else programs


def _concerned(programs: Mapping[str, Program], told: Mapping[str, ProcessInfo]) -> Iterable[str]:
    return [n for n, p in programs.items() if p.restarting is not None or n not in told]


def _told_turn(turn: Turn) -> None:
    """One answer, for a program in a transaction, or one that is gone from supervisord."""
    info, phase = turn.program.info, turn.program.phase
    if turn.program.restarting is None:
        _leave(turn, "supervisord has no such program any more")
        if turn.paused:
            return  # a pause outlives `supervisorctl update`: the operator who edits a program has paused it for that
        turn.say("info", "removed from supervisord; forgotten")
        turn.removed = True
        return
    if phase is Phase.STOPPING:
        restart.stopping(turn, info)
    elif phase is Phase.COOLDOWN:
        verify.cooldown_answer(turn, info)
    elif phase is Phase.VERIFYING:
        verify.verify_answer(turn, info)
    if turn.program.phase is Phase.STARTING:
        restart.starting(turn, info)
    turn.removed = turn.program.info is None and turn.program.restarting is None


def _logs_anew(rules: Ruleset, looks: Mapping[str, Look]) -> Mapping[str, Look]:
    """supervisord is back: the logs it did not write meanwhile say nothing about silence, so their clocks begin anew."""
    return {name: _log_anew(rules.policy_for(name), look) for name, look in looks.items()}


def _log_anew(policy: Policy | None, look: Look) -> Look:
    if policy is not None and policy.logs:
        return look._replace(looks=0)
    from_log = policy is not None and policy.progress is not None and policy.progress.log is not None
    progress = anew(look.progress) if from_log else look.progress
    return look._replace(log=anew(look.log), progress=progress, looks=0, firing=())


def _silent(world: World, event: SupervisorSilent) -> Decided:
    if world.host.supervisor_up is False and world.host.supervisor_why == event.why:
        return world, ()
    said: tuple[Action, ...] = ()
    since = world.host.supervisor_since
    if world.host.supervisor_up is not False:
        since = event.at
        text = "supervisord does not answer: its logs say nothing meanwhile, and nothing is restarted; sampling goes on"
        said = (Say("error", None, None, text, (("why", event.why),), notice=True),)
    host = replace(world.host, supervisor_up=False, supervisor_why=event.why, supervisor_since=since)
    return replace(world, host=host), said


# By hand


def _requested(turn: Turn, event: Requested) -> None:
    if event.verb == "collect":
        _collect_by_hand(turn)
    elif event.verb == "pause":
        until = event.wall + event.for_
        turn.set(paused_until_wall=until, paused_why=event.why)
        turn.persist(PauseRecord(turn.program.name, until, event.why))
        turn.say("warning", "paused", for_s=event.for_, why=event.why)
        _step_back(turn, "paused by an operator")
    else:
        _resume_by_hand(turn)


def _resume_by_hand(turn: Turn) -> None:
    """The pause is over, and so is having given up."""
    turn.set(paused_until_wall=None, paused_why="")
    turn.persist(PauseRecord(turn.program.name, None))
    turn.say("info", "resumed by an operator")
    if turn.program.phase is Phase.GIVEN_UP:
        _leave(turn, "resumed by an operator")


def _collect_by_hand(turn: Turn) -> None:
    gone = turn.look is None or turn.look.ident is None
    refusals = (
        (turn.policy is None, "no entry of the configuration matches it, so it is not touched"),
        (gone, "it is not running"),
        (turn.program.phase is not Phase.WATCHING, f"it is in {turn.program.phase}"),
    )
    why = next((text for so, text in refusals if so), "")
    if why:
        turn.say("warning", "cannot collect now", why=why)
        return
    watching.open_incident(turn, Firing(OPERATOR, MANUAL_GROUP))


def _step_back(turn: Turn, why: str) -> None:
    """Paused or reloaded: whatever has not stopped anything is dropped; a begun restart is finished as it began."""
    if turn.program.restarting is None:
        _leave(turn, why)


def _reloaded(rules: Ruleset, world: World, event: Reloaded) -> Decided:
    """New rules: levels are measured from now on by the new detectors; what was under way begins anew."""
    actions: list[Action] = []
    looks = {n: k._replace(held=(), firing=(), blind=False) for n, k in world.looks.items()}
    world = replace(world, looks=looks)
    for name in world.programs:
        world, more = _turn(rules, world, event, name, lambda turn: _step_back(turn, "the configuration was reloaded"))
        actions.extend(more)
    return world, tuple(actions)
