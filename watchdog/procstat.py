"""What the texts of /proc say: stat, status, limits. Pure: may not read files.

Kernel text is bytes. comm may hold spaces, `)`, newlines and invalid UTF-8, so stat is split after its last `)`, and what is not
UTF-8 becomes U+FFFD. In `status` the kernel itself escapes newlines, so its lines can be searched.
"""

from __future__ import annotations

import os
import re
from typing import Final, NamedTuple

CLOCK_TICK: Final = float(os.sysconf("SC_CLK_TCK"))
"""Ticks a second of the times in stat; 100 on every Linux that counts."""

DEAD: Final = frozenset("ZXx")
"""States of processes that are no more: their memory and descriptors are gone, which is not the same as zero."""

_MEMORY = re.compile(rb"\nVmRSS:\s*(\d+) kB\nRssAnon:\s*(\d+) kB\nRssFile:\s*(\d+) kB\nRssShmem:\s*(\d+) kB\n")
_TRACER = re.compile(rb"\nTracerPid:\s*(\d+)\n")
_NOFILE = re.compile(rb"^Max open files\s+(\d+)", re.MULTILINE)


class Stat(NamedTuple):
    """The fields of /proc/PID/stat that are used here."""

    comm: str
    state: str
    ppid: int
    cpu_s: float
    """User and system CPU seconds of all threads, ended ones included."""
    threads: int
    starttime: int
    """Clock ticks since boot."""
    pages: int
    """Resident; the sum of what status tells apart."""


def parse_stat(data: bytes) -> Stat:
    """The content of a `stat`. Raises ValueError where it is not one."""
    opened, closed = data.find(b"("), data.rfind(b")")
    rest = data[closed + 2 :].split(None, 22)  # of 50 fields, the first 22 matter
    if opened < 0 or len(rest) < 22:
        raise ValueError(f"not the content of /proc/PID/stat: {data[:60]!r}")
    return Stat(
        data[opened + 1 : closed].decode("utf-8", "replace"),
        chr(rest[0][0]),
        int(rest[1]),
        (int(rest[11]) + int(rest[12])) / CLOCK_TICK,
        int(rest[17]),
        int(rest[19]),
        int(rest[21]),
    )


Memory = tuple[int | None, int | None, int | None, int | None]
"""rss, anon, file and shmem in bytes."""
UNKNOWN_MEMORY: Final[Memory] = (None, None, None, None)


def parse_memory(status: bytes) -> Memory:
    """The memory of a `status`; unknown for zombies and kernel threads, which have none of their own."""
    found = _MEMORY.search(status)
    if found is None:
        return UNKNOWN_MEMORY
    rss, anon, file, shmem = found.groups()
    return int(rss) << 10, int(anon) << 10, int(file) << 10, int(shmem) << 10


def parse_tracer(status: bytes) -> int | None:
    """The pid that traces; 0: none."""
    found = _TRACER.search(status)
    return int(found[1]) if found else None


def parse_fd_limit(limits: bytes) -> int | None:
    """The soft limit of open files; None where the text does not tell a number."""
    found = _NOFILE.search(limits)
    return int(found[1]) if found else None
