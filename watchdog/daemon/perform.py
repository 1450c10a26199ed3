"""Performs actions in the background, and answers each with an event. Wires the rooms; decides nothing.

Every action has a thread of its own, a daemon thread that is never joined: one that gets stuck in the kernel is left behind. The
journal has one thread for all, so that records are written in the order in which they were decided.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from watchdog.act.notify import notify
from watchdog.act.reap import Reaping, reap
from watchdog.act.restart import kill, start, stop
from watchdog.collect import logs
from watchdog.collect.bundle import Places, Sources, seal
from watchdog.collect.pyspy import dump_tree
from watchdog.journal import Journal
from watchdog.logfmt import format_line
from watchdog.look.history import History
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
from watchdog.model.event import BundleSealed, Event, KillSent, Persisted, Reaped, StacksDumped, StartSent, StopSent
from watchdog.model.evidence import Dump, LogLines
from watchdog.model.observation import Identity, ProcessInfo
from watchdog.model.record import Record
from watchdog.model.world import Sealed
from watchdog.procfs import identity_of, walk
from watchdog.supervisor import Fault, Supervisor

_log = logging.getLogger("watchdog")
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

_Background = DumpStacks | CollectEvidence | StopProgram | KillProgram | ReapTree | StartProgram

DUMPS_AT_ONCE = 4
"""Trees that are dumped at once: where 200 programs stall in the same second, 400 py-spy would finish off the host."""

SEALS_AT_ONCE = 2
"""Bundles that are sealed at once: each may hold some 50 MiB while it is packed."""

LOG_LINES = 60
"""Lines of each log that evidence.json holds; the bundle holds more."""


@dataclass(slots=True)
class Means:
    """What the performer works with; parts may be missing while only begun restarts are finished."""

    post: Callable[[Event], None]
    journal: Journal
    supervisor: Callable[[], Supervisor | None] = lambda: None
    ask: Callable[[], None] = lambda: None
    info_of: Callable[[str], ProcessInfo | None] = lambda _: None
    logs_of: Callable[[str], tuple[str, ...]] = lambda _: ()
    places: Places | None = None
    history: History | None = None
    config_text: str = ""


def _identity(pid: int) -> Identity | None:
    """Who has this pid; None: nobody, or it cannot be told, which is no reason to end (out of descriptors, for example)."""
    try:
        return identity_of(pid)
    except OSError:
        return None


def _started_at(pid: int) -> int | None:
    """None: gone. Raises OSError where it cannot be told, which is another thing: then nothing is sent, and nothing is over."""
    found = identity_of(pid)
    return found.starttime if found else None


def _tree_now(ident: Identity) -> tuple[Identity, ...]:
    """Every process of the tree; none where it cannot be read, and what the last look saw has to do."""
    try:
        return tuple(p.identity for p in walk(ident.pid)) if identity_of(ident.pid) == ident else ()
    except OSError:
        return ()


def supervisord_pid(supervisor: Supervisor | None) -> int | None:
    """supervisord's own pid, which no reaping may touch."""
    found = supervisor.identity() if supervisor is not None else None
    return None if found is None or isinstance(found, Fault) else found.pid


class Performer:
    """Starts what is decided; every answer comes back through `means.post`."""

    def __init__(self, means: Means) -> None:
        self.means = means
        self._dumping = threading.BoundedSemaphore(DUMPS_AT_ONCE)
        self._sealing = threading.BoundedSemaphore(SEALS_AT_ONCE)
        self._unwritten: tuple[Record, ...] = ()
        """Records that the disk did not take; they go before the next ones, so that the journal stays in order."""
        self._records: queue.SimpleQueue[Persist | threading.Event] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="journal", daemon=True)
        self._writer.start()

    def perform(self, action: Action) -> None:
        """Begin; returns at once."""
        if isinstance(action, Say):
            say(action)
        elif isinstance(action, Persist):
            self._records.put(action)
        elif isinstance(action, AskSupervisor):
            self.means.ask()
        else:
            try:
                threading.Thread(target=self._work(action), name=type(action).__name__, daemon=True).start()
            except RuntimeError as error:  # no thread is to be had: out of memory, or of processes
                self.means.post(_not_begun(action, str(error)))

    def flush(self, within: float) -> bool:
        """Wait until the journal has all that was decided so far, for so many seconds at most."""
        done = threading.Event()
        self._records.put(done)
        return done.wait(within)

    def _work(self, action: _Background) -> Callable[[], None]:
        table: Mapping[type, Callable[..., Event]] = {
            DumpStacks: self._dump,
            CollectEvidence: self._collect,
            StopProgram: self._stop,
            KillProgram: self._kill,
            ReapTree: self._reap,
            StartProgram: self._start,
        }
        do = table[type(action)]
        return lambda: self.means.post(do(action))

    # The journal

    def _write(self) -> None:
        while True:
            action = self._records.get()
            if isinstance(action, threading.Event):
                action.set()
                continue
            error = self._append(action)
            if error is not None:
                fields = [("step", action.step), ("why", error)]
                _log.error(
                    "%s", format_line("the journal could not be written", action.program, action.incident, fields)
                )
            if action.step is not None:
                event = Persisted(time.monotonic(), time.time(), action.program, action.incident, action.step, error)
                self.means.post(event)

    def _append(self, action: Persist) -> str | None:
        """An intent that could not be written is given up, and the core told so; all else is true already, and written later."""
        try:
            self.means.journal.append((*self._unwritten, *action.records))
        except OSError as error:
            if action.step != "intent":
                self._unwritten += action.records
            return f"{self.means.journal.path}: {error.strerror}"
        self._unwritten = ()
        return None

    # Evidence

    def _dump(self, action: DumpStacks) -> StacksDumped:
        began = time.monotonic()
        troubles: list[str] = []
        dumps: list[Dump] = []
        for number in range(action.dumps):
            time.sleep(max(began + number * action.every - time.monotonic(), 0.0))
            if _identity(action.ident.pid) != action.ident:
                troubles.append(f"pid {action.ident.pid} is gone, or /proc does not tell when it began")
                break
            at_s = round(time.monotonic() - began, 3)
            try:
                tree = walk(action.ident.pid)
            except OSError as error:
                troubles.append(f"the process tree cannot be read: {error.strerror}")
                break
            with self._dumping:
                found = dump_tree(tree, action.ident.pid, at_s=at_s, within=action.within, tell=troubles.append)
            dumps.append(found)
        lines = self._log_lines(action.program)
        return StacksDumped(
            time.monotonic(), time.time(), action.program, action.incident, tuple(dumps), lines, tuple(troubles)
        )

    def _log_lines(self, program: str) -> LogLines:
        paths = self.means.logs_of(program)
        info = self.means.info_of(program)
        stderr = info.stderr_logfile if info else ""
        out = [line for path in paths if path != stderr for line in logs.tail(path, lines=LOG_LINES)]
        err = logs.tail(stderr, lines=LOG_LINES) if stderr else ()
        return LogLines(tuple(out), tuple(err))

    def _collect(self, action: CollectEvidence) -> BundleSealed:
        sealed = Sealed(None, None, "there is no archive while a restart is finished")
        if self.means.places is not None:
            with self._sealing:
                sealed = seal(action.case, self._sources(action), self.means.places, within=action.within)
        return BundleSealed(time.monotonic(), time.time(), action.program, action.incident, sealed)

    def _sources(self, action: CollectEvidence) -> Sources:
        supervisor, history = self.means.supervisor(), self.means.history
        return Sources(
            history=lambda: history.rows(action.program) if history is not None else (),
            process_history=lambda: history.processes(action.program) if history is not None else (),
            supervisor_view=lambda: _view(supervisor, action.program),
            supervisor_log=lambda: _tail_of_supervisord(supervisor),
            logs=self.means.logs_of(action.program),
            config=self.means.config_text,
            versions=lambda: _versions(supervisor),
        )

    # The restart

    def _stop(self, action: StopProgram) -> StopSent:
        supervisor = self.means.supervisor()
        if supervisor is None:
            result = StopSent(0.0, 0.0, action.program, action.incident, "unreachable", "no supervisord was found")
        else:
            tree = _tree_now(action.ident)
            outcome = stop(supervisor, action.program, action.ident, action.started_at, _started_at)
            result = StopSent(0.0, 0.0, action.program, action.incident, outcome.result, outcome.detail, tree)
        return _now(result)

    def _kill(self, action: KillProgram) -> KillSent:
        supervisor = self.means.supervisor()
        error: str | None = "no supervisord was found"
        if supervisor is not None:
            error = kill(supervisor, action.program, action.ident, _started_at)
        return KillSent(time.monotonic(), time.time(), action.program, action.incident, error)

    def _reap(self, action: ReapTree) -> Reaped:
        own = supervisord_pid(self.means.supervisor())
        never = frozenset({os.getpid(), *([own] if own else [])})
        try:
            done = reap(action.tree, action.boot_id, action.orphans, never=never)
        except OSError as error:
            done = Reaping((), action.tree, f"survivors could not be looked for: {error.strerror}")
        return Reaped(
            time.monotonic(), time.time(), action.program, action.incident, done.ended, done.left, done.detail
        )

    def _start(self, action: StartProgram) -> StartSent:
        supervisor = self.means.supervisor()
        gone, error = False, "no supervisord was found" if supervisor is None else None
        if supervisor is not None:
            gone, error = start(supervisor, action.program)
        return StartSent(time.monotonic(), time.time(), action.program, action.incident, gone, error)


def _not_begun(action: _Background, why: str) -> Event:
    """The answer to an action that could not even be begun: nothing was done."""
    at, wall, program, incident = time.monotonic(), time.time(), action.program, action.incident
    if isinstance(action, DumpStacks):
        return StacksDumped(at, wall, program, incident, (), LogLines(), (why,))
    if isinstance(action, CollectEvidence):
        return BundleSealed(at, wall, program, incident, Sealed(None, None, why))
    if isinstance(action, StopProgram):
        return StopSent(at, wall, program, incident, "unreachable", why)
    if isinstance(action, KillProgram):
        return KillSent(at, wall, program, incident, why)
    if isinstance(action, ReapTree):
        return Reaped(at, wall, program, incident, (), action.tree, why)
    return StartSent(at, wall, program, incident, error=why)


def _now(event: StopSent) -> StopSent:
    return replace(event, at=time.monotonic(), wall=time.time())


def _view(supervisor: Supervisor | None, program: str) -> dict[str, object] | str:
    if supervisor is None:
        return "no supervisord was found"
    info = supervisor.process(program)
    return info.hint() if isinstance(info, Fault) else info._asdict()


def _versions(supervisor: Supervisor | None) -> dict[str, str]:
    found = supervisor.identity() if supervisor is not None else None
    if found is None:
        return {"supervisord": "none was found"}
    return {"supervisord": f"unknown: {found.hint()}" if isinstance(found, Fault) else found.version}


def _tail_of_supervisord(supervisor: Supervisor | None) -> str:
    if supervisor is None:
        return ""
    text = supervisor.log_tail()
    return text.hint() if isinstance(text, Fault) else text


def say(action: Say) -> None:
    """A line in the log; a notice pages, too."""
    if action.notice:
        notify(action)
    else:
        line = format_line(action.message, action.program, action.incident, action.fields)
        _log.log(_LEVELS[action.level], "%s", line)
