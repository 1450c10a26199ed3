"""What the kernel tells of each process of a tree: status, limits, threads, descriptors, memory, names in its environment.

May read /proc, and change nothing. What takes the process's mmap_lock (cmdline, environ, maps, smaps_rollup) is read by child
processes with a deadline; the rest does not block. Links below /proc/PID/fd are read, never followed. Pids are reused at any
moment, so who has the pid is asked before and after: what was read of another process is not told.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from watchdog import childread, procfs
from watchdog.collect.gather import Found
from watchdog.collect.secretnames import known_values
from watchdog.model.observation import ProcessSample

PROC = Path("/proc")

EACH = 1.0
"""Seconds for one read by a child process; it takes 30 ms, and 100 ms more for smaps_rollup of 4 GB."""

TARGETS = 40
"""Descriptors of each kind whose target is written; all are counted."""

MOST_DESCRIPTORS = 100_000
MOST_THREADS = 500
LARGEST = 30
"""Mappings that are listed one by one."""

READ_LIMIT = 4 << 20
"""Bytes: 20,000 mappings are 2 MB."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.()%-]*")
_MAPPING = re.compile(rb"([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \d+ *(.*)")


_Told = tuple[Mapping[str, object], list[str]]
"""Files about one process, and notes on what could not be had."""


class Environments(NamedTuple):
    """Names for the bundle, and the secret values, which only tell what to hide and are never written."""

    found: Found
    known: tuple[str, ...]


def statuses(tree: Sequence[ProcessSample], root: Path = PROC) -> Found:
    """status, limits, cgroup, oom_score and io of each process, as the kernel words them."""

    def look(sample: ProcessSample) -> _Told:
        files: dict[str, object] = {}
        notes = []
        for name in ("status", "limits", "cgroup", "oom_score", "io"):
            text = _read(root / str(sample.pid) / name)
            if isinstance(text, str):
                files[f"processes/{sample.pid}/{name}.txt"] = text
            else:
                notes.append(_note(sample, f"{name}: {text.strerror}"))
        return files, notes

    return _of_each(tree, root, look)


def threads(tree: Sequence[ProcessSample], root: Path = PROC) -> Found:
    """Each thread's state, wait channel, system call and kernel stack (the last two need CAP_SYS_PTRACE or CAP_SYS_ADMIN)."""

    def look(sample: ProcessSample) -> _Told:
        states = procfs.thread_states(sample.pid, root)
        if not states:
            return {}, [_note(sample, "its threads could not be listed")]
        rows = [_thread(root / str(sample.pid) / "task" / str(state.tid), state) for state in states[:MOST_THREADS]]
        files = {f"processes/{sample.pid}/threads.json": {"count": len(states), "threads": rows}}
        hidden = all(row["stack"] is None for row in rows)
        return files, [_note(sample, "kernel stacks not permitted")] if hidden else []

    return _of_each(tree, root, look)


def descriptors(tree: Sequence[ProcessSample], root: Path = PROC) -> Found:
    """Open descriptors of each process by kind, with the first TARGETS targets of each kind."""

    def look(sample: ProcessSample) -> _Told:
        found = _descriptors(root / str(sample.pid) / "fd", sample.fd_limit)
        return {f"processes/{sample.pid}/descriptors.json": found}, []

    return _of_each(tree, root, look)


def commands(tree: Sequence[ProcessSample], within: float, root: Path = PROC) -> Found:
    """Each process's executable and command line, quoted as a shell would need it."""

    def read(sample: ProcessSample, seconds: float) -> dict[str, object] | childread.ReadFailure:
        directory = root / str(sample.pid)
        line = childread.read_file(directory / "cmdline", limit=64 << 10, within=seconds)
        if isinstance(line, childread.ReadFailure):
            return line
        exe = childread.read_link(directory / "exe", within=seconds)
        words = line.rstrip(b"\0").decode(errors="replace").split("\0")
        named = exe.detail if isinstance(exe, childread.ReadFailure) else exe.decode(errors="replace")
        return {f"processes/{sample.pid}/command.txt": f"{shlex.join(words)}\nexecutable: {named}\n"}

    return _by_child(tree, within, root, read)


def memory(tree: Sequence[ProcessSample], within: float, root: Path = PROC) -> Found:
    """smaps_rollup, and the mappings summed up by kind, of each process."""

    def read(sample: ProcessSample, seconds: float) -> dict[str, object] | childread.ReadFailure:
        folder, directory = f"processes/{sample.pid}", root / str(sample.pid)
        rollup = childread.read_file(directory / "smaps_rollup", limit=64 << 10, within=seconds)
        maps = childread.read_file(directory / "maps", limit=READ_LIMIT, within=seconds)
        if isinstance(maps, childread.ReadFailure):
            return maps
        files: dict[str, object] = {f"{folder}/maps.json": summary_of_maps(maps)}
        if not isinstance(rollup, childread.ReadFailure):
            files[f"{folder}/smaps_rollup.txt"] = rollup.decode(errors="replace")
        return files

    return _by_child(tree, within, root, read)


def environments(tree: Sequence[ProcessSample], within: float, root: Path = PROC) -> Environments:
    """The names in each process's environment, and the secret values among them."""
    known: dict[str, None] = {}

    def read(sample: ProcessSample, seconds: float) -> dict[str, object] | childread.ReadFailure:
        data = childread.read_file(root / str(sample.pid) / "environ", limit=1 << 20, within=seconds)
        if isinstance(data, childread.ReadFailure):
            return data
        names, variables, others = [], {}, 0
        for entry in data.rstrip(b"\0").split(b"\0"):
            name, equals, value = entry.decode(errors="replace").partition("=")
            if equals and _VARIABLE.fullmatch(name):
                names.append(name)
                variables[name] = value
            else:
                others += bool(entry)  # setproctitle writes over this memory
        known.update(dict.fromkeys(known_values(variables)))
        note = [f"# {others} entries are no variables; the program has written over them"] if others else []
        return {f"processes/{sample.pid}/environ-names.txt": "\n".join([*sorted(names), *note]) + "\n"}

    found = _by_child(tree, within, root, read)
    return Environments(found, tuple(known))


def summary_of_maps(maps: bytes) -> dict[str, object]:
    """Mappings counted and summed up (bytes) by kind; the largest, and those of shared memory or deleted files, one by one."""
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    paths: Counter[tuple[str, str]] = Counter()
    for line in maps.splitlines():
        mapping = _MAPPING.match(line)
        if mapping is None:
            continue
        size = int(mapping[2], 16) - int(mapping[1], 16)
        path = mapping[4].decode(errors="replace")
        kind = _kind_of_mapping(path, mapping[3].decode("ascii", "replace"))
        sizes[kind] += size
        counts[kind] += 1
        if path.startswith("/"):
            paths[kind, path] += size
    listed = [{"path": path, "kind": kind, "bytes": size} for (kind, path), size in paths.most_common()]
    special = [row for row in listed if row["kind"] in ("shared memory", "deleted", "memfd")]
    return {
        "kinds": {kind: {"count": counts[kind], "bytes": size} for kind, size in sizes.most_common()},
        "largest": listed[:LARGEST],
        "shared_or_deleted": special[:TARGETS],
    }


def kind_of_descriptor(target: str) -> str:
    """pipe, socket, file, directory-like paths included, anon_inode:NAME, memfd, shared memory, deleted or device."""
    if target.startswith("anon_inode:"):
        return target.replace("[", "").replace("]", "")
    if not target.startswith("/"):
        return target.partition(":")[0] or "other"
    return _kind_of_path(target)


def _kind_of_path(path: str) -> str:
    if path.startswith("/memfd:"):
        return "memfd"
    if path.startswith("/dev/shm/"):
        return "shared memory"
    if path.endswith(" (deleted)"):
        return "deleted"
    return "device" if path.startswith("/dev/") else "file"


def _kind_of_mapping(path: str, flags: str) -> str:
    if path.startswith("/"):
        return _kind_of_path(path)
    if path.startswith("["):
        return path.strip("[]").partition(":")[0]
    return "anonymous, shared" if flags.endswith("s") else "anonymous"


def _descriptors(directory: Path, limit: int | None) -> dict[str, object]:
    """Raises OSError when the directory cannot be listed."""
    counts: Counter[str] = Counter()
    targets: dict[str, list[str]] = {}
    with os.scandir(directory) as entries:
        for entry in islice(entries, MOST_DESCRIPTORS):
            try:
                target = os.fsencode(Path(entry.path).readlink()).decode(errors="replace")
            except OSError:
                continue  # closed in between, as is our own look at ourselves
            kind = kind_of_descriptor(target)
            counts[kind] += 1
            if counts[kind] <= TARGETS:
                targets.setdefault(kind, []).append(f"{entry.name} -> {target}")
    total = sum(counts.values())
    return {"count": total, "soft_limit": limit, "kinds": dict(counts.most_common()), "first": targets}


def _thread(directory: Path, state: procfs.ThreadState) -> dict[str, object]:
    stack, call = _read(directory / "stack"), _read(directory / "syscall")
    return {
        **state._asdict(),
        "syscall": call.strip() if isinstance(call, str) else None,
        "stack": stack.splitlines() if isinstance(stack, str) else None,
    }


def _of_each(tree: Sequence[ProcessSample], root: Path, look: Callable[[ProcessSample], _Told]) -> Found:
    """What `look` tells of each process; it may raise OSError, which is a note."""
    files: dict[str, object] = {}
    notes: list[str] = []
    for sample in tree:
        found, said = _of_this_very(sample, root, look)
        files.update(found)
        notes += said
    return Found(files, tuple(notes), "ok" if files or not notes else "failed")


def _of_this_very(sample: ProcessSample, root: Path, look: Callable[[ProcessSample], _Told]) -> _Told:
    """What `look` tells, if `sample` has its pid before and after."""
    gone: _Told = {}, [_note(sample, "gone, or another process has its pid by now")]
    try:
        if procfs.identity_of(sample.pid, root) != sample.identity:
            return gone
        told = look(sample)
        return told if procfs.identity_of(sample.pid, root) == sample.identity else gone
    except OSError as problem:
        return {}, [_note(sample, f"{problem.filename or 'could not be looked at'}: {problem.strerror or problem}")]


def _by_child(
    tree: Sequence[ProcessSample],
    within: float,
    root: Path,
    read: Callable[[ProcessSample, float], dict[str, object] | childread.ReadFailure],
) -> Found:
    """One process after another, each with at most EACH seconds a read, until the time is over."""
    deadline = time.monotonic() + within

    def look(sample: ProcessSample) -> _Told:
        left = deadline - time.monotonic() - 0.1
        if left <= 0:
            return {}, [_note(sample, "no time was left")]
        found = read(sample, min(EACH, left / 2))
        return ({}, [_note(sample, found.detail)]) if isinstance(found, childread.ReadFailure) else (found, [])

    return _of_each(tree, root, look)


def _note(sample: ProcessSample, what: str) -> str:
    return f"process {sample.pid} ({sample.comm}): {what}"


def _read(path: Path) -> str | OSError:
    """A small file of /proc that does not block."""
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError as problem:
        return problem
