"""Every byte of a bundle is redacted text or JSON, and none of its files is too large."""

from __future__ import annotations

import json
import tarfile
from io import BytesIO

import pytest

from watchdog.collect import render
from watchdog.collect.redact import MASK, Redactor
from watchdog.model.evidence import Dump, Frame, ProcessStacks, ThreadStack


def rendered(found: dict[str, object], room: int = 1 << 30) -> dict[str, bytes]:
    return {file.path: file.data for file in render.files_of(found, Redactor(), room) if isinstance(file, render.File)}


def test_text_json_and_rows() -> None:
    files = rendered(
        {
            "a.txt": "token=hunter2 \ud800",
            "b.json": {"token": "hunter2", "n": [1, None], "odd": {1}},
            "c.jsonl": [{"x": 1}, {"y": "password=hunter2"}],
        }
    )
    assert files["a.txt"] == f"token={MASK} \\ud800".encode()
    assert json.loads(files["b.json"]) == {"token": MASK, "n": [1, None], "odd": "{1}"}
    assert [json.loads(row) for row in files["c.jsonl"].splitlines()] == [{"x": 1}, {"y": f"password={MASK}"}]


def test_what_is_too_large_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "MOST_OF_ONE", 10)
    found = {"a": [1] * 5, "b": "x" * 9, "c": "x" * 9, "d": "x", "e": "x\u00e4" * 4, "f.jsonl": [11, 22, 33, 44]}
    made = list(render.files_of(found, Redactor(), 30))
    assert made == [
        "a: 11 bytes are too many and were left out",
        render.File("b", b"x" * 9),
        render.File("c", b"x" * 9),
        render.File("d", b"x"),
        "e: only the first 10 of 12 bytes",
        render.File("e", ("x\u00e4" * 3 + "x").encode()),
        "f.jsonl: only the newest 3 of 4 rows",
        "f.jsonl: 9 bytes are too many and were left out",
    ]


def test_what_is_cut_is_cut_before_it_is_redacted_and_the_secret_at_its_end_is_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret = "Zq7-known-secret-of-40-characters-0123xyz"
    seen: list[int] = []

    class Watched(Redactor):
        def text(self, text: str) -> str:
            seen.append(len(text))
            return super().text(text)

    monkeypatch.setattr(render, "MOST_OF_ONE", 1000)
    for kept in range(8, len(secret)):
        text = "x " * 400 + "y" * (200 - kept) + secret
        note, file = render.files_of(
            {"a.txt": text.replace("y" + secret, " " + secret) + "z" * 5000}, Watched([secret]), 9999
        )
        assert isinstance(file, render.File) and note == f"a.txt: only the first 1000 of {len(text) + 5000} bytes"
        assert secret[:8].encode() not in file.data
    assert max(seen) == 1000


def test_the_archive_holds_the_files_in_their_order() -> None:
    data = render.tar("incident", [render.File("b/1.txt", b"one"), render.File("a", b"")], 1_796_000_000.5)
    with tarfile.open(fileobj=BytesIO(data)) as archive:
        assert [(m.name, m.size, m.mode, m.mtime) for m in archive] == [
            ("incident/b/1.txt", 3, 0o640, 1_796_000_000),
            ("incident/a", 0, 0o640, 1_796_000_000),
        ]


def test_stacks_for_people() -> None:
    thread = ThreadStack(
        101, "MainThread", (Frame("Queue.get", "queue.py", 171), Frame("work", "app.py")), "S", "futex", True, True
    )
    main = ProcessStacks(101, 1, "ami", (thread,), "S", "main", 0.0512)
    child = ProcessStacks(102, 101, "sleep", (), "S", "child", error="no Python")
    assert render.stacks_text([Dump(15.0, (main, child))]) == (
        "=== 15.0 s after the first dump ===\n"
        "Process 101: ami (main, child of 1, state S, 0.051 cores)\n"
        'Thread 101 (active+gil): "MainThread"\n'
        "  state S, waits in futex\n"
        "    Queue.get (queue.py:171)\n"
        "    work (app.py)\n"
        "\n"
        "Process 102: sleep (child, child of 101, state S)\n"
        "  could not be read: no Python\n"
        "\n"
    )
