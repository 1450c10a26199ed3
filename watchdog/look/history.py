"""The last hour of every program: what a bundle's observations.jsonl is made of. May hold values only; reads nothing.

A row is all that `decide` needs of an Observation, packed as 64 bit numbers, so it comes back exact. Of the tree only the
states of its processes are kept, since rules ask for no more; each process has a row of its own once a minute. Troubles and phase
are not kept.

Rows are written into a small block that is allocated once; a full block is compressed (neighbours are much alike: 20 bytes a row
of a busy program), and the oldest block goes when there is one more than an hour needs.
"""

from __future__ import annotations

import math
import struct
import threading
import zlib
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from watchdog.model.observation import ABSENT, GAUGES, Gauges, Identity, MatchKey, Observation, ProcessSample, Reading

HOUR: Final = 3600.0
MINUTE: Final = 60.0
_PER_BLOCK: Final = 30
_MOST_PROCESS_BLOCKS: Final = 64
"""1,920 rows: an hour of 32 processes, less of a larger tree."""

_LOOK: Final = "<d17q3d"
"""at; pid, starttime, log, progress, count, total, says, in_flight, idle line, after idle, states, then the gauges that are whole
numbers; fds_ratio, cpu, CPU seconds. One number for each pattern follows."""
_PROCESS: Final = "<d3q16sc6q2d"
"""at; pid, starttime, ppid; comm; state; rss, anon, shmem, fds, soft limit, threads; CPU seconds, cores."""

_NONE: Final = -(1 << 63)
_ABSENT: Final = _NONE + 1
_STATES: Final = "RSDTtZXxIPKW"
_SAYS: Final = (None, "working", "idle")
_MAYBE: Final = (None, False, True)
_WHOLE_GAUGES: Final = tuple(name for name in GAUGES if name not in ("fds_ratio", "cpu"))


class _Block(NamedTuple):
    layout: struct.Struct
    keys: tuple[MatchKey, ...]
    packed: bytes


class _Rows:
    """Rows of one layout, the newest few as they are, older ones in compressed blocks; the oldest go."""

    def __init__(self, layout: str, blocks: int, keys: tuple[MatchKey, ...] = ()) -> None:
        self.keys = keys
        self._layout = struct.Struct(layout)
        self._buffer = bytearray(self._layout.size * _PER_BLOCK)
        self._used = 0
        self._blocks: deque[_Block] = deque(maxlen=blocks)

    def append(self, *values: Any) -> None:
        self._layout.pack_into(self._buffer, self._used, *values)
        self._used += self._layout.size
        if self._used == len(self._buffer):
            self._blocks.append(self._newest())
            self._used = 0

    def _newest(self) -> _Block:
        return _Block(self._layout, self.keys, zlib.compress(_shuffled(self._buffer[: self._used], self._layout.size)))

    def blocks(self) -> list[_Block]:
        """All blocks, oldest first; a copy that later rows do not change."""
        return [*self._blocks, self._newest()]

    def take_over(self, older: _Rows) -> None:
        """Begin with the rows of `older`, whose patterns were others."""
        self._blocks.extend(older.blocks())


def _shuffled(rows: bytearray, size: int) -> bytes:
    """The first byte of each row, then the second of each: what seldom changes comes together, and compresses to half as much."""
    return b"".join(rows[number::size] for number in range(size))


def _unshuffled(data: bytes, size: int) -> bytearray:
    rows = bytearray(len(data))
    count = len(data) // size
    for number in range(size):
        rows[number::size] = data[number * count : (number + 1) * count]
    return rows


def _unpack(blocks: Iterable[_Block]) -> Iterator[tuple[tuple[MatchKey, ...], tuple[Any, ...]]]:
    for block in blocks:
        for values in block.layout.iter_unpack(_unshuffled(zlib.decompress(block.packed), block.layout.size)):
            yield block.keys, values


class History:
    """Rows of all programs. One thread appends, any may read."""

    def __init__(self, interval: float = 5.0) -> None:
        """`interval`: seconds between looks; more frequent ones make the hour shorter, not larger."""
        self._most = math.ceil(HOUR / max(interval, 0.5) / _PER_BLOCK)
        self._looks: dict[str, _Rows] = {}
        self._processes: dict[str, _Rows] = {}
        self._minute: dict[str, float] = {}
        self._newest: dict[str, float] = {}
        self._lock = threading.Lock()

    def append(self, at: float, seen: Observation) -> None:
        """Keep one Observation, made at `at` (CLOCK_MONOTONIC seconds)."""
        keys = tuple(seen.matches)
        with self._lock:
            rows = self._looks.get(seen.program)
            if rows is None or rows.keys != keys:
                rows = self._looks[seen.program] = self._begun(keys, rows)
            rows.append(*_packed(at, seen))
            self._newest[seen.program] = at
            if at - self._minute.get(seen.program, -MINUTE) >= MINUTE:
                self._minute[seen.program] = at
                self._append_processes(at, seen)

    def keep(self, programs: Collection[str]) -> None:
        """Forget all programs but these."""
        with self._lock:
            for kept in (self._looks, self._processes, self._minute, self._newest):
                for program in kept.keys() - set(programs):
                    del kept[program]

    def rows(self, program: str, since: float | None = None) -> Iterator[dict[str, Any]]:
        """A program's rows of the last hour, oldest first, ready for JSON. `since`: not those before it (monotonic seconds)."""
        return (_as_row(program, keys, values) for keys, values in self._recent(self._looks, program, since))

    def processes(self, program: str, since: float | None = None) -> Iterator[dict[str, Any]]:
        """A row for each process and minute, oldest first, ready for JSON."""
        return (_as_process(values) for _, values in self._recent(self._processes, program, since))

    def _begun(self, keys: tuple[MatchKey, ...], older: _Rows | None) -> _Rows:
        rows = _Rows(f"{_LOOK}{len(keys)}q", self._most, keys)
        if older is not None:
            rows.take_over(older)
        return rows

    def _append_processes(self, at: float, seen: Observation) -> None:
        if not seen.tree:
            return
        rows = self._processes.get(seen.program)
        if rows is None:
            rows = self._processes[seen.program] = _Rows(_PROCESS, _MOST_PROCESS_BLOCKS)
        for sample in seen.tree:
            rows.append(*_packed_process(at, sample))

    def _recent(
        self, kept: Mapping[str, _Rows], program: str, since: float | None
    ) -> Iterator[tuple[tuple[MatchKey, ...], tuple[Any, ...]]]:
        with self._lock:
            blocks = kept[program].blocks() if program in kept else []
            first = self._newest.get(program, 0.0) - HOUR
        first = first if since is None else max(first, since)
        return ((keys, values) for keys, values in _unpack(blocks) if values[0] >= first)


def _whole(value: Reading) -> int:
    return _NONE if value is None else _ABSENT if value is ABSENT else value


def _reading(packed: int) -> Reading:
    return None if packed == _NONE else ABSENT if packed == _ABSENT else packed


def _number(packed: int) -> int | None:
    return None if packed == _NONE else packed


def _real(value: float | None) -> float:
    return math.nan if value is None else value


def _real_or_none(packed: float) -> float | None:
    return None if math.isnan(packed) else packed


def _packed(at: float, seen: Observation) -> list[float]:
    gauges, ident = seen.gauges, seen.ident
    states = {sample.state for sample in seen.tree}
    whole = (
        *((None, None) if ident is None else ident),
        seen.log,
        seen.progress,
        seen.progress_count,
        seen.progress_total,
        _SAYS.index(seen.says),
        seen.in_flight,
        _MAYBE.index(seen.idle_line),
        _MAYBE.index(seen.progress_after_idle),
        sum([1 << _STATES.find(letter) for letter in states if letter in _STATES]),
        *(gauges.rss, gauges.anon, gauges.shmem, gauges.fds, gauges.threads, gauges.processes),
    )
    real = (gauges.fds_ratio, gauges.cpu, seen.cpu_seconds)
    return [
        at,
        *[_NONE if n is None else _ABSENT if n is ABSENT else n for n in whole],
        *[math.nan if n is None else n for n in real],
        *[_NONE if n is None else _ABSENT if n is ABSENT else n for n in seen.matches.values()],
    ]


def _packed_process(at: float, sample: ProcessSample) -> tuple[Any, ...]:
    return (
        at,
        sample.pid,
        sample.starttime,
        sample.ppid,
        sample.comm.encode()[:16],
        sample.state.encode()[:1],
        *map(_whole, (sample.rss, sample.anon, sample.shmem, sample.fds, sample.fd_limit, sample.threads)),
        sample.cpu_s,
        _real(sample.cores),
    )


def _as_row(program: str, keys: tuple[MatchKey, ...], values: tuple[Any, ...]) -> dict[str, Any]:
    at, pid, starttime, log, progress, count, total, says, in_flight, idle, after, states = values[:12]
    whole, rest = values[12:18], values[18:]
    gauges = dict(zip(_WHOLE_GAUGES, map(_number, whole), strict=True))
    return {
        "at": at,
        "program": program,
        "ident": None if pid == _NONE else [pid, starttime],
        "log": _spelled(log),
        "progress": _spelled(progress),
        "progress_count": _number(count),
        "progress_total": _number(total),
        "says": _SAYS[says],
        "in_flight": _number(in_flight),
        "idle_line": _MAYBE[idle],
        "progress_after_idle": _MAYBE[after],
        "matches": [[key.log, key.pattern, _spelled(n)] for key, n in zip(keys, rest[3:], strict=True)],
        "gauges": {**gauges, "fds_ratio": _real_or_none(rest[0]), "cpu": _real_or_none(rest[1])},
        "cpu_seconds": _real_or_none(rest[2]),
        "states": "".join(letter for number, letter in enumerate(_STATES) if states >> number & 1),
    }


def _as_process(values: tuple[Any, ...]) -> dict[str, Any]:
    names = ("rss", "anon", "shmem", "fds", "fd_limit", "threads")
    return {
        "at": values[0],
        "pid": values[1],
        "starttime": values[2],
        "ppid": values[3],
        "comm": values[4].rstrip(b"\0").decode("utf-8", "replace"),
        "state": values[5].decode("ascii", "replace"),
        **dict(zip(names, map(_number, values[6:12]), strict=True)),
        "cpu_s": values[12],
        "cores": _real_or_none(values[13]),
    }


def _spelled(packed: int) -> int | str | None:
    value = _reading(packed)
    return "absent" if value is ABSENT else value


def _read(spelled: int | str | None) -> Reading:
    return ABSENT if isinstance(spelled, str) else spelled


def to_observation(row: Mapping[str, Any]) -> Observation:
    """The Observation that a row of `rows` (or its JSON) was made of, as far as it was kept.

    Its tree has one sample for each state that a process was in, all with the main process's identity.
    """
    ident = None if row["ident"] is None else Identity(*row["ident"])
    return Observation(
        row["program"],
        ident,
        _read(row["log"]),
        _read(row["progress"]),
        row["progress_count"],
        row["progress_total"],
        row["says"],
        row["in_flight"],
        row["idle_line"],
        row["progress_after_idle"],
        {MatchKey(log, pattern): _read(value) for log, pattern, value in row["matches"]},
        Gauges(**row["gauges"]),
        row["cpu_seconds"],
        () if ident is None else tuple(_in_state(ident, state) for state in row["states"]),
    )


def _in_state(ident: Identity, state: str) -> ProcessSample:
    return ProcessSample(ident.pid, ident.starttime, 0, "", state, 0.0, *(None,) * 8)
