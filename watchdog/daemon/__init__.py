"""The daemon: `run` takes its locks, finishes what the last daemon began, reads its configuration, and watches.

Wires the rooms together; what is done is decided in judge/ alone. An exception that nobody expected ends the process, in whatever
thread it comes up: systemd starts it anew, and the journal resumes.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from watchdog import __version__
from watchdog.config import Config, ConfigError, load
from watchdog.daemon import known
from watchdog.daemon.locks import Taken, lock_state
from watchdog.daemon.logwriter import LogWriter
from watchdog.daemon.loop import Ended, Item, Loop
from watchdog.daemon.perform import Means, Performer
from watchdog.daemon.poller import Poller
from watchdog.daemon.sdnotify import Notifier
from watchdog.daemon.watch import FLUSH, Watch, too_slow
from watchdog.exitcode import FINE, PROBLEM, UNREACHABLE, USAGE
from watchdog.journal import Journal
from watchdog.judge.resume import interrupted, resume
from watchdog.judge.verify import owes_start
from watchdog.logfmt import format_line
from watchdog.model.event import Terminating
from watchdog.model.rule import Ruleset
from watchdog.model.vitals import Vitals
from watchdog.model.world import World
from watchdog.procfile import raise_descriptor_limit
from watchdog.procfs import boot_id
from watchdog.resources import MissingResources

_log = logging.getLogger("watchdog")

FINISH_WITHIN = 50.0
"""Seconds that finishing takes at most: before READY systemd gives 90 (TimeoutStartSec), as ExecStopPost 60 (TimeoutStopSec)."""


def run(config_path: Path | None, *, finish: bool = False) -> int:
    """Be the daemon until it is told to end; the exit code. `finish`: only finish begun restarts."""
    _log_to_stderr()
    threading.excepthook = _end_the_process
    items: queue.SimpleQueue[Item] = queue.SimpleQueue()
    _on_terminate(items)
    state = known.state_directory(config_path)
    try:
        lock = lock_state(state)
        journal = Journal(state)
    except OSError as error:
        _log.error(
            "the state directory %s cannot be used: %s\nWithout it a begun restart could be forgotten, so nothing is watched. "
            "Make it writable for uid %d, or set state.directory.",
            state,
            error,
            os.geteuid(),
        )
        return UNREACHABLE
    if isinstance(lock, Taken):
        _log.error("%s", lock)
        return UNREACHABLE
    return _Run(config_path, state, journal, items).run(only_finish=finish)


class _Run:
    """One life of the daemon."""

    def __init__(self, path: Path | None, state: Path, journal: Journal, items: queue.SimpleQueue[Item]) -> None:
        self._path = path
        self._state = state
        self._journal = journal
        self._items = items
        self._notifier = Notifier()
        self._performer = Performer(Means(post=items.put, journal=journal))
        kept = journal.state
        self._open = interrupted(kept.incidents, kept.transactions)
        at, wall = time.monotonic(), time.time()
        self._world = resume(kept.transactions, kept.incidents, kept.restarts, kept.pauses, boot_id(), at, wall)
        self._vitals = Vitals(pid=os.getpid(), started_wall=wall, totals=journal.totals)
        if kept.unread:
            _log.warning(
                "%s", format_line("journal lines could not be read; passed over", None, None, [("lines", kept.unread)])
            )

    def run(self, *, only_finish: bool) -> int:
        if _owing(self._world):
            self._finish()
        if only_finish or self._world.host.terminating:
            return self._end()
        try:
            config = load(self._path)
        except (ConfigError, MissingResources) as error:
            _log.error("the configuration is not used:\n%s", error)
            return USAGE
        return self._watch(config)

    # Before the configuration is read

    def _finish(self) -> None:
        """Finish begun restarts from the journal alone."""
        names = _owing(self._world)
        _log.warning(
            "%s",
            format_line("finishing restarts that the last daemon began", None, None, [("programs", ",".join(names))]),
        )
        poller = Poller(known.recall(self._state), self._items.put)
        self._performer.means = Means(
            post=self._items.put, journal=self._journal, supervisor=lambda: poller.supervisor, ask=poller.ask
        )
        loop = Loop(self._items, Ruleset(), self._world, self._vitals, self._performer, poller, self._notifier)
        until, ended = time.monotonic() + FINISH_WITHIN, Ended()
        poller.start()
        loop.run(lambda world: ended(world) or time.monotonic() > until or not _owing(world))
        poller.end()
        self._performer.flush(FLUSH)
        self._world = loop.world

    def _end(self) -> int:
        """The exit code: 1 while a program that we stopped is not up again, with what to do by hand."""
        owed = _owing(self._world)
        for name in owed:
            line = format_line(
                "a start is still owed; start it by hand", name, None, [("command", f"supervisorctl start {name}")]
            )
            _log.error("%s", line)
        return PROBLEM if owed else FINE

    # Watching

    def _watch(self, config: Config) -> int:
        slow = too_slow(config)
        if slow:
            _log.error("%s", slow)
            return USAGE
        raise_descriptor_limit()
        try:
            watch = Watch(config, self._state, self._performer, self._items, self._world, self._vitals, self._notifier)
        except OSError as error:
            _log.error("a directory cannot be made: %s\nMake it, or name another in the configuration.", error)
            return UNREACHABLE
        taken = watch.lock_supervisor()
        if taken is not None:
            _log.error("%s", taken)
            return UNREACHABLE
        signal.signal(signal.SIGHUP, lambda *_: watch.reload(self._path))
        for action in self._open:
            self._performer.perform(action)
        self._tell(config)
        self._world = watch.run()
        return self._end() if watch.exit_code == FINE else max(self._end(), watch.exit_code)

    def _tell(self, config: Config) -> None:
        fields = [
            ("version", __version__),
            ("config", str(config.path) if config.path else "none: defaults"),
            ("mode", ",".join(sorted({str(p.mode) for p in config.ruleset.policies})) or "none"),
            ("state", str(config.state)),
            ("archive", str(config.archive.directory)),
        ]
        _log.info("%s", format_line("watching", None, None, fields))


def _owing(world: World) -> list[str]:
    """Programs that we stopped, or are about to, and that are not up again."""
    return sorted(p.name for p in world.programs.values() if owes_start(p))


def _on_terminate(items: queue.SimpleQueue[Item]) -> None:
    """SIGTERM and SIGINT are events like any other; the loop ends when nothing is under way."""

    def tell(number: int, frame: FrameType | None) -> None:
        items.put(Terminating(time.monotonic(), time.time()))

    signal.signal(signal.SIGTERM, tell)
    signal.signal(signal.SIGINT, tell)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _log_to_stderr(environ: Mapping[str, str] = os.environ) -> None:
    """Lines on stderr, if there is one; journald has its own time stamps."""
    stamp = "" if "JOURNAL_STREAM" in environ else "%(asctime)s "
    handler = logging.NullHandler() if sys.stderr is None else LogWriter(sys.stderr.fileno())
    level = logging.getLevelNamesMapping().get(environ.get("WATCHDOG_LOG", "").upper(), logging.INFO)
    logging.basicConfig(handlers=[handler], level=level, format=f"{stamp}%(levelname)s %(message)s")


def _end_the_process(args: threading.ExceptHookArgs) -> None:
    """A bug in any thread: say it and end, at once and without waiting for anybody."""
    text = "".join(traceback.format_exception(args.exc_type, args.exc_value, args.exc_traceback))
    name = args.thread.name if args.thread else "a thread"
    _log.critical("unexpected exception in %s; the process ends, and its journal resumes:\n%s", name, text)
    for handler in logging.getLogger().handlers:
        handler.flush()
    os._exit(70)  # EX_SOFTWARE
