"""The performer: the order and the loss of journal records, and what happens when nothing can be begun."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from watchdog.daemon.perform import Means, Performer
from watchdog.journal import Journal, read
from watchdog.model.action import (
    Action,
    CollectEvidence,
    DumpStacks,
    KillProgram,
    Persist,
    ReapTree,
    StartProgram,
    StopProgram,
)
from watchdog.model.event import BundleSealed, Event, KillSent, Persisted, Reaped, StacksDumped, StartSent, StopSent
from watchdog.model.evidence import Diagnosis, Evidence
from watchdog.model.observation import Identity
from watchdog.model.record import IncidentRecord, PauseRecord, Record
from watchdog.model.rule import Level
from watchdog.model.signature import Advice
from watchdog.model.world import Case, Transaction

MAIN = Identity(101, 5001)
INTENT = Transaction(
    "i1", "ami:w0", "stall", "silent", MAIN, "boot-1", (MAIN,), "intent", 100.0, 77, 20.0, 15.0, 150.0, 330.0
)


class FullDisk(Journal):
    """A journal whose disk may be full."""

    full = False

    def append(self, records: Iterator[Record] | tuple[Record, ...]) -> None:  # type: ignore[override]
        if self.full:
            raise OSError(28, "No space left on device")
        super().append(records)


class Bench:
    def __init__(self, directory: Path) -> None:
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.directory = directory
        self.journal = FullDisk(directory)
        self.performer = Performer(Means(post=self.events.put, journal=self.journal))

    def persist(self, *records: Record, step: str | None = None) -> str | None:
        """Persist, and the error that was answered, if any was."""
        self.performer.perform(Persist("ami:w0", "i1", records, step))  # type: ignore[arg-type]
        assert self.performer.flush(10.0)
        if step is None:
            return None
        event = self.events.get(timeout=10.0)
        assert isinstance(event, Persisted)
        return event.error


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_an_intent_that_could_not_be_written_is_told_and_never_written_later(bench: Bench) -> None:
    bench.journal.full = True
    assert "No space left" in (bench.persist(INTENT, step="intent") or "")
    bench.journal.full = False
    assert bench.persist(PauseRecord("ami:w0", 9.0)) is None
    state = read(bench.directory)
    assert state.pauses
    assert not state.transactions


def test_what_is_true_already_is_written_once_the_disk_has_room_and_in_order(bench: Bench) -> None:
    assert bench.persist(INTENT, step="intent") is None
    bench.journal.full = True
    assert bench.persist(replace(INTENT, step="owed"), step="owed")
    assert bench.persist(replace(INTENT, step="closed")) is None
    assert read(bench.directory).transactions["ami:w0"].step == "intent"
    bench.journal.full = False
    bench.persist(IncidentRecord("i2", "ami:w0", 1.0, "stall", "g"))
    state = read(bench.directory)
    assert not state.transactions
    assert set(state.incidents) == {"i2"}


def test_a_later_intent_does_not_go_before_what_was_not_written(bench: Bench) -> None:
    assert bench.persist(INTENT, step="intent") is None
    bench.journal.full = True
    bench.persist(replace(INTENT, step="closed"))
    bench.journal.full = False
    second = replace(INTENT, incident="i9")
    assert bench.persist(second, step="intent") is None
    assert read(bench.directory).transactions == {"ami:w0": second}


def case() -> Case:
    diagnosis = Diagnosis("unknown", None, None, "nothing known", Advice())
    evidence = Evidence("ami:w0", ())
    return Case("i1", "ami:w0", MAIN, "stall", "g", 1.0, Level.REPORT, Level.REPORT, evidence, diagnosis, (), (), ())


@pytest.mark.parametrize(
    ("action", "answer"),
    [
        (DumpStacks("ami:w0", "i1", MAIN, 2, 1.0, 1.0), StacksDumped),
        (CollectEvidence("ami:w0", "i1", case(), 1.0), BundleSealed),
        (StopProgram("ami:w0", "i1", MAIN, 77), StopSent),
        (KillProgram("ami:w0", "i1", MAIN), KillSent),
        (ReapTree("ami:w0", "i1", (MAIN,), "boot-1", "end"), Reaped),
        (StartProgram("ami:w0", "i1"), StartSent),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, type) else "",
)
def test_an_action_for_which_no_thread_is_to_be_had_is_answered(
    action: Action, answer: type[Event], bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    bench.performer.perform(action)
    event = bench.events.get(timeout=10.0)
    assert isinstance(event, answer)
    if isinstance(event, StopSent):
        assert event.result == "unreachable"
    if isinstance(event, Reaped):
        assert event.left == (MAIN,)
    if isinstance(event, BundleSealed):
        assert not event.sealed.exists


def test_without_a_supervisord_a_stop_is_not_sent(bench: Bench) -> None:
    bench.performer.perform(StopProgram("ami:w0", "i1", MAIN, 77))
    event = bench.events.get(timeout=10.0)
    assert isinstance(event, StopSent)
    assert event.result == "unreachable"
