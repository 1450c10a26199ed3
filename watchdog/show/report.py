"""A diagnosis and an incident, told as an engineer would tell them; and lists of incidents. Pure: decides nothing."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypedDict

from watchdog.model.evidence import Diagnosis, Matched
from watchdog.model.record import IncidentRecord
from watchdog.show.words import clean, duration, moment, paint, shorten, table

VERDICTS: Final = {
    "wedged": "It will not go on by itself.",
    "idle": "It has nothing to do, and is well.",
    "busy": "It works, only slowly.",
    "unknown": "What it does could not be told.",
}

CAUSES: Final = {
    "inside": "The cause is inside of the program: waiting will not heal it.",
    "outside": "The cause is outside of the program: waiting may heal it, and a restart may meet it again.",
}

_STYLES: Final = {"wedged": "red", "idle": "green", "busy": "green", "unknown": "yellow"}


class IncidentLine(TypedDict):
    """One incident in `incidents --json`."""

    id: str
    program: str
    opened_at: float
    """Wall-clock seconds since the epoch."""
    rule: str
    group: str
    verdict: str | None
    kind: str | None
    action: str
    outcome: str | None
    """None: still open."""
    seconds: dict[str, float]
    """Seconds from the last progress to each step."""
    bundle: str | None
    """Ends in .json: there is the essential part only, in the runtime directory, since the archive could not be written."""


def diagnosis_text(found: Diagnosis, name: str, width: int = 80, colour: bool = False) -> str:
    """What hangs on what, which known fault it is, how that is known, what to do now and for good. `name`: of what was judged."""
    verdict = paint(found.verdict, _STYLES[found.verdict], colour)
    lines = [f"{clean(name)}: {verdict}{', ' + clean(found.kind) if found.kind else ''}"]
    lines += _paragraph(found.summary or VERDICTS[found.verdict], width)
    if found.cause and found.verdict == "wedged":
        lines += _paragraph(CAUSES[found.cause], width)
    sections = (
        ("What hangs on what", list(_stacks(found.matched))),
        ("How that is known", [line for why in found.why for line in _item(why, width)]),
        ("What to do now", _paragraph(found.advice.now, width)),
        ("What to do for good", _paragraph(found.advice.for_good, width)),
    )
    return "\n".join([*lines, *_sections(sections, colour)])


def _stacks(matched: Sequence[Matched]) -> Iterator[str]:
    """Each thread that the signature matched, innermost frame first, as py-spy prints it."""
    for match in matched:
        yield f"  pid {match.pid}{', ' + clean(match.thread) if match.thread else ''}"
        yield from (f"    {clean(frame)}" for frame in match.frames)


def _paragraph(text: str, width: int) -> list[str]:
    return textwrap.wrap(clean(text), max(width, 40), initial_indent="  ", subsequent_indent="  ")


def _item(text: str, width: int) -> list[str]:
    return textwrap.wrap(clean(text), max(width, 40), initial_indent="  - ", subsequent_indent="    ")


def incident_line(record: IncidentRecord) -> IncidentLine:
    """One incident for machines."""
    return {
        "id": record.id,
        "program": record.program,
        "opened_at": record.opened_at,
        "rule": record.rule,
        "group": record.group,
        "verdict": record.verdict,
        "kind": record.kind,
        "action": record.action,
        "outcome": record.outcome,
        "seconds": dict(record.seconds),
        "bundle": record.bundle,
    }


def newest_first(records: Iterable[IncidentRecord]) -> list[IncidentRecord]:
    """By the time they were opened; the id settles ties."""
    return sorted(records, key=lambda r: (r.opened_at, r.id), reverse=True)


def incidents_text(records: Sequence[IncidentRecord], width: int = 80, colour: bool = False) -> str:
    """A line for each incident, in the order given."""
    if not records:
        return "No incidents."
    head = ("ID", "VERDICT", "ACTION", "OUTCOME", "PROGRAM")  # the id begins with the time, in UTC
    rows = [
        (
            clean(record.id),
            record.verdict or "-",
            record.action,
            record.outcome or "open",
            clean(record.program),
        )
        for record in records
    ]
    fixed = max(len(line) for line in table(head[:-1], [row[:-1] for row in rows]))
    room = max(12, width - fixed - 2)
    lines = table(head, [(*row[:-1], shorten(row[-1], room)) for row in rows])
    return "\n".join([paint(lines[0], "bold", colour), *lines[1:]])


class ManifestFacts(NamedTuple):
    """What a bundle's manifest adds for people; '' and () where it does not say."""

    summary: str = ""
    now: str = ""
    for_good: str = ""
    error: str = ""
    """Why the archive could not be written."""
    missing: tuple[str, ...] = ()
    """Evidence that could not be had, and why."""


def manifest_facts(manifest: Mapping[str, object]) -> ManifestFacts:
    """From the JSON of a manifest, or of a fallback copy, which has it inside. What has another form is left out."""
    inside = manifest.get("manifest")
    manifest = inside if isinstance(inside, dict) else manifest
    advice = manifest.get("advice")
    advice = advice if isinstance(advice, dict) else {}
    collectors = manifest.get("collectors")
    lines = [line for line in collectors if isinstance(line, dict)] if isinstance(collectors, list) else []
    return ManifestFacts(
        str(manifest.get("summary") or ""),
        str(advice.get("now") or ""),
        str(advice.get("for_good") or ""),
        str(manifest.get("error") or ""),
        tuple(
            f"{line.get('name')}: {line.get('status')}, {line.get('why')}"
            for line in lines
            if line.get("status") != "ok"
        ),
    )


def incident_text(
    record: IncidentRecord, sealed: ManifestFacts | None = None, width: int = 80, colour: bool = False
) -> str:
    """One incident: what was seen, decided and done, how long each step took, and what to do. `sealed`: of its bundle."""
    verdict = record.verdict or "not judged"
    facts = (
        ("incident", record.id),
        ("program", record.program),
        ("opened", moment(record.opened_at)),
        ("rule", f"{record.rule}: {record.group}"),
        ("verdict", f"{verdict}, {record.kind}" if record.kind else verdict),
        ("action", record.action),
        ("outcome", record.outcome or "still open"),
        ("bundle", _whereabouts(record.bundle)),
    )
    lines = [f"{paint(name.ljust(9), 'bold', colour)}{clean(value)}" for name, value in facts]
    if record.detail:
        lines += ["", *_paragraph(record.detail, width)]
    if record.seconds:
        steps = [(clean(step), duration(s)) for step, s in sorted(record.seconds.items(), key=lambda item: item[1])]
        lines += ["", paint("Since the last progress", "bold", colour)]
        lines += [f"  {line}" for line in table(("step", "after"), steps)[1:]]
    if sealed is not None:
        lines += _sections(_sealed_sections(sealed, width), colour)
    return "\n".join(lines)


def _whereabouts(bundle: str | None) -> str:
    if bundle is None:
        return "none"
    if bundle.endswith(".json"):
        return f"none; the essential part of it is in {bundle} (in memory: copy it before the host restarts)"
    return bundle


def _sealed_sections(sealed: ManifestFacts, width: int) -> Iterator[tuple[str, list[str]]]:
    yield "What it was", _paragraph(sealed.summary, width)
    yield "What to do now", _paragraph(sealed.now, width)
    yield "What to do for good", _paragraph(sealed.for_good, width)
    yield "Why it is not in the archive", _paragraph(sealed.error, width)
    yield "Not in the bundle", [line for missing in sealed.missing for line in _item(missing, width)]


def _sections(sections: Iterable[tuple[str, list[str]]], colour: bool) -> Iterator[str]:
    """Each with its heading; those without a body are left out."""
    for title, body in sections:
        if body:
            yield from ("", paint(title, "bold", colour), *body)
