"""Writes the snapshot that `watchdog status` reads. May write one file in the runtime directory; renders, and decides nothing.

A thread of its own, since a disk may hang; of several snapshots that it was offered meanwhile it writes the newest.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from watchdog.model.rule import Ruleset
from watchdog.model.vitals import Vitals
from watchdog.model.world import Phase, World
from watchdog.show import status

_log = logging.getLogger("watchdog")

QUIET_TICKS = 2
"""While nothing goes on a snapshot is written every so many ticks: rendering 200 programs costs 6 ms, as much as a tick."""


class Scribe:
    """Keeps the newest state that it was offered, and writes it."""

    def __init__(self, runtime: Path) -> None:
        self._path = status.path_in(runtime)
        self._offered: tuple[World, Ruleset, Vitals, float, float] | None = None
        self._wake = threading.Event()
        self._ticks = 0
        self._busy = False
        self._failed = ""
        self._thread = threading.Thread(target=self._run, name="scribe", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def offer(self, world: World, rules: Ruleset, vitals: Vitals, *, at_once: bool = False) -> None:
        """After a full tick, or `at_once`. Returns at once, whatever the disk does."""
        self._ticks += not at_once
        busy = any(p.phase is not Phase.WATCHING for p in world.programs.values())
        if at_once or busy or self._busy or self._ticks % QUIET_TICKS == 1:
            self._offered = (world, rules, vitals, time.monotonic(), time.time())
            self._wake.set()
        self._busy = busy

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            offered = self._offered
            if offered is not None:
                self._write(*offered)

    def _write(self, world: World, rules: Ruleset, vitals: Vitals, at: float, wall: float) -> None:
        try:
            # Somebody may clean up below /run; without it there would be no status and no requests until the next start.
            (self._path.parent / "requests").mkdir(mode=0o750, parents=True, exist_ok=True)
            status.write(self._path, status.snapshot(world, rules, vitals, at, wall))
        except OSError as error:
            if self._failed != str(error):
                _log.error("the snapshot for `watchdog status` cannot be written: %s", error)
            self._failed = str(error)
        else:
            self._failed = ""
