"""Small worlds for tests of the core: rules with the default numbers, programs, looks, and stacks of a few made-up shapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from watchdog.journal import JournalState, fold
from watchdog.judge.decide import decide
from watchdog.model.action import Action, Persist, Say
from watchdog.model.event import (
    BundleSealed,
    Event,
    Observed,
    Persisted,
    Reaped,
    Requested,
    StacksDumped,
    StartSent,
    StopResult,
    StopSent,
    SupervisorAnswered,
)
from watchdog.model.evidence import Dump, Frame, LogLines, ProcessStacks, ThreadStack
from watchdog.model.observation import Gauges, Identity, MatchKey, Observation, ProcessInfo, ProcessSample, Reading
from watchdog.model.record import IncidentRecord, Record
from watchdog.model.rule import (
    CpuBelow,
    Group,
    HostLimits,
    Idle,
    Level,
    Matches,
    Policy,
    Progress,
    Rule,
    Ruleset,
    Unchanged,
    Working,
)
from watchdog.model.signature import FramePattern, Needs, Signature, ThreadPattern
from watchdog.model.world import Host, Incident, Phase, Program, Sealed, World

_A = TypeVar("_A", bound=Action)

WALL = 1_800_000_000.0
BOOT = "boot-1"
MARKER = MatchKey("stderr", "could not unlink the shared memory file")

STALL = Rule(
    name="stall",
    summary="The program is up, but neither its log nor its progress has moved.",
    when=(
        Group(
            "everything is silent",
            (Unchanged("log", 270.0), Unchanged("progress", 270.0), CpuBelow(0.05, 60.0)),
        ),
        Group("a batch was lost", (Matches(MARKER.log, MARKER.pattern, 600.0), Unchanged("progress", 150.0))),
        Group("the log goes on", (Unchanged("progress", 900.0), Working(True))),
    ),
)


def _shape(kind: str, verdict: str, cause: str = "outside") -> Signature:
    pattern = ThreadPattern(path=(FramePattern((kind,), "shape.py"),))
    needs = Needs(working=(True, None)) if verdict == "wedged" else Needs()
    return Signature(kind, verdict, f"the shape {kind}", (pattern,), cause=cause, needs=needs)  # type: ignore[arg-type]


SIGNATURES = (
    _shape("lost_batch", "wedged", "inside"),
    _shape("dead_mount", "wedged", "outside"),
    _shape("next_job", "idle"),
    _shape("long_batch", "busy"),
)


def ruleset(
    *,
    mode: Level = Level.RESTART,
    rules: tuple[Rule, ...] = (STALL,),
    limits: HostLimits | None = None,
    idle: bool = True,
    match: str = "*",
    logs: tuple[str, ...] = (),
) -> Ruleset:
    policy = Policy(
        match,
        mode,
        rules,
        logs=logs,
        progress=Progress(log="Batch"),
        idle=Idle("No jobs", 1800.0) if idle else None,
    )
    return Ruleset(policies=(policy,), limits=limits or HostLimits(), signatures=SIGNATURES)


def info(program: str = "ami:w0", pid: int = 101, state: str = "RUNNING", started_at: int = 50) -> ProcessInfo:
    group, _, name = program.partition(":")
    return ProcessInfo(program, group, name, state, pid, started_at, 0, "/log/out", "/log/err")


def sample(pid: int, starttime: int, ppid: int = 1, state: str = "S") -> ProcessSample:
    return ProcessSample(pid, starttime, ppid, f"worker{pid}", state, 7.5, 0.001, 1, 1, 1, 1, 5, 1024, 3)


def look(
    program: str = "ami:w0",
    pid: int | None = 101,
    *,
    log: Reading = 10,
    progress: Reading = 3,
    cpu: float | None = 0.001,
    matches: Mapping[MatchKey, Reading] | None = None,
    **more: Any,
) -> Observation:
    ident = None if pid is None else Identity(pid, 1000 + pid)
    tree = (
        ()
        if ident is None
        else (sample(ident.pid, ident.starttime), sample(ident.pid + 1, 2000 + ident.pid, ident.pid))
    )
    seen = Observation(
        program,
        ident,
        log=log,
        progress=progress,
        matches={MARKER: 0} if matches is None else matches,
        gauges=Gauges(cpu=cpu, rss=100, processes=2),
        tree=tree,
    )
    return seen._replace(**more)


def dump(kind: str, pid: int = 101, *, line: int = 10, at_s: float = 0.0, error: str | None = None) -> Dump:
    """One process whose main thread is in the shape `kind`."""
    frames = () if error else (Frame("wait", "threading.py", 5), Frame(kind, "app/shape.py", line))
    thread = ThreadStack(pid, "MainThread", frames, state="S")
    main = ProcessStacks(pid, 1, "ami", () if error else (thread,), state="S", role="main", error=error)
    return Dump(at_s, (main,))


class Story:
    """A world that events are told to, one after another; time goes on by itself."""

    def __init__(self, rules: Ruleset | None = None, programs: tuple[str, ...] = ("ami:w0",)) -> None:
        self.rules = rules or ruleset()
        self.world = World(Host(boot_id=BOOT))
        self.at = 1000.0
        self.actions: list[Action] = []
        self.infos = {name: info(name, 101 + 100 * n) for n, name in enumerate(programs)}
        self.answer()

    @property
    def wall(self) -> float:
        return WALL + self.at

    def tell(self, event: Event) -> list[Action]:
        self.world, actions = decide(self.rules, self.world, event)
        self.actions.extend(actions)
        return list(actions)

    def answer(self) -> list[Action]:
        """supervisord tells its programs."""
        return self.tell(SupervisorAnswered(self.at, self.wall, dict(self.infos)))

    def set_info(self, program: str = "ami:w0", **changes: Any) -> None:
        self.infos[program] = self.infos[program]._replace(**changes)

    def look(self, seen: Observation | None = None, *, after: float = 5.0) -> list[Action]:
        self.at += after
        return self.tell(Observed(self.at, self.wall, seen or look()))

    def looks(self, seconds: float, seen: Observation | None = None) -> list[Action]:
        """Looks every 5 s for so long; the actions of all of them."""
        return [a for _ in range(round(seconds / 5.0)) for a in self.look(seen)]

    def of(self, kind: type[_A]) -> list[_A]:
        return [a for a in self.actions if isinstance(a, kind)]

    # What the actions of an incident are answered with, one after another

    def program(self, name: str = "ami:w0") -> Program:
        return self.world.programs[name]

    def phase(self, name: str = "ami:w0") -> Phase:
        return self.program(name).phase

    def incident(self, name: str = "ami:w0") -> Incident:
        found = self.program(name).incident
        assert found is not None
        return found

    def ident(self, name: str = "ami:w0") -> Identity:
        pid = self.infos[name].pid
        return Identity(pid, 1000 + pid)

    def silent(self, name: str = "ami:w0", **more: Any) -> Observation:
        """A look at a program that does nothing, as it is now."""
        return look(name, self.infos[name].pid or None, **more)

    def stall(self, name: str = "ami:w0") -> None:
        """Silent until the rule fires, after it was seen to work once."""
        self.look(self.silent(name, log=9, progress=2))
        self.looks(275.0, self.silent(name))
        assert self.phase(name) is Phase.CONFIRMING

    def dumped(self, *kinds: str, name: str = "ami:w0", moves: bool = False, error: str | None = None) -> list[Action]:
        pid = self.infos[name].pid
        kinds = kinds or ("lost_batch", "lost_batch")
        dumps = tuple(dump(k, pid, line=10 + n * moves, at_s=15.0 * n, error=error) for n, k in enumerate(kinds))
        self.at += 16.0
        return self.tell(StacksDumped(self.at, self.wall, name, self.incident(name).id, dumps, LogLines()))

    def sealed(
        self, bundle: str | None = "/archive/a.tar.gz", error: str | None = None, name: str = "ami:w0"
    ) -> list[Action]:
        self.at += 1.0
        return self.tell(BundleSealed(self.at, self.wall, name, self.incident(name).id, Sealed(bundle, None, error)))

    def persisted(self, error: str | None = None, name: str = "ami:w0") -> list[Action]:
        self.at += 0.1
        return self.tell(Persisted(self.at, self.wall, name, self.incident(name).id, "intent", error))

    def stop_sent(self, result: StopResult = "sent", name: str = "ami:w0") -> list[Action]:
        self.at += 0.1
        return self.tell(StopSent(self.at, self.wall, name, self.incident(name).id, result))

    def told(self, name: str = "ami:w0", *, after: float = 0.5, **changes: Any) -> list[Action]:
        """supervisord's next answer, with this program changed."""
        self.set_info(name, **changes)
        self.at += after
        return self.answer()

    def reaped(
        self, left: tuple[Identity, ...] = (), ended: tuple[Identity, ...] = (), name: str = "ami:w0"
    ) -> list[Action]:
        return self.tell(Reaped(self.at, self.wall, name, self.incident(name).id, ended, left))

    def start_sent(self, name: str = "ami:w0", *, gone: bool = False, error: str | None = None) -> list[Action]:
        return self.tell(StartSent(self.at, self.wall, name, self.incident(name).id, gone, error))

    def ask(
        self, verb: Literal["collect", "pause", "resume"], seconds: float = 0.0, name: str = "ami:w0"
    ) -> list[Action]:
        return self.tell(Requested(self.at, self.wall, name, verb, seconds, "a reason"))

    def to_collecting(self, *kinds: str, name: str = "ami:w0") -> None:
        self.stall(name)
        self.dumped(*kinds, name=name)
        assert self.phase(name) is Phase.COLLECTING

    def to_intent(self, name: str = "ami:w0") -> None:
        """Sealed, and the last look: the intent is being written."""
        self.to_collecting(name=name)
        self.sealed(name=name)
        self.look(self.silent(name))
        assert self.incident(name).intent == "asked"

    def to_stopping(self, name: str = "ami:w0") -> None:
        self.to_intent(name)
        self.persisted(name=name)
        assert self.phase(name) is Phase.STOPPING

    def to_starting(self, name: str = "ami:w0") -> None:
        self.to_stopping(name)
        self.stop_sent(name=name)
        self.told(name, pid=0, state="STOPPED")
        self.reaped(name=name)
        assert self.phase(name) is Phase.STARTING

    def to_verifying(self, name: str = "ami:w0", pid: int = 901) -> None:
        self.to_starting(name)
        self.start_sent(name)
        self.told(name, pid=pid, state="RUNNING", started_at=5000)
        assert self.phase(name) is Phase.VERIFYING

    # What was said and written

    def notices(self) -> list[str]:
        return [a.message for a in self.actions if isinstance(a, Say) and a.notice]

    def said(self) -> str:
        return "\n".join(f"{a.message} {dict(a.fields)}" for a in self.actions if isinstance(a, Say))

    def records(self) -> list[Record]:
        return [r for a in self.actions if isinstance(a, Persist) for r in a.records]

    def outcome(self) -> tuple[str, str | None]:
        """(action, outcome) of the newest incident record."""
        found = [r for r in self.records() if isinstance(r, IncidentRecord)][-1]
        return found.action, found.outcome

    def journal(self) -> JournalState:
        state = JournalState()
        for record in self.records():
            fold(state, record)
        return state
