"""Measures the daemon on a private supervisord: CPU per process and tick, memory, and the share of the bare reads.

python -m tests.bench                               200 programs of 5 processes each, for 10 minutes
python -m tests.bench --programs 20 --minutes 1     quicker, and less telling
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.bench import host, meter
from tests.supervisord import Supervisord
from watchdog.procfile import raise_descriptor_limit
from watchdog.supervisor import Fault

MIB = 1024 * 1024
SHOWN = 0.05
"""Microseconds; threads that cost less are left out."""
ROW = "{minute:>7} {ticks:>6} {cost:>17} {rss:>8} {descriptors:>12} {children:>11}"


def main() -> int:
    options = arguments()
    size = host.Size(options.programs, options.processes, options.every, options.interval)
    raise_descriptor_limit()  # for the three descriptors a process that the bare reads keep
    try:
        run(size, options.minutes)
    except host.NotReady as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", type=int, default=200, help="of the private supervisord (200)")
    parser.add_argument("--processes", type=int, default=5, help="in each program (5)")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long the daemon is measured (10)")
    parser.add_argument("--interval", type=float, default=5.0, help="the daemon's interval in seconds (5)")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two log lines of a program (5)")
    return parser.parse_args()


def run(size: host.Size, minutes: float) -> None:
    print(f"{size.programs} programs of {size.processes} processes, a tick every {size.interval:g} s", flush=True)
    with host.workers(size) as supervisord, host.daemon(supervisord, size) as daemon:
        print(ROW.format(minute="minute", ticks="ticks", cost="us/process/tick", rss="RSS MiB", descriptors="descriptors",
                         children="children s"), flush=True)  # fmt: skip
        before = meter.thread_seconds(daemon.pid)
        readings = list(measure(daemon.pid, supervisord.directory, size, minutes))
        cost = conclude(readings, size)
        print_threads(daemon.pid, before, readings[-1].ticks - readings[0].ticks, size)
        compare(supervisord, cost)


def measure(pid: int, directory: Path, size: host.Size, minutes: float) -> Iterator[meter.Reading]:
    """A reading at once and after each minute, printed as it comes."""
    begin = last = meter.read(pid, host.fresh_ticks(directory))
    yield begin
    end = begin.at + 60 * minutes
    while (now := time.monotonic()) < end:
        time.sleep(min(60.0, end - now))
        reading = meter.read(pid, host.fresh_ticks(directory))
        print(row(begin, last, reading, size), flush=True)
        yield reading
        last = reading


def row(begin: meter.Reading, last: meter.Reading, reading: meter.Reading, size: host.Size) -> str:
    cost = meter.microseconds(last, reading, size.total)
    return ROW.format(
        minute=f"{(reading.at - begin.at) / 60:.1f}",
        ticks=reading.ticks,
        cost="-" if cost is None else f"{cost:.1f}",
        rss=f"{reading.rss / MIB:.1f}",
        descriptors=reading.descriptors,
        children=f"{reading.children - begin.children:.2f}",
    )


def conclude(readings: list[meter.Reading], size: host.Size) -> float | None:
    """Print what the daemon costs; microseconds of CPU per process and tick, None if no tick was made."""
    first, last = readings[0], readings[-1]
    cost = meter.microseconds(first, last, size.total)
    seconds = last.at - first.at
    print(f"\nCPU per process and tick: {'no tick was made' if cost is None else f'{cost:.1f} us, RPC included'}")
    print(f"CPU of the daemon: {(last.cpu - first.cpu) / seconds * 100:.2f} % of a core over {seconds:.0f} s")
    print(f"RSS: {first.rss / MIB:.1f} MiB at the first tick, {last.rss / MIB:.1f} MiB at the end")
    return cost


def print_threads(pid: int, before: Mapping[int, float], ticks: int, size: host.Size) -> None:
    """Which of the daemon's threads that cost is; a thread that has ended meanwhile is missing."""
    names = meter.thread_names(pid)
    for tid, seconds in sorted(meter.thread_seconds(pid).items(), key=lambda item: -item[1]):
        spent = (seconds - before.get(tid, 0.0)) / max(ticks, 1) / size.total * 1e6
        if spent >= SHOWN:
            print(f"  {spent:5.1f} us  thread {names.get(tid, tid)}")


def compare(supervisord: Supervisord, cost: float | None) -> None:
    """Print what of that cost is sampling: the same looks made here, now, on the same processes, at their best."""
    bare = meter.bare_reads(supervisord.descendants())
    sampler = meter.sampler(main_pids(supervisord))
    for name, part in (
        (
            f"bare reads (stat {bare.stat:.1f}, status {bare.status:.1f}, descriptors {bare.descriptors:.1f})",
            bare.total,
        ),
        ("the sampler on the same trees", sampler),
    ):
        print(f"{name}: {part:.1f} us a process" + (f", {part / cost:.0%} of the daemon's" if cost else ""))


def main_pids(supervisord: Supervisord) -> list[int]:
    answer = supervisord.rpc.processes()
    assert not isinstance(answer, Fault), answer
    return [info.pid for info in answer.values() if info.pid]


if __name__ == "__main__":
    sys.exit(main())
