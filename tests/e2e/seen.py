"""What the end-to-end tests look at: processes, logs, bundles, and when each step of a restart was; how they end workers."""

from __future__ import annotations

import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tests.daemons import Daemon
from tests.supervisord import Supervisord
from watchdog.demo.story import WorkerLog, read_log
from watchdog.model.record import IncidentRecord

PROGRAMS = Path(__file__).parent.parent / "programs"


def bundle_texts(bundle: str | None) -> dict[str, str]:
    """Every file of a bundle, by its name without the incident's folder."""
    assert bundle is not None
    texts = {}
    with tarfile.open(bundle) as archive:
        for member in archive.getmembers():
            if (file := archive.extractfile(member)) is not None:
                texts[member.name.partition("/")[2]] = file.read().decode(errors="replace")
    return texts


def log_of(host: Supervisord, process: str) -> WorkerLog:
    return read_log(host.log(process).read_text())


def family(pid: int) -> list[psutil.Process]:
    """A process and all of its descendants, as they are now."""
    main = psutil.Process(pid)
    return [main, *main.children(recursive=True)]


@contextmanager
def tidy(host: Supervisord) -> Iterator[Supervisord]:
    """At the end, all processes but the resource trackers of multiprocessing end first: those then remove the named semaphores
    of their worker from /dev/shm. Killed with the others, as `host.close` does with whatever is left, they could not.
    """
    try:
        yield host
    finally:
        supervisord = psutil.Process(host.pid)
        supervisord.terminate()
        with suppress(psutil.TimeoutExpired):
            supervisord.wait(8)
        until = time.monotonic() + 5
        while (left := host.descendants()) and time.monotonic() < until:
            for pid in left:
                _kill_but_tracker(pid)
            time.sleep(0.05)


def _kill_but_tracker(pid: int) -> None:
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        if "resource_tracker" not in " ".join(process.cmdline()):
            process.kill()


def living(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that still are the same processes; a zombie waits for its parent only."""
    return [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


def count(daemon: Daemon, program: str) -> int:
    """The batch that the daemon saw last; 0: none yet."""
    progress = daemon.program(program).get("heartbeats", {}).get("progress") or {}
    return progress.get("count") or 0


def step_at(incident: IncidentRecord, step: str) -> float:
    """Wall-clock seconds at which the incident reached a step."""
    return incident.opened_at - incident.seconds["detected"] + incident.seconds[step]


def assert_sealed_before_the_stop(incident: IncidentRecord) -> None:
    names = ["detected", "dumped", "diagnosed", "sealed", "stop", "down", "running", "recovered"]
    assert list(incident.seconds) == names
    assert list(incident.seconds.values()) == sorted(incident.seconds.values())
    assert incident.bundle is not None
    assert Path(incident.bundle).with_suffix("").with_suffix(".json").is_file()
