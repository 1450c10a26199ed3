"""What a bundle is given of the daemon's knowledge, and what a pid is asked for right before a stop."""

from __future__ import annotations

import errno
import os
import queue
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

from tests.fake_rpc import Behaviour, FakeRpc, answer
from watchdog.collect.bundle import Sources
from watchdog.daemon import perform
from watchdog.daemon.perform import Means, Performer
from watchdog.journal import Journal
from watchdog.look.history import History
from watchdog.model.action import CollectEvidence
from watchdog.model.event import Event
from watchdog.model.evidence import Diagnosis, Evidence
from watchdog.model.observation import Identity, Observation, ProcessSample
from watchdog.model.rule import Level
from watchdog.model.signature import Advice
from watchdog.model.world import Case
from watchdog.supervisor import Supervisor

MAIN = Identity(101, 5001)
MAIN_SAMPLE = ProcessSample(101, 5001, 9, "ami", "S", 1.5, 0.25, 900, 800, 70, 30, 11, 1024, 5)
CHILD_SAMPLE = ProcessSample(102, 5002, 101, "pt_data_worker", "D", 2.5, 0.0, 90, 80, 7, 3, 12, 1023, 1)


def sources(directory: Path, history: History | None = None, supervisor: Supervisor | None = None) -> Sources:
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    means = Means(post=events.put, journal=Journal(directory), history=history, supervisor=lambda: supervisor)
    diagnosis = Diagnosis("unknown", None, None, "nothing known", Advice())
    case = Case(
        *("i1", "ami:w0", MAIN, "stall", "g", 1.0, Level.REPORT, Level.REPORT, Evidence("ami:w0", ()), diagnosis),
        *((), (), ()),
    )
    return Performer(means)._sources(CollectEvidence("ami:w0", "i1", case, 1.0))


def rows(given: Iterable[Mapping[str, object]] | Callable[[], Iterable[Mapping[str, object]]]) -> list[object]:
    return [(row["at"], row.get("comm")) for row in (given() if callable(given) else given)]


def test_a_bundle_is_given_the_rows_of_the_program_and_of_each_of_its_processes(tmp_path: Path) -> None:
    history = History()
    history.append(7.0, Observation("ami:w0", MAIN, log=5, progress=6, tree=(MAIN_SAMPLE, CHILD_SAMPLE)))
    history.append(8.0, Observation("ami:w1", MAIN, log=5, progress=6, tree=(MAIN_SAMPLE,)))
    history.append(12.0, Observation("ami:w0", MAIN, log=5, progress=6, tree=(MAIN_SAMPLE, CHILD_SAMPLE)))
    given = sources(tmp_path, history)
    assert rows(given.history) == [(7.0, None), (12.0, None)]
    assert rows(given.process_history) == [(7.0, "ami"), (7.0, "pt_data_worker")]
    assert rows(sources(tmp_path / "other").process_history) == []


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [
        (answer(["4.3.9", "lab", 4711, {"statecode": 1, "statename": "RUNNING"}]), "4.3.9"),
        (answer(["4.3.9"]), "unknown: "),
    ],
)
def test_a_bundle_is_given_the_version_of_supervisord(tmp_path: Path, behaviour: Behaviour, told: str) -> None:
    with FakeRpc(behaviour) as server:
        versions = sources(tmp_path, supervisor=Supervisor(server.url, timeout=5.0)).versions
        assert versions is not None
        assert server.asked == [], "asked where nothing bounds the time"
        assert versions()["supervisord"].startswith(told)


def test_without_a_supervisord_there_is_no_version_of_it(tmp_path: Path) -> None:
    versions = sources(tmp_path).versions
    assert versions is not None
    assert versions() == {"supervisord": "none was found"}


def test_a_start_that_cannot_be_told_is_not_one_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert perform._started_at(2**22 - 3) is None
    assert perform._started_at(os.getpid())

    def refuse(_: int) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(perform, "identity_of", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        perform._started_at(os.getpid())
