"""The laws L1-L10 of DESIGN, and a few more, checked from what was really done to the fake host.

Each method is told of one thing at the moment at which it happens, and fails if a law is broken by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.judge.build import MARKER, WALL
from tests.judge.fakehost import BEATS, Host, Proc, Prog
from watchdog.judge.detectors import BLIND_AFTER
from watchdog.model.action import Action, DumpStacks, KillProgram, Persist, Say, StartProgram, StopProgram
from watchdog.model.event import Event
from watchdog.model.observation import ABSENT, NO_GAUGES, Observation, ProcessInfo
from watchdog.model.record import IncidentRecord, PauseRecord
from watchdog.model.rule import Level, Rule, Ruleset
from watchdog.model.world import Transaction, World

SILENCE, MARKED, NO_BATCH = 30.0, 15.0, 60.0
"""Seconds of the three groups about silence, in the machine's rule."""

LATE = 10.0
"""Seconds by which a clock of looks may run ahead of the truth: two looks."""

EPSILON = 0.001
"""Seconds: sums of the host's clock and of the watchdog's differ in their last digits."""

TRANSITIONS = frozenset(
    {
        ("WATCHING", "CONFIRMING"),
        ("CONFIRMING", "COLLECTING"),
        ("CONFIRMING", "WATCHING"),
        ("COLLECTING", "STOPPING"),
        ("COLLECTING", "WATCHING"),
        ("COLLECTING", "COOLDOWN"),
        ("COLLECTING", "GIVEN_UP"),
        ("STOPPING", "STARTING"),
        ("STOPPING", "COOLDOWN"),
        ("STOPPING", "WATCHING"),  # nothing was sent after all, or removed
        ("STARTING", "VERIFYING"),
        ("STARTING", "COOLDOWN"),
        ("STARTING", "WATCHING"),  # the debt ended: STOPPED by an operator, or removed
        ("VERIFYING", "COOLDOWN"),
        ("VERIFYING", "STARTING"),
        ("VERIFYING", "WATCHING"),
        ("COOLDOWN", "WATCHING"),
        ("COOLDOWN", "STARTING"),
        ("GIVEN_UP", "WATCHING"),
    }
)
"""DESIGN's table, written down a second time."""


@dataclass
class Debt:
    """A program between our stop and its next life."""

    incident: str
    since: float
    told_new: bool = False
    """An answer showed the watchdog a new process."""


@dataclass
class Record:
    """What happened to one program, from the host's side."""

    look: Observation | None = None
    looked_at: float = 0.0
    changed: dict[str, float] = field(default_factory=dict)
    """When each heartbeat was last seen to change."""
    shape: str = ""
    """In which mood it was when its stacks were dumped last."""
    dark: dict[str, float] = field(default_factory=dict)
    """Since when each heartbeat has been unknown, if it is."""
    paused_until: float = 0.0
    paused_on_disk: float = 0.0
    debt: Debt | None = None
    stops: list[tuple[float, str]] = field(default_factory=list)
    """(when it was intended, rule) of each stop that was really received."""
    reports: list[float] = field(default_factory=list)


class Laws:
    """One host's record, and the laws over it."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.records = {name: Record() for name in host.progs}
        self.rules: Ruleset | None = None
        self.bundles: set[str] = set()
        self.intended: dict[str, tuple[float, str]] = {}
        """When an incident's newest intent was decided, and by which rule."""
        self.intent_life: dict[str, int] = {}
        self.life = 0
        self.open: dict[str, Transaction] = {}
        """The journal's open transactions, as written."""
        self.looks: dict[str, int] = {}
        """Looks at each program's process since supervisord came back, or the watchdog began."""
        self.answering = True
        """supervisord's last answer was one. While it is none, its logs are unknown, whatever was read of them."""
        self.stopped_count = 0
        self.unsure: set[str] = set()
        """Incidents whose stop got no answer."""
        self.by_hand = ""
        """The program whose evidence an operator has just asked for."""

    def rule(self, name: str) -> Rule:
        assert self.rules is not None
        return next(r for r in self.rules.policies[0].rules if r.name == name)

    # The watchdog's own steps

    def born(self) -> None:
        self.looks, self.answering, self.life = {}, True, self.life + 1
        for record in self.records.values():
            record.look, record.changed, record.dark = None, {}, {}
            record.paused_until = record.paused_on_disk

    def same(self, again: tuple[World, Sequence[Action]], first: tuple[World, Sequence[Action]]) -> None:
        assert again == first, "L7: same inputs, other outputs"

    def decided(self, before: World, after: World, event: Event, actions: Sequence[Action]) -> None:
        """L4: every program's way through its phases, step by step, and nothing beside it."""
        steps: dict[str, list[tuple[str, str]]] = {}
        for action in actions:
            if isinstance(action, Say) and action.program and " -> " in action.message:
                was, _, now = action.message.partition(" -> ")
                steps.setdefault(action.program, []).append((was, now))
        for name, program in after.programs.items():
            at = str(before.programs[name].phase) if name in before.programs else "WATCHING"
            for was, now in steps.get(name, []):
                assert was == at and (was, now) in TRANSITIONS, f"L4: {name} {was} -> {now}, from {at}"
                at = now
            assert at == str(program.phase), f"L4: {name} is in {program.phase}, and nobody said so ({at})"

    def asked(self, program: str, verb: str, seconds: float) -> None:
        self.by_hand = program if verb == "collect" else ""
        if verb != "collect":
            self.records[program].paused_until = self.host.now + seconds if verb == "pause" else 0.0

    # Looks and answers

    def looked(self, name: str, seen: Observation) -> None:
        record = self.records[name]
        same = record.look is not None and record.look.ident == seen.ident
        self.looks[name] = self.looks.get(name, 0) + 1 if same else 1
        for heartbeat in ("log", "progress"):
            was, now = getattr(record.look, heartbeat, None), getattr(seen, heartbeat)
            if not same:
                record.dark.pop(heartbeat, None)
            if not same or (now is not None and now != was and was is not None):
                record.changed[heartbeat] = self.host.now
        record.look, record.looked_at = seen, self.host.now

        self._darken(record)

    def unseen(self, name: str) -> None:
        record = self.records[name]
        if record.look is not None:
            self.looks[name] = self.looks.get(name, 0) + 1
            log, progress = (ABSENT if v is ABSENT else None for v in (record.look.log, record.look.progress))
            record.look = record.look._replace(log=log, progress=progress, matches={MARKER: None}, gauges=NO_GAUGES)
            self._darken(record)

    def _darken(self, record: Record) -> None:
        for heartbeat in ("log", "progress"):
            value = getattr(record.look, heartbeat)
            if value is ABSENT or (value is not None and self.answering):
                record.dark.pop(heartbeat, None)
            else:
                record.dark.setdefault(heartbeat, self.host.now)

    def silent(self) -> None:
        self.answering = False

    def told(self, infos: Mapping[str, ProcessInfo]) -> None:
        if not self.answering:
            self.answering = True
            self.looks = {}
        for name, record in self.records.items():
            debt, info = record.debt, infos.get(name)
            if debt is None:
                continue
            if info is None:
                record.debt = None
            elif info.started_at > debt.since + WALL - 1.0:
                debt.told_new = debt.told_new or info.pid > 0
                if info.state in ("RUNNING", "STOPPED"):
                    record.debt = None  # up again, or stopped by an operator after it came up

    # Suspicion

    def suspected(self, action: DumpStacks) -> None:
        """L6: what opens an incident was known at the latest look, and was so in truth."""
        record = self.records[action.program]
        assert record.look is not None and record.look.ident == action.ident, "L6: suspected without a look"
        if self.by_hand == action.program:
            self.by_hand = ""
            return
        can_hold = self._seems_to_stall(record) or self._leaks(record)
        assert can_hold, f"L6: {action.program} is suspected, and no detector can hold: {record.look}"

    def _leaks(self, record: Record) -> bool:
        return record.look is not None and (record.look.gauges.fds or 0) > 900

    def _seems_to_stall(self, record: Record) -> bool:
        """Some group about silence can hold by what was seen, or, where nothing can be seen, by idle CPU."""
        look = record.look
        assert look is not None
        quiet = {h: self.host.now - at + LATE for h, at in record.changed.items()}
        there = [q for h, q in quiet.items() if getattr(look, h) is not ABSENT]
        return self._groups(look, min(there, default=0.0), quiet["progress"]) or self._blind(record)

    def _stalls(self, record: Record, prog: Prog) -> bool:
        """Some group about silence holds in truth, at the latest look."""
        look, proc = record.look, prog.proc
        if look is None or look.ident is None:
            return False
        if proc is None or proc.ident != look.ident:
            return True  # gone since that look: nothing can be told, and nothing can be stopped
        at = record.looked_at
        return self._groups(look, proc.quiet(at) + LATE, proc.quiet(at, batches=True) + LATE)

    def _groups(self, look: Observation, quiet: float, no_batch: float) -> bool:
        marker = look.matches.get(MARKER)
        known = look.log is not None and look.progress is not None and self.answering
        there = isinstance(look.log, int) or isinstance(look.progress, int)
        batches = isinstance(look.progress, int) and self.answering
        return (
            (known and there and quiet >= SILENCE and look.gauges.cpu is not None and look.gauges.cpu < 0.05)
            or (batches and bool(marker) and no_batch >= MARKED)
            or (batches and look.progress_after_idle is True and no_batch >= NO_BATCH)
        )

    def _blind(self, record: Record) -> bool:
        """No group can fire: its heartbeats are absent, or have been unknown for ten minutes; and the CPU is idle."""
        look = record.look
        assert look is not None
        dark = {h: self.host.now - since >= BLIND_AFTER - LATE for h, since in record.dark.items()}
        nothing = look.progress is ABSENT and (look.log is ABSENT or dark.get("log", False))
        return (nothing or dark.get("progress", False)) and look.gauges.cpu is not None and look.gauges.cpu < 0.05

    def dumped(self, action: DumpStacks) -> None:
        proc = self.host.progs[action.program].proc
        self.records[action.program].shape = proc.mood if proc is not None and proc.ident == action.ident else ""

    def sealed(self, incident: str, exists: bool) -> None:
        if exists:
            self.bundles.add(incident)

    # The journal

    def meant(self, action: Persist) -> None:
        for record in action.records:
            if isinstance(record, Transaction) and record.step == "intent":
                self.intended[record.incident] = (self.host.now, record.rule)
                self.intent_life[record.incident] = self.life
            elif isinstance(record, IncidentRecord) and record.action == "report":
                self.records[record.program].reports.append(self.host.now)

    def wrote(self, action: Persist, full: bool) -> None:
        for record in action.records[: 1 if full and len(action.records) > 1 else 0 if full else None]:
            self._wrote(record)

    def _wrote(self, record: Any) -> None:
        if isinstance(record, Transaction):
            if record.step != "closed":
                self.open[record.program] = record
            elif self.open.get(record.program) and self.open[record.program].incident == record.incident:
                del self.open[record.program]
        elif isinstance(record, PauseRecord):
            self.records[record.program].paused_on_disk = (record.until_wall or WALL) - WALL

    # The restart

    def stop_decided(self, action: StopProgram) -> None:
        name, record = action.program, self.records[action.program]
        rule = self.rule(self.intended[action.incident][1])
        assert self.open.get(name) is not None and self.open[name].incident == action.incident, (
            "the intent is not on disk"
        )
        assert action.incident in self.bundles, f"L1: {name} is stopped before its evidence is sealed"
        look = record.look
        assert look is not None and look.ident == action.ident, "L2: the latest look is at another process"
        holds = self._leaks(record) if rule.confirm is None else self._stalls(record, self.host.progs[name])
        assert holds, f"L2: {rule.name} cannot hold in the latest look at {name}: {look}"
        assert self.looks.get(name, 0) >= 2, "stopped within two looks of supervisord's return"
        if rule.confirm is not None:
            healthy = record.shape in BEATS or record.shape in ("waits", "long_batch")
            assert not healthy, f"L8: {name} was seen in the shape {record.shape}, and is stopped"
            unknown = record.shape in ("odd", "unreadable", "")
            assert not unknown or rule.confirm.unknown is Level.RESTART, "an unknown verdict may be reported at most"
        assert self.host.now >= record.paused_until, f"{name} is paused, and is stopped"
        assert self.rules is not None and self.rules.policies[0].mode is Level.RESTART, "stopped in mode report"
        self._budgets(name, rule, self.intended[action.incident][0])

    def _budgets(self, name: str, rule: Rule, at: float) -> None:
        """L3, for the stop that is about to be sent."""
        assert self.rules is not None
        limits, own = self.rules.limits, rule.limits
        mine = [t for t, r in self.records[name].stops if r == rule.name and t > at - own.per + EPSILON]
        assert len(mine) < own.restarts, f"L3: {name} was restarted {len(mine)} times by {rule.name} in {own.per} s"
        everyone = [t for r in self.records.values() for t, _ in r.stops if t > at - limits.per + EPSILON]
        assert len(everyone) < limits.restarts, f"L3: {len(everyone)} restarts on this host in {limits.per} s"
        last = max((t for t, _ in self.records[name].stops), default=float("-inf"))
        assert at >= last + own.cooldown - EPSILON, f"L3: {name} is restarted anew within its cooldown"

    def stopped(self, prog: Prog, proc: Proc, action: StopProgram) -> None:
        """supervisord has signalled it: from here on its start is owed."""
        record = self.records[prog.name]
        assert proc.ident == action.ident, "another process was stopped"
        assert self.rules is not None
        under_way = [n for n in self.records if n != prog.name and self._under_way(n)]
        assert len(under_way) < self.rules.limits.restarts_at_once, f"L9: {prog.name} is stopped beside {under_way}"
        self.stopped_count += 1
        record.stops.append(self.intended[action.incident])
        record.debt = Debt(action.incident, self.host.now)

    def _under_way(self, name: str) -> bool:
        """Between our stop and the moment at which the restart slot is free by any reading of DESIGN."""
        debt, prog = self.records[name].debt, self.host.progs[name]
        if debt is None or not prog.known or not prog.killable:
            return False
        return self.host.now - debt.since < 8.0 and prog.state in ("STOPPING", "STOPPED")

    def killed(self, prog: Prog, action: KillProgram) -> None:
        assert self.records[prog.name].debt is not None or prog.state == "STOPPING", "KILL without a stop of ours"

    def starts(self, prog: Prog, action: StartProgram) -> None:
        """L10: a program that an operator stopped is left alone, where that can be told."""
        by_hand, debt = prog.stopped_by_hand, self.records[prog.name].debt
        if by_hand is None or prog.state not in ("STOPPED", "EXITED", "FATAL"):
            return
        intended = self.intended.get(action.incident, (self.host.now, ""))[0]
        # An answer is as old as a poll; a life that takes over an intent cannot tell who stopped the program just before it.
        stale = 0.0 if self.intent_life.get(action.incident) == self.life else 6.0
        assert by_hand >= intended - stale, f"L10: an operator stopped {prog.name}, and it is started"
        told = stale == 0.0 and action.incident not in self.unsure
        assert debt is not None or not told, f"L10: {prog.name} was stopped by an operator alone, and is started"
        assert debt is None or not debt.told_new, f"L10: an operator stopped the new process of {prog.name}"

    # At any time

    def standing(self) -> None:
        """L5: whatever we stopped is up again, or its start stands in the journal."""
        for name, record in self.records.items():
            if record.debt is not None and self.host.progs[name].stopped_by_hand is None:
                assert name in self.open, f"L5: {name} was stopped by us, is down, and the journal owes it nothing"

    def calm(self) -> None:
        """L5, when things have been calm for long enough: nothing that we stopped is down."""
        for name, record in self.records.items():
            prog = self.host.progs[name]
            left_alone = prog.stopped_by_hand is not None or not prog.known
            assert record.debt is None or left_alone, f"L5: {name} was stopped by us and is {prog.state}"

    def seen_to(self, name: str, since: float) -> bool:
        """Liveness: the program's stall was acted on or reported, after `since`."""
        record = self.records[name]
        return any(t >= since for t, _ in record.stops) or any(t >= since for t in record.reports)
