"""Draws a snapshot on one screen. Pure: text in, text out; decides nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from watchdog.show.problems import is_stale, problems, program_problems
from watchdog.show.status import ProgramLine, Snapshot
from watchdog.show.words import clean, duration, moment, number, paint, shorten, size, table

HEAD: Final = ("PROGRAM", "PHASE", "LOG", "PROGRESS", "RSS", "FDS", "NEAREST RULE")
NUMBERS: Final = frozenset({2, 3, 4, 5})
LEAST_NAME: Final = 12
"""Characters that a program's name keeps, however narrow the terminal is."""


def render(found: Snapshot, width: int = 80, colour: bool = False, gone: bool = False) -> str:
    """The whole screen, without a line end at its end. `width`: columns of the terminal. `gone`: see `problems`."""
    wrong = problems(found, gone)
    lines = [*_head(found, colour), "", *_programs(found["programs"], width, colour)]
    if wrong:
        lines += ["", paint("Problems:", "bold", colour), *(paint(f"  {clean(w)}", "red", colour) for w in wrong)]
    return "\n".join(lines)


def _head(found: Snapshot, colour: bool) -> Iterator[str]:
    daemon, supervisor = found["daemon"], found["supervisor"]
    written = f"written {duration(found['age_s'])} ago"
    yield (
        f"watchdog     {daemon['version']}, pid {daemon['pid']}, since {moment(daemon['started_at'])}, "
        + (paint(written, "red", colour) if is_stale(found) else written)
    )
    up = {True: paint("up", "green", colour), False: paint("down", "red", colour), None: "not asked yet"}[
        supervisor["up"]
    ]
    yield f"supervisord  {up}, {clean(supervisor['url'] or '-')}"
    host = found["host"]
    yield (
        f"host         {size(host['mem_available'])} of {size(host['mem_total'])} memory available, "
        f"{size(host['shm_used'])} of {size(host['shm_total'])} /dev/shm used"
    )
    yield f"archive      {clean(daemon['archive']['directory'] or '-')}, {size(daemon['archive']['bytes'])}"
    yield f"metrics      {clean('http://' + found['metrics'] + '/metrics' if found['metrics'] else 'off')}"


def _programs(programs: Sequence[ProgramLine], width: int, colour: bool) -> Iterator[str]:
    if not programs:
        yield "No programs: supervisord has none, or has not answered yet."
        return
    others = table(HEAD[1:], [_cells(line) for line in programs], frozenset(i - 1 for i in NUMBERS))
    room = max(LEAST_NAME, width - 2 - max(len(row) for row in others))
    names = [shorten(name, room) for name in (HEAD[0], *(clean(line["program"]) for line in programs))]
    pad = max(len(name) for name in names)
    rows = [f"{name.ljust(pad)}  {rest}" for name, rest in zip(names, others, strict=True)]
    yield paint(rows[0], "bold", colour)
    for line, row in zip(programs, rows[1:], strict=True):
        yield paint(row, _style(line), colour) if _style(line) else row
        yield from (f"  {note}" for note in _notes(line))


def _cells(line: ProgramLine) -> tuple[str, ...]:
    phase = line["phase"] if line["mode"] is not None else "unwatched"
    if line["pid"] is None:
        return phase, "-", "-", "-", "-", clean(line["state"] or "supervisord does not know it")
    log, progress = line["heartbeats"]["log"], line["heartbeats"]["progress"]
    return (
        phase,
        "absent" if log is None else _brief(log["age_s"]),
        "absent" if progress is None else _brief(progress["age_s"]),
        size(line["rss"]),
        number(line["fds"]),
        _nearest(line),
    )


def _brief(seconds: float | None) -> str:
    return "unknown" if seconds is None else duration(float(round(seconds)))


def _nearest(line: ProgramLine) -> str:
    known = [(r["ratio"], r["rule"]) for r in line["rules"] if r["ratio"] is not None]
    firing = [r["rule"] for r in line["rules"] if r["firing"]]
    if firing:
        return f"{clean(firing[0])} FIRING"
    if not known:
        return "-"
    ratio, rule = max(known)
    return f"{clean(rule)} {100 * ratio:.0f}%"


def _style(line: ProgramLine) -> str:
    if program_problems(line):
        return "red"
    if line["mode"] is None or "paused" in line["flags"]:
        return "dim"
    return "yellow" if line["phase"] != "WATCHING" else ""


def _notes(line: ProgramLine) -> Iterator[str]:
    """What does not fit the columns, a line each."""
    if line["incident"]:
        verdict = " ".join(filter(None, (line["verdict"], line["kind"]))) or "not judged yet"
        waiting = f"; waits for {clean(line['waiting'])}" if line["waiting"] else ""
        yield f"incident {line['incident']}: {verdict}{waiting}"
    if line["paused_until"] is not None and "paused" in line["flags"]:
        yield f"paused until {moment(line['paused_until'])}"
    for trouble in line["troubles"]:
        yield clean(trouble)
