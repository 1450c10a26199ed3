"""Processes and their trees, read from /proc. May read /proc; may not signal, trace, or read what takes mmap_lock (see childread).

`Procfs` keeps descriptors: a kept one costs 3 us (stat) and 7 us (status) a read, and can never read another process after its pid
was reused (ESRCH). The functions below are for one question now and then; any thread may ask. In both, None is "could not be read",
and a process that vanished is not there; where that cannot be told, for want of descriptors or memory, OSError is raised. Sizes are
bytes, times seconds, starttime clock ticks since boot. Children need CONFIG_PROC_CHILDREN, which every distribution has.
"""

# os, not Path: its calls take descriptors, and cost a third.
# ruff: noqa: PTH116, PTH208

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from watchdog.model.observation import Identity, ProcessSample
from watchdog.procfile import Allowance, ProcFile, read_whole
from watchdog.procfile import raise_descriptor_limit as raise_descriptor_limit
from watchdog.procstat import (
    CLOCK_TICK,
    DEAD,
    UNKNOWN_MEMORY,
    Memory,
    Stat,
    parse_fd_limit,
    parse_memory,
    parse_stat,
    parse_tracer,
)

PROC: Final = Path("/proc")

MEMORY_FOR: Final = 30.0
"""Seconds after which status is read although the resident pages, which stat tells, are as many as before: it costs half of a look,
and a process that waits changes nothing. Until then a change of kind alone, page for page, is not seen."""
LIMIT_FOR: Final = 60.0
"""Seconds for which a soft limit is believed: few programs change it, and reading it costs 12 us."""
THREADS_FOR: Final = 30.0
"""Seconds after which the children of every thread are looked for again, 6 us a thread; those of the main thread, and of threads
that were seen to have any, are read at every look, and all are when the number of threads changes."""


_GONE = (FileNotFoundError, ProcessLookupError, NotADirectoryError)


class ThreadState(NamedTuple):
    """One thread, as the kernel sees it."""

    tid: int
    name: str
    state: str
    """One letter."""
    wchan: str | None
    """The kernel function it waits in; None: it runs, or that may not be told."""


class _Kept:
    """What is kept of one process between looks."""

    __slots__ = (
        "allowance",
        "at",
        "children",
        "cores",
        "cpu_s",
        "directory",
        "fd_directory",
        "limit",
        "limit_at",
        "memory",
        "memory_at",
        "pages",
        "starttime",
        "stat",
        "status",
        "threads",
        "threads_at",
    )

    def __init__(self, directory: str, allowance: Allowance) -> None:
        """Raises OSError, or ValueError where this is no process."""
        self.directory = directory
        self.fd_directory = f"{directory}/fd"
        self.allowance = allowance
        self.children: dict[str, ProcFile] = {}
        self.stat = ProcFile(f"{directory}/stat", allowance)
        try:
            self.status = ProcFile(f"{directory}/status", allowance)
        except OSError:
            self.stat.close()
            raise
        try:
            self.starttime = parse_stat(self.stat.read()).starttime
        except (OSError, ValueError):
            self.close()
            raise
        self.at = -1.0
        self.cpu_s = 0.0
        self.cores: float | None = None
        self.limit: int | None = None
        self.limit_at = -LIMIT_FOR
        self.memory: Memory = UNKNOWN_MEMORY
        self.memory_at = -MEMORY_FOR
        self.pages = -1
        self.threads: int | None = None
        self.threads_at = -THREADS_FOR

    def close(self) -> None:
        for file in (self.stat, self.status, *self.children.values()):
            file.close()
        self.children.clear()


class Procfs:
    """Samples of processes, through kept descriptors. Used by one thread."""

    def __init__(self, root: Path = PROC) -> None:
        self.root = root
        self._root = os.fspath(root)
        self._kept: dict[int, _Kept] = {}
        self._trees: dict[Identity, frozenset[int]] = {}
        self._allowance = Allowance()
        self._sized = _fd_size_counts(self._root)

    def close(self) -> None:
        for kept in self._kept.values():
            kept.close()
        self._kept.clear()
        self._trees.clear()

    def sample(self, pid: int, at: float | None = None) -> ProcessSample | None:
        """One process now; None: gone. `at`: CLOCK_MONOTONIC seconds, for the cores used since the last sample. Raises OSError."""
        at = time.monotonic() if at is None else at
        kept = self._keep(pid)
        if kept is None:
            return None
        found = self._look(pid, kept, at)
        if found is None:
            self.release(pid)
        return found

    def tree(self, main: Identity, at: float | None = None) -> tuple[ProcessSample, ...]:
        """`main`, then its descendants; empty: gone, or another process has its pid now. What left the tree is let go of.

        Raises OSError where it cannot be told.
        """
        tried = {main.pid}
        try:
            found = self._walk(main, time.monotonic() if at is None else at, tried)
        finally:  # what was looked at is kept, so it is this tree's to let go of, at the latest by `forget`
            self._trees[main] = self._trees.get(main, frozenset()) | tried
        self._let_go(main, frozenset(sample.pid for sample in found))
        return found

    def _walk(self, main: Identity, at: float, tried: set[int]) -> tuple[ProcessSample, ...]:
        """The tree now. Every pid that is looked at is added to `tried`, also when that raises OSError."""
        root = self.sample(main.pid, at)
        found = [] if root is None or root.starttime != main.starttime else [root]
        seen = {sample.pid for sample in found}
        for sample in found:  # grows while it is walked
            for pid in self._children(sample, at):
                tried.add(pid)
                child = self.sample(pid, at) if pid not in seen else None
                if child is not None and child.ppid == sample.pid:  # else it ended, and another has its pid
                    seen.add(pid)
                    found.append(child)
        return tuple(found)

    def forget(self, main: Identity) -> None:
        """Close everything kept for this tree."""
        self._let_go(main, frozenset())

    def release(self, pid: int) -> None:
        """Close what is kept for this process."""
        kept = self._kept.pop(pid, None)
        if kept is not None:
            kept.close()

    def _let_go(self, main: Identity, now: frozenset[int]) -> None:
        for pid in self._trees.get(main, frozenset()) - now:
            self.release(pid)
        if now:
            self._trees[main] = now
        else:
            self._trees.pop(main, None)

    def _keep(self, pid: int) -> _Kept | None:
        kept = self._kept.get(pid)
        if kept is None:
            try:
                kept = self._kept[pid] = _Kept(f"{self._root}/{pid}", self._allowance)
            except (*_GONE, ValueError):
                return None
        return kept

    def _look(self, pid: int, kept: _Kept, at: float) -> ProcessSample | None:
        """stat comes after what is found by path: it tells that this was of the same process, for pids are reused at any moment."""
        fds = self._count_fds(kept)
        if at - kept.limit_at >= LIMIT_FOR:
            kept.limit, kept.limit_at = _soft_limit(kept.directory), at
        try:
            memory = kept.memory if kept.status.kept else parse_memory(kept.status.read())
            stat = parse_stat(kept.stat.read())
            if kept.status.kept and (stat.pages != kept.pages or at - kept.memory_at >= MEMORY_FOR):
                memory = kept.memory = parse_memory(kept.status.read())
                kept.pages, kept.memory_at = stat.pages, at
        except (*_GONE, ValueError):
            return None
        if stat.starttime != kept.starttime:
            return None  # opened on demand, and reused
        if stat.state in DEAD:
            memory, fds = UNKNOWN_MEMORY, None
        return ProcessSample(
            pid,
            stat.starttime,
            stat.ppid,
            stat.comm,
            stat.state,
            stat.cpu_s,
            _cores(kept, stat, at),
            *memory,
            fds,
            None if stat.state in DEAD else kept.limit,
            stat.threads,
        )

    def _count_fds(self, kept: _Kept) -> int | None:
        """By the size of the directory (Linux >= 6.2, 2 us), else by listing it (0.35 ms at 900, and only of one's own user)."""
        try:
            size = os.stat(kept.fd_directory).st_size if self._sized else 0
            return size or len(os.listdir(kept.fd_directory))
        except OSError:
            return None

    def _children(self, parent: ProcessSample, at: float) -> Iterable[int]:
        """Pids of a process's children, those of all its threads."""
        kept = self._kept.get(parent.pid)
        if kept is None:
            return ()
        changed = parent.threads is None or parent.threads != kept.threads
        if changed or (parent.threads != 1 and at - kept.threads_at >= THREADS_FOR):
            _find_parents(kept, parent)
            kept.threads, kept.threads_at = parent.threads, at
        pids: list[int] = []
        for tid, file in list(kept.children.items()):
            try:
                pids.extend(map(int, file.read().split()))
            except _GONE:
                file.close()  # the thread ended; its children are another thread's now
                del kept.children[tid]
                kept.threads = None
        return pids


def _find_parents(kept: _Kept, parent: ProcessSample) -> None:
    """Keep the children file of the main thread, and of each thread that has children now."""
    tasks = f"{kept.directory}/task"
    main = str(parent.pid)
    try:
        tids = [main] if parent.threads == 1 else os.listdir(tasks)
    except _GONE:
        return
    for tid in tids:
        if tid in kept.children:
            continue
        try:
            file = ProcFile(f"{tasks}/{tid}/children", kept.allowance)
        except _GONE:
            continue  # ended meanwhile
        if tid == main or _has_children(file):
            kept.children[tid] = file
        else:
            file.close()


def _has_children(file: ProcFile) -> bool:
    try:
        return bool(file.read())
    except OSError:
        return False


def _cores(kept: _Kept, stat: Stat, at: float) -> float | None:
    """Cores used since the last look; None at the first."""
    if kept.at >= 0 and at > kept.at:
        kept.cores = max(0.0, stat.cpu_s - kept.cpu_s) / (at - kept.at)
    if at > kept.at:
        kept.at, kept.cpu_s = at, stat.cpu_s
    return kept.cores


def _soft_limit(directory: str) -> int | None:
    try:
        return parse_fd_limit(read_whole(f"{directory}/limits"))
    except OSError:
        return None


def _fd_size_counts(root: str) -> bool:
    """Does the size of fd/ tell the number of descriptors? Not before Linux 6.2, nor in a recorded tree (which has no `self`)."""
    try:
        return os.stat(f"{root}/self/fd").st_size > 0
    except OSError:
        return False


def identity_of(pid: int, root: Path = PROC) -> Identity | None:
    """Who has this pid now; None: nobody (that one may see). Raises OSError where it cannot be told."""
    stat = _stat(f"{root}/{pid}")
    return None if stat is None else Identity(pid, stat.starttime)


def walk(pid: int, root: Path = PROC) -> tuple[ProcessSample, ...]:
    """A process and its descendants now, every thread's children included; cores are None. Empty: gone."""
    procfs = Procfs(root)
    try:
        ident = identity_of(pid, root)
        return procfs.tree(ident) if ident is not None else ()
    finally:
        procfs.close()


def boot_id(root: Path = PROC) -> str:
    """The kernel's id of this boot; '' where it cannot be read."""
    try:
        return read_whole(f"{root}/sys/kernel/random/boot_id").decode("ascii", "replace").strip()
    except OSError:
        return ""


def state_of(pid: int, root: Path = PROC) -> str | None:
    """The state's letter; None: gone."""
    stat = _stat(f"{root}/{pid}")
    return None if stat is None else stat.state


def tracer_pid(pid: int, root: Path = PROC) -> int | None:
    """The pid that traces this process; 0: none; None: gone."""
    try:
        return parse_tracer(read_whole(f"{root}/{pid}/status"))
    except OSError:
        return None


def thread_states(pid: int, root: Path = PROC) -> tuple[ThreadState, ...]:
    """Every thread, the main one first; empty: gone."""
    tasks = f"{root}/{pid}/task"
    try:
        tids = sorted((tid for tid in os.listdir(tasks) if tid.isdigit()), key=int)
    except OSError:
        return ()
    tids.sort(key=lambda tid: tid != str(pid))
    return tuple(_thread_states(tasks, tids))


def _thread_states(tasks: str, tids: Iterable[str]) -> Iterator[ThreadState]:
    for tid in tids:
        stat = _stat(f"{tasks}/{tid}")
        if stat is not None:
            yield ThreadState(int(tid), stat.comm, stat.state, _wchan(f"{tasks}/{tid}/wchan"))


def _wchan(path: str) -> str | None:
    """The kernel writes "0" for a thread that runs, and for those that one may not trace."""
    try:
        text = read_whole(path).decode("ascii", "replace").strip()
    except OSError:
        return None
    return text if text not in ("", "0") else None


def _stat(directory: str) -> Stat | None:
    try:
        return parse_stat(read_whole(f"{directory}/stat"))
    except (*_GONE, PermissionError, ValueError):
        return None


def seconds_since_start(starttime: int, root: Path = PROC) -> float | None:
    """How old a process with this starttime is, by the kernel's clock (suspended time counts)."""
    try:
        return float(read_whole(f"{root}/uptime").split()[0]) - starttime / CLOCK_TICK
    except (OSError, ValueError, IndexError):
        return None
