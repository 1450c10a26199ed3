"""The laws L1-L10, as a state machine over a fake host. `WATCHDOG_LAW_STEPS` asks for so many steps in all, for CI's long run.

Rules turn faults on and off, let an operator act, end the watchdog at any effect, and let time pass. What is checked stands in
laws.py, and is checked when it happens.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import wraps
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import Phase as Stage
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.judge.build import MARKER, SIGNATURES
from tests.judge.driver import Driver
from tests.judge.fakehost import Host, LostStop, Mood, Seen, Start, Term
from tests.judge.laws import MARKED, NO_BATCH, SILENCE
from watchdog.model.rule import (
    Above,
    CommonCause,
    Confirm,
    CpuBelow,
    Group,
    HostLimits,
    Idle,
    Level,
    Matches,
    Policy,
    Progress,
    Rule,
    RuleLimits,
    Ruleset,
    Stop,
    Unchanged,
    Working,
)
from watchdog.model.world import Phase

NAMES = ("ami:w0", "ami:w1", "gpu:w0")

STALL = Rule(
    name="stall",
    summary="silent",
    when=(
        Group("silent", (Unchanged("log", SILENCE), Unchanged("progress", SILENCE), CpuBelow(0.05, 10.0))),
        Group("marker", (Matches(MARKER.log, MARKER.pattern, 100.0), Unchanged("progress", MARKED))),
        Group("no batch", (Unchanged("progress", NO_BATCH), Working(True))),
    ),
    confirm=Confirm(2, 5.0),
    collect_within=10.0,
    stop=Stop(10.0),
    start_within=10.0,
    verify_within=30.0,
    limits=RuleLimits(cooldown=60.0, restarts=2, per=400.0),
)
LEAK = replace(STALL, name="leak", when=(Group("descriptors", (Above("fds", 900.0, 10.0),)),), confirm=None)
LIMITS = HostLimits(1, 4, 400.0, 800.0, CommonCause(0.5, 20.0))
RULES = Ruleset(
    policies=(Policy("*", Level.RESTART, (STALL, LEAK), progress=Progress(log="Batch"), idle=Idle("No jobs", 600.0)),),
    limits=LIMITS,
    signatures=SIGNATURES,
)

CALM = 420.0
"""Seconds after which a host without faults has no start owed: the last wait for an owed start is 300 s, and a cooldown 60 s."""

SEEN_TO = 1500.0
"""Seconds in which any stall is acted on or reported: giving up lasts 800 s, the host's budget 400 s, a blind one's wait 630 s."""

STEPS = int(os.environ.get("WATCHDOG_LAW_STEPS", "6000"))
EACH = 40

names = st.sampled_from(NAMES)
moods: st.SearchStrategy[Mood] = st.sampled_from(
    [
        "batch_lost",
        "batch_lost",
        "batch_lost",
        "works",
        "mount_dead",
        "odd",
        "waits",
        "long_batch",
        "rests",
        "leaks",
        "unreadable",
    ]
)
starts: st.SearchStrategy[Start] = st.sampled_from(["good", "good", "slow", "exits", "fatal", "backoff", "hangs"])
terms: st.SearchStrategy[Term] = st.sampled_from(["quick", "slow", "ignored"])
stops: st.SearchStrategy[LostStop] = st.sampled_from(["", "taken", "late", "lost", "refused", "slow"])
heartbeats: st.SearchStrategy[Seen] = st.sampled_from(["seen", "seen", "unknown", "absent"])

AFTER = st.sampled_from([0.0, 0.4, 2.0, 6.0, 15.0, 40.0, 40.0])
"""Seconds that pass after each step."""


def then(**strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], Any]:
    """A rule after which some time passes."""

    def make(what: Callable[..., None]) -> Any:
        @wraps(what)
        def step(self: LawMachine, after: float, **drawn: Any) -> None:
            what(self, **drawn)
            self.pass_time(after)

        made: Any = rule
        return made(after=AFTER, **strategies)(step)

    return make


class LawMachine(RuleBasedStateMachine):
    """Faults, an operator, and time."""

    @initialize(
        unknown=st.sampled_from([Level.REPORT, Level.RESTART]),
        at_once=st.sampled_from([1, 1, 2]),
        first=st.tuples(moods, moods, moods),
        start=starts,
        term=terms,
        stop=stops,
    )
    def begins(
        self, unknown: Level, at_once: int, first: tuple[Mood, ...], start: Start, term: Term, stop: LostStop
    ) -> None:
        self.host = Host(NAMES)
        stall = replace(STALL, confirm=Confirm(2, 5.0, unknown=unknown))
        policy = replace(RULES.policies[0], rules=(stall, LEAK))
        self.configured = replace(RULES, policies=(policy,), limits=replace(LIMITS, restarts_at_once=at_once))
        self.driver = Driver(self.host, self.configured)
        self.driver.laws.rules = self.configured
        self.pass_time(10.0)
        self.host.next_stop = stop
        for prog, mood in zip(self.host.progs.values(), first, strict=True):
            prog.start, prog.term = start, term
            if prog.proc is not None:
                prog.proc.mood = mood

    broken = False
    """A law was broken, and time has stood still since."""

    def pass_time(self, seconds: float) -> None:
        while seconds > 0.0:
            step = min(seconds, 2.5)
            self.broken = True
            self.host.run(step)
            self.driver.laws.standing()
            self.broken = False
            seconds -= step

    # Time

    @rule(seconds=st.sampled_from([0.3, 3.0, 20.0, 45.0, 100.0, 200.0]))
    def time_passes(self, seconds: float) -> None:
        self.pass_time(seconds)

    def until(self, name: str, phase: Phase, within: float = 150.0) -> bool:
        """Let time pass until the program is in this phase; False: it did not get there."""
        while within > 0.0 and not self._in(name, phase):
            self.pass_time(0.4)
            within -= 0.4
        return self._in(name, phase)

    def _in(self, name: str, phase: Phase) -> bool:
        program = self.driver.world.programs.get(name)
        return self.driver.alive and program is not None and program.phase is phase

    @rule(name=names, phase=st.sampled_from([p for p in Phase if p not in (Phase.WATCHING, Phase.GIVEN_UP)]))
    def it_loses_a_batch_and_gets_to(self, name: str, phase: Phase) -> None:
        proc = self.host.progs[name].proc
        if proc is not None:
            proc.mood = "batch_lost"
            self.until(name, phase)

    @then(seconds=st.sampled_from([6.0, 40.0, 300.0]))
    def the_watchdog_is_suspended(self, seconds: float) -> None:
        self.driver.asleep_until = self.host.now + seconds
        self.pass_time(seconds)

    @then(stuck=st.booleans())
    def looks_do_not_come_back(self, stuck: bool) -> None:
        self.driver.stuck = stuck

    # Programs

    @then(name=names, mood=moods)
    def it_is(self, name: str, mood: Mood) -> None:
        proc = self.host.progs[name].proc
        if proc is not None:
            proc.mood = mood

    @then(name=names, marker=st.booleans())
    def it_loses_a_batch(self, name: str, marker: bool) -> None:
        proc = self.host.progs[name].proc
        if proc is not None:
            proc.mood, proc.marker = "batch_lost", proc.marker + marker

    @then(name=names, start=starts)
    def its_next_start_is(self, name: str, start: Start) -> None:
        self.host.progs[name].start = start

    @then(name=names, term=terms, killable=st.booleans())
    def its_end_is(self, name: str, term: Term, killable: bool) -> None:
        prog = self.host.progs[name]
        prog.term = term
        if killable:
            self.host.thaw(prog)
        else:
            prog.killable = False

    @then(name=names, log=heartbeats, progress=heartbeats)
    def its_heartbeats_are(self, name: str, log: Seen, progress: Seen) -> None:
        self.host.progs[name].log, self.host.progs[name].progress = log, progress

    @then(name=names, there=st.booleans())
    def it_is_removed_or_added(self, name: str, there: bool) -> None:
        prog = self.host.progs[name]
        self.host.add(prog) if there else self.host.remove(prog)

    # supervisord, disks

    @then(frozen=st.booleans())
    def supervisord_freezes_or_thaws(self, frozen: bool) -> None:
        if self.host.up:
            self.host.freeze(frozen)

    @then()
    def supervisord_is_restarted(self) -> None:
        if self.host.up:
            self.host.restart_supervisord()

    @then(how=stops, start=st.booleans(), kill=st.booleans())
    def a_call_gets_lost(self, how: LostStop, start: bool, kill: bool) -> None:
        self.host.next_stop = how
        self.host.next_start_lost, self.host.next_kill_lost = start, kill

    @then(archive=st.sampled_from(["ok", "fallback", "none"]), full=st.booleans())
    def the_disk_is(self, archive: str, full: bool) -> None:
        self.host.archive, self.host.journal_full = archive, full  # type: ignore[assignment]

    # An operator

    @then(name=names)
    def stopped_by_hand(self, name: str) -> None:
        self.host.stop_by_hand(self.host.progs[name])

    @then(name=names)
    def started_by_hand(self, name: str) -> None:
        self.host.start_by_hand(self.host.progs[name])

    @then(name=names)
    def restarted_by_hand(self, name: str) -> None:
        self.host.stop_by_hand(self.host.progs[name])
        self.pass_time(1.5)
        self.host.start_by_hand(self.host.progs[name])

    @then(name=names, verb=st.sampled_from(["pause", "resume", "collect"]), seconds=st.sampled_from([20.0, 200.0]))
    def asked_by_hand(self, name: str, verb: str, seconds: float) -> None:
        self.driver.ask(name, verb, seconds)  # type: ignore[arg-type]

    @then(mode=st.sampled_from([Level.RESTART, Level.REPORT]))
    def reloaded(self, mode: Level) -> None:
        self.driver.laws.rules = self.driver.with_level(mode=mode)
        self.driver.reload(self.driver.laws.rules)

    # The watchdog's end

    @then(effects=st.integers(1, 6))
    def the_watchdog_will_be_killed(self, effects: int) -> None:
        self.driver.crash_in = effects

    @then(seconds=st.sampled_from([1.0, 30.0, 200.0]), other_boot=st.booleans())
    def the_watchdog_is_killed(self, seconds: float, other_boot: bool) -> None:
        self.driver.crashed_for(seconds, other_boot=other_boot and self.host.up)
        self.pass_time(seconds)

    @then()
    def the_watchdog_is_told_to_end(self) -> None:
        self.driver.terminate()

    @precondition(lambda self: not self.driver.alive)
    @rule()
    def the_watchdog_is_started(self) -> None:
        self.driver.boot()

    @invariant()
    def what_we_stopped_is_up_or_owed(self) -> None:
        if hasattr(self, "driver"):
            self.driver.laws.standing()

    def teardown(self) -> None:
        if hasattr(self, "driver") and not self.broken:
            self._calm()

    def _calm(self) -> None:
        """Faults end; then nothing that we stopped is down, and what stalls is seen to."""
        host, driver = self.host, self.driver
        host.calm()
        driver.stuck, driver.crash_in, driver.asleep_until = False, None, 0.0
        if driver.terminating:
            self.pass_time(60.0)
        for name in NAMES:
            driver.ask(name, "resume")
        self.pass_time(15.0)
        driver.boot()
        for name in NAMES:
            driver.ask(name, "resume")
        self.pass_time(CALM)
        driver.laws.calm()
        self.every_stall_is_seen_to()

    def every_stall_is_seen_to(self) -> None:
        """With nothing in the way, a worker that lost its batch is restarted or reported, however long it has hung."""
        procs = [p.proc for p in self.host.progs.values()]
        if procs[0] is not None and procs[0].mood == "works":
            procs[0].mood = "batch_lost"
            procs[0].born = self.host.now
        waited = 0.0
        while waited < SEEN_TO and any(self._unseen()):
            self.pass_time(20.0)
            waited += 20.0
        assert not any(self._unseen()), f"a stall was neither acted on nor reported in {SEEN_TO} s"

    def _unseen(self) -> Iterator[str]:
        for name, prog in self.host.progs.items():
            proc = prog.proc
            hangs = prog.known and proc is not None and proc.alive and proc.mood == "batch_lost"
            if hangs and proc is not None and not self.driver.laws.seen_to(name, proc.born):
                yield name


TestLaws = LawMachine.TestCase
TestLaws.settings = settings(
    max_examples=max(STEPS // EACH, 1),
    stateful_step_count=EACH,
    deadline=None,
    derandomize="WATCHDOG_LAW_STEPS" not in os.environ,
    print_blob=True,
    database=None,
    phases=(Stage.generate, Stage.shrink),
    suppress_health_check=list(HealthCheck),
)
TestLaws.pytestmark = [pytest.mark.timeout(0)]  # type: ignore[attr-defined]
