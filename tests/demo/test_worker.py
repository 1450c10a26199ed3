"""The sample worker's faults are real ones."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from watchdog.demo.story import WorkerLog, read_log


@contextmanager
def worker(tmp_path: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "watchdog.demo.worker", *arguments]
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err)
    try:
        yield process
    finally:
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        for member in family:
            if "resource_tracker" not in " ".join(
                member.cmdline()
            ):  # it ends last, and removes the semaphores of the others
                member.kill()
        process.wait()
        assert not psutil.wait_procs(family[1:], timeout=5)[1]


def log_of(tmp_path: Path) -> WorkerLog:
    return read_log((tmp_path / "out").read_text())


def wait_for_batches(tmp_path: Path, count: int) -> None:
    until = time.monotonic() + 20
    while log_of(tmp_path).batches < count:
        assert time.monotonic() < until, (tmp_path / "err").read_text()
        time.sleep(0.02)


def test_a_lost_batch_ends_all_work(tmp_path: Path) -> None:
    """Those that were fetched already still come; then nothing, at no CPU, and nobody has ended."""
    fault = tmp_path / "fault"
    with worker(tmp_path, "batches", "--every", "0.1", "--lose-when", str(fault)) as process:
        wait_for_batches(tmp_path, 2)
        fault.touch()
        wait_for_batches(tmp_path, 4)
        time.sleep(1.5)
        stuck = log_of(tmp_path).batches
        time.sleep(1.0)
        assert log_of(tmp_path).batches == stuck
        assert not fault.exists()
        assert "is lost in the feeder thread" in (tmp_path / "err").read_text()
        assert process.poll() is None


def test_a_slow_batch_comes_late_and_work_goes_on(tmp_path: Path) -> None:
    fault = tmp_path / "fault"
    fault.touch()
    with worker(tmp_path, "batches", "--every", "0.05", "--slow-when", str(fault), "--slow-for", "2"):
        wait_for_batches(tmp_path, 3)
        assert log_of(tmp_path).slowest > 0.4
        assert (tmp_path / "err").read_text() == ""


def test_an_idle_worker_says_so_again_and_again(tmp_path: Path) -> None:
    with worker(tmp_path, "idle", "--every", "0.1"):
        until = time.monotonic() + 20
        while (tmp_path / "out").read_text().count("No jobs found, sleeping for 0.1 seconds") < 3:
            assert time.monotonic() < until
            time.sleep(0.02)
    assert log_of(tmp_path) == WorkerLog((), 0.0, "No jobs found, sleeping for 0.1 seconds")
