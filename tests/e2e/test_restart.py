"""The whole path, on batches that are really lost in a QueueFeederThread: seen, confirmed, sealed, restarted, at work again.

One run for all tests: under one supervisord, one worker each of fork and forkserver loses a batch in the same second as one that is
watched in mode report, beside a healthy sibling.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests.daemons import Daemon, daemon
from tests.e2e.seen import assert_sealed_before_the_stop, bundle_texts, count, family, living, log_of, step_at, tidy
from tests.supervisord import Supervisord
from watchdog.demo import worker
from watchdog.model.record import IncidentRecord

FORK, SIBLING, SERVER, REPORTED = "ami:twin_00", "ami:twin_01", "ami:server", "ami:reported"
RESTARTED = (FORK, SERVER)

REPORT = """\
programs:
  - match: 'ami:reported'
    mode: report
    rules: [stall]
    progress: {log: '\\] Batch (?P<count>\\d+): [\\d.]+s/image'}
    idle: {line: 'No jobs found, sleeping', for: 30m}
"""


def programs(folder: Path) -> dict[str, dict[str, object]]:
    """Without stopasgroup: what supervisord leaves of a tree, the watchdog has to end."""
    python = f"{sys.executable} {worker.__file__} batches"
    return {
        "twin": {"command": f"{python} --lose-when {folder}/%(process_num)d.fault", "numprocs": 2},
        "server": {"command": f"{python} --context forkserver --lose-when {folder}/server.fault"},
        "reported": {"command": f"{python} --lose-when {folder}/reported.fault"},
    }


@dataclass
class Run:
    """What was before, and what is after."""

    host: Supervisord
    watched: Daemon
    before: dict[str, list[psutil.Process]]
    incidents: dict[str, list[IncidentRecord]] = field(default_factory=dict)

    def incident(self, program: str) -> IncidentRecord:
        (incident,) = self.incidents[program]
        return incident


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("faults")
    groups = "[group:ami]\nprograms=twin,server,reported"
    with Supervisord(programs(folder), groups) as host, tidy(host), daemon(host) as watched:
        watched.config.write_text(watched.config.read_text().replace("programs:\n", REPORT))
        watched.start()
        names = (FORK, SIBLING, SERVER, REPORTED)
        watched.wait(lambda: min(count(watched, name) for name in names) >= 3, "all of them do batches")
        seen = Run(host, watched, {name: family(host.info(name).pid) for name in names})
        for fault in ("0", "server", "reported"):
            (folder / f"{fault}.fault").touch()
        watched.wait(lambda: all(watched.outcomes(name) == ["recovered"] for name in RESTARTED), "both work again")
        watched.wait(lambda: watched.outcomes(REPORTED) == ["reported"], "the third is reported")
        watched.wait(lambda: all(log_of(host, n).new >= 5 for n in ("twin_00", "server")), "they do batch after batch")
        assert watched.end() == 0
        seen.incidents = {name: [i for i in watched.incidents() if i.program == name] for name in names}
        yield seen


@pytest.mark.parametrize("program", RESTARTED)
def test_a_lost_batch_is_one_incident_and_one_restart(run: Run, program: str) -> None:
    incident = run.incident(program)
    assert (incident.rule, incident.group, incident.action) == ("stall", "everything is silent", "restart")
    assert (incident.verdict, incident.kind) == ("wedged", "queue-lost-item")
    assert_sealed_before_the_stop(incident)
    assert len(log_of(run.host, program.partition(":")[2]).lives) == 2


@pytest.mark.parametrize("program", RESTARTED)
def test_nothing_is_left_of_the_old_tree(run: Run, program: str) -> None:
    assert living(run.before[program]) == []
    assert run.host.info(program).pid not in [process.pid for process in run.before[program]]


def test_they_are_restarted_one_after_the_other(run: Run) -> None:
    first, second = sorted((run.incident(program) for program in RESTARTED), key=lambda i: step_at(i, "stop"))
    assert step_at(first, "running") <= step_at(second, "stop")


def test_a_healthy_sibling_keeps_its_pid(run: Run) -> None:
    assert run.incidents[SIBLING] == []
    assert run.host.info(SIBLING).pid == run.before[SIBLING][0].pid
    assert len(log_of(run.host, "twin_01").lives) == 1


def test_in_report_mode_the_evidence_is_sealed_and_nothing_is_stopped(run: Run) -> None:
    incident = run.incident(REPORTED)
    assert (incident.kind, incident.action, incident.detail) == (
        "queue-lost-item",
        "report",
        "would have done: restart",
    )
    assert "diagnosis.json" in bundle_texts(incident.bundle)
    assert living(run.before[REPORTED]) == run.before[REPORTED]


@pytest.mark.parametrize("program", [*RESTARTED, REPORTED])
def test_the_bundle_shows_both_ends_and_the_error(run: Run, program: str) -> None:
    texts = bundle_texts(run.incident(program).bundle)
    main, *others = json.loads(texts["evidence.json"])["dumps"][-1]["processes"]
    assert main["pid"] == run.before[program][0].pid
    assert "next_batch" in str(main["threads"])
    assert any("load_for_ever" in str(other["threads"]) for other in others)
    logs = [text for name, text in texts.items() if name.startswith("logs/")]
    assert any("is lost in the feeder thread" in text for text in logs)
