"""The whole path, on a batch that is really lost in a QueueFeederThread: seen, confirmed, sealed, restarted, at work again."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons import Daemon, daemon
from tests.e2e.seen import assert_sealed_before_the_stop, bundle_texts, count, family, living, log_of
from tests.supervisord import StartSupervisord, Supervisord, supervisord_fixture
from watchdog.demo import worker

__all__ = ["supervisord_fixture"]

WEDGED, SIBLING = "ami:worker_00", "ami:worker_01"


def workers(context: str, folder: Path) -> dict[str, dict[str, object]]:
    """Two processes of one program, without stopasgroup: what supervisord leaves of a tree, the watchdog has to end."""
    fault = f"{folder}/worker_%(process_num)02d.fault"
    command = f"{sys.executable} {worker.__file__} batches --context {context} --lose-when {fault}"
    return {"worker": {"command": command, "numprocs": 2, "startsecs": 1}}


@pytest.fixture
def context() -> str:
    return "fork"


@pytest.fixture
def host(context: str, supervisord: StartSupervisord, tmp_path: Path) -> Supervisord:
    return supervisord(workers(context, tmp_path), "[group:ami]\nprograms=worker")


@pytest.fixture
def watched(host: Supervisord) -> Iterator[Daemon]:
    with daemon(host) as made:
        yield made


@pytest.mark.parametrize("context", ["fork", "forkserver"])
def test_one_lost_batch_is_one_incident_and_one_restart(host: Supervisord, watched: Daemon, tmp_path: Path) -> None:
    watched.start()
    watched.wait(lambda: min(count(watched, p) for p in (WEDGED, SIBLING)) >= 3, "both do batches")
    old, sibling = family(host.info(WEDGED).pid), host.info(SIBLING).pid
    (tmp_path / "worker_00.fault").touch()
    watched.wait(lambda: watched.outcomes(WEDGED) == ["recovered"], "the wedged one works again")

    (incident,) = watched.incidents()
    assert (incident.program, incident.rule, incident.action) == (WEDGED, "stall", "restart")
    assert (incident.verdict, incident.kind) == ("wedged", "queue-lost-item")
    assert_sealed_before_the_stop(incident)
    assert living(old) == []
    assert host.info(WEDGED).pid not in [process.pid for process in old]
    assert host.info(SIBLING).pid == sibling
    assert [len(log_of(host, name).lives) for name in ("worker_00", "worker_01")] == [2, 1]
    watched.wait(lambda: log_of(host, "worker_00").new >= 5, "it does one batch after another")

    texts = bundle_texts(incident.bundle)
    stacks = {p["pid"]: str(p["threads"]) for p in json.loads(texts["evidence.json"])["dumps"][-1]["processes"]}
    assert "next_batch" in stacks[old[0].pid]
    assert [pid for pid, text in stacks.items() if "load_for_ever" in text and pid != old[0].pid]
    assert any("is lost in the feeder thread" in text for name, text in texts.items() if name.startswith("logs/"))
    assert watched.end() == 0


def test_report_mode_seals_the_evidence_and_stops_nothing(host: Supervisord, tmp_path: Path) -> None:
    with daemon(host, mode="report") as watched:
        watched.start()
        watched.wait(lambda: count(watched, WEDGED) >= 3, "it does batches")
        pid = host.info(WEDGED).pid
        (tmp_path / "worker_00.fault").touch()
        watched.wait(lambda: watched.outcomes(WEDGED) == ["reported"], "the stall is reported")
        (incident,) = watched.incidents()
        assert (incident.kind, incident.action, incident.detail) == (
            "queue-lost-item",
            "report",
            "would have done: restart",
        )
        assert "diagnosis.json" in bundle_texts(incident.bundle)
        assert host.info(WEDGED).pid == pid
