"""The private supervisord that other tests stand on: it leaves nothing behind, however a test ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.supervisord import StartSupervisord, Supervisord

ORPHANS = "sh -c 'setsid env -i sleep 600 & setsid sh -c \"trap : TERM; sleep 600; sleep 600\" & exec sleep 600'"

VICTIM = """
import time
from tests.supervisord import Supervisord
host = Supervisord({"orphans": {"command": %r}})
while len(host.descendants()) < 4:
    pass
print(host.directory, host.pid, *host.descendants(), flush=True)
time.sleep(600)
"""


def wait_until_gone(pids: list[int]) -> None:
    until = time.monotonic() + 15
    while living := [pid for pid in pids if psutil.pid_exists(pid)]:
        assert time.monotonic() < until, living
        time.sleep(0.02)


def wait_for_descendants(host: Supervisord, count: int) -> list[int]:
    until = time.monotonic() + 10
    while len(found := host.descendants()) < count:
        assert time.monotonic() < until, found
        time.sleep(0.02)
    return found


@pytest.mark.parametrize("frozen", [False, True])
def test_it_ends_what_hides(frozen: bool) -> None:
    host = Supervisord({"orphans": {"command": ORPHANS}}, stop_within=0.5)
    try:
        pids = [host.pid, *wait_for_descendants(host, 4)]
        if frozen:
            host.freeze()
    finally:
        host.close()
    assert [pid for pid in pids if psutil.pid_exists(pid)] == []
    assert not host.directory.exists()
    host.close()  # once more does no harm


def test_orphans_stay_among_its_descendants(supervisord: StartSupervisord) -> None:
    host = supervisord({"orphans": {"command": ORPHANS, "autorestart": "false"}}, stop_within=0)
    wait_for_descendants(host, 4)
    pid = host.info("orphans:orphans").pid
    os.kill(pid, signal.SIGKILL)
    wait_until_gone([pid])
    assert len(wait_for_descendants(host, 3)) == 3


def test_nothing_survives_a_test_run_that_was_killed() -> None:
    command = [sys.executable, "-c", VICTIM % ORPHANS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as run:
        assert run.stdout is not None
        directory, *pids = run.stdout.readline().split()
        run.kill()
    assert len(pids) >= 5
    wait_until_gone([int(pid) for pid in pids])
    until = time.monotonic() + 5
    while Path(directory).exists():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_start_that_fails_says_why_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"'soon' in section 'program:bad'"):
        Supervisord({"bad": {"command": "true", "startsecs": "soon"}})
    assert list(tmp_path.iterdir()) == []


def test_two_of_them_do_not_meet(supervisord: StartSupervisord) -> None:
    one, two = (supervisord({"worker": {"command": "sleep 600"}}, http=True, stop_within=0) for _ in range(2))
    assert one.http_url != two.http_url
    assert one.info("worker:worker").pid != two.info("worker:worker").pid
