"""Request files, as commands leave them: read, unlinked, turned into events. Decides nothing; trusts nothing that it reads.

The form is told in cli/request.py. A file that is malformed is removed and said, and means nothing; so is one that is too old,
since whoever asked has gone away.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, get_args

from watchdog.model.event import LONGEST_PAUSE, Verb

LIMIT: Final = 65536
"""Bytes of one request."""

TOO_OLD: Final = 60.0
"""Seconds: four times as long as a command waits to be heard."""


class Request(NamedTuple):
    verb: Verb
    program: str
    for_s: float
    why: str


class Malformed(NamedTuple):
    path: str
    why: str


def take(runtime: Path, wall: float) -> Iterator[Request | Malformed]:
    """Every request that lies there, oldest first; each is unlinked before it is given."""
    directory = runtime / "requests"
    try:
        paths = sorted(directory.iterdir())
    except OSError:
        return
    for path in paths:
        if path.suffix == ".json" and not path.name.startswith("."):
            yield _take_one(path, wall)


def _take_one(path: Path, wall: float) -> Request | Malformed:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        return _away(path, Malformed(str(path), str(error.strerror)))
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return _away(path, Malformed(str(path), "no regular file"))
        data = file.read(LIMIT + 1)
    return _away(path, _parse(str(path), data, wall))


def _away(path: Path, result: Request | Malformed) -> Request | Malformed:
    try:
        path.unlink()
    except OSError as error:
        return Malformed(str(path), f"cannot be removed, so it is not obeyed: {error.strerror}")
    return result


def _parse(path: str, data: bytes, wall: float) -> Request | Malformed:
    try:
        found = json.loads(data)
        verb, program, why = found["verb"], found["program"], found.get("why") or ""
        for_s, age = float(found.get("for_s") or 0.0), wall - float(found["at"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return Malformed(path, "not a request")
    if verb not in get_args(Verb) or not isinstance(program, str) or not isinstance(why, str):
        return Malformed(path, f"not a request: verb {verb!r}")
    if verb == "pause" and not 0 < for_s <= LONGEST_PAUSE:
        return Malformed(path, f"a pause of {for_s:g} s: it must be between 0 s and 7 d")
    if age > TOO_OLD:
        return Malformed(path, f"{age:.0f} s old: whoever asked has gone away")
    return Request(verb, program, for_s, why[:500])
