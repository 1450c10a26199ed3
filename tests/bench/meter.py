"""What is read off a running daemon, and the same reads made bare, so that the share of each part can be told."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from watchdog.procfs import Procfs, identity_of

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PATH = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"}
ROUNDS = 20
"""Of each micro benchmark; the best one counts, since the host's other work only ever adds."""


@dataclass(frozen=True)
class Reading:
    at: float
    """CLOCK_MONOTONIC seconds."""
    cpu: float
    """CPU seconds that the process itself has used."""
    children: float
    """CPU seconds of its children that have ended: guarded reads, stack dumps."""
    rss: int
    """Bytes."""
    descriptors: int
    ticks: int


def read(pid: int, ticks: int) -> Reading:
    """One reading of the daemon `pid`, which has made `ticks` ticks."""
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    utime, stime, cutime, cstime = (int(f) / TICKS_PER_SECOND for f in fields[11:15])
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Reading(
        at=time.monotonic(),
        cpu=utime + stime,
        children=cutime + cstime,
        rss=pages * os.sysconf("SC_PAGE_SIZE"),
        descriptors=len(os.listdir(f"/proc/{pid}/fd")),
        ticks=ticks,
    )


def microseconds(begin: Reading, end: Reading, processes: int) -> float | None:
    """CPU of the daemon per process and tick, between two readings; None: no tick came between."""
    made = end.ticks - begin.ticks
    return (end.cpu - begin.cpu) / made / processes * 1e6 if made else None


def thread_seconds(pid: int) -> dict[int, float]:
    """CPU seconds of each living thread, by its kernel id."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        fields = (task / "stat").read_bytes().rpartition(b")")[2].split()
        found[int(task.name)] = (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND
    return found


def thread_names(pid: int) -> dict[int, str]:
    """What Python calls each thread, by its kernel id; asked of py-spy, since CPython does not tell the kernel before 3.14."""
    dump = subprocess.run(
        ["py-spy", "dump", "--json", "--nonblocking", "--pid", str(pid)], check=True, capture_output=True, env=_PATH
    )
    return {thread["os_thread_id"]: thread["thread_name"] or "unnamed" for thread in json.loads(dump.stdout)}


@dataclass(frozen=True)
class Bare:
    """Microseconds of CPU per process for the reads that no sampler can do without."""

    stat: float
    status: float
    descriptors: float

    @property
    def total(self) -> float:
        return self.stat + self.status + self.descriptors


def bare_reads(pids: list[int]) -> Bare:
    """Kept descriptors and `pread`, nothing parsed: /proc/PID/stat, status, and the count of descriptors by st_size."""
    stats = [os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC) for pid in pids]
    statuses = [os.open(f"/proc/{pid}/status", os.O_RDONLY | os.O_CLOEXEC) for pid in pids]
    folders = [os.open(f"/proc/{pid}/fd", os.O_RDONLY | os.O_CLOEXEC) for pid in pids]
    try:
        return Bare(
            stat=cost(lambda: [os.pread(d, 4096, 0) for d in stats]) / len(pids),
            status=cost(lambda: [os.pread(d, 4096, 0) for d in statuses]) / len(pids),
            descriptors=cost(lambda: [os.fstat(d).st_size for d in folders]) / len(pids),
        )
    finally:
        for descriptor in (*stats, *statuses, *folders):
            os.close(descriptor)


def sampler(mains: list[int]) -> float:
    """Microseconds of CPU per process for a look of our own sampler at the trees of these main processes."""
    procfs = Procfs()
    try:
        identities = [ident for pid in mains if (ident := identity_of(pid)) is not None]
        processes = sum(len(procfs.tree(ident)) for ident in identities)
        return cost(lambda: [procfs.tree(ident) for ident in identities]) / processes
    finally:
        procfs.close()


def cost(work: Callable[[], object]) -> float:
    """Microseconds of CPU that `work` takes, at its best of several rounds."""
    gc.collect()
    rounds = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        work()
        rounds.append(time.process_time() - begin)
    return min(rounds) * 1e6
