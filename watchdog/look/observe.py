"""One Observation of one program: its process tree, its logs, its progress file. May read them; decides nothing, changes nothing.

What was learnt of one main process, by pid and supervisord's start time of it, is forgotten with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from watchdog.killed import reap
from watchdog.look.files import Files
from watchdog.look.gauges import cpu_seconds_of, gauges_of
from watchdog.look.heartbeats import LogHeartbeats, LogSeen
from watchdog.look.places import Places, places_of_all
from watchdog.look.progress import FileSeen, ProgressFile, path_of
from watchdog.model.observation import ABSENT, Identity, MatchKey, Observation, ProcessInfo, ProcessSample, Reading
from watchdog.model.rule import Policy, Ruleset
from watchdog.procfs import Procfs, identity_of, seconds_since_start

LINKS_FOR: Final = 60.0
"""Seconds for which it is believed where the logs' links lead, and which programs share one; asking costs 70 us a program."""

_NO_PLACES = Places({}, shared=False)


MOUNTS_EVERY: Final = 0.2
"""Seconds: mounts are looked at once a tick, not once a program, which was a sixth of a tick of 200 programs."""


class _Watch:
    """What is kept of one program between looks."""

    def __init__(self, files: Files) -> None:
        self.key: tuple[int, int] | None = None
        """pid and supervisord's start time of the process that is watched."""
        self.ident: Identity | None = None
        self.began_ns: int | None = None
        self.at: float | None = None
        self.policy: Policy | None = None
        self.places = _NO_PLACES
        self.logs = LogHeartbeats(files)
        self.file = ProgressFile(files)


class Looker:
    """Looks at programs, one after another. Used by one thread."""

    def __init__(self, procfs: Procfs, files: Files | None = None, wall: Callable[[], float] = time.time) -> None:
        self._procfs = procfs
        self._files = Files() if files is None else files
        self._wall = wall
        self._watches: dict[str, _Watch] = {}
        self._places: dict[str, Places] = {}
        self._told: tuple[Ruleset, dict[str, tuple[str, str]]] | None = None
        self._told_at = 0.0
        self._gone = False
        self._mounts_at = float("-inf")

    def close(self) -> None:
        """Close everything that is kept, of the Procfs too."""
        for program in list(self._watches):
            self.forget(program)
        self._files.close()
        self._procfs.close()

    def set_programs(self, infos: Mapping[str, ProcessInfo], ruleset: Ruleset) -> None:
        """All programs that supervisord has, whenever it answered or the configuration changed; others are forgotten."""
        reap()
        for program in self._watches.keys() - infos.keys():
            self.forget(program)
        told = (ruleset, {program: (info.stdout_logfile, info.stderr_logfile) for program, info in infos.items()})
        now = time.monotonic()
        if told != self._told or now - self._told_at >= LINKS_FOR:
            self._told, self._told_at = told, now
            self._files.refresh()
            self._places = places_of_all(infos, ruleset, self._files)

    def forget(self, program: str) -> None:
        """Close what is kept for this program."""
        watch = self._watches.pop(program, None)
        if watch is not None:
            watch.logs.close()
            if watch.ident is not None:
                self._procfs.forget(watch.ident)

    def main_gone(self) -> bool:
        """Was a main process found gone since this was last asked? Then supervisord should be asked at once."""
        gone, self._gone = self._gone, False
        return gone

    def look(self, policy: Policy | None, info: ProcessInfo, at: float) -> Observation:
        """One look. `policy` None: unwatched, gauges only. `at`: CLOCK_MONOTONIC seconds."""
        watch = self._watches.get(info.program)
        if watch is None:
            watch = self._watches[info.program] = _Watch(self._files)
        if not 0.0 <= at - self._mounts_at < MOUNTS_EVERY:
            self._mounts_at = at
            self._files.refresh_if_mounted()
        tree, troubles = self._look_at_processes(watch, info, at)
        seen, told = LogSeen(), None
        if policy is not None:
            self._configure(watch, info.program, policy)
            seen = _unless_shared(watch.logs.look(), watch.places)
            told = self._look_at_file(watch, info, policy)
        since = None if watch.at is None else at - watch.at
        watch.at = at
        seen = seen._replace(troubles=troubles + seen.troubles) if troubles else seen
        return _observation(info.program, watch.ident, tree, since, seen, told)

    def look_at_process(self, pid: int, at: float, name: str | None = None) -> Observation | None:
        """The gauges of any process tree, without a supervisor; None: no such process. A second look tells the CPU."""
        info = ProcessInfo(name or f"pid:{pid}", "", str(pid), "RUNNING", pid, 0, 0, "", "")
        seen = self.look(None, info, at)
        return seen if seen.ident is not None else None

    def _look_at_processes(
        self, watch: _Watch, info: ProcessInfo, at: float
    ) -> tuple[tuple[ProcessSample, ...], tuple[str, ...]]:
        """The tree, and what is wrong. Empty, and nothing wrong: there is no process (any more)."""
        try:
            self._adopt(watch, info)
            tree = self._procfs.tree(watch.ident, at) if watch.ident is not None else ()
        except OSError as error:
            return (), (f"processes could not be read: {error.strerror}; does the watchdog have enough descriptors?",)
        if watch.ident is not None and not tree:
            watch.ident = None
            self._gone = True
        return tree, ()

    def _adopt(self, watch: _Watch, info: ProcessInfo) -> None:
        """Take note of a new main process. One that is gone stays gone, whoever has its pid now, until another is named.

        Raises OSError where it cannot be told who has the pid; then it is tried again at the next look.
        """
        key = (info.pid, info.started_at)
        if key == watch.key:
            return
        ident = identity_of(info.pid, self._procfs.root) if info.pid > 0 else None
        if watch.ident is not None:
            self._procfs.forget(watch.ident)
        if watch.key is not None:
            watch.logs.restart()
            watch.file.restart()
        watch.key, watch.ident, watch.at = key, ident, None
        watch.began_ns = self._began_ns(ident) if ident is not None else None
        self._gone |= info.pid > 0 and ident is None

    def _began_ns(self, ident: Identity) -> int | None:
        age = seconds_since_start(ident.starttime, self._procfs.root)
        return None if age is None else int((self._wall() - age) * 1e9)

    def _configure(self, watch: _Watch, program: str, policy: Policy) -> None:
        places = self._places.get(program, _NO_PLACES)
        if policy is not watch.policy or places.streams != watch.places.streams:
            watch.logs.configure(policy, places.streams)
        watch.policy, watch.places = policy, places

    def _look_at_file(self, watch: _Watch, info: ProcessInfo, policy: Policy) -> FileSeen | None:
        """None: no progress file is configured."""
        template = policy.progress.file if policy.progress is not None else None
        if template is None:
            return None
        if watch.ident is None:
            return FileSeen(None)
        return watch.file.look(path_of(template, info, watch.ident), watch.began_ns)


def _unless_shared(seen: LogSeen, places: Places) -> LogSeen:
    """A log that another program writes to, too, tells nothing of this one."""
    troubles = places.troubles + seen.troubles
    if not places.shared:
        return seen._replace(troubles=troubles)
    nothing: dict[MatchKey, Reading] = dict.fromkeys(seen.matches, ABSENT)
    return LogSeen(matches=nothing, troubles=troubles)


def _both(log: Reading, file: Reading) -> Reading:
    """Progress from lines and from a file: either beats, and both must be known."""
    if log is ABSENT or file is ABSENT:
        return file if log is ABSENT else log
    return None if log is None or file is None else log + file


def _observation(
    program: str,
    ident: Identity | None,
    tree: tuple[ProcessSample, ...],
    since: float | None,
    seen: LogSeen,
    told: FileSeen | None,
) -> Observation:
    said = FileSeen(None) if told is None else told
    count = said.progress_count if said.progress_count is not None else seen.progress_count
    total = said.progress_total if said.progress_total is not None else seen.progress_total
    return Observation(
        program,
        ident,
        seen.log,
        _both(seen.progress, ABSENT if told is None else told.progress),
        count,
        total,
        said.says,
        said.in_flight,
        seen.idle_line,
        seen.progress_after_idle,
        seen.matches,
        gauges_of(tree, since),
        cpu_seconds_of(tree),
        tree,
        seen.troubles if said.trouble is None else (*seen.troubles, said.trouble),
        said.phase,
    )
