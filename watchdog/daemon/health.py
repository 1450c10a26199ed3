"""Whether evidence can be had and kept: py-spy, and the archive's disk. May try both; posts what it found, and decides nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from watchdog.collect.bundle import archive_status
from watchdog.collect.pyspy import self_test

ARCHIVE_EVERY = 60.0
CAPTURE_EVERY = 3600.0
"""Seconds. py-spy breaks by an upgrade or a changed Yama setting, not by the minute; a try costs 0.3 s of CPU."""


@dataclass(frozen=True, slots=True)
class Health:
    capture_usable: bool
    capture_why: str
    archive_writable: bool
    archive_why: str
    archive_bytes: int | None


class HealthChecks:
    """Tries at start, and from time to time."""

    def __init__(self, archive: Path, post: Callable[[Health], None]) -> None:
        self.archive = archive
        self._post = post
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        why, tried = self_test(), time.monotonic()
        while True:
            status = archive_status(self.archive)
            self._post(Health(why is None, why or "", status.writable, status.why, status.bytes))
            time.sleep(ARCHIVE_EVERY)
            if time.monotonic() - tried > CAPTURE_EVERY:
                why, tried = self_test(), time.monotonic()
