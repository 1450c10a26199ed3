"""What was found, to redacted files and one archive of them. Pure but for the compression's memory: touches no disk.

Every byte of a bundle passes through here, so this is the one place that redacts.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from watchdog.collect.redact import Redactor
from watchdog.model.evidence import Dump, ProcessStacks, ThreadStack

MOST_OF_ONE = 8 << 20
"""Bytes of one file. What is more is cut before it is redacted, which takes 0.4 s for each MB: text and rows as told at `_cut`."""
MOST_OF_ALL = 48 << 20
"""Bytes of all files before compression: they are held in memory."""
_MASKS = 1 << 20
"""Bytes that a file may grow by while it is redacted, since a mask may be longer than what it hides."""


class File(NamedTuple):
    path: str
    """Below the incident's folder."""
    data: bytes

    def listed(self) -> dict[str, object]:
        """Its line in the manifest."""
        return {"name": self.path, "size": len(self.data), "sha256": hashlib.sha256(self.data).hexdigest()}


def files_of(found: Mapping[str, object], redactor: Redactor, room: int) -> Iterator[File | str]:
    """Each as it is written, redacted; and, for one that is too large, a note that says so. `room`: bytes for all."""
    for path, whole in found.items():
        content, note = _cut(path, whole)
        if note is not None:
            yield note
        if content is None:
            continue
        data = _bytes_of(path, content, redactor)
        if len(data) > min(room, MOST_OF_ONE + _MASKS):
            yield f"{path}: {len(data)} bytes are too many and were left out"
            continue
        room -= len(data)
        yield File(path, data)


def _cut(path: str, content: object) -> tuple[object, str | None]:
    """What may be redacted of it, and a note if that is not all: the beginning of a text (where its cut leaves the beginning of a
    secret, that is hidden as one cut short), the newest of rows, and nothing of other JSON, which has no part that is whole."""
    if isinstance(content, str):
        data = content.encode(errors="backslashreplace")
        if len(data) <= MOST_OF_ONE:
            return content, None
        return data[:MOST_OF_ONE].decode(errors="ignore"), f"{path}: only the first {MOST_OF_ONE} of {len(data)} bytes"
    if path.endswith(".jsonl") and isinstance(content, list):
        rows = _newest_rows(content)
        return rows, f"{path}: only the newest {len(rows)} of {len(content)} rows" if len(rows) < len(content) else None
    size = _size(content)
    return (content, None) if size <= MOST_OF_ONE else (None, f"{path}: {size} bytes are too many and were left out")


def _newest_rows(rows: list[object]) -> list[object]:
    room, kept = MOST_OF_ONE, 0
    for row in reversed(rows):
        room -= _size(row) + 1
        if room < 0:
            break
        kept += 1
    return rows[len(rows) - kept :]


def _size(value: object) -> int:
    """At least so many bytes will it be, before anything is hidden."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))


def json_bytes(value: object) -> bytes:
    """Indented JSON; what JSON has no form for is written as text, and lone surrogates as escapes."""
    return (json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n").encode(errors="backslashreplace")


def tar(folder: str, files: Iterable[File], mtime: float) -> bytes:
    """A .tar.gz with the files below `folder`, in their order. `mtime`: wall-clock time."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=6, mtime=int(mtime)) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for file in files:
            member = tarfile.TarInfo(f"{folder}/{file.path}")
            member.size, member.mtime, member.mode = len(file.data), int(mtime), 0o640
            archive.addfile(member, io.BytesIO(file.data))
    return buffer.getvalue()


def stacks_text(dumps: Iterable[Dump]) -> str:
    """Dumps for people: py-spy's form, with the kernel's word on each thread."""
    return "\n".join(line for dump in dumps for line in _dump_lines(dump)) + "\n"


def _bytes_of(path: str, content: object, redactor: Redactor) -> bytes:
    if isinstance(content, str):
        return redactor.text(content).encode(errors="backslashreplace")
    if path.endswith(".jsonl") and isinstance(content, list):
        rows = (json.dumps(redactor.value(row), ensure_ascii=False, default=str) for row in content)
        return "".join(f"{row}\n" for row in rows).encode(errors="backslashreplace")
    return json_bytes(redactor.value(content))


def _dump_lines(dump: Dump) -> Iterator[str]:
    yield f"=== {dump.at_s:.1f} s after the first dump ==="
    for process in dump.processes:
        yield from _process_lines(process)
        yield ""


def _process_lines(process: ProcessStacks) -> Iterator[str]:
    cores = "" if process.cpu_cores is None else f", {process.cpu_cores:.3f} cores"
    yield f"Process {process.pid}: {process.comm} ({process.role}, child of {process.ppid}, state {process.state}{cores})"
    if process.error is not None:
        yield f"  could not be read: {process.error}"
    for thread in process.threads:
        yield from _thread_lines(thread)


def _thread_lines(thread: ThreadStack) -> Iterator[str]:
    activity = ("active+gil" if thread.gil else "active") if thread.active else "idle"
    yield f'Thread {thread.tid} ({activity}): "{thread.name}"'
    yield f"  state {thread.state}, waits in {thread.wchan}"
    for frame in thread.frames:
        yield f"    {frame}"
