"""Durable state, written before acting: one JSON object a line, appended and fsynced. Decides nothing.

A torn last line, or one that cannot be read, is passed over and counted; every other line still holds. A later record of the same
incident, transaction or program replaces an earlier one, so that reading is a fold, and writing a record twice does no harm.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from cattrs import Converter
from cattrs.errors import BaseValidationError

from watchdog.durable import sync_directory, write_all
from watchdog.model.observation import Identity
from watchdog.model.record import CooldownRecord, GivenUpRecord, IncidentRecord, PauseRecord, Record, RestartRecord
from watchdog.model.vitals import Counts, Tally
from watchdog.model.world import Transaction

FILE = "journal.jsonl"

KEEP_INCIDENTS = 500
KEEP_RESTARTS = 7 * 86400.0
"""Seconds; no budget counts further back (judge/budget.py)."""

COMPACT_AT = 4 * 2**20
"""Bytes. An incident takes about 3 lines of 400 bytes, so this is some 3,000 of them."""

_TYPES: dict[str, type[Any]] = {
    "incident": IncidentRecord,
    "restart": RestartRecord,
    "pause": PauseRecord,
    "given_up": GivenUpRecord,
    "cooldown": CooldownRecord,
    "transaction": Transaction,
}
_NAMES = {cls: name for name, cls in _TYPES.items()}

_convert = Converter()
# cattrs cannot resolve the string annotations of a NamedTuple.
_convert.register_structure_hook(Identity, lambda pair, _: Identity(*map(int, pair)))


@dataclass(slots=True)
class JournalState:
    """What the journal says, folded."""

    incidents: dict[str, IncidentRecord] = field(default_factory=dict)
    """By id, oldest first."""
    transactions: dict[str, Transaction] = field(default_factory=dict)
    """Begun restarts that are not closed, by program."""
    restarts: dict[str, RestartRecord] = field(default_factory=dict)
    """By incident."""
    pauses: dict[str, PauseRecord] = field(default_factory=dict)
    given_up: dict[str, GivenUpRecord] = field(default_factory=dict)
    cooldowns: dict[str, CooldownRecord] = field(default_factory=dict)
    dropped: dict[Tally, Counts] = field(default_factory=dict)
    """Totals of incidents that were compacted away."""
    unread: int = 0
    """Lines that could not be read."""

    @property
    def totals(self) -> Mapping[Tally, Counts]:
        """Closed incidents by program, rule and outcome, since the journal began."""
        return _count(self.incidents.values(), self.dropped)


def _count(incidents: Iterable[IncidentRecord], start: Mapping[Tally, Counts]) -> dict[Tally, Counts]:
    totals = dict(start)
    for record in incidents:
        if record.outcome is not None:
            tally = Tally(record.program, record.rule, record.outcome)
            had = totals.get(tally, Counts(0, 0))
            totals[tally] = Counts(had.incidents + 1, had.restarts + (record.action == "restart"))
    return totals


def fold(state: JournalState, record: Record) -> None:
    """Take one record into the state."""
    if isinstance(record, IncidentRecord):
        state.incidents[record.id] = record
    elif isinstance(record, Transaction):
        _fold_transaction(state, record)
    elif isinstance(record, RestartRecord):
        if record.void:
            state.restarts.pop(record.incident, None)
        else:
            state.restarts[record.incident] = record
    elif isinstance(record, CooldownRecord):
        state.cooldowns[record.program] = record
    elif isinstance(record, PauseRecord):
        _keep(state.pauses, record)
    else:
        _keep(state.given_up, record)


_Ends = TypeVar("_Ends", PauseRecord, GivenUpRecord)


def _keep(kept: dict[str, _Ends], record: _Ends) -> None:
    """A record without an end takes back the one before it."""
    if record.until_wall is not None:
        kept[record.program] = record
    else:
        kept.pop(record.program, None)


def _fold_transaction(state: JournalState, record: Transaction) -> None:
    if record.step != "closed":
        state.transactions[record.program] = record
    elif record.program in state.transactions and state.transactions[record.program].incident == record.incident:
        del state.transactions[record.program]


def read(directory: Path) -> JournalState:
    """The journal's state; an empty one where there is no journal yet. Changes nothing.

    Raises OSError when there is one and it cannot be read.
    """
    state = JournalState()
    try:
        with (directory / FILE).open("rb") as file:
            for line in file:
                _fold_line(state, line)
    except FileNotFoundError:
        pass
    return state


def _fold_line(state: JournalState, line: bytes) -> None:
    if not line.strip():
        return
    try:
        data = json.loads(line, parse_float=_finite, parse_constant=_finite)
        if data["type"] == "dropped":
            state.dropped = {Tally(*t): Counts(*c) for t, c in data["totals"]}
        else:
            fold(state, from_json(data))
    except (ValueError, KeyError, TypeError, RecursionError):
        state.unread += 1


def _finite(text: str) -> float:
    """A number that one can reckon with; NaN, which no clock passes, and infinities are none, and were not written by us."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no number of a record")
    return value


def to_json(record: Record) -> dict[str, Any]:
    """The record as it stands in the journal."""
    data: dict[str, Any] = _convert.unstructure(record)
    return {"type": _NAMES[type(record)], **data}


def from_json(data: Mapping[str, Any]) -> Record:
    """The record that `data` is. Raises ValueError when it is none."""
    cls = _TYPES.get(data["type"])
    if cls is None:
        raise ValueError(f"no record is called {data['type']!r}")
    try:
        record: Record = _convert.structure(data, cls)
    except BaseValidationError as error:
        raise ValueError(f"not a {data['type']}: {error.exceptions}") from error
    return record


class Journal:
    """The journal of one state directory, for its one writer."""

    def __init__(self, directory: Path) -> None:
        """Read it, and make the directory (0750) where there is none. Raises OSError."""
        directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        self.path = directory / FILE
        self.state = read(directory)
        self.totals = self.state.totals
        """Replaced whole at each append, so that another thread may read it."""
        self._torn = self._ends_torn()

    def _ends_torn(self) -> bool:
        try:
            with self.path.open("rb") as file:
                if file.seek(0, os.SEEK_END) == 0:
                    return False
                file.seek(-1, os.SEEK_END)
                return file.read(1) != b"\n"
        except FileNotFoundError:
            return False

    def append(self, records: Iterable[Record]) -> None:
        """Write the records in this order and fsync. Raises OSError; then none of them counts as written."""
        records = tuple(records)
        lines = "".join(json.dumps(to_json(r), separators=(",", ":")) + "\n" for r in records)
        data = (("\n" if self._torn else "") + lines).encode()
        new = not self.path.exists()
        self._torn = True  # until the write is known to be whole
        self._write(data)
        if new:
            sync_directory(self.path.parent)
        self._torn = False
        for record in records:
            fold(self.state, record)
        self.totals = self.state.totals
        self._compact_if_large()

    def _compact_if_large(self) -> None:
        """The records are on disk by now: a compaction that fails takes nothing back, and the next append tries it again."""
        try:
            if self.path.stat().st_size > COMPACT_AT:
                self.compact()
        except OSError:
            return

    def _write(self, data: bytes) -> None:
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)

    def compact(self) -> None:
        """Write what still counts into a new file, and put it in the old one's place. Raises OSError; then the old one stays."""
        state = _compacted(self.state)
        temporary = self.path.with_suffix(".new")
        with temporary.open("wb") as file:
            file.write(_dropped_line(state))
            for record in _records(state):
                file.write(json.dumps(to_json(record), separators=(",", ":")).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o640)
        temporary.replace(self.path)
        sync_directory(self.path.parent)
        self.state = state


def _compacted(state: JournalState) -> JournalState:
    open_ids = {t.incident for t in state.transactions.values()}
    newest = set(list(state.incidents)[-KEEP_INCIDENTS:]) | open_ids
    kept = {i: r for i, r in state.incidents.items() if i in newest}
    gone = [r for i, r in state.incidents.items() if i not in newest]
    last = max((r.wall for r in state.restarts.values()), default=0.0)
    restarts = {i: r for i, r in state.restarts.items() if r.wall > last - KEEP_RESTARTS}
    return JournalState(
        incidents=kept,
        transactions=dict(state.transactions),
        restarts=restarts,
        pauses=dict(state.pauses),
        given_up=dict(state.given_up),
        cooldowns=dict(state.cooldowns),
        dropped=_count(gone, state.dropped),
        unread=state.unread,
    )


def _dropped_line(state: JournalState) -> bytes:
    totals = [[list(t), list(c)] for t, c in state.dropped.items()]
    return json.dumps({"type": "dropped", "totals": totals}, separators=(",", ":")).encode() + b"\n"


def _records(state: JournalState) -> Iterator[Record]:
    yield from state.incidents.values()
    yield from state.restarts.values()
    yield from state.pauses.values()
    yield from state.given_up.values()
    yield from state.cooldowns.values()
    yield from state.transactions.values()
