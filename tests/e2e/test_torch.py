"""The fault this project exists for, in torch itself: a batch is lost because another process removed its shared memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.daemons import Daemon, daemon
from tests.e2e.seen import (
    PROGRAMS,
    assert_sealed_before_the_stop,
    bundle_texts,
    count,
    family,
    living,
    log_of,
    step_at,
    tidy,
)
from tests.supervisord import StartSupervisord, Supervisord, supervisord_fixture
from watchdog.model.record import IncidentRecord

__all__ = ["supervisord_fixture"]

pytestmark = [pytest.mark.torch, pytest.mark.timeout(240)]

WORKERS = ("ami:prod_00", "ami:prod_01")
MARKER = "could not unlink the shared memory file"
SILENT, MARKED = "everything is silent", "a batch was lost, says stderr"

LOOKED_AT = 35.0
"""Seconds for which the look-alike is watched: its batches come every 14 s, and silence is suspected after 6."""


def prod(*options: str, **section: object) -> dict[str, dict[str, object]]:
    """Two processes of the torch worker, as it runs in the field: supervisord ends its main process only."""
    command = " ".join([sys.executable, str(PROGRAMS / "torch_worker.py"), *options])
    return {"prod": {"command": command, "numprocs": 2, "startsecs": 1, **section}}


@contextmanager
def watched(
    supervisord: StartSupervisord, programs: dict[str, dict[str, object]]
) -> Iterator[tuple[Supervisord, Daemon]]:
    with tidy(supervisord(programs, "[group:ami]\nprograms=prod")) as host, daemon(host) as made:
        made.start()
        yield host, made
        assert made.end() == 0


def thief(pid: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAMS / "torch_thief.py"), str(pid)], stdout=subprocess.PIPE, text=True
    )


def steal(*pids: int) -> None:
    """Take one name from each of these workers' loader children, from all at once."""
    thieves = [thief(pid) for pid in pids]
    stolen = [process.communicate()[0].strip() for process in thieves]
    assert all(name.startswith("torch_") for name in stolen), stolen


def wait_for_batches(made: Daemon) -> None:
    made.wait(lambda: min(count(made, program) for program in WORKERS) >= 3, "both do batches")


def assert_restarted(host: Supervisord, made: Daemon, program: str) -> IncidentRecord:
    (incident,) = [i for i in made.incidents() if i.program == program]
    assert (incident.action, incident.outcome) == ("restart", "recovered")
    assert (incident.verdict, incident.kind) == ("wedged", "dataloader-lost-batch")
    assert_sealed_before_the_stop(incident)
    process = program.partition(":")[2]
    assert len(log_of(host, process).lives) == 2
    made.wait(lambda: log_of(host, process).new >= 3, "it does one batch after another")
    return incident


def assert_both_ends(incident: IncidentRecord, marked: bool) -> None:
    """The bundle shows the parent that waits for the batch, the child that waits for a task, and the line on stderr."""
    texts = bundle_texts(incident.bundle)
    processes = json.loads(texts["evidence.json"])["dumps"][-1]["processes"]
    frames = [[frame["function"] for thread in p["threads"] for frame in thread["frames"]] for p in processes]
    assert any(name.endswith("_try_get_data") for name in frames[0])
    assert any(name.endswith("_worker_loop") for stack in frames[1:] for name in stack)
    logs = "".join(text for name, text in texts.items() if name.startswith("logs/"))
    assert (MARKER in logs) is marked


@pytest.mark.parametrize("context", ["fork", "forkserver"])
@pytest.mark.parametrize("group", [MARKED, SILENT])
def test_a_lost_batch_is_diagnosed_and_its_worker_restarted(
    supervisord: StartSupervisord, context: str, group: str
) -> None:
    """With the marker, progress follows it, since the child is four batches ahead; without, stderr is thrown away."""
    marked = group == MARKED
    programs = prod("--context", context, "--slow") if marked else prod("--context", context, stderr_logfile="NONE")
    wedged, sibling = WORKERS
    with watched(supervisord, programs) as (host, made):
        wait_for_batches(made)
        old, kept = family(host.info(wedged).pid), host.info(sibling).pid
        steal(old[0].pid)
        made.wait(lambda: made.outcomes(wedged) == ["recovered"], "the wedged one works again")
        incident = assert_restarted(host, made, wedged)
        assert incident.group == group
        assert_both_ends(incident, marked)
        assert living(old) == []
        assert host.info(sibling).pid == kept
        assert made.outcomes(sibling) == []


def test_two_that_wedge_in_the_same_second_are_restarted_one_after_the_other(supervisord: StartSupervisord) -> None:
    with watched(supervisord, prod()) as (host, made):
        wait_for_batches(made)
        steal(*(host.info(program).pid for program in WORKERS))
        made.wait(lambda: all(made.outcomes(program) == ["recovered"] for program in WORKERS), "both work again")
        first, second = sorted((assert_restarted(host, made, p) for p in WORKERS), key=lambda i: step_at(i, "stop"))
        assert abs(first.opened_at - second.opened_at) < 5
        assert step_at(first, "running") <= step_at(second, "stop")


@pytest.mark.parametrize("context", ["fork", "forkserver"])
def test_a_healthy_worker_that_looks_alike_is_never_restarted(supervisord: StartSupervisord, context: str) -> None:
    """Its dataset waits on a queue of its own: both ends sit in Queue.get, for longer than silence is suspected after."""
    with watched(supervisord, prod("--context", context, "--own-queue")) as (host, made):
        made.wait(lambda: min(count(made, program) for program in WORKERS) >= 1, "both did a batch")
        pids = [host.info(program).pid for program in WORKERS]
        until = time.monotonic() + LOOKED_AT
        made.wait(lambda: time.monotonic() > until, "time passes")
        assert {incident.program for incident in made.incidents()} == set(WORKERS), "both were suspected"
        assert {incident.action for incident in made.incidents()} <= {"none", "report"}
        assert "wedged" not in {incident.verdict for incident in made.incidents()}
        assert [host.info(program).pid for program in WORKERS] == pids
        assert min(count(made, program) for program in WORKERS) >= 2


def test_with_one_log_for_both_they_are_blind_and_the_wedged_one_is_reported(supervisord: StartSupervisord) -> None:
    shared = "%(here)s/both.log"
    with watched(supervisord, prod(stdout_logfile=shared, redirect_stderr="true", stderr_logfile="NONE")) as (
        host,
        made,
    ):
        wedged = WORKERS[0]
        made.wait(lambda: all("blind" in made.program(p).get("flags", []) for p in WORKERS), "both are flagged blind")
        log = host.directory / "both.log"
        made.wait(lambda: log.exists() and log.read_text().count("] Batch 5:") == 2, "both do batches")
        pids = [host.info(program).pid for program in WORKERS]
        steal(pids[0])
        made.wait(lambda: made.outcomes(wedged) == ["reported"], "the wedged one is reported")
        (incident,) = [i for i in made.incidents() if i.program == wedged]
        assert (incident.action, incident.kind) == ("report", "dataloader-lost-batch")
        assert_both_ends(incident, marked=True)
        assert [host.info(program).pid for program in WORKERS] == pids
        assert made.text().count("blind: none of its heartbeats can be seen") == 2
        assert "restart" not in {i.action for i in made.incidents()}
