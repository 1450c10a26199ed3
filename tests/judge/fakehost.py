"""A host for the laws: programs, a supervisord, an operator and disks, each with faults that a test turns on.

The host does what it is asked to do later, in its own order, and keeps its own record of what was really done to it. It knows
nothing of the watchdog's beliefs. Time is `now`, in seconds, and passes in `run` only.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from tests.judge.build import MARKER, WALL, dump
from watchdog.model.evidence import Dump
from watchdog.model.observation import ABSENT, Gauges, Identity, Observation, ProcessInfo, ProcessSample, Reading

Mood = Literal["works", "batch_lost", "mount_dead", "odd", "waits", "long_batch", "rests", "leaks", "unreadable"]
"""works, leaks: beats all the time. rests: logs its idle line. All others are silent, each in a shape of its own."""

SHAPES: dict[Mood, str] = {
    "works": "some_batch",
    "leaks": "some_batch",
    "rests": "next_job",
    "batch_lost": "lost_batch",
    "mount_dead": "dead_mount",
    "odd": "never_seen",
    "waits": "next_job",
    "long_batch": "long_batch",
    "unreadable": "",
}
BEATS = ("works", "leaks", "rests")
Start = Literal["good", "slow", "exits", "fatal", "backoff", "hangs"]
Term = Literal["quick", "slow", "ignored"]
LostStop = Literal["", "taken", "late", "lost", "refused", "slow"]
"""What becomes of a stop's call. taken, late: supervisord has it, at once or after its next answer, and its own answer is lost."""
Seen = Literal["seen", "unknown", "absent"]


@dataclass
class Proc:
    """One main process."""

    pid: int
    started_at: int
    mood: Mood
    born: float
    beats: list[float] = field(default_factory=list)
    """Times at which it really did something."""
    batches: list[float] = field(default_factory=list)
    """Times at which it really made progress."""
    rested: bool = False
    """Its idle line is newer than its last batch."""
    log: int = 1
    progress: int = 0
    marker: int = 0
    alive: bool = True
    killed: bool = False
    """KILL pends, or ended it."""

    @property
    def ident(self) -> Identity:
        return Identity(self.pid, self.pid * 7 + self.started_at)

    def quiet(self, at: float, *, batches: bool = False) -> float:
        """Seconds, at `at`, since it last did something, or last made progress."""
        times = self.batches if batches else self.beats
        return at - max((b for b in times if b <= at), default=self.born)


@dataclass
class Prog:
    """One program of supervisord."""

    name: str
    state: str = "STOPPED"
    proc: Proc | None = None
    started_at: int = 0
    known: bool = True
    """supervisord has it."""
    mood: Mood = "works"
    """Of the next process."""
    start: Start = "good"
    term: Term = "quick"
    killable: bool = True
    log: Seen = "seen"
    progress: Seen = "seen"
    stopped_by_hand: float | None = None
    """When an operator stopped it, if that was the last word."""
    run: int = 0
    """Counts changes of state, so that a timer of an earlier one does nothing."""


class Host:
    """Everything outside of the watchdog."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.now = 100.0
        self.boot = 1
        self.booted = 0.0
        self.frozen = False
        self.up = True
        self.archive: Literal["ok", "fallback", "none"] = "ok"
        self.journal_full = False
        self.next_stop: LostStop = ""
        self.next_start_lost = False
        self.next_kill_lost = False
        self.late: list[Callable[[], object]] = []
        """Calls that supervisord has not served yet."""
        self.progs = {n: Prog(n) for n in names}
        self._pid = 100
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._seq = 0
        for prog in self.progs.values():
            self.spawn(prog)
        self._beat()
        self.run(3.0)

    # Time

    @property
    def wall(self) -> float:
        return WALL + self.now

    @property
    def mono(self) -> float:
        return self.now - self.booted

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        self._seq += 1
        heapq.heappush(self._heap, (self.now + seconds, self._seq, what))

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self._heap and self._heap[0][0] <= until:
            self.now, _, what = heapq.heappop(self._heap)
            what()
        self.now = until

    # Processes

    def reuse_pids(self) -> None:
        """As after a boot, or in a container that is started anew: the same pids, for other processes."""
        self._pid = 100

    def spawn(self, prog: Prog) -> None:
        """supervisord starts it, as well as it goes."""
        self._pid += 3
        prog.run += 1
        prog.stopped_by_hand = None  # whoever starts it has the last word
        if prog.start == "backoff":
            prog.state, prog.started_at = "BACKOFF", int(self.wall)
            self._later(prog, 40.0, lambda: self._begin(prog))
        elif prog.start == "fatal":
            prog.state, prog.started_at = "BACKOFF", int(self.wall)
            self._later(prog, 4.0, lambda: self._set(prog, "FATAL"))
        else:
            self._begin(prog)

    def _begin(self, prog: Prog) -> None:
        mood: Mood = "batch_lost" if prog.start == "hangs" else prog.mood
        prog.proc = Proc(self._pid, int(self.wall), mood, self.now)
        prog.started_at, prog.state = prog.proc.started_at, "STARTING"
        self._later(prog, 30.0 if prog.start == "slow" else 1.0, lambda: self._set(prog, "RUNNING"))
        if prog.start == "exits":
            self.after(3.0, lambda proc=prog.proc: self._exits(prog, proc))  # type: ignore[misc]

    def _exits(self, prog: Prog, proc: Proc) -> None:
        if proc.alive and prog.proc is proc and prog.state == "RUNNING":
            self._gone(prog, "EXITED")

    def _later(self, prog: Prog, seconds: float, what: Callable[[], None]) -> None:
        run = prog.run
        self.after(seconds, lambda: what() if prog.run == run and prog.known else None)

    def _set(self, prog: Prog, state: str) -> None:
        prog.state = state

    def _gone(self, prog: Prog, state: str) -> None:
        if prog.proc is not None:
            prog.proc.alive = False
        prog.run += 1
        prog.proc, prog.state = None, state

    def stop(self, prog: Prog) -> bool:
        """stopProcess: False where supervisord says NOT_RUNNING."""
        if prog.state not in ("RUNNING", "STARTING", "BACKOFF"):
            return False
        prog.run += 1
        if prog.proc is None:
            prog.state = "STOPPED"
            return True
        prog.state = "STOPPING"
        if prog.killable and prog.term != "ignored":
            self._later(prog, 1.0 if prog.term == "quick" else 12.0, lambda: self._gone(prog, "STOPPED"))
        self._later(prog, 60.0, lambda: self.kill(prog))  # stopwaitsecs
        return True

    def kill(self, prog: Prog) -> None:
        if prog.proc is None:
            return
        prog.proc.killed = True
        if prog.killable:
            self._gone(prog, "STOPPED" if prog.state == "STOPPING" else "EXITED")

    def thaw(self, prog: Prog) -> None:
        """It can be killed again; a KILL that pends ends it."""
        prog.killable = True
        if prog.proc is not None and prog.proc.killed:
            self._gone(prog, "STOPPED")

    def start(self, prog: Prog) -> None:
        """startProcess: during STOPPING it does nothing, and says so to nobody."""
        if prog.state in ("STOPPED", "EXITED", "FATAL"):
            self.spawn(prog)

    def _beat(self) -> None:
        """Every process lives on for a moment."""
        self.after(2.0, self._beat)
        for prog in self.progs.values():
            proc = prog.proc
            if proc is not None and proc.alive and proc.mood in BEATS:
                proc.beats.append(self.now)
                proc.rested = proc.mood == "rests"
                if not proc.rested:
                    proc.batches.append(self.now)
                if not self.frozen:  # supervisord writes the logs
                    proc.log += 40
                    proc.progress += not proc.rested

    # Looks

    def look(self, name: str, pid: int) -> Observation:
        """What is seen of the process `pid`, which supervisord last told of."""
        prog = self.progs[name]
        proc = prog.proc
        if proc is None or proc.pid != pid or not proc.alive:
            return Observation(name, None, log=ABSENT, progress=ABSENT)
        log, progress = _read(prog.log, proc.log), _read(prog.progress, proc.progress)
        ours = ProcessSample(pid, proc.ident.starttime, 1, f"w{pid}", "S", 1.0, 0.0, 9, 9, 9, 9, 9, 1024, 3)
        return Observation(
            name,
            proc.ident,
            log=log,
            progress=progress,
            idle_line=proc.mood == "rests" if isinstance(log, int) else None,
            progress_after_idle=not proc.rested if isinstance(log, int) else None,
            matches={MARKER: _read(prog.log, proc.marker)},
            gauges=Gauges(cpu=0.6 if proc.mood == "long_batch" else 0.001, fds=950 if proc.mood == "leaks" else 12),
            tree=(ours,),
        )

    def dumps(self, name: str, ident: Identity, count: int) -> tuple[Dump, ...]:
        proc = self.progs[name].proc
        if proc is None or proc.ident != ident:
            return ()
        error = "not permitted" if proc.mood == "unreadable" else None
        moves = proc.mood in ("works", "leaks", "long_batch")
        return tuple(
            dump(SHAPES[proc.mood], proc.pid, line=10 + n * moves, at_s=5.0 * n, error=error) for n in range(count)
        )

    # supervisord

    @property
    def answers(self) -> bool:
        return self.up and not self.frozen

    def serve_late(self) -> None:
        """Calls that came before are served first."""
        late, self.late = self.late, []
        for call in late:
            call()

    def infos(self) -> dict[str, ProcessInfo]:
        return {p.name: self.info(p) for p in self.progs.values() if p.known}

    def info(self, prog: Prog) -> ProcessInfo:
        group, _, name = prog.name.partition(":")
        pid = prog.proc.pid if prog.proc else 0
        return ProcessInfo(prog.name, group, name, prog.state, pid, prog.started_at, 0, "/log/o", "/log/e")

    def freeze(self, frozen: bool) -> None:
        self.frozen = frozen
        if not frozen:
            self.serve_late()

    def restart_supervisord(self) -> None:
        """All its processes end; a new one starts them anew."""
        self.up, self.frozen, self.late = False, False, []
        for prog in self.progs.values():
            self._gone(prog, "STOPPED")
        self.after(3.0, self._supervisord_up)

    def _supervisord_up(self) -> None:
        self.up = True
        for prog in self.progs.values():
            prog.started_at = 0
            if prog.known and prog.proc is None:
                prog.stopped_by_hand = None
                self.spawn(prog)

    def remove(self, prog: Prog) -> None:
        if prog.known and self.answers:
            self._gone(prog, "STOPPED")
            prog.known = False

    def add(self, prog: Prog) -> None:
        if not prog.known and self.answers:
            prog.known, prog.stopped_by_hand, prog.started_at = True, None, 0
            self.spawn(prog)

    # An operator

    def stop_by_hand(self, prog: Prog) -> None:
        # Of a program that is STOPPING or down already it is an error, and changes nothing that anybody could see (measured).
        if prog.known and self.answers and self.stop(prog):
            prog.stopped_by_hand = self.now

    def start_by_hand(self, prog: Prog) -> None:
        if prog.known and self.answers:
            prog.stopped_by_hand = None
            self.start(prog)

    def calm(self) -> None:
        """Every fault of the host is over; what hangs goes on hanging."""
        self.freeze(False)
        self.archive, self.journal_full, self.next_stop = "ok", False, ""
        self.next_start_lost = self.next_kill_lost = False
        for prog in self.progs.values():
            self.thaw(prog)
            prog.start, prog.mood, prog.term, prog.log, prog.progress = "good", "works", "quick", "seen", "seen"


def _read(seen: Seen, value: int) -> Reading:
    return value if seen == "seen" else None if seen == "unknown" else ABSENT
