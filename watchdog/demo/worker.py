"""One sample batch worker, for `watchdog demo` and the tests. May use the standard library only: it knows nothing of a watchdog.

It is built like a GPU worker: a loader child fetches batches ahead and sends them over `multiprocessing` queues, the parent takes
them in order, and classifies them. Two files are its faults, on demand; each is removed when it is taken, so that the next life
of the worker is without:

    --lose-when FILE    one batch is really lost: it cannot be pickled, so CPython's QueueFeederThread prints the traceback to
                        stderr and drops it. The parent waits for that batch for ever, the child for its next task.
    --slow-when FILE    one batch really takes long: the child fetches it in many small steps, with hardly any CPU.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Never

if TYPE_CHECKING:
    from multiprocessing.queues import Queue

    Tasks = Queue[int]
    Batches = Queue[tuple[int, object]]

PREFETCH = 4
"""Batches that the child is asked for ahead of the parent, as `prefetch_factor` of a torch DataLoader."""

IMAGES = 4
"""Images of a batch."""

SLOW_STEP = 0.35
"""Seconds for one tile of the slow batch: a watcher that looks twice within two seconds sees a deeper stack."""

_PR_SET_PTRACER = 0x59616D61
_PR_SET_PTRACER_ANY = ctypes.c_ulong(-1)


class LostInTransit:
    """A batch that cannot be pickled. `Queue.put` returns at once; its feeder thread meets the error, and drops the batch."""

    def __reduce__(self) -> Never:
        raise RuntimeError("this batch cannot be pickled, and is lost in the feeder thread")


@dataclass(frozen=True)
class Faults:
    """What goes wrong, and how long the slow batch takes, in seconds."""

    lose_when: Path | None
    slow_when: Path | None
    slow_for: float


def main(argv: Sequence[str] | None = None) -> None:
    """Work, or wait for work, for ever."""
    args = _parser().parse_args(argv)
    allow_any_tracer()
    if args.kind == "idle":
        wait_for_jobs(args.every)
    work(args.context, args.every, Faults(args.lose_when, args.slow_when, args.slow_for))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="A sample batch worker.")
    parser.add_argument("kind", choices=("batches", "idle"))
    parser.add_argument(
        "--every", type=float, default=0.4, metavar="SECONDS", help="for a batch, or between idle lines"
    )
    parser.add_argument("--context", choices=("fork", "forkserver", "spawn"), default="fork")
    parser.add_argument(
        "--lose-when", type=Path, metavar="FILE", help="lose one batch once FILE is there, and remove FILE"
    )
    parser.add_argument(
        "--slow-when", type=Path, metavar="FILE", help="have one slow batch once FILE is there, and remove FILE"
    )
    parser.add_argument("--slow-for", type=float, default=14.0, metavar="SECONDS", help="how long the slow batch takes")
    return parser


def allow_any_tracer() -> None:
    """Let py-spy look into this process under Yama (ptrace_scope 1), which else allows ancestors only. Not inherited by a child."""
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _PR_SET_PTRACER_ANY, 0, 0, 0)


def say(text: str) -> None:
    """One line of the log, in the shape of a worker that logs with structlog."""
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} [info     ] {text}", flush=True)


def say_idle(every: float) -> None:
    """The line by which a watcher can tell silence from a stall."""
    say(f"No jobs found, sleeping for {every:g} seconds")


def wait_for_jobs(every: float) -> Never:
    """A worker whose queue is empty."""
    while True:
        say("Checking for jobs for pipelines: 1")
        say_idle(every)
        time.sleep(every)


def work(method: str, every: float, faults: Faults) -> Never:
    """Find no job once, then one that never ends."""
    context = multiprocessing.get_context(method)
    tasks: Tasks = context.Queue()
    batches: Batches = context.Queue()
    say_idle(every)
    # Started before anything is put: a fork after the first put would copy a process that has a feeder thread.
    context.Process(target=load_for_ever, args=(tasks, batches, faults), daemon=True).start()  # type: ignore[attr-defined]
    say("Processing job 1 with pipeline 1")
    for number in range(1, PREFETCH + 1):
        tasks.put(number)
    early: dict[int, object] = {}
    for number in itertools.count(1):
        began = time.monotonic()
        next_batch(number, batches, early)
        tasks.put(number + PREFETCH)
        spent = classify(every)
        per_image = (time.monotonic() - began) / IMAGES
        say(f"Batch {number}: {per_image:.2f}s/image, Classification time: {spent:.2f}s")
    raise AssertionError("itertools.count ended")


def next_batch(number: int, batches: Batches, early: dict[int, object]) -> object:
    """The batch of this number, and no other: those that come before their turn wait in `early`."""
    while number not in early:
        arrived, images = batches.get()
        early[arrived] = images
    return early.pop(number)


def classify(seconds: float) -> float:
    """The work of the parent; returns the seconds that it took."""
    began = time.monotonic()
    time.sleep(seconds)
    return time.monotonic() - began


def load_for_ever(tasks: Tasks, batches: Batches, faults: Faults) -> Never:
    """The loader child."""
    allow_any_tracer()
    while True:
        number = tasks.get()
        if _taken(faults.lose_when):
            batches.put((number, LostInTransit()))
        elif _taken(faults.slow_when):
            batches.put((number, fetch_slowly(time.monotonic() + faults.slow_for)))
        else:
            batches.put((number, fetch()))


def _taken(fault: Path | None) -> bool:
    """Was this fault asked for? Whoever removes the file has it, so that one file is one fault."""
    if fault is None:
        return False
    try:
        fault.unlink()
    except FileNotFoundError:
        return False
    return True


def fetch() -> bytes:
    """The images of one batch."""
    return bytes(IMAGES * 1024)


def fetch_slowly(until: float) -> bytes:
    """Fetch a picture tile by tile. One call deeper for each, so that no two looks at its stack are the same."""
    _download_tile()
    if time.monotonic() < until:
        fetch_slowly(until)
    return fetch()


def _download_tile() -> None:
    time.sleep(SLOW_STEP / 2)
    _decode_tile()


def _decode_tile() -> None:
    time.sleep(SLOW_STEP / 2)


if __name__ == "__main__":
    main()
