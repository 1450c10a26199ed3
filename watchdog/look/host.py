"""One sample of the host: memory, and /dev/shm. May read /proc/meminfo and ask the filesystem; decides nothing."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from watchdog.model.observation import HostSample
from watchdog.procfs import PROC

SHM: Final = Path("/dev/shm")
_LINE: Final = re.compile(r"^(MemTotal|MemAvailable):\s+(\d+) kB$", re.MULTILINE)


def sample_host(root: Path = PROC, shm: Path = SHM) -> HostSample:
    """The host now, in bytes; a field is None where it could not be read."""
    try:
        found = dict(_LINE.findall((root / "meminfo").read_text(encoding="ascii", errors="replace")))
    except OSError:
        found = {}
    size, used = _usage(shm)
    return HostSample(_bytes(found.get("MemTotal")), _bytes(found.get("MemAvailable")), size, used)


def _bytes(kib: str | None) -> int | None:
    return None if kib is None else int(kib) << 10


def _usage(path: Path) -> tuple[int | None, int | None]:
    """Size and used bytes of a filesystem; /dev/shm is a tmpfs, so asking it never blocks."""
    try:
        seen = os.statvfs(path)
    except OSError:
        return None, None
    return seen.f_blocks * seen.f_frsize, (seen.f_blocks - seen.f_bfree) * seen.f_frsize
