"""The levels of a whole process tree, from its samples. Pure: may not read anything.

Zombies hold nothing and are left out, so their zeros cannot hide what is unknown. A sum with an unknown part is unknown.

Shared memory, counted once, is estimated as the largest RssShmem of one process of the tree: processes that pass tensors through
/dev/shm map much the same pages, and their sum can exceed the host's memory. It is a lower bound: processes that each map pages of
their own are underestimated. rss is this estimate plus the sums of anon and mapped files; pages that a fork left shared count in
each process, for only smaps could tell them apart, and it takes mmap_lock.
"""

from __future__ import annotations

from watchdog.model.observation import NO_GAUGES, Gauges, ProcessSample
from watchdog.procstat import DEAD


def gauges_of(tree: tuple[ProcessSample, ...], since: float | None = None) -> Gauges:
    """The gauges of a tree, its main process first. `since`: seconds since its last look; None: this is the first."""
    living = [sample for sample in tree if sample.state not in DEAD]
    if not living:
        return NO_GAUGES
    anon = _sum([sample.anon for sample in living])
    file = _sum([sample.file for sample in living])
    shared = [sample.shmem for sample in living]
    shmem = None if None in shared else max(size for size in shared if size is not None)
    return Gauges(
        rss=None if anon is None or file is None or shmem is None else anon + file + shmem,
        anon=anon,
        shmem=shmem,
        fds=_sum([sample.fds for sample in living]),
        fds_ratio=max((s.fds / s.fd_limit for s in living if s.fds is not None and s.fd_limit), default=None),
        threads=_sum([sample.threads for sample in living]),
        processes=len(living),
        cpu=_cpu(tree, since),
    )


def cpu_seconds_of(tree: tuple[ProcessSample, ...]) -> float | None:
    """CPU seconds of the tree's processes; None: there are none."""
    return sum(sample.cpu_s for sample in tree) if tree else None


def _cpu(tree: tuple[ProcessSample, ...], since: float | None) -> float | None:
    """Cores since the last look. A process first seen now counts with all its CPU: too much, if it is older."""
    if since is None or since <= 0 or tree[0].cores is None:
        return None
    return sum(sample.cpu_s / since if sample.cores is None else sample.cores for sample in tree)


def _sum(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
