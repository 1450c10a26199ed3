"""What py-spy printed, to threads and frames; and whether a thread moved between two dumps.

Pure: reads texts and values that are already in memory; no file, no process, no clock, no logging. What it can't tell it
leaves None: a printed dump knows no parent, no thread state and no name of a process.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

from watchdog.judge.evidence import StacksError, evidence_from, evidence_to
from watchdog.judge.frames import beyond_waits, own_frames
from watchdog.model.evidence import Dump, Evidence, Frame, ProcessStacks, ThreadStack

__all__ = [
    "StacksError",
    "ThreadKey",
    "dumps_of",
    "evidence_from",
    "evidence_to",
    "moved",
    "moved_between",
    "parse",
    "read",
    "threads_from_json",
]

T = TypeVar("T")

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_PROCESS: Final = re.compile(r"Process (\d{1,18}): ")
_PARENT: Final = re.compile(r"Parent Process (\d{1,18}): ")
_THREAD_BEGINS: Final = re.compile(r"Thread (?:0x[0-9A-Fa-f]|\d)")
_THREAD: Final = re.compile(r"Thread (0x[0-9A-Fa-f]+|\d{1,18}) \((idle|active|active\+gil)\)(?:: (\".*))?", re.DOTALL)
# Four blanks, or a tab and a blank in dumps of py-spy before 0.2; the arguments and locals below a frame stand deeper.
_FRAME: Final = re.compile(r"(?: {4}|\t ?)(\S.*?) \((.*?)(?::(\d{1,18}))?\)")
_FRAME_INDENT: Final = re.compile(r"(?: {4}|\t ?)\S")

_LIBRARY: Final = re.compile(r".*/(?:site-packages|dist-packages|python\d+\.\d+)/")
"""What stands before the name by which a library's file is known, in every installation of it."""


def parse(text: str) -> tuple[ProcessStacks, ...]:
    """The processes of `py-spy dump`, as printed or `--json`, one after another; a pid comes twice when dumped twice.

    Raises StacksError with the line that cannot be read, or when no process is in it.
    """
    if text.lstrip().startswith("["):
        processes = tuple(_json_processes(text))
    else:
        processes = _Printed().read(_COLOUR.sub("", text).replace("\r\n", "\n").split("\n"))
    if not processes:
        raise StacksError("no process in it; expected the output of `py-spy dump`, with its line `Process PID: ...`")
    return processes


def read(text: str) -> Evidence:
    """Evidence from any form: an evidence.json, or dumps as `parse` reads them. Raises StacksError."""
    if text.lstrip().startswith("{"):
        return evidence_from(_decode(text, _start(text, 0))[0])
    return Evidence(program=None, dumps=dumps_of(parse(text)))


def dumps_of(processes: Iterable[ProcessStacks]) -> tuple[Dump, ...]:
    """Processes, in the order in which they were dumped, to dumps: a pid that comes again begins the next one.

    Printed dumps tell no time, so `at_s` only counts them.
    """
    rounds: list[dict[int, ProcessStacks]] = []
    for process in processes:
        if not rounds or process.pid in rounds[-1]:
            rounds.append({})
        rounds[-1][process.pid] = process
    return tuple(Dump(float(index), tuple(found.values())) for index, found in enumerate(rounds))


@dataclass(slots=True)
class _Section:
    """One process as its lines come in."""

    pid: int
    ppid: int | None = None
    threads: list[ThreadStack] = field(default_factory=list)


class _Printed:
    """Reads the lines of printed dumps. Between processes anything may stand: rulers, prompts, messages."""

    def __init__(self) -> None:
        self._sections: list[_Section] = []
        self._header: tuple[int | None, str | None, str] | None = None
        self._frames: list[Frame] = []

    def read(self, lines: list[str]) -> tuple[ProcessStacks, ...]:
        rest = iter(enumerate(lines, start=1))
        for number, line in rest:
            self._line(number, line, rest)
        self._end_thread()
        return tuple(ProcessStacks(s.pid, s.ppid, None, tuple(s.threads), python=True) for s in self._sections)

    def _line(self, number: int, line: str, rest: Iterator[tuple[int, str]]) -> None:
        if found := _PROCESS.match(line):
            self._end_thread()
            self._sections.append(_Section(int(found[1])))
        elif (found := _PARENT.match(line)) and self._sections:
            self._sections[-1].ppid = int(found[1])
        elif _THREAD_BEGINS.match(line):
            self._end_thread()
            self._begin_thread(number, line, rest)
        elif self._header and _FRAME_INDENT.match(line):
            self._frame(number, line)

    def _begin_thread(self, number: int, line: str, rest: Iterator[tuple[int, str]]) -> None:
        if not self._sections:
            raise StacksError("a thread before any line `Process PID: ...`: of which process is it?", number)
        # A thread's name is printed as it is, and may hold line ends: it goes on up to the closing quote.
        while '"' in line and not re.search(r'".*"$', line, re.DOTALL):
            _, more = next(rest, (0, None))
            if more is None or _FRAME_INDENT.match(more):
                raise StacksError("the thread's name has no end; the dump seems to be cut off", number)
            line += "\n" + more
        found = _THREAD.fullmatch(line)
        if found is None:
            raise StacksError('expected `Thread ID (idle): "NAME"`; the dump seems to be cut off', number)
        tid = None if found[1].startswith("0x") else int(found[1])
        self._header = (tid, found[3][1:-1] if found[3] else None, found[2])

    def _frame(self, number: int, line: str) -> None:
        found = _FRAME.fullmatch(line)
        if found is None:
            raise StacksError("expected `    FUNCTION (FILE:LINE)`; the dump seems to be cut off", number)
        self._frames.append(Frame(found[1], found[2], int(found[3]) if found[3] else None))

    def _end_thread(self) -> None:
        if self._header is None:
            return
        tid, name, status = self._header
        active, gil = status != "idle", status == "active+gil"
        self._sections[-1].threads.append(ThreadStack(tid, name, tuple(self._frames), active=active, gil=gil))
        self._header, self._frames = None, []


def _json_processes(text: str) -> Iterator[ProcessStacks]:
    """The lists of `py-spy dump --json`, one for each process that was dumped, one after another."""
    at = _start(text, 0)
    while at < len(text):
        obj, end = _decode(text, at)
        line = text.count("\n", 0, at) + 1
        yield from _listed_processes(obj, line)
        at = _start(text, end)


def _listed_processes(obj: object, line: int) -> Iterator[ProcessStacks]:
    by_pid: dict[int, list[ThreadStack]] = {}
    for item, thread in zip(_list(obj, line), threads_from_json(obj), strict=True):
        pid = _of(int, item.get("pid")) if isinstance(item, dict) else None
        if pid is None:
            raise StacksError("a thread without a pid: of which process is it?", line)
        by_pid.setdefault(pid, []).append(thread)
    for pid, threads in by_pid.items():
        yield ProcessStacks(pid, None, None, tuple(threads), python=True)


def _start(text: str, at: int) -> int:
    """Where the next thing that is no blank begins."""
    return len(text) - len(text[at:].lstrip())


def _decode(text: str, at: int) -> tuple[object, int]:
    try:
        value, end = json.JSONDecoder().raw_decode(text, at)
    except json.JSONDecodeError as error:
        raise StacksError(f"no JSON ({error.msg}); it seems to be cut off", error.lineno) from error
    except (RecursionError, ValueError) as error:  # nested without end, or a number of thousands of digits
        raise StacksError(f"no JSON of py-spy or of an evidence.json ({error})") from error
    return value, end


def _list(obj: object, line: int | None = None) -> list[object]:
    if not isinstance(obj, list):
        raise StacksError("expected a list of threads, as `py-spy dump --json` prints it", line)
    return obj


def threads_from_json(obj: object) -> tuple[ThreadStack, ...]:
    """Threads from the parsed output of `py-spy dump --json` for one pid. Unknown keys are ignored. Raises StacksError."""
    return tuple(_json_thread(item, f"[{index}]") for index, item in enumerate(_list(obj)))


def _json_thread(item: object, path: str) -> ThreadStack:
    if not isinstance(item, dict) or not isinstance(frames := item.get("frames"), list):
        raise StacksError("expected a thread with its `frames`", path=path)
    return ThreadStack(
        tid=_of(int, item.get("os_thread_id")),
        name=_of(str, item.get("thread_name")),
        frames=tuple(_json_frame(frame, f"{path}.frames[{index}]") for index, frame in enumerate(frames)),
        active=_of(bool, item.get("active")),
        gil=_of(bool, item.get("owns_gil")),
    )


def _json_frame(item: object, path: str) -> Frame:
    name = item.get("name") if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(name, str):
        raise StacksError("expected a frame with its `name`", path=path)
    file = _of(str, item.get("filename")) or _of(str, item.get("short_filename")) or ""
    # py-spy writes line 0 where it knows none.
    return Frame(name, _LIBRARY.sub("", file), _of(int, item.get("line")) or None)


def _of(kind: type[T], value: object) -> T | None:
    """The value if it is of that type; another, or none, is "could not be read". A bool is no int here."""
    return value if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)) else None


class ThreadKey(NamedTuple):
    """Which thread of a dump; the name counts only where no kernel id was read."""

    pid: int
    tid: int | None
    name: str | None


def moved(a: Dump, b: Dump, threads: Iterable[ThreadKey]) -> bool | None:
    """Whether any of these threads stands elsewhere in `b` than in `a`: another function, file or line, from the first
    frame that is not a plain wait outward.

    None: none is known to have moved, but one is missing, was not read or has no frames, or no thread was asked for.
    """
    answers = [_thread_moved(_find(a, key), _find(b, key)) for key in threads]
    return _any_moved(answers)


def moved_between(dumps: tuple[Dump, ...], threads: Iterable[ThreadKey]) -> bool | None:
    """`moved` over each dump and the next; None with fewer than two."""
    keys = tuple(threads)
    return _any_moved([moved(a, b, keys) for a, b in pairwise(dumps)])


def _any_moved(answers: list[bool | None]) -> bool | None:
    if True in answers:
        return True
    return None if not answers or None in answers else False


def _thread_moved(a: ThreadStack | None, b: ThreadStack | None) -> bool | None:
    if a is None or b is None or not a.frames or not b.frames:
        return None
    return _place(a) != _place(b)


def _place(thread: ThreadStack) -> list[tuple[str, str, int | None]]:
    return [(frame.name, frame.file, frame.line) for frame in beyond_waits(own_frames(thread.frames))]


def _find(dump: Dump, key: ThreadKey) -> ThreadStack | None:
    for process in dump.processes:
        if process.pid == key.pid and process.error is None:
            return next((thread for thread in process.threads if _is(thread, key)), None)
    return None


def _is(thread: ThreadStack, key: ThreadKey) -> bool:
    return thread.tid == key.tid and (key.tid is not None or thread.name == key.name)
