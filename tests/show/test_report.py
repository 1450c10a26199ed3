"""A diagnosis and incidents, as people and machines read them."""

from __future__ import annotations

from dataclasses import replace

from watchdog.model.evidence import Diagnosis, Matched
from watchdog.model.record import IncidentRecord
from watchdog.model.signature import Advice
from watchdog.show import report

LOST = Diagnosis(
    verdict="wedged",
    kind="dataloader-lost-batch",
    cause="inside",
    summary="The loader child lost one batch; its parent waits for that batch for ever.",
    advice=Advice("Restart this program.", "Give the DataLoader a timeout."),
    matched=(
        Matched(
            "dataloader-lost-batch",
            101,
            "MainThread",
            ("select (selectors.py:415)", "_try_get_data (dataloader.py:1132)"),
        ),
        Matched("dataloader-lost-batch", 202, None, ("get (multiprocessing/queues.py:103)",)),
    ),
    why=("Both ends wait for each other.", "Their stacks did not move in 15 s."),
)

RECORD = IncidentRecord(
    id="20261130T030557Z-gpu-one-101",
    program="gpu:one",
    opened_at=1_790_000_000.0,
    rule="stall",
    group="all silent",
    verdict="wedged",
    kind="dataloader-lost-batch",
    action="restart",
    outcome="recovered",
    seconds={"recovered": 342.0, "detected": 275.5, "sealed": 301.0},
    bundle="/var/lib/some/incidents/20261130T030557Z-gpu-one-101.tar.gz",
    detail="New progress 12 s after the start.",
)


def test_a_diagnosis_says_what_hangs_why_and_what_to_do() -> None:
    assert report.diagnosis_text(LOST, "gpu:one") == "\n".join(
        [
            "gpu:one: wedged, dataloader-lost-batch",
            "  The loader child lost one batch; its parent waits for that batch for ever.",
            "  The cause is inside of the program: waiting will not heal it.",
            "",
            "What hangs on what",
            "  pid 101, MainThread",
            "    select (selectors.py:415)",
            "    _try_get_data (dataloader.py:1132)",
            "  pid 202",
            "    get (multiprocessing/queues.py:103)",
            "",
            "How that is known",
            "  - Both ends wait for each other.",
            "  - Their stacks did not move in 15 s.",
            "",
            "What to do now",
            "  Restart this program.",
            "",
            "What to do for good",
            "  Give the DataLoader a timeout.",
        ]
    )


def test_an_unknown_verdict_is_said_without_empty_headings() -> None:
    unknown = Diagnosis("unknown", None, None, "", Advice(), why=("No signature matched.",))
    assert report.diagnosis_text(unknown, "dump.txt") == "\n".join(
        ["dump.txt: unknown", "  What it does could not be told.", "", "How that is known", "  - No signature matched."]
    )


def test_text_of_a_dump_cannot_rewrite_the_terminal() -> None:
    evil = Diagnosis("wedged", "x", None, "s", Advice(), (Matched("x", 1, "a\x1b[2Jb", ("f\n(g)",)),))
    text = report.diagnosis_text(evil, "e\x1bvil")
    assert "\x1b" not in text and "  pid 1, a?[2Jb\n    f (g)" in text


def test_an_incident_for_machines_has_designs_keys() -> None:
    found = report.incident_line(RECORD)
    assert list(found) == [
        "id",
        "program",
        "opened_at",
        "rule",
        "group",
        "verdict",
        "kind",
        "action",
        "outcome",
        "seconds",
        "bundle",
    ]
    assert all(value == getattr(RECORD, key) for key, value in found.items())


def test_incidents_are_listed_newest_first() -> None:
    older = IncidentRecord(id="a", program="cpu:two", opened_at=1_789_000_000.0, rule="stall", group="g")
    twin = IncidentRecord(id="b", program="cpu:two", opened_at=1_789_000_000.0, rule="stall", group="g")
    ordered = report.newest_first([older, RECORD, twin])
    assert [r.id for r in ordered] == [RECORD.id, "b", "a"]
    head, first, second, _ = report.incidents_text(ordered).splitlines()
    assert head.split() == ["ID", "VERDICT", "ACTION", "OUTCOME", "PROGRAM"]
    assert first.split()[0] == RECORD.id and first.split()[-4:] == ["wedged", "restart", "recovered", "gpu:one"]
    assert second.split()[-4:] == ["-", "none", "open", "cpu:two"]


def test_no_incidents_is_said() -> None:
    assert report.incidents_text([]) == "No incidents."


def test_an_incident_is_told_with_its_times_in_order() -> None:
    text = report.incident_text(RECORD)
    assert "verdict  wedged, dataloader-lost-batch" in text
    assert "bundle   /var/lib/some/incidents/20261130T030557Z-gpu-one-101.tar.gz" in text
    assert text.endswith(
        "Since the last progress\n  detected   4 min 36 s\n  sealed     5 min 1 s\n  recovered  5 min 42 s"
    )
    assert "\n\n  New progress 12 s after the start.\n\n" in text


def test_an_open_incident_says_so() -> None:
    text = report.incident_text(IncidentRecord(id="a", program="cpu:two", opened_at=1.0, rule="stall", group="g"))
    assert "verdict  not judged" in text and "outcome  still open" in text and "bundle   none" in text


def test_an_incident_is_told_with_what_its_bundle_says() -> None:
    manifest = {
        "summary": "One batch was lost.",
        "advice": {"now": "Restart it.", "for_good": "Set a timeout."},
        "collectors": [
            {"name": "stacks", "status": "ok", "why": None},
            {"name": "maps", "status": "timed out", "why": "no answer within 3 s"},
        ],
    }
    text = report.incident_text(RECORD, report.manifest_facts(manifest))
    assert text.endswith(
        "\n\nWhat it was\n  One batch was lost.\n\nWhat to do now\n  Restart it.\n\nWhat to do for good\n  Set a timeout."
        "\n\nNot in the bundle\n  - maps: timed out, no answer within 3 s"
    )


def test_a_manifest_of_another_form_adds_nothing() -> None:
    for manifest in ({}, {"advice": 1, "collectors": {"a": 1}, "summary": None}, {"collectors": [1, None]}):
        assert report.manifest_facts(manifest) == report.ManifestFacts()
        assert report.incident_text(RECORD, report.manifest_facts(manifest)) == report.incident_text(RECORD)


def test_an_incident_whose_evidence_is_in_the_fallback_says_where_and_why() -> None:
    copy = "/run/some/fallback/20261130T030557Z-gpu-one-101.json"
    manifest = {"summary": "One batch was lost.", "error": "the archive /var/lib/some could not be written: full"}
    sealed = report.manifest_facts({"manifest": manifest, "evidence": {}})
    text = report.incident_text(replace(RECORD, bundle=copy), sealed, 500)
    assert f"bundle   none; the essential part of it is in {copy} (in memory: copy it" in text
    assert "One batch was lost." in text
    assert "Why it is not in the archive\n  the archive /var/lib/some could not be written: full" in text
    assert "archive" not in report.incident_text(RECORD, width=500)
