"""Real processes to look into, ended by their pid, and a case about them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from watchdog import procfs
from watchdog.collect import pyspy
from watchdog.model.evidence import Diagnosis, Evidence
from watchdog.model.rule import Level
from watchdog.model.signature import Advice
from watchdog.model.world import Case, Finding, Status

PERMIT = """
import ctypes, sys
ctypes.CDLL(None).prctl(0x59616d61, ctypes.c_ulong(-1), 0, 0, 0)  # PR_SET_PTRACER_ANY, for hosts with Yama
def ready():
    print("ready", flush=True)
"""

Spawn = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Start a Python program (its text) in a session of its own; wait until it has called ready() and sleeps."""
    started: list[subprocess.Popen[bytes]] = []

    def start(text: str, *args: str, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            [sys.executable, "-c", PERMIT + textwrap.dedent(text), *args],
            stdout=subprocess.PIPE,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
        started.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        wait_for(lambda: _sleeps(child.pid))
        return child

    yield start
    for child in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    for child in reversed(started):  # one that another traces can be waited for once that one is gone
        child.wait(10)
        assert child.stdout is not None
        child.stdout.close()


@pytest.fixture
def fake_pyspy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Put a shell script in py-spy's place. In it, $PID is the target and $PYSPY the real one."""
    real = pyspy.find_pyspy()

    def put(script: str) -> Path:
        path = tmp_path / "py-spy"
        # The pid is the last word of every command line that we use.
        head = f"#!/bin/sh\nPYSPY={real}\nfor PID; do :; done\n"
        path.write_text(head + textwrap.dedent(script))
        path.chmod(0o755)
        monkeypatch.setattr(pyspy, "find_pyspy", lambda: path)
        return path

    return put


def wait_for(what: Callable[[], bool], within: float = 10.0) -> None:
    """Fails when `what` has not come true in time."""
    deadline = time.monotonic() + within
    while not what():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.01)


def _sleeps(pid: int) -> bool:
    """Is the main thread in time.sleep, as far as one may see?"""
    states = procfs.thread_states(pid)
    return bool(states) and states[0].state == "S" and "nanosleep" in (states[0].wchan or "nanosleep")


def stop(pid: int) -> None:
    """SIGSTOP, and wait until it is stopped."""
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: procfs.state_of(pid) == "T")


def case_of(pid: int, *, evidence: Evidence | None = None, incident: str = "20261130T030557Z-ami-prod_00-4711") -> Case:
    """An incident about this process's tree; the texts all differ."""
    tree = procfs.walk(pid)
    return Case(
        incident=incident,
        program="ami_worker:prod_00",
        ident=tree[0].identity,
        rule="stall",
        group="everything is silent",
        opened_wall=1_796_000_757.25,
        level=Level.REPORT,
        would=Level.RESTART,
        evidence=evidence or Evidence("ami_worker:prod_00", ()),
        diagnosis=Diagnosis(
            "wedged", "dataloader-lost-batch", "inside", "One batch was lost.", Advice("restart", "timeout=")
        ),
        findings=(
            Finding(
                "stall", "everything is silent", "unchanged log for 270 s", Status.HOLDS, 300.5, 270.0, 1.11, "silent"
            ),
        ),
        trace=("03:05:57 stall fires", "03:06:02 wedged"),
        tree=tree,
    )
