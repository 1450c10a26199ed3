"""What the host tells: memory, pressure, /dev/shm by owner, the kernel's log, logind, versions.

May read; may start `loginctl` with a deadline. Every fact is optional: what cannot be had is said in a note. Owners are
numbers, since looking up a name may ask a directory server.
"""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import sys
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from pathlib import Path

from watchdog import __version__, procfs
from watchdog.collect import command, pyspy
from watchdog.collect.gather import Found, skipped
from watchdog.model.observation import ProcessSample

PROC = Path("/proc")
SHM = Path("/dev/shm")
KMSG = Path("/dev/kmsg")
ETC = Path("/etc")

MOST_RECORDS = 50_000
"""Of the kernel's log: 16 MB, the largest ring buffer in use, holds fewer."""
KEPT_RECORDS = 200
MOST_FILES = 100_000
LARGEST = 20
REMEMBERED = 64

TELLING = re.compile(
    r"out of memory|oom[-_ ]kill|oom_reaper|invoked oom|blocked for more than|hung_task|NVRM|\bXid\b|segfault|soft lockup|I/O error"
    r"|not responding|Removed session|killed process",
    re.IGNORECASE,
)
"""OOM kills, hung tasks, GPU errors, servers that do not respond: what explains a stall from outside."""

_UID = re.compile(r"^Uid:\s+(\d+)", re.MULTILINE)


def host(root: Path = PROC) -> Found:
    """Memory, pressure, load, uptime and the limits on shared memory, as the kernel words them."""
    files: dict[str, object] = {}
    notes = []
    names = ("meminfo", "pressure/memory", "pressure/cpu", "pressure/io", "loadavg", "uptime", "sys/kernel/pid_max")
    for name in (*names, "sys/fs/file-nr", "sys/kernel/yama/ptrace_scope"):
        try:
            files[f"host/{name.replace('/', '-')}.txt"] = (root / name).read_text(errors="replace")
        except OSError as problem:
            notes.append(f"{name}: {problem.strerror}")
    return Found(files, tuple(notes), "ok" if files else "failed")


def shared_memory(directory: Path = SHM) -> Found:
    """Files below /dev/shm by owner: how many, their bytes (as allocated), and the largest of all. Never opens one."""
    counts: Counter[int] = Counter()
    sizes: Counter[int] = Counter()
    largest: Counter[str] = Counter()
    seen = 0
    for path, status in _files_below(directory):
        seen += 1
        allocated = status.st_blocks * 512
        counts[status.st_uid] += 1
        sizes[status.st_uid] += allocated
        largest[path] = allocated
        if len(largest) > REMEMBERED * LARGEST:
            largest = Counter(dict(largest.most_common(LARGEST)))
    space = os.statvfs(directory)
    owners = {str(uid): {"files": counts[uid], "bytes": size} for uid, size in sizes.most_common()}
    found = {
        "total_bytes": space.f_blocks * space.f_frsize,
        "free_bytes": space.f_bavail * space.f_frsize,
        "owners_by_uid": owners,
        "largest": [{"path": path, "bytes": size} for path, size in largest.most_common(LARGEST)],
    }
    return Found(
        {"host/shared-memory.json": found}, (f"only {MOST_FILES} files counted",) if seen >= MOST_FILES else ()
    )


def log(path: Path = KMSG) -> Found:
    """The latest kernel log lines that could explain a stall, with their seconds since boot."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as problem:
        hint = (
            "; it needs CAP_SYSLOG, or kernel.dmesg_restrict=0" if problem.errno in (errno.EPERM, errno.EACCES) else ""
        )
        return skipped(f"{path}: {problem.strerror}{hint}")
    kept: deque[str] = deque(maxlen=KEPT_RECORDS)
    try:
        for record in _records(descriptor):
            if TELLING.search(record):
                kept.append(_worded(record))
    finally:
        os.close(descriptor)
    return Found({"host/kernel-log.txt": "".join(f"{line}\n" for line in kept) or "no telling line\n"})


def logind(uids: Iterable[int], *, within: float, etc: Path = ETC) -> Found:
    """Does logind remove a user's shared memory at logout (RemoveIPC), and does the user linger? For the program's users."""
    lines = [f"RemoveIPC in {name}: {value}" for name, value in _remove_ipc(etc)] or ["RemoveIPC is set nowhere: yes"]
    wanted = sorted(set(uids))
    loginctl = shutil.which("loginctl")
    notes = []
    if loginctl is None:
        notes.append("loginctl is not installed")
    for uid in wanted if loginctl else ():
        argv = [str(loginctl), "show-user", str(uid), "--property=Linger", "--property=State", "--property=Sessions"]
        ran = command.run(argv, within=within / max(1, len(wanted)), limit=16 << 10)
        said = (ran.out or ran.err).decode(errors="replace").split("\n")
        lines.append(f"user {uid}: {', '.join(filter(None, said)) or ran.trouble or f'exit status {ran.rc}'}")
    lines.append("uids below 1000 are system users, whose shared memory logind leaves alone")
    return Found({"host/logind.txt": "".join(f"{line}\n" for line in lines)}, tuple(notes))


def uids_of(tree: Iterable[ProcessSample], root: Path = PROC) -> tuple[int, ...]:
    """The real user ids of these processes, each once; those that are gone, or cannot be told, are left out."""
    found: dict[int, None] = {}
    for sample in tree:
        try:
            uid = _UID.search((root / str(sample.pid) / "status").read_text(errors="replace"))
            same = (
                procfs.identity_of(sample.pid, root) == sample.identity
            )  # after: what was read was of this very process
        except OSError:
            continue
        if uid is not None and same:
            found[int(uid[1])] = None
    return tuple(found)


def versions(extra: Mapping[str, str], *, within: float) -> Found:
    """Ours, Python's, py-spy's, the kernel's, and what the caller knows (supervisord's)."""
    program = pyspy.find_pyspy()
    spoken = None
    if program is not None:
        spoken = (
            command.run([str(program), "--version"], within=within, limit=4096).out.decode(errors="replace").strip()
        )
    found = {
        "worker-watchdog": __version__,
        "python": sys.version,
        "kernel": platform.release(),
        "machine": platform.machine(),
        "py-spy": spoken or "not found",
        **extra,
    }
    return Found({"host/versions.json": found})


def _files_below(directory: Path) -> Iterable[tuple[str, os.stat_result]]:
    """Every entry that is no directory, not followed; those that vanish are left out."""
    left = MOST_FILES
    for folder, _, names in os.walk(directory):
        for name in names:
            path = Path(folder, name)
            try:
                yield str(path), path.lstat()
            except OSError:
                continue
            left -= 1
            if left <= 0:
                return


def _records(descriptor: int) -> Iterable[str]:
    """Records of /dev/kmsg from the oldest; a regular file (in a test) in pieces of its lines."""
    for _ in range(MOST_RECORDS):
        try:
            data = os.read(descriptor, 8192)
        except BlockingIOError:
            return
        except BrokenPipeError:
            continue  # overwritten while we read: the next read goes on with the oldest that is left
        if not data:
            return
        yield from data.decode(errors="replace").splitlines()


def _worded(record: str) -> str:
    """`6,339,5140900,-;text` to seconds since boot and text."""
    head, semicolon, text = record.partition(";")
    fields = head.split(",")
    if not semicolon or len(fields) < 3 or not fields[2].isdigit():
        return record
    return f"[{int(fields[2]) / 1e6:.3f}] {text}"


def _remove_ipc(etc: Path) -> list[tuple[str, str]]:
    """Where RemoveIPC is set, and to what; the last counts."""
    places = [etc / "systemd/logind.conf", *sorted((etc / "systemd/logind.conf.d").glob("*.conf"))]
    found = []
    for place in places:
        try:
            text = place.read_text(errors="replace")
        except OSError:
            continue
        found += [(str(place), value) for value in re.findall(r"^\s*RemoveIPC\s*=\s*(\S+)", text, re.MULTILINE)]
    return found
