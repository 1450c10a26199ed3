"""Seals the evidence of one incident: collects, redacts, and writes `<incident>.tar.gz` with `<incident>.json` beside it.

May write into the archive, and into the runtime directory when the archive cannot be written; may change nothing else. What
seal() returns is true when it returns it: a path that it names is on disk, synced.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from watchdog.collect import archive, retention
from watchdog.collect.archive import ArchiveStatus, archive_status
from watchdog.collect.collectors import Collecting, Sources
from watchdog.collect.gather import Outcome, gather, in_time
from watchdog.collect.reading import BundleError, open_bundle_evidence, read_manifest
from watchdog.collect.redact import Redactor
from watchdog.collect.render import MOST_OF_ALL, File, files_of, json_bytes, tar
from watchdog.judge import diagnose, stacks
from watchdog.model.evidence import LogLines
from watchdog.model.world import Case, Sealed

__all__ = [
    "ArchiveStatus",
    "BundleError",
    "Places",
    "Sources",
    "archive_status",
    "open_bundle_evidence",
    "read_manifest",
    "seal",
]

VERSION = 1
"""Of the manifest."""

WRITING = 5.0
"""Seconds kept free for redacting, packing and writing, or a third of the whole, whichever is less; it takes 0.2 s."""
WRITING_LEAST = 3.0
"""Seconds that writing gets even when collecting has used up all: without it nothing may be stopped."""

FALLBACK = "fallback"
MOST_OF_FALLBACK = (1 << 20) - 1024
"""Bytes: the runtime directory is memory."""
FALLBACKS = 20
"""So many fallback copies are kept there."""


@dataclass(frozen=True, slots=True)
class Places:
    archive: Path
    keep: retention.Keep
    runtime: Path
    """The fallback goes to a folder `fallback` in it."""


def seal(
    case: Case,
    sources: Sources,
    places: Places,
    *,
    within: float,
    clock: Callable[[], float] = time.monotonic,
    wall: Callable[[], float] = time.time,
) -> Sealed:
    """Collect and write the evidence of `case` in about `within` seconds.

    Raises nothing that the world can cause: what could not be collected is in the manifest, and what could not be written
    is in the answer's `error`, with the fallback's path, or neither path when nothing could be written at all.
    """
    began = clock()
    collecting = Collecting(case, sources)
    deadline = began + within - min(WRITING, within / 3)
    outcomes = gather(collecting.collectors(), deadline=deadline, clock=clock)
    redactor = Redactor(collecting.known)
    files = _files(collecting, outcomes, redactor)
    manifest = _manifest(case, outcomes, files, redactor)
    manifest["seconds"] = round(clock() - began, 3)

    def write() -> Path:
        return _write(case.incident, files, manifest, places, wall())

    try:
        path = in_time("archive", write, max(WRITING_LEAST, began + within - clock()))
    except (OSError, ValueError) as problem:
        why = f"the archive {places.archive} could not be written: {getattr(problem, 'strerror', None) or problem}"
        return _fall_back(collecting, manifest, redactor, places.runtime, why)
    return Sealed(str(path))


def _files(collecting: Collecting, outcomes: Sequence[Outcome], redactor: Redactor) -> list[File]:
    """Every file of the bundle, redacted: what the core knew first (evidence.json is the very first, for quick reading)."""
    judged = Outcome("judgement", "ok", files=collecting.judged())
    files: list[File] = []
    for outcome in (judged, *outcomes):
        room = MOST_OF_ALL - sum(len(file.data) for file in files)
        for made in files_of(outcome.files, redactor, room):
            if isinstance(made, File):
                files.append(made)
                outcome.bytes += len(made.data)
            else:
                outcome.why = "; ".join(filter(None, (outcome.why, made)))
    return files


def _manifest(case: Case, outcomes: Sequence[Outcome], files: Sequence[File], redactor: Redactor) -> dict[str, object]:
    """All but the bundle's own size, which is not known yet."""
    diagnosis = case.diagnosis
    told = {
        "version": VERSION,
        "incident": case.incident,
        "program": case.program,
        "pid": case.ident.pid,
        "opened_at": case.opened_wall,
        "opened_at_iso": datetime.fromtimestamp(case.opened_wall, UTC).isoformat(timespec="milliseconds"),
        "rule": case.rule,
        "group": case.group,
        "verdict": diagnosis.verdict,
        "kind": diagnosis.kind,
        "cause": diagnosis.cause,
        "summary": diagnosis.summary,
        "advice": asdict(diagnosis.advice),
        "action": {"level": str(case.level), "would": str(case.would)},
        "collectors": [
            {"name": o.name, "status": o.status, "why": o.why, "bytes": o.bytes, "seconds": o.seconds} for o in outcomes
        ],
    }
    redacted = redactor.value(told)
    assert isinstance(redacted, dict)
    return {**redacted, "redactions": redactor.counts, "files": [file.listed() for file in files]}


def _write(incident: str, files: Sequence[File], manifest: Mapping[str, object], places: Places, now: float) -> Path:
    """Make room, write bundle and manifest, and make sure of the limits once more. Raises OSError."""
    directory = places.archive
    archive.make_directory(directory)
    stem = archive.free_stem(directory, incident)
    bundle = tar(stem, [*files, File("manifest.json", json_bytes(manifest))], now)
    name = stem + retention.BUNDLE
    beside = json_bytes({**manifest, "bundle": File(name, bundle).listed()})
    # Evidence comes before tidiness: when the old ones cannot be removed, the new one may still fit.
    with contextlib.suppress(OSError):
        retention.make_room(directory, places.keep, coming=1, room=len(bundle) + len(beside), now=now)
    archive.write_whole(directory, [(name, bundle), (stem + retention.MANIFEST, beside)])
    with contextlib.suppress(OSError):
        retention.make_room(directory, places.keep, now=now, newest=stem)
    return (directory / name).absolute()


def _fall_back(
    collecting: Collecting, manifest: dict[str, object], redactor: Redactor, runtime: Path, why: str
) -> Sealed:
    """Write the essential part into the runtime directory instead; say so in any case."""
    directory = runtime / FALLBACK

    def write() -> Path:
        archive.make_directory(directory)
        _forget_old_fallbacks(directory)
        name = archive.free_stem(directory, collecting.case.incident) + retention.MANIFEST
        archive.write_whole(directory, [(name, _essential(collecting, {**manifest, "error": why}, redactor))])
        return (directory / name).absolute()

    try:
        path = in_time("fallback", write, WRITING_LEAST)
    except (OSError, ValueError) as problem:
        also = getattr(problem, "strerror", None) or problem
        return Sealed(None, None, f"{why}; nor could the fallback {directory}: {also}")
    return Sealed(None, str(path), f"{why}; the essential part is in {path}")


def _essential(collecting: Collecting, manifest: dict[str, object], redactor: Redactor) -> bytes:
    """Stacks, samples and log tail under MOST_OF_FALLBACK bytes: with fewer log lines, then fewer dumps, until it fits."""
    manifest = {key: value for key, value in manifest.items() if key != "files"}
    whole = collecting.evidence
    case = collecting.case
    for lines, dumps in ((200, 2), (50, 2), (0, 2), (0, 1), (0, 0)):
        log = LogLines(whole.log.stdout[-lines:] if lines else (), whole.log.stderr[-lines:] if lines else ())
        evidence = replace(whole, log=log, dumps=whole.dumps[-dumps:] if dumps else ())
        told = {
            "evidence": stacks.evidence_to(evidence),
            "diagnosis": diagnose.as_json(case.diagnosis),
            "findings": [asdict(finding) for finding in case.findings],
            "trace": case.trace[-200:],
            "tree": [sample._asdict() for sample in case.tree],
        }
        if len(json_bytes(told)) > MOST_OF_FALLBACK:
            continue  # redacting it would take a second, for nothing
        redacted = redactor.value(told)
        assert isinstance(redacted, dict)
        data = json_bytes({"manifest": manifest, **redacted})
        if len(data) <= MOST_OF_FALLBACK:
            return data
    return json_bytes({"manifest": manifest})


def _forget_old_fallbacks(directory: Path) -> None:
    """All but the newest FALLBACKS - 1, since one is to come."""
    found = sorted(directory.glob(f"*{retention.MANIFEST}"), key=lambda path: path.lstat().st_mtime)
    for path in found[: max(0, len(found) - FALLBACKS + 1)]:
        path.unlink(missing_ok=True)
