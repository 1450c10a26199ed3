"""Reads back what was sealed. May read the file it is given; unpacks nothing to disk and believes no size in it."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zlib
from pathlib import Path, PurePosixPath

EVIDENCE = "evidence.json"

MOST_OF_EVIDENCE = 64 << 20
"""Bytes; a tree of 100 processes with 100 threads each makes 20 MB."""
MOST_OF_BUNDLE = 256 << 20
"""Bytes of the whole bundle once unpacked: a few MB of gzip can hold gigabytes."""
MOST_OF_MANIFEST = 8 << 20


class BundleError(ValueError):
    """This is no bundle, or not a whole one; the text says what is wrong, for an operator."""


class _Bounded(io.RawIOBase):
    """A stream that ends in a BundleError after so many bytes."""

    def __init__(self, stream: gzip.GzipFile, most: int) -> None:
        self._stream = stream
        self._left = most

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(self._left + 1 if size < 0 else min(size, self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            raise BundleError(f"it unpacks to more than {MOST_OF_BUNDLE} bytes, which no bundle does")
        return data


def read_manifest(path: Path) -> dict[str, object]:
    """A bundle's manifest, `<incident>.json`, given its path or the bundle's. Raises BundleError, or OSError."""
    beside = path.with_name(path.name.removesuffix(".tar.gz") + ".json") if path.name.endswith(".tar.gz") else path
    with beside.open("rb") as file:
        data = file.read(MOST_OF_MANIFEST + 1)
    return _object(beside, data, MOST_OF_MANIFEST)


def open_bundle_evidence(path: Path) -> dict[str, object]:
    """The evidence.json inside a bundle, or of a fallback copy. Raises BundleError, or OSError when it cannot be opened."""
    if path.suffix == ".json":
        evidence = read_manifest(path).get("evidence")
        if not isinstance(evidence, dict):
            raise BundleError(f"{path}: no evidence in it: expected a bundle (.tar.gz) or a fallback copy")
        return evidence
    with path.open("rb") as file, gzip.GzipFile(fileobj=file) as packed:
        try:
            data = _member(_Bounded(packed, MOST_OF_BUNDLE))
        except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, BundleError) as problem:
            raise BundleError(f"{path}: not a whole bundle: {problem}") from problem
    if data is None:
        raise BundleError(f"{path}: no {EVIDENCE} in it, so it was not made by watchdog, or is cut short")
    return _object(path, data, MOST_OF_EVIDENCE)


def _member(stream: _Bounded) -> bytes | None:
    """The first regular member `<incident>/evidence.json`; links are not followed."""
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            parts = PurePosixPath(member.name).parts
            if len(parts) == 2 and parts[1] == EVIDENCE and member.isreg():
                found = archive.extractfile(member)
                return None if found is None else found.read(MOST_OF_EVIDENCE + 1)
    return None


def _object(path: Path, data: bytes, most: int) -> dict[str, object]:
    if len(data) > most:
        raise BundleError(f"{path}: more than {most} bytes")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as problem:
        raise BundleError(f"{path}: not whole JSON: {problem}") from problem
    if not isinstance(value, dict):
        raise BundleError(f"{path}: expected an object, found {type(value).__name__}")
    return value
