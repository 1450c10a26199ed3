"""Three minutes of 20 mixed workers in mode restart: those that work, idle or are slow are never stopped."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons import Daemon, daemon
from tests.e2e.seen import assert_sealed_before_the_stop, count, log_of, tidy
from tests.supervisord import StartSupervisord, Supervisord, supervisord_fixture
from watchdog.demo import worker

__all__ = ["supervisord_fixture"]

SECONDS = 180.0

KINDS = {"healthy": 7, "idle": 4, "slow": 4, "wedged": 5}
"""How many of each."""

LOSES_AT = {"wedged_00": 5, "wedged_01": 40, "wedged_02": 40, "wedged_03": 90, "wedged_04": 120}
"""Seconds after which each loses a batch; two of them in the same second."""

SLOW_EVERY = 45
"""Seconds from one slow batch to the next; it takes 14 s, and silence is suspected after 6."""


def programs(folder: Path) -> dict[str, dict[str, object]]:
    python = f"{sys.executable} {worker.__file__}"
    fault = f"{folder}/%(program_name)s_%(process_num)02d.fault"
    commands = {
        "healthy": f"{python} batches --context forkserver",
        "idle": f"{python} idle --every 5",
        "slow": f"{python} batches --slow-when {fault}",
        "wedged": f"{python} batches --lose-when {fault}",
    }
    return {name: {"command": commands[name], "numprocs": number} for name, number in KINDS.items()}


def processes(kind: str) -> list[str]:
    return [f"{kind}_{number:02}" for number in range(KINDS[kind])]


@pytest.fixture
def host(supervisord: StartSupervisord, tmp_path: Path) -> Iterator[Supervisord]:
    with tidy(supervisord(programs(tmp_path), f"[group:mixed]\nprograms={','.join(KINDS)}")) as started:
        yield started


@pytest.fixture
def watched(host: Supervisord) -> Iterator[Daemon]:
    with daemon(host) as made:
        yield made


@pytest.mark.slow
@pytest.mark.timeout(420)
def test_only_the_wedged_are_restarted(host: Supervisord, watched: Daemon, tmp_path: Path) -> None:
    working = [name for kind in ("healthy", "slow", "wedged") for name in processes(kind)]
    watched.start()
    watched.wait(lambda: min(count(watched, f"mixed:{name}") for name in working) >= 3, "all of them work")
    left_alone = [name for kind in ("healthy", "idle", "slow") for name in processes(kind)]
    pids = {name: host.info(f"mixed:{name}").pid for name in left_alone}
    make_trouble(tmp_path, time.monotonic())
    watched.wait(
        lambda: all(watched.outcomes(f"mixed:{n}") == ["recovered"] for n in LOSES_AT), "all wedged ones work again"
    )

    assert {name: host.info(f"mixed:{name}").pid for name in left_alone} == pids
    incidents = watched.incidents()
    restarted = [incident for incident in incidents if incident.action == "restart"]
    assert sorted(incident.program for incident in restarted) == [f"mixed:{name}" for name in LOSES_AT]
    for incident in restarted:
        assert (incident.verdict, incident.kind) == ("wedged", "queue-lost-item")
        assert_sealed_before_the_stop(incident)
    assert {name: len(log_of(host, name).lives) for name in LOSES_AT} == dict.fromkeys(LOSES_AT, 2)
    # On a loaded host a healthy worker may be suspected too, and is left alone; that a slow one was, shows that there was a risk.
    assert {i.program for i in incidents} & {f"mixed:{n}" for n in processes("slow")}, (
        "no slow worker was ever suspected"
    )
    assert watched.end() == 0


def make_trouble(folder: Path, began: float) -> None:
    """Three minutes of it, on time."""
    due = [(at, name) for name, at in LOSES_AT.items()]
    due += [(at, name) for name in processes("slow") for at in range(10, int(SECONDS) - 20, SLOW_EVERY)]
    for at, name in sorted(due):
        time.sleep(max(0.0, began + at - time.monotonic()))
        (folder / f"{name}.fault").touch()
    time.sleep(max(0.0, began + SECONDS - time.monotonic()))
