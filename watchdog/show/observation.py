"""One Observation, for machines and for people. Pure: decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from watchdog.model.observation import ABSENT, Observation, ProcessSample, Reading
from watchdog.show.words import clean, number, paint, size, table

HEAD: Final = ("PID", "RSS", "SHMEM", "FDS", "THREADS", "CPU")


def observation_json(seen: Observation) -> dict[str, object]:
    """The gauges by the names that rules use (bytes, counts, cores), and the same for each process under `tree`. None: unknown."""
    return {
        "program": seen.program,
        "pid": seen.ident.pid if seen.ident else None,
        "log": _reading(seen.log),
        "progress": _reading(seen.progress),
        "progress_count": seen.progress_count,
        "progress_total": seen.progress_total,
        "says": seen.says,
        "in_flight": seen.in_flight,
        "idle_line": seen.idle_line,
        **seen.gauges._asdict(),
        "cpu_seconds": seen.cpu_seconds,
        "tree": [_process(sample) for sample in seen.tree],
        "troubles": list(seen.troubles),
    }


def _reading(value: Reading) -> int | str | None:
    return "absent" if value is ABSENT else value


def _process(sample: ProcessSample) -> dict[str, object]:
    return {
        "pid": sample.pid,
        "ppid": sample.ppid,
        "comm": sample.comm,
        "state": sample.state,
        "rss": sample.rss,
        "anon": sample.anon,
        "shmem": sample.shmem,
        "fds": sample.fds,
        "fds_ratio": _fds_ratio(sample),
        "threads": sample.threads,
        "processes": 1,
        "cpu": sample.cores,
        "cpu_seconds": sample.cpu_s,
    }


def _fds_ratio(sample: ProcessSample) -> float | None:
    return sample.fds / sample.fd_limit if sample.fds is not None and sample.fd_limit else None


def observations_text(seen: Sequence[Observation], trees: bool, colour: bool = False) -> str:
    """A line for each program, and with `trees` one for each of its processes below it."""
    names, rows = [], []
    for one in seen:
        names.append(clean(one.program))
        rows.append(_row(one))
        for sample in one.tree if trees else ():
            names.append(f"  {clean(sample.comm)} {sample.state}")
            rows.append(_process_row(sample))
    pad = max(len(name) for name in ("PROGRAM", *names))
    lines = table(
        ("PROGRAM".ljust(pad), *HEAD), [(n.ljust(pad), *r) for n, r in zip(names, rows, strict=True)], _NUMBERS
    )
    troubles = [f"{clean(one.program)}: {clean(trouble)}" for one in seen for trouble in one.troubles]
    return "\n".join([paint(lines[0], "bold", colour), *lines[1:], *(paint(t, "yellow", colour) for t in troubles)])


_NUMBERS: Final = frozenset(range(1, len(HEAD) + 1))


def _row(seen: Observation) -> tuple[str, ...]:
    gauges = seen.gauges
    pid = number(seen.ident.pid if seen.ident else None)
    return pid, size(gauges.rss), size(gauges.shmem), number(gauges.fds), number(gauges.threads), _cores(gauges.cpu)


def _process_row(sample: ProcessSample) -> tuple[str, ...]:
    memory = size(sample.rss), size(sample.shmem)
    return number(sample.pid), *memory, number(sample.fds), number(sample.threads), _cores(sample.cores)


def _cores(cores: float | None) -> str:
    return "-" if cores is None else f"{cores:.2f}"
