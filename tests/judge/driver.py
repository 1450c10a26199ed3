"""Drives the core against a fake host as the daemon does: ticks, polls, effects in the background, a journal, and ends of its life.

Whatever the core decides goes to `laws`, beside what the host really did; no law is checked from the core's own belief.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from tests.judge.fakehost import Host, Prog
from tests.judge.laws import Laws
from watchdog.daemon.loop import BUSY_POLL, QUIET_POLL
from watchdog.journal import JournalState, fold, from_json, to_json
from watchdog.judge.decide import decide
from watchdog.judge.resume import interrupted, resume, settle
from watchdog.judge.verify import owes_start, under_way
from watchdog.model.action import (
    Action,
    AskSupervisor,
    CollectEvidence,
    DumpStacks,
    KillProgram,
    Persist,
    ReapTree,
    Say,
    StartProgram,
    StopProgram,
)
from watchdog.model.event import (
    BundleSealed,
    Event,
    KillSent,
    Observed,
    Persisted,
    Reaped,
    Reloaded,
    Requested,
    StacksDumped,
    StartSent,
    StopResult,
    StopSent,
    SupervisorAnswered,
    SupervisorSilent,
    Terminating,
    Unobserved,
)
from watchdog.model.evidence import LogLines
from watchdog.model.observation import ProcessInfo
from watchdog.model.rule import Ruleset
from watchdog.model.world import Phase, Sealed, World

RPC_TIMEOUT = 5.0
FINISH_WITHIN = 60.0


class Driver:
    """The watchdog, one life after another, over one journal."""

    def __init__(self, host: Host, rules: Ruleset) -> None:
        self.host = host
        self.laws = Laws(host)
        self.rules = rules
        """As configured; while begun restarts are finished, an empty one is in force."""
        self.world = World()
        self.alive = False
        self.finishing = False
        self.terminating = False
        self.life = 0
        self.lines: list[str] = []
        """The journal."""
        self.crash_in: int | None = None
        """The watchdog is killed right after so many more effects, before it hears of the last one."""
        self.asleep_until = 0.0
        self.stuck = False
        """Looks do not come back."""
        self._told: dict[str, ProcessInfo] = {}
        self._remembered: JournalState | None = None
        self._open: tuple[Persist, ...] = ()
        self._writing: list[Persist] = []
        self._polling = False
        self.boot()

    # Lives

    def journal(self) -> JournalState:
        state = JournalState()
        for line in self.lines:
            try:
                fold(state, from_json(json.loads(line)))
            except ValueError:
                state.unread += 1
        return state

    def boot(self) -> None:
        if self.alive:
            return
        kept, host = self.journal(), self.host
        self.life += 1
        self.alive, self.finishing, self.terminating, self._polling = True, False, False, False
        self.crash_in, self._told, self._writing, self._remembered = None, {}, [], kept
        self.asleep_until = host.now
        self._open = interrupted(kept.incidents, kept.transactions)
        self.world = resume(
            kept.transactions, kept.incidents, kept.restarts, kept.pauses, f"boot-{host.boot}", host.mono, host.wall
        )
        self.laws.born()
        if any(owes_start(p) for p in self.world.programs.values()):
            self.finishing = True
            self._later(FINISH_WITHIN, self._finished)
        else:
            self._watch()
        self._poll()
        self._tick()

    def _finished(self) -> None:
        if self.finishing:
            self.finishing = False
            self._watch()

    def _watch(self) -> None:
        for action in self._open:
            self.perform(action)

    def crash(self) -> None:
        self.alive = False
        self.life += 1
        # What the journal's thread had not written is lost; calls on their way are served, or not, by a supervisord that lives.

    def crashed_for(self, seconds: float, *, other_boot: bool = False) -> None:
        if not self.alive:
            return
        self.crash()
        if other_boot:
            self.host.restart_supervisord()
            self.host.boot += 1
            self.host.booted = self.host.now - 20.0
            self.host.reuse_pids()
        self.host.after(seconds, self.boot)

    def _later(self, seconds: float, what: Callable[[], None], *, effect: bool = False) -> None:
        """Later in this life. An effect may be its last."""
        life = self.life

        def fire() -> None:
            if self.life != life:
                return
            if self.host.now < self.asleep_until - 0.001:
                self.host.after(self.asleep_until - self.host.now, fire)
                return
            what()
            if effect and self.crash_in is not None:
                self.crash_in -= 1
                if self.crash_in <= 0:
                    self.crashed_for(7.0)

        self.host.after(seconds, fire)

    # Events

    def tell(self, event: Event) -> None:
        rules = Ruleset() if self.finishing else self.rules
        before = self.world
        after, actions = decide(rules, before, event)
        self.laws.same(decide(rules, before, event), (after, actions))
        self.laws.decided(before, after, event, actions)
        self.world = after
        if isinstance(event, SupervisorAnswered) and not self.finishing and self._remembered is not None:
            kept, self._remembered = self._remembered, None
            self.world = settle(after, kept.pauses, kept.given_up, kept.cooldowns, event.at, event.wall)
        for action in actions:
            self.perform(action)
        if self.finishing and not any(owes_start(p) for p in self.world.programs.values()):
            self._finished()
        if self.terminating and not any(under_way(p) for p in self.world.programs.values()):
            self.alive = False
            self.life += 1

    def _post(self, event: Callable[[float, float], Event]) -> None:
        self._later(0.1, lambda: self.tell(event(self.host.mono, self.host.wall)))

    def ask(self, program: str, verb: Literal["collect", "pause", "resume"], seconds: float = 0.0) -> None:
        if self.alive and not self.finishing and program in self._told:
            self.laws.asked(program, verb, seconds)
            self.tell(Requested(self.host.mono, self.host.wall, program, verb, seconds, "by hand"))

    def reload(self, rules: Ruleset) -> None:
        self.rules = rules
        if self.alive and not self.finishing:
            self.tell(Reloaded(self.host.mono, self.host.wall))

    def terminate(self) -> None:
        if self.alive:
            self.terminating = True
            self.tell(Terminating(self.host.mono, self.host.wall))

    # Ticks and polls

    def _tick(self) -> None:
        if not self.finishing:
            for name, info in self._told.items():
                self._look(name, info.pid)
        self._later(self.rules.interval, self._tick)

    def _look(self, name: str, pid: int) -> None:
        at, wall = self.host.mono, self.host.wall
        if self.stuck:
            self.laws.unseen(name)
            self.tell(Unobserved(at, wall, name, "stuck"))
            return
        seen = self.host.look(name, pid)
        if pid and seen.ident is None:
            self._later(0.0, self._poll_once)  # MainGone
        self.laws.looked(name, seen)
        self.tell(Observed(at, wall, seen))

    def _every(self) -> float:
        if any(under_way(p) for p in self.world.programs.values()):
            return BUSY_POLL
        busy = any(p.phase is not Phase.WATCHING for p in self.world.programs.values())
        return self.rules.interval if busy or not self.host.answers else QUIET_POLL

    def _poll(self) -> None:
        self._poll_once()
        life = self.life
        step = 0.5

        def wait(waited: float) -> None:
            if self.life == life:
                if waited >= self._every():
                    self._poll()
                else:
                    self._later(step, lambda: wait(waited + step))

        wait(0.0)

    def _poll_once(self) -> None:
        """One asking at a time: its answer is what supervisord said a moment ago."""
        if self._polling:
            return
        self._polling = True
        if not self.host.answers:
            self._later(RPC_TIMEOUT if self.host.up else 0.1, self._silent)
            return
        infos = self.host.infos()
        self._later(0.2, lambda: self._answer(infos))

    def _silent(self) -> None:
        self._polling = False
        self.laws.silent()
        self.tell(SupervisorSilent(self.host.mono, self.host.wall, "no answer"))

    def _answer(self, infos: dict[str, ProcessInfo]) -> None:
        self._polling = False
        self._told = infos
        self.laws.told(infos)
        self.tell(SupervisorAnswered(self.host.mono, self.host.wall, infos))
        self.host.serve_late()

    # Effects

    def perform(self, action: Action) -> None:
        if isinstance(action, Say):
            return
        if isinstance(action, Persist):
            self.laws.meant(action)
            self._writing.append(action)
            self._later(0.05, self._write, effect=True)
        elif isinstance(action, AskSupervisor):
            self._later(0.05, self._poll_once)
        elif isinstance(action, DumpStacks):
            self.laws.suspected(action)
            self._later(action.every * (action.dumps - 1) + 0.3, lambda: self._dump(action), effect=True)
        elif isinstance(action, CollectEvidence):
            self._later(3.0, lambda: self._collect(action), effect=True)
        elif isinstance(action, StopProgram):
            self.laws.stop_decided(action)
            slow = 8.0 if self.host.next_stop == "slow" else 0.2
            self._later(slow, lambda: self._stop(action), effect=True)
        elif isinstance(action, KillProgram):
            self._later(0.2, lambda: self._kill(action), effect=True)
        elif isinstance(action, ReapTree):
            done = partial(Reaped, program=action.program, incident=action.incident, ended=action.tree, left=())
            self._later(1.0, lambda: self._post(done), effect=True)
        else:
            self._later(0.2, lambda: self._start(action), effect=True)

    def _write(self) -> None:
        action = self._writing.pop(0)
        lines = [json.dumps(to_json(r)) for r in action.records]
        full = self.host.journal_full
        # On a full disk, some lines may have made it, and the next one is torn.
        self.lines += [*lines[:1], lines[-1][:20]] if full and len(lines) > 1 else [] if full else lines
        self.laws.wrote(action, full)
        if action.step is not None:
            error = "no space left" if full else None
            self._post(
                partial(Persisted, program=action.program, incident=action.incident, step=action.step, error=error)
            )

    def _dump(self, action: DumpStacks) -> None:
        dumps = self.host.dumps(action.program, action.ident, action.dumps)
        self.laws.dumped(action)
        done = partial(StacksDumped, program=action.program, incident=action.incident, dumps=dumps, log=LogLines())
        self._post(done)

    def _collect(self, action: CollectEvidence) -> None:
        name = f"/archive/{action.incident}.tar.gz"
        sealed = {
            "ok": Sealed(name),
            "fallback": Sealed(None, f"/run/{action.incident}", "no space left"),
            "none": Sealed(None, None, "no space left"),
        }[self.host.archive]
        self.laws.sealed(action.incident, sealed.exists)
        self._post(partial(BundleSealed, program=action.program, incident=action.incident, sealed=sealed))

    def _stop(self, action: StopProgram) -> None:
        prog, how = self.host.progs[action.program], self.host.next_stop
        self.host.next_stop = ""
        result: StopResult
        proc = prog.proc
        if not self.host.answers:
            result = "unreachable"
        elif not prog.known:
            result = "gone"
        elif proc is None:
            result = "not_running"
        elif proc.ident != action.ident or prog.started_at != action.started_at:
            result = "changed"
        elif how == "refused":
            result = "refused"
        elif how == "late":
            result = "unsure"
            self.host.late.append(partial(self._serve_stop, prog, action))
        elif how == "lost":
            result = "unsure"
        else:
            taken = self._serve_stop(prog, action)
            result = "unsure" if how == "taken" else "sent" if taken else "not_running"
        if result == "unsure":
            self.laws.unsure.add(action.incident)
        self._post(partial(StopSent, program=action.program, incident=action.incident, result=result))

    def _serve_stop(self, prog: Prog, action: StopProgram) -> bool:
        proc = prog.proc
        taken = prog.known and self.host.stop(prog)
        if taken and proc is not None:
            self.laws.stopped(prog, proc, action)
        return taken

    def _kill(self, action: KillProgram) -> None:
        prog = self.host.progs[action.program]
        error: str | None = None
        if not self.host.answers or self.host.next_kill_lost:
            error = "no answer"
        elif prog.proc is None or prog.proc.ident != action.ident:
            error = "another process by now"
        else:
            self.laws.killed(prog, action)
            self.host.kill(prog)
        self.host.next_kill_lost = False
        self._post(partial(KillSent, program=action.program, incident=action.incident, error=error))

    def _start(self, action: StartProgram) -> None:
        prog = self.host.progs[action.program]
        gone, error = False, None
        if not self.host.answers or self.host.next_start_lost:
            error = "no answer"
        elif not prog.known:
            gone, error = True, "BAD_NAME"
        else:
            self.laws.starts(prog, action)
            self.host.start(prog)
        self.host.next_start_lost = False
        self._post(partial(StartSent, program=action.program, incident=action.incident, gone=gone, error=error))

    def with_level(self, **changes: Any) -> Ruleset:
        """The rules in force, with their one policy changed."""
        policy = replace(self.rules.policies[0], **changes)
        return replace(self.rules, policies=(policy,))
