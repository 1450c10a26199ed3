"""Evidence and signatures to a verdict, its kind, and the reasons for it.

Pure: no clock, no file, no process, no logging; the same evidence and signatures give the same diagnosis. Shapes are looked
for in the latest dump that could be read; the earlier ones tell only whether threads moved. A doubt never ends as wedged:
a fact that is not known meets no need, and what moved, or is quiet by right, is not wedged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from re import search
from typing import Final

from watchdog.judge.signatures import Part, Scene, Shape, fit, specificity
from watchdog.judge.stacks import ThreadKey, moved_between
from watchdog.model.evidence import Diagnosis, Evidence
from watchdog.model.signature import Advice, Needs, Signature

_NEXT_LOOK: Final = Advice(
    now="Look at the stacks of every process; `watchdog collect PROGRAM` takes them twice, with all facts around them.",
    for_good="If this shape comes again, describe it in a signature file, and it will be known by name.",
)
_NO_PY_SPY: Final = Advice(
    now="Run `watchdog check`: it says why stacks cannot be read, and what would permit it.",
    for_good="Let the watchdog run as root, or as the worker's user with CAP_SYS_PTRACE.",
)
_LOG_LINE: Final = 200
"""Characters of a log line in a reason: a marker fits, a dumped object does not."""
_PLACES: Final = 6
"""Processes whose place is told where no signature holds."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One signature whose `main` fits, with all that speaks for and against it."""

    shape: Shape
    moved: bool | None
    unmet: tuple[str, ...]
    """Facts that it needs and that are otherwise, or not known; for people."""

    @property
    def signature(self) -> Signature:
        return self.shape.signature

    @property
    def is_stopped_by_movement(self) -> bool:
        """The stacks fit, but they are those of a thread that goes on: neither wedged nor idle."""
        wanted = self.signature.needs.same_stacks is not False and self.signature.verdict != "busy"
        return bool(self.moved) and wanted and not self.shape.lacks

    @property
    def holds(self) -> bool:
        return not (self.shape.lacks or self.unmet or self.is_stopped_by_movement)


def diagnose(signatures: Sequence[Signature], evidence: Evidence) -> Diagnosis:
    """What the evidence says of the program: wedged, idle, busy or unknown, and why."""
    scene = _latest_readable(evidence)
    if scene is None:
        return _without_stacks(evidence)
    shapes = [shape for signature in signatures if (shape := fit(signature, scene))]
    attempts = [_attempt(shape, evidence) for shape in shapes]
    holding = [attempt for attempt in attempts if attempt.holds]
    if not holding:
        return _unmatched(attempts, scene, evidence)
    top = max(specificity(attempt.signature) for attempt in holding)
    best = sorted((a for a in holding if specificity(a.signature) == top), key=lambda a: a.signature.kind)
    if len({attempt.signature.verdict for attempt in best}) > 1:
        return _tied(best, evidence)
    return _matched(best, holding, attempts, evidence)


def _latest_readable(evidence: Evidence) -> Scene | None:
    for dump in reversed(evidence.dumps):
        scene = Scene(dump)
        if scene.readable or (not scene.processes and dump.processes):
            return scene
    return None


def _attempt(shape: Shape, evidence: Evidence) -> _Attempt:
    moved = moved_between(evidence.dumps, [part.key for part in shape.parts])
    return _Attempt(shape, moved, tuple(_unmet(shape.signature.needs, evidence, moved)))


def _unmet(needs: Needs, evidence: Evidence, moved: bool | None) -> Iterator[str]:
    """The needs that the facts do not meet. A fact that is not known meets none, but where null itself is allowed."""
    if needs.working is not None and evidence.working not in needs.working:
        yield f"{_work(evidence.working)} (needed: {' or '.join(_work(value) for value in needs.working)})"
    if needs.quiet is not None and (evidence.quiet_s is None or evidence.quiet_s < needs.quiet):
        yield f"{_quiet(evidence.quiet_s)} (needed: {needs.quiet:g} s)"
    if needs.cpu_below is not None and (evidence.cpu_cores is None or evidence.cpu_cores >= needs.cpu_below):
        yield f"{_cpu(evidence.cpu_cores)} (needed: below {needs.cpu_below:g})"
    if needs.cpu_above is not None and (evidence.cpu_cores is None or evidence.cpu_cores <= needs.cpu_above):
        yield f"{_cpu(evidence.cpu_cores)} (needed: above {needs.cpu_above:g})"
    if needs.same_stacks is not None and moved is not (not needs.same_stacks):
        yield f"{_movement(moved)} (needed: that they {'stand still' if needs.same_stacks else 'move'})"


def _work(working: bool | None) -> str:
    if working is None:
        return "it is not known whether it has work"
    return "it has work" if working else "it has no work"


def _quiet(quiet_s: float | None) -> str:
    return "it is not known how long it has been quiet" if quiet_s is None else f"it has been quiet for {quiet_s:.0f} s"


def _cpu(cores: float | None) -> str:
    return "its CPU use is not known" if cores is None else f"it uses {cores:.4g} cores"


def _movement(moved: bool | None) -> str:
    if moved is None:
        return "it is not known whether its threads move, since no two dumps can be compared"
    return "its threads moved between the dumps" if moved else "its threads did not move between the dumps"


def _matched(best: list[_Attempt], holding: list[_Attempt], attempts: list[_Attempt], evidence: Evidence) -> Diagnosis:
    signature = best[0].signature
    return Diagnosis(
        verdict=signature.verdict,
        kind=signature.kind,
        cause=signature.cause if signature.verdict == "wedged" else None,
        summary=signature.summary,
        advice=signature.advice,
        matched=best[0].shape.matched(),
        why=(
            *_shown(best[0], evidence),
            *(f"{a.signature.kind} fits as well ({a.signature.verdict})." for a in holding if a is not best[0]),
            *_near(attempts),
        ),
        moved=best[0].moved,
    )


def _tied(best: list[_Attempt], evidence: Evidence) -> Diagnosis:
    named = " and ".join(f"{attempt.signature.kind} ({attempt.signature.verdict})" for attempt in best)
    moves = {attempt.moved for attempt in best}
    return Diagnosis(
        verdict="unknown",
        kind=None,
        cause=None,
        summary=f"The stacks fit {named} equally well.",
        advice=_NEXT_LOOK,
        matched=tuple(matched for attempt in best for matched in attempt.shape.matched()),
        why=tuple(line for attempt in best for line in _shown(attempt, evidence)),
        moved=True if True in moves else None if None in moves else False,
    )


def _unmatched(attempts: list[_Attempt], scene: Scene, evidence: Evidence) -> Diagnosis:
    """No signature holds: what the program says of itself, then movement, then nothing is known."""
    stopped = any(attempt.is_stopped_by_movement for attempt in attempts)
    moved = True if stopped else moved_between(evidence.dumps, _main_keys(scene))
    why = (*_near(attempts), *_places(scene))
    if evidence.working is False:
        return _quiet_by_right(why, moved)
    if moved:
        summary = "Its threads moved between the dumps: something is being done."
        return Diagnosis("busy", None, None, summary, Advice(), why=(summary, *why), moved=moved)
    fitting = [attempt for attempt in attempts if not attempt.shape.lacks]
    summary = "No known shape fits its stacks."
    if fitting:
        kinds = " and ".join(sorted(f"{a.signature.kind} ({a.signature.verdict})" for a in fitting))
        summary = f"Its stacks have the shape of {kinds}, but the facts around them do not bear it out."
    return Diagnosis("unknown", None, None, summary, _NEXT_LOOK, why=why, moved=moved)


def _quiet_by_right(why: tuple[str, ...], moved: bool | None, *, unreadable: bool = False) -> Diagnosis:
    summary = "It says itself that it has no work: its silence is right."
    return Diagnosis("idle", None, None, summary, Advice(), why=(summary, *why), moved=moved, unreadable=unreadable)


def _without_stacks(evidence: Evidence) -> Diagnosis:
    """Nothing could be read. Also then a program that says that it has no work is quiet by right."""
    last = evidence.dumps[-1].processes if evidence.dumps else ()
    why = tuple(f"Process {p.pid} could not be read: {p.error}." for p in last) or ("There is no dump of any process.",)
    if evidence.working is False:
        return _quiet_by_right(why, None, unreadable=True)
    return Diagnosis("unknown", None, None, "No stack of it could be read.", _NO_PY_SPY, why=why, unreadable=True)


def _main_keys(scene: Scene) -> list[ThreadKey]:
    """The main thread of each process: a helper thread that moves proves nothing."""
    keys = [(process.pid, scene.main_of(process)) for process in scene.processes]
    return [ThreadKey(pid, main.tid if main else None, main.name if main else None) for pid, main in keys]


def _shown(attempt: _Attempt, evidence: Evidence) -> Iterator[str]:
    """What speaks for a signature that holds."""
    needs = attempt.signature.needs
    for part in attempt.shape.parts:
        calls = " < ".join(f"{frame.name}@{frame.file}" for frame in part.frames)
        yield f"{attempt.signature.kind}: process {part.process.pid}, thread {_named(part)}, is in {calls}."
    facts = (
        (needs.working, _work(evidence.working)),
        (needs.quiet, _quiet(evidence.quiet_s)),
        (needs.cpu_below if needs.cpu_above is None else needs.cpu_above, _cpu(evidence.cpu_cores)),
        (needs.same_stacks, _movement(attempt.moved)),
    )
    yield from (f"{fact[0].upper()}{fact[1:]}." for need, fact in facts if need is not None)
    for name, lines in (("stdout", evidence.log.stdout), ("stderr", evidence.log.stderr)):
        hits = [line for line in lines if any(search(pattern, line) for pattern in attempt.signature.log)]
        if hits:
            yield f"A line of {name} says the same: {hits[-1].strip()[:_LOG_LINE]}"


def _named(part: Part) -> str:
    return part.thread.name or str(part.thread.tid)


def _near(attempts: list[_Attempt]) -> Iterator[str]:
    """What came near, and what it lacked."""
    for attempt in attempts:
        if attempt.holds:
            continue
        lacks = [*attempt.shape.lacks, *attempt.unmet]
        if attempt.is_stopped_by_movement and attempt.signature.needs.same_stacks is None:
            lacks.append(_movement(attempt.moved))
        how_far = "some" if attempt.shape.lacks else "all"
        verdict = attempt.signature.verdict
        yield f"{attempt.signature.kind} ({verdict}) came near, {how_far} of its stacks fit, but: {'; '.join(lacks)}."


def _places(scene: Scene) -> Iterator[str]:
    """Where each process stands, for whoever has to find out without a signature."""
    for process in scene.processes[:_PLACES]:
        main = scene.main_of(process)
        if process.error is not None:
            yield f"Process {process.pid} could not be read: {process.error}."
        elif main is None or not main.frames:
            yield f"Process {process.pid} shows no Python frame in a main thread."
        else:
            yield f"Process {process.pid} is in {' < '.join(str(frame) for frame in main.frames[:4])}."


def as_json(diagnosis: Diagnosis) -> dict[str, object]:
    """The diagnosis as `watchdog diagnose` prints it and a bundle keeps it."""
    return {
        "verdict": diagnosis.verdict,
        "kind": diagnosis.kind,
        "cause": diagnosis.cause,
        "summary": diagnosis.summary,
        "advice": {"now": diagnosis.advice.now, "for_good": diagnosis.advice.for_good},
        "matched": [
            {"signature": one.signature, "pid": one.pid, "thread": one.thread, "frames": list(one.frames)}
            for one in diagnosis.matched
        ],
        "why": list(diagnosis.why),
    }
