"""Evidence for the tests of stacks and diagnosis: recorded, and changed in one respect at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

from watchdog.config import load_signatures
from watchdog.judge import stacks
from watchdog.judge.diagnose import diagnose
from watchdog.model.evidence import Diagnosis, Dump, Evidence, Frame, ProcessStacks, ThreadStack
from watchdog.model.signature import Signature

FIXTURES = Path(__file__).parent.parent / "fixtures" / "stacks"


def recorded(name: str) -> Evidence:
    return stacks.read((FIXTURES / f"{name}.json").read_text())


@cache
def built_in() -> tuple[Signature, ...]:
    return load_signatures([])


def judged(evidence: Evidence) -> Diagnosis:
    return diagnose(built_in(), evidence)


def with_processes(evidence: Evidence, change: Callable[[ProcessStacks], ProcessStacks]) -> Evidence:
    """Each process of each dump changed."""
    return with_dumps(evidence, lambda dump: replace(dump, processes=tuple(change(p) for p in dump.processes)))


def with_dumps(evidence: Evidence, change: Callable[[Dump], Dump]) -> Evidence:
    return replace(evidence, dumps=tuple(change(dump) for dump in evidence.dumps))


def with_frames(
    evidence: Evidence, change: Callable[[Frame], Frame | None], only: Callable[[ProcessStacks], bool] = lambda _: True
) -> Evidence:
    """Each frame of the processes that `only` names changed, or taken away by None."""

    def thread(one: ThreadStack) -> ThreadStack:
        return replace(one, frames=tuple(new for frame in one.frames if (new := change(frame)) is not None))

    return with_processes(
        evidence, lambda p: replace(p, threads=tuple(thread(one) for one in p.threads)) if only(p) else p
    )


def old_spelling(evidence: Evidence) -> Evidence:
    """As py-spy before 0.4.3 prints it: without the names of classes and of outer functions."""
    return with_frames(evidence, lambda frame: replace(frame, function=frame.name))


def frame(text: str) -> Frame:
    """`get (queue.py:12)`."""
    function, _, place = text.removesuffix(")").partition(" (")
    file, _, line = place.partition(":")
    return Frame(function, file, int(line) if line else None)


def thread(tid: int, *frames: str, name: str | None = None) -> ThreadStack:
    return ThreadStack(tid, name, tuple(frame(text) for text in frames), state="S")


def process(pid: int, *threads: ThreadStack, ppid: int | None = None, **facts: object) -> ProcessStacks:
    return replace(ProcessStacks(pid, ppid, f"comm-{pid}", threads), **facts)  # type: ignore[arg-type]
