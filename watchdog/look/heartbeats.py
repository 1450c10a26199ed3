"""What a program's logs tell: growth, progress lines, the idle line, counted matches. May read the logs; decides nothing.

Readings are counters that only go up while one main process is watched: bytes grown, progress lines that differed, lines that
matched. Lines from before this process was watched count for nothing, but the last of them may be the idle line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple

from watchdog.look.files import Files
from watchdog.look.tail import Growth, LogTail
from watchdog.model.observation import ABSENT, LogStream, MatchKey, Reading
from watchdog.model.rule import Policy

Stream = Literal["stdout", "stderr", "log"]
"""log: named by the configuration instead of the paths that supervisord reports; which stream it is, is not known."""

_STAMP: Final = re.compile(
    r"""\s*
    (?:[\[(]?[A-Za-z]{3,9}[\])]?[:\s]\s*)?                                # a level before the time stamp
    [\[(]?
    (?:
        \d{4}[-/.]\d{2}[-/.]\d{2}[T\s_]?(?:\d{2}:\d{2}(?::\d{2})?)?       # 2026-11-30, 2026-11-30T03:05:57
      | \d{2}[-/]\d{2}[-/]?(?:\d{2,4})?\s\d{2}:\d{2}:\d{2}                # 11-30 03:05:57, 30/11/2026 03:05:57
      | \d{1,2}/[A-Za-z]{3}/\d{4}:\d{2}:\d{2}:\d{2}                       # 30/Nov/2026:03:05:57
      | (?:[A-Za-z]{3},?\s+)?[A-Za-z]{3}\s+\d{1,2}\s+\d{2}:\d{2}:\d{2}    # Nov 30 03:05:57, Mon Nov 30 03:05:57
      | [IWEFD]\d{4}\s\d{2}:\d{2}:\d{2}                                   # I1130 03:05:57
      | \d{1,2}:\d{2}:\d{2}                                               # 03:05:57
      | \d{10}(?:\d{3})?\b                                                # seconds or milliseconds since the epoch
      | \s*\d+\.\d+(?=\])                                                 # [12345.678] since boot
    )
    (?:[.,]\d+)?\s*(?:Z|UTC|[+-]\d{2}:?\d{2})?                            # fraction, zone
    [\])]?""",
    re.VERBOSE,
)


def without_stamp(line: str) -> str:
    """`line` without one leading time stamp of a common form, and what stands before it."""
    found = _STAMP.match(line)
    return line[found.end() :].strip() if found else line.strip()


State = Literal["unknown", "deleted", "there", "none"]
"""Of all of a program's logs; none: it has none."""


class LogSeen(NamedTuple):
    """What one look at a program's logs found; the fields are those of an Observation."""

    log: Reading = ABSENT
    progress: Reading = ABSENT
    progress_count: int | None = None
    progress_total: int | None = None
    idle_line: bool | None = None
    progress_after_idle: bool | None = None
    matches: Mapping[MatchKey, Reading] = {}
    troubles: tuple[str, ...] = ()


class _Log(NamedTuple):
    stream: Stream
    tail: LogTail
    keys: tuple[MatchKey, ...]
    """The patterns that are looked for in this log."""
    read: bool
    """Are its lines of any use?"""


class LogHeartbeats:
    """One program's logs. Used by one thread."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._logs: tuple[_Log, ...] = ()
        self._progress: re.Pattern[str] | None = None
        self._idle: re.Pattern[str] | None = None
        self._patterns: dict[MatchKey, re.Pattern[str]] = {}
        self._counts: dict[MatchKey, int] = {}
        self._grown = 0
        self._succeeds = False
        """Another process was watched before this one."""
        self._begin()

    def close(self) -> None:
        for log in self._logs:
            log.tail.close()
        self._logs = ()

    def configure(self, policy: Policy, streams: Mapping[str, Stream]) -> None:
        """Watch these logs (path to stream) with these patterns from now on. Logs that were watched before go on where they are."""
        log = policy.progress.log if policy.progress is not None else None
        self._progress = re.compile(log) if log is not None else None
        self._idle = re.compile(policy.idle.line) if policy.idle is not None else None
        self._patterns = {key: re.compile(key.pattern) for key in policy.patterns()}
        self._counts = {key: self._counts.get(key, 0) for key in self._patterns}
        tails = {log.tail.path: log.tail for log in self._logs}
        for path in tails.keys() - streams.keys():
            tails.pop(path).close()
        self._logs = tuple(
            self._configured(stream, tails.get(path) or LogTail(self._files, path), set(streams.values()))
            for path, stream in streams.items()
        )

    def _configured(self, stream: Stream, tail: LogTail, streams: set[Stream]) -> _Log:
        keys = tuple(key for key in self._patterns if _concerns(key.log, stream, streams))
        return _Log(stream, tail, keys, bool(keys) or self._progress is not None or self._idle is not None)

    def restart(self) -> None:
        """Another main process is watched from now on: what was learnt of the last one is forgotten."""
        self._succeeds = True
        self._begin()

    def _begin(self) -> None:
        self._fresh = True
        self._last: str | None = None
        self._count: int | None = None
        self._total: int | None = None
        self._idle_line: bool | None = None
        self._after_idle: bool | None = None
        self._generation = 0
        self._counts = dict.fromkeys(self._patterns, 0)

    def look(self) -> LogSeen:
        """All logs now. In the first look at a process, lines are its predecessor's for all one knows: only the last is used."""
        growths = [log.tail.look(read=log.read) for log in self._logs]
        if self._fresh:
            self._take_last_lines(growths)
            self._fresh = False
        else:
            self._take_lines(growths)
        self._grown += sum(growth.grown for growth in growths)
        state = _worst(growths)
        return LogSeen(
            self._grown if state == "there" else None if state == "unknown" else ABSENT,
            self._progress_reading(state),
            self._count,
            self._total,
            self._idle_line,
            self._after_idle,
            {key: self._match_reading(key, growths) for key in self._patterns},
            tuple(growth.trouble for growth in growths if growth.trouble is not None),
        )

    def _take_last_lines(self, growths: Iterable[Growth]) -> None:
        """Does the last line of one of the logs say that the program is idle? An old process's line says nothing of a new one."""
        if self._idle is None:
            return
        for log, growth in zip(self._logs, growths, strict=True):
            last = growth.lines[-1] if growth.lines else None if self._succeeds else log.tail.last_line()
            if last is not None:
                self._idle_line = bool(self._idle_line) or self._idle.search(last) is not None

    def _take_lines(self, growths: Iterable[Growth]) -> None:
        """Of two logs that both grew since the last look it cannot be told which line was the last: either may be the idle line."""
        ends: list[bool] = []
        for log, growth in zip(self._logs, growths, strict=True):
            idle = False
            for line in growth.lines:
                idle = self._take_line(line)
                for key in log.keys:
                    self._counts[key] += self._patterns[key].search(line) is not None
            if growth.lines:
                ends.append(idle)
        if ends and self._idle is not None:
            self._idle_line = any(ends)

    def _take_line(self, line: str) -> bool:
        """Is it the idle line?"""
        idle = self._idle is not None and self._idle.search(line) is not None
        if idle:
            self._after_idle = False
        found = self._progress.search(line) if self._progress is not None else None
        if found is None:
            return idle
        if self._idle is not None and not idle:
            self._after_idle = True
        groups = found.groupdict()
        self._count = whole_number(groups.get("count"))
        self._total = whole_number(groups.get("total"))
        bare = without_stamp(line)
        if bare != self._last:
            self._last = bare
            self._generation += 1
        return idle

    def _progress_reading(self, state: State) -> Reading:
        if self._progress is None:
            return ABSENT
        return self._generation if state == "there" else None if state == "unknown" else ABSENT

    def _match_reading(self, key: MatchKey, growths: Iterable[Growth]) -> Reading:
        state = _worst(growth for log, growth in zip(self._logs, growths, strict=True) if key in log.keys)
        return self._counts[key] if state == "there" else None if state == "unknown" else ABSENT


def _concerns(wanted: LogStream, stream: Stream, streams: set[Stream]) -> bool:
    """Is it looked for in this log? Where stderr has no log of its own, supervisord writes it to stdout's, or nowhere."""
    return wanted == "any" or stream in (wanted, "log") or (wanted == "stderr" and "stderr" not in streams)


def _worst(growths: Iterable[Growth]) -> State:
    """Of several logs: one that cannot be read makes all unknown; a deleted one makes all absent, for it may still grow."""
    states = {growth.state for growth in growths}
    if "unknown" in states:
        return "unknown"
    return "deleted" if "deleted" in states else "there" if states else "none"


def whole_number(text: str | None) -> int | None:
    """The number, if it is one of at most 18 digits (what 64 bits hold)."""
    if text is None:
        return None
    text = text.strip().replace(",", "").replace("_", "")
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text) else None
