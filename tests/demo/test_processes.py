"""That nothing of a demo is left, however it ends: on real processes, under a real supervisord."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from watchdog.demo.processes import Processes
from watchdog.demo.stage import Program, Stage, build, command

ORPHAN = "setsid sleep 301 & sleep 0.1; exec sleep 302"
"""A program with a child in a session of its own: supervisord's stopasgroup does not reach it."""

HOLDER = """
import sys, time
from pathlib import Path
from watchdog.demo.processes import Processes
from watchdog.demo.stage import Stage
with Processes(Stage(Path(sys.argv[1]), Path(sys.argv[2]))) as processes:
    print(processes.begin_supervisord().pid, flush=True)
    time.sleep(300)
"""


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with tempfile.TemporaryDirectory(prefix="wd-", dir="/tmp") as near:
        place = Stage(tmp_path / "it's mine", Path(near) / "s.sock")
        place.folder.mkdir()
        signatures = tmp_path / "signatures"
        signatures.mkdir()
        build(place, [Program("orphan", command("sh", "-c", ORPHAN))], signatures)
        yield place


def wait_for(what: Callable[[], bool], within: float) -> bool:
    until = time.monotonic() + within
    while not what():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def named(processes: list[psutil.Process], last: str) -> list[psutil.Process]:
    found = []
    for process in processes:
        try:
            if process.cmdline()[-1:] == [last]:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return found


def test_every_process_is_ended_orphans_too(stage: Stage) -> None:
    bystander = subprocess.Popen(["sleep", "303"])
    try:
        with Processes(stage) as processes:
            processes.begin_supervisord()
            assert wait_for(lambda: bool(named(processes.left(), "301") and named(processes.left(), "302")), 15)
            begun = processes.left()
            assert bystander.pid not in [process.pid for process in begun]
        assert not [process for process in begun if process.is_running()]
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_supervisord_ends_when_the_demo_is_killed(stage: Stage) -> None:
    """SIGKILL leaves no time to clean up: the kernel tells supervisord, and that ends its programs."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(stage.folder), str(stage.socket)], stdout=subprocess.PIPE, text=True
    )
    family: list[psutil.Process] = []
    try:
        assert holder.stdout is not None
        supervisord = psutil.Process(int(holder.stdout.readline()))
        assert wait_for(lambda: bool(named(supervisord.children(recursive=True), "302")), 15)
        family = [supervisord, *supervisord.children(recursive=True)]
        holder.kill()
        assert wait_for(lambda: not supervisord.is_running(), 15)
    finally:
        holder.kill()
        holder.communicate()
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
