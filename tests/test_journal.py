"""The journal: what was written is read again, and what was torn is passed over."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sized
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog import journal
from watchdog.journal import FILE, Journal, from_json, read, to_json
from watchdog.model.observation import Identity
from watchdog.model.record import (
    CooldownRecord,
    GivenUpRecord,
    IncidentRecord,
    PauseRecord,
    Record,
    RestartRecord,
)
from watchdog.model.vitals import Counts, Tally
from watchdog.model.world import Transaction

INCIDENT = IncidentRecord("i1", "ami:w0", 100.0, "stall", "everything is silent", seconds={"detected": 270.0})
TRANSACTION = Transaction(
    incident="i1",
    program="ami:w0",
    rule="stall",
    group="everything is silent",
    ident=Identity(101, 5001),
    boot_id="boot-1",
    tree=(Identity(101, 5001), Identity(102, 5002)),
    step="intent",
    opened_wall=100.0,
    started_at=77,
    stop_within=20.0,
    start_within=16.0,
    verify_within=150.0,
    cooldown=330.0,
    orphans="keep",
)
RECORDS: tuple[Record, ...] = (
    INCIDENT,
    TRANSACTION,
    RestartRecord("i1", "ami:w0", "stall", 100.0, 7.0, "boot-1"),
    PauseRecord("ami:w1", 900.0, "a disk is changed"),
    GivenUpRecord("ami:w2", 800.0),
    CooldownRecord("ami:w3", 700.0),
)


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: type(r).__name__)
def test_every_record_survives_the_disk(record: Record) -> None:
    assert from_json(json.loads(json.dumps(to_json(record)))) == record


def test_what_was_appended_is_read(tmp_path: Path) -> None:
    Journal(tmp_path).append(RECORDS)
    state = read(tmp_path)
    assert state.incidents == {"i1": INCIDENT}
    assert state.transactions == {"ami:w0": TRANSACTION}
    assert set(state.restarts) == {"i1"}
    assert state.pauses["ami:w1"].until_wall == 900.0
    assert state.given_up["ami:w2"].until_wall == 800.0
    assert state.cooldowns["ami:w3"].until_wall == 700.0
    assert state.unread == 0


def test_a_later_record_replaces_an_earlier_one_and_an_end_takes_it_back(tmp_path: Path) -> None:
    kept = Journal(tmp_path)
    kept.append(RECORDS)
    kept.append(
        [
            replace(INCIDENT, outcome="recovered"),
            replace(TRANSACTION, step="closed"),
            RestartRecord("i1", "ami:w0", "stall", 100.0, 7.0, "boot-1", void=True),
            PauseRecord("ami:w1", None),
            GivenUpRecord("ami:w2", None),
        ]
    )
    state = read(tmp_path)
    assert state.incidents["i1"].outcome == "recovered"
    assert not state.transactions
    assert not state.restarts
    assert not state.pauses
    assert not state.given_up


def test_closing_another_incident_leaves_a_begun_restart_open(tmp_path: Path) -> None:
    kept = Journal(tmp_path)
    kept.append([TRANSACTION, replace(TRANSACTION, incident="i0", step="closed")])
    assert read(tmp_path).transactions == {"ami:w0": TRANSACTION}


def test_a_torn_last_line_loses_itself_only_and_not_the_record_after_it(tmp_path: Path) -> None:
    kept = Journal(tmp_path)
    kept.append([INCIDENT, TRANSACTION])
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes()[:-40])
    assert read(tmp_path).unread == 1
    Journal(tmp_path).append([TRANSACTION])
    state = read(tmp_path)
    assert state.transactions == {"ami:w0": TRANSACTION}
    assert state.incidents == {"i1": INCIDENT}


@given(cut=st.integers(min_value=0, max_value=2000))
def test_any_cut_leaves_every_whole_line(cut: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("journal")
    Journal(directory).append(RECORDS)
    path = directory / FILE
    whole = path.read_bytes()
    path.write_bytes(whole[: min(cut, len(whole))])
    lines = path.read_bytes().count(b"\n")
    state = read(directory)
    kept: list[Sized] = [state.incidents, state.transactions, state.restarts]
    kept += [state.pauses, state.given_up, state.cooldowns]
    assert sum(map(len, kept)) in (lines, lines + 1)  # a last line may be whole but for its end
    assert state.unread <= 1


@given(data=st.binary(max_size=300))
def test_garbage_is_counted_and_never_raises(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("journal")
    (directory / FILE).write_bytes(data + b"\n" + json.dumps(to_json(INCIDENT)).encode() + b"\n")
    assert read(directory).incidents == {"i1": INCIDENT}


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "null",
        "7",
        '"x"',
        "{}",
        '{"type": "nothing"}',
        '{"type": "incident"}',
        '{"type": ["incident"]}',
        '{"type": "transaction", "incident": 3}',
        '{"type": "restart", "incident": "x", "program": "p", "rule": "r", "wall": "soon", "mono": 1, "boot_id": ""}',
        '{"type": "dropped"}',
        '{"type": "dropped", "totals": [["a"]]}',
        "[" * 100_000,
        '{"type": "pause", "program": "p", "until_wall": NaN}',
        '{"type": "pause", "program": "p", "until_wall": 1e999}',
        '{"type": "cooldown", "program": "p", "until_wall": -Infinity}',
    ],
)
def test_a_line_that_is_no_record_is_passed_over(line: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(line + "\n" + json.dumps(to_json(INCIDENT)) + "\n")
    state = read(tmp_path)
    assert state.incidents == {"i1": INCIDENT}
    assert state.unread == 1


def test_totals_count_each_incident_once_however_often_it_is_written(tmp_path: Path) -> None:
    kept = Journal(tmp_path)
    done = replace(INCIDENT, outcome="recovered", action="restart")
    kept.append([INCIDENT, done, done, replace(INCIDENT, id="i2", outcome="vetoed")])
    assert kept.totals == {
        Tally("ami:w0", "stall", "recovered"): Counts(1, 1),
        Tally("ami:w0", "stall", "vetoed"): Counts(1, 0),
    }


def test_compaction_keeps_what_counts_and_the_totals_of_what_it_drops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "KEEP_INCIDENTS", 3)
    kept = Journal(tmp_path)
    many = [replace(INCIDENT, id=f"n{n}", outcome="vetoed", seconds={}) for n in range(20)]
    kept.append([*RECORDS, *many])
    before = kept.totals
    size = (tmp_path / FILE).stat().st_size
    kept.compact()
    assert (tmp_path / FILE).stat().st_size < size
    again = Journal(tmp_path)
    assert again.totals == before
    assert set(again.state.incidents) == {"i1", "n17", "n18", "n19"}
    assert again.state.transactions == {"ami:w0": TRANSACTION}
    assert again.state.pauses
    assert again.state.given_up
    assert again.state.restarts


def test_it_compacts_itself_when_it_has_grown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "COMPACT_AT", 20_000)
    monkeypatch.setattr(journal, "KEEP_INCIDENTS", 5)
    kept = Journal(tmp_path)
    for number in range(300):
        kept.append([replace(INCIDENT, id=f"n{number}", outcome="vetoed")])
    assert (tmp_path / FILE).stat().st_size < 25_000
    assert sum(c.incidents for c in read(tmp_path).totals.values()) == 300


def test_a_failed_write_raises_and_counts_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Journal(tmp_path)
    kept.append([INCIDENT])

    def half(fd: int, data: memoryview) -> int:
        if len(data) < 50:
            raise OSError(28, "No space left on device")
        return real(fd, data[: len(data) // 2])

    real = os.write
    monkeypatch.setattr(os, "write", half)
    with pytest.raises(OSError, match="No space left"):
        kept.append([TRANSACTION])
    assert not kept.state.transactions
    monkeypatch.undo()
    kept.append([replace(INCIDENT, id="i2")])
    assert set(read(tmp_path).incidents) == {"i1", "i2"}


def test_only_its_owner_and_group_can_read_it(tmp_path: Path) -> None:
    kept = Journal(tmp_path / "state")
    kept.append([INCIDENT])
    kept.compact()
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) & 0o027 == 0
    assert stat.S_IMODE((tmp_path / "state" / FILE).stat().st_mode) & 0o137 == 0
