"""Request files: how a command asks the daemon to act. May write below the runtime directory; acts on nothing itself.

`<runtime>/requests/<unique>.json`: {"verb", "program", "for_s", "why", "at"}, made under a hidden name and renamed, so that the
daemon never reads half of one. The daemon reads it, unlinks it, and turns it into an event. Whether it did as it was asked is
told by the snapshots that it writes after that, and by nothing else.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

from watchdog.cli.begin import Failure, daemon_lives, unknown_program
from watchdog.exitcode import UNREACHABLE
from watchdog.model.event import Verb
from watchdog.show.problems import is_stale
from watchdog.show.status import ProgramLine, Snapshot, Unreadable, path_in, read

TAKEN_WITHIN: Final = 15.0
"""Seconds in which a daemon that lives takes a request: three of its default intervals."""

TOLD_INTERVALS: Final = 6
"""Of the daemon: while nothing goes on it writes a snapshot at every second look, and the second one is sure to know."""

SEE_LOG: Final = "Its log says why: `journalctl -u worker-watchdog`, or where `watchdog run` writes its stderr."

LONGEST: Final = 55.0
"""Seconds: the daemon takes no request that is older than a minute."""

_POLL: Final = 0.05


def living_daemon(runtime: Path) -> Snapshot:
    """The snapshot of a daemon that is there to take a request. Raises Failure (3) when none is."""
    found = read(path_in(runtime), time.time())
    if isinstance(found, Unreadable):
        raise Failure(str(found), UNREACHABLE)
    pid = found["daemon"]["pid"]
    if not daemon_lives(found):
        raise Failure(
            f"the daemon (pid {pid}) is gone, so nobody would take the request.\n"
            "Start it (`systemctl start worker-watchdog`, or `watchdog run`) and ask again.",
            UNREACHABLE,
        )
    if is_stale(found):
        raise Failure(
            f"the daemon (pid {pid}) has not written for {found['age_s']:.0f} s: it is hung or stopped, nothing was asked.\n"
            "See `watchdog status`; `systemctl restart worker-watchdog` starts it anew.",
            UNREACHABLE,
        )
    return found


def matching(found: Snapshot, pattern: str) -> list[str]:
    """The watched programs that `pattern` (a name, or a shell pattern on group:name) means. Raises Failure (2) when it is none."""
    watched = [line["program"] for line in found["programs"] if line["mode"] is not None]
    names = [name for name in watched if name == pattern or fnmatchcase(name, pattern)]
    if not names:
        unknown_program(pattern, watched)
    return names


def leave(runtime: Path, verb: Verb, program: str, *, for_s: float = 0.0, why: str = "") -> Path:
    """Put one request down; the path that vanishes when the daemon takes it. Raises Failure (3) when it cannot be written."""
    directory = runtime / "requests"
    name = f"{time.time_ns()}-{os.getpid()}-{os.urandom(4).hex()}.json"
    text = json.dumps({"verb": verb, "program": program, "for_s": for_s, "why": why, "at": time.time()})
    try:
        directory.mkdir(mode=0o750, exist_ok=True)
        hidden = directory / f".{name}"
        hidden.write_text(text, encoding="utf-8")
        return hidden.rename(directory / name)
    except OSError as error:
        raise Failure(
            f"cannot leave a request in {directory}: {error.strerror}.\nTry again as root, or as the daemon's user.",
            UNREACHABLE,
        ) from error


class Asked(NamedTuple):
    """One request to the daemon, about one program."""

    program: str
    path: Path
    """It vanishes when the daemon takes it."""


def ask(
    runtime: Path, daemon: Snapshot, asked: Sequence[Asked], done: Callable[[ProgramLine], bool]
) -> dict[str, ProgramLine | None]:
    """Wait until the daemon has taken every request and has written what came of it.

    What it says of each of these programs then, None where it knows no such program any more. `done`: is it as it was asked for?
    Raises Failure (3) when the daemon does not take a request, or writes nothing after it.
    """
    for one in asked:
        wait_until_taken(one.path, patience(daemon))
    return _wait_for_word(runtime, daemon, [one.program for one in asked], done)


def _wait_for_word(
    runtime: Path, daemon: Snapshot, names: Sequence[str], done: Callable[[ProgramLine], bool]
) -> dict[str, ProgramLine | None]:
    """The first snapshot in which all are `done`, or the second that is newer: the first may have been made just before."""
    taken = time.time()
    deadline = time.monotonic() + max(TAKEN_WITHIN, TOLD_INTERVALS * daemon["daemon"]["interval_s"])
    newer: list[float] = []
    lines: dict[str, ProgramLine | None] = {}
    while time.monotonic() < deadline and len(newer) < 2:
        time.sleep(_POLL)
        found = read(path_in(runtime), time.time())
        if isinstance(found, Unreadable) or found["at"] <= max([taken, *newer]):
            continue
        newer.append(found["at"])
        there = {line["program"]: line for line in found["programs"]}
        lines = {name: there.get(name) for name in names}
        if all(line is not None and done(line) for line in lines.values()):
            break
    if not newer:
        raise Failure(
            "the daemon took the request, and has written nothing since: what came of it is not known.\n"
            f"See `watchdog status`. {SEE_LOG}",
            UNREACHABLE,
        )
    return lines


def patience(found: Snapshot) -> float:
    """Seconds to wait for the daemon of this snapshot: it looks for requests once in each interval."""
    return min(max(TAKEN_WITHIN, 3 * found["daemon"]["interval_s"]), LONGEST)


def wait_until_taken(path: Path, within: float) -> None:
    """Wait for the daemon to take the request. Raises Failure (3), and takes the request back, when it does not."""
    deadline = time.monotonic() + within
    while path.exists():
        if time.monotonic() > deadline:
            path.unlink(missing_ok=True)
            raise Failure(
                f"the daemon has not taken the request for {within:.0f} s; it was taken back.\nSee `watchdog status`.",
                UNREACHABLE,
            )
        time.sleep(_POLL)
