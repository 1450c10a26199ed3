"""The host that is measured: a private supervisord with sample workers, and the real daemon beside it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.supervisord import Supervisord

WORKER = Path(__file__).with_name("worker.py")
READY_WITHIN = 120.0
"""Seconds for all programs to run, and for the daemon's first tick: two hundred interpreters start on two cores."""
STOP_WITHIN = 60.0

WATCHDOG = """\
supervisor: {{url: "{url}"}}
interval: {interval}s
mode: report
programs:
  - match: "bench:*"
    progress.log: '\\] Batch (?P<count>\\d+): [\\d.]+s/image'
    idle: 'No jobs found, sleeping'
archive: {{directory: {directory}/incidents}}
state: {{directory: {directory}/state}}
runtime: {{directory: {directory}/run}}
metrics: {{listen: "127.0.0.1:0"}}
"""


@dataclass(frozen=True)
class Size:
    programs: int
    processes: int
    """In each program, the main one included."""
    every: float
    """Seconds between two lines of a program's log."""
    interval: float
    """Of the daemon, in seconds."""

    @property
    def total(self) -> int:
        return self.programs * self.processes


class NotReady(Exception):
    """The host did not come up; says what was waited for, and the last lines of the log that may tell why."""


@contextmanager
def workers(size: Size) -> Iterator[Supervisord]:
    """A supervisord whose workers all run."""
    section = {
        "command": f"{sys.executable} -S -E {WORKER} {size.processes - 1} {size.every}",
        "numprocs": size.programs,
        "startsecs": 0,
        "stopasgroup": "true",
        "killasgroup": "true",
    }
    with Supervisord({"bench": section}, stop_within=STOP_WITHIN) as supervisord:
        _wait(
            lambda: len(supervisord.descendants()) >= size.total,
            "every worker runs",
            supervisord.directory / "supervisord.log",
        )
        yield supervisord


@contextmanager
def daemon(supervisord: Supervisord, size: Size) -> Iterator[subprocess.Popen[bytes]]:
    """The real daemon, after its first tick, with all its directories in supervisord's. Ended by SIGTERM."""
    directory = supervisord.directory
    config = directory / "watchdog.yaml"
    config.write_text(WATCHDOG.format(url=supervisord.url, directory=directory, interval=size.interval))
    log = directory / "watchdog.out"
    command = [sys.executable, "-m", "watchdog", "-c", str(config), "run"]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
    try:
        _wait(lambda: process.poll() is not None or ticks(directory) > 0, "the daemon makes a tick", log)
        if process.poll() is not None:
            raise NotReady(f"the daemon ended: {log.read_text(errors='replace')}")
        yield process
    finally:
        _end(process)


def snapshot(directory: Path) -> dict[str, Any] | None:
    """The daemon's snapshot, as `watchdog status` reads it; None: there is none yet."""
    try:
        found: dict[str, Any] = json.loads((directory / "run/status.json").read_text())
    except FileNotFoundError:
        return None
    return found


def ticks(directory: Path) -> int:
    found = snapshot(directory)
    return int(found["daemon"]["ticks"]) if found else 0


def fresh_ticks(directory: Path) -> int:
    """The ticks of the next snapshot, at the moment it is written: an older one is up to two ticks behind."""
    before = ticks(directory)
    _wait(lambda: ticks(directory) != before, "the daemon writes a snapshot", directory / "watchdog.out", every=0.02)
    return ticks(directory)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_WITHIN)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait(ready: Callable[[], bool], what: str, log: Path, every: float = 0.25) -> None:
    deadline = time.monotonic() + READY_WITHIN
    while not ready():
        if time.monotonic() > deadline:
            last = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise NotReady(f"after {READY_WITHIN:.0f} s still waiting until {what}; {log} ends with\n{last}")
        time.sleep(every)
