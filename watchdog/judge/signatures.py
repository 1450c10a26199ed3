"""Whether the processes of one dump have a signature's shape: the stacks alone, without the facts that it needs besides.

Pure: may look at values, nothing else. How the parts of a signature are read:
- `main`, `every`, `any`: a process matches when each pattern of the list is matched by one of its threads.
- `main_no`: no thread of the process that matches `main` matches one of its patterns.
- `no`: each pattern stands for itself; none may be matched by a thread of any other process.
- Others are the Python processes besides the one that matches `main`, its ancestors, and the known helpers. What was not
  told to be no Python process counts as one, so that a process that could not be read fails `every` and `no`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal

from watchdog.judge.frames import is_any, is_frame, main_thread, own_frames
from watchdog.judge.stacks import ThreadKey
from watchdog.model.evidence import Dump, Frame, Matched, ProcessStacks, ThreadStack
from watchdog.model.signature import FramePattern, Signature, ThreadPattern

HELPERS: Final = (
    FramePattern(("main",), "multiprocessing/resource_tracker.py"),
    FramePattern(("main",), "multiprocessing/forkserver.py"),
)
"""A process whose main thread's outermost own call, the module's frame aside, is one of these serves the others."""

_MODULE: Final = "<module>"
"""`python -c 'from ...forkserver import main; main()'` has this below `main`."""

DEAD: Final = ("Z", "X")
"""States of a process that has no stack any more, and never will."""


@dataclass(frozen=True, slots=True)
class Part:
    """One thread that a pattern found, and those of its frames that the pattern named."""

    process: ProcessStacks
    thread: ThreadStack
    frames: tuple[Frame, ...]

    @property
    def key(self) -> ThreadKey:
        return ThreadKey(self.process.pid, self.thread.tid, self.thread.name)


@dataclass(frozen=True, slots=True)
class Shape:
    """How far one signature fits one dump."""

    signature: Signature
    parts: tuple[Part, ...]
    lacks: tuple[str, ...] = ()
    """What is missing, for people, though `main` fits; empty: all of the stacks fit."""

    def matched(self) -> tuple[Matched, ...]:
        kind = self.signature.kind
        return tuple(
            Matched(kind, part.process.pid, part.thread.name, tuple(str(frame) for frame in part.frames))
            for part in self.parts
        )


class Scene:
    """One dump, with what every signature asks of it worked out once: who is who, and each thread's own frames."""

    def __init__(self, dump: Dump) -> None:
        self._all = {process.pid: process for process in dump.processes}
        alive = [p for p in dump.processes if p.python is not False and p.state not in DEAD]
        self._frames = {id(t): own_frames(t.frames) for process in alive for t in process.threads}
        self._main_threads = {process.pid: main_thread(process) for process in alive}
        # From the root down, and by pid, so that the order of a dump decides nothing.
        alive.sort(key=lambda process: (len(self._ancestors(process)), process.pid))
        self.processes = tuple(
            process for process in alive if process.error is not None or not self._is_helper(process)
        )
        """Those that count, whether they could be read or not."""
        self.readable = tuple(process for process in self.processes if process.error is None)

    def main_of(self, process: ProcessStacks) -> ThreadStack | None:
        """A process's main thread, if it can be told."""
        return self._main_threads[process.pid]

    def own(self, thread: ThreadStack) -> tuple[Frame, ...]:
        """A thread's frames without those that it inherited by a fork."""
        return self._frames[id(thread)]

    def others(self, process: ProcessStacks) -> tuple[ProcessStacks, ...]:
        """The processes that `every`, `any` and `no` speak of, where `process` is the one that matches `main`."""
        left_out = {process.pid, *self._ancestors(process)}
        return tuple(other for other in self.processes if other.pid not in left_out)

    def _ancestors(self, process: ProcessStacks) -> list[int]:
        """Pids of the dump above a process, nearest first."""
        above: list[int] = []
        ppid = process.ppid
        while ppid in self._all and ppid != process.pid and ppid not in above:
            above.append(ppid)
            ppid = self._all[ppid].ppid
        return above

    def _is_helper(self, process: ProcessStacks) -> bool:
        thread = self._main_threads[process.pid]
        frames = [f for f in self.own(thread) if f.name != _MODULE] if thread else []
        return bool(frames) and is_any(frames[-1], HELPERS)

    def find(self, patterns: Sequence[ThreadPattern], process: ProcessStacks) -> tuple[Part, ...] | None:
        """One thread for each pattern, or None when the process does not match."""
        parts: list[Part] = []
        for pattern in patterns:
            part = next(self._parts(pattern, process), None)
            if part is None:
                return None
            parts.append(part)
        return tuple(parts)

    def _parts(self, pattern: ThreadPattern, process: ProcessStacks) -> Iterator[Part]:
        if process.error is None:
            for thread in self._asked(pattern.thread, process):
                frames = _frames_that_match(pattern, thread, self.own(thread))
                if frames is not None:
                    yield Part(process, thread, frames)

    def _asked(self, name: str, process: ProcessStacks) -> tuple[ThreadStack, ...]:
        """The threads that a pattern's `thread` speaks of."""
        if name == "main":
            main = self._main_threads[process.pid]
            return () if main is None else (main,)
        if name == "any":
            return process.threads
        return tuple(thread for thread in process.threads if thread.name and fnmatchcase(thread.name, name))


def fit(signature: Signature, scene: Scene) -> Shape | None:
    """How far the stacks fit, from the root down: the first process that fits wholly, else the first that fits `main`.

    None when no process fits `main`.
    """
    nearest: Shape | None = None
    for process in scene.readable:
        main = scene.find(signature.main, process)
        if main is None:
            continue
        shape = _fit_others(signature, scene, process, main)
        if not shape.lacks:
            return shape
        nearest = nearest or shape
    return nearest


def _fit_others(signature: Signature, scene: Scene, process: ProcessStacks, main: tuple[Part, ...]) -> Shape:
    others = scene.others(process)
    parts, lacks = list(main), list[str]()
    if signature.every:
        found = [(other, scene.find(signature.every, other)) for other in others]
        parts += [part for _, one in found for part in one or ()]
        lacks += [_reason(other, "lacks") for other, one in found if one is None]
        if not others:
            lacks.append("there is no other Python process")
    if signature.any:
        hit = next((one for other in others if (one := scene.find(signature.any, other))), ())
        parts += hit
        if not hit:
            lacks.append("no other process that could be read has the stack that one must have")
    if any(scene.find((pattern,), process) for pattern in signature.main_no):
        lacks.append(f"process {process.pid} has a thread that it may not have")
    for pattern in signature.no:
        lacks += [_reason(other, "has") for other in others if other.error is not None or scene.find((pattern,), other)]
    return Shape(signature, tuple(parts), tuple(dict.fromkeys(lacks)))


def _reason(process: ProcessStacks, verb: Literal["has", "lacks"]) -> str:
    """Why one other process speaks against a signature: it has a stack that none may have, or lacks one that each must."""
    if process.error is not None:
        return f"process {process.pid} could not be read ({process.error})"
    rest = "a stack that no other process may have" if verb == "has" else "the stack that every other process must have"
    return f"process {process.pid} {verb} {rest}"


def _frames_that_match(
    pattern: ThreadPattern, thread: ThreadStack, frames: tuple[Frame, ...]
) -> tuple[Frame, ...] | None:
    """The frames that the pattern names, innermost first, or None when the thread does not match."""
    if pattern.state and thread.state not in tuple(pattern.state):
        return None
    if pattern.wchan and not any(fnmatchcase(thread.wchan or "", name) for name in pattern.wchan):
        return None
    if pattern.leaf and not (frames and is_any(frames[0], pattern.leaf)):
        return None
    places = _direct_path(pattern.path, frames) if pattern.direct else _path(pattern.path, frames)
    if places is None or any(is_any(frame, pattern.without) for frame in frames):
        return None
    if pattern.leaf and 0 not in places:
        places = [0, *places]
    return tuple(frames[place] for place in places)


def _path(path: tuple[FramePattern, ...], frames: tuple[Frame, ...]) -> list[int] | None:
    """Where the frames of a path stand, in its order and with gaps."""
    places: list[int] = []
    for place, frame in enumerate(frames):
        if len(places) == len(path):
            break
        if is_frame(frame, path[len(places)]):
            places.append(place)
    return places if len(places) == len(path) else None


def _direct_path(path: tuple[FramePattern, ...], frames: tuple[Frame, ...]) -> list[int] | None:
    """Where the frames of a path stand as neighbours."""
    for start in range(len(frames) - len(path) + 1):
        if all(is_frame(frames[start + step], one) for step, one in enumerate(path)):
            return list(range(start, start + len(path)))
    return None


def specificity(signature: Signature) -> tuple[int, int]:
    """How much a signature asks for: frames that must be there, then facts. A shape says more than the numbers around it."""
    patterns = (*signature.main, *signature.every, *signature.any)
    frames = sum(len(pattern.path) + bool(pattern.leaf) for pattern in patterns)
    states = sum(bool(pattern.wchan) + bool(pattern.state) for pattern in patterns)
    return frames, signature.needs.count() + states
