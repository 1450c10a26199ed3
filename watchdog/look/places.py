"""Where each program's logs are, and which of them two programs share. May stat logs and follow local links; decides nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from watchdog.childread import ReadFailure
from watchdog.look.files import Files
from watchdog.look.heartbeats import Stream
from watchdog.model.observation import ProcessInfo
from watchdog.model.rule import Policy, Ruleset

_NULL = "/dev/null"
_OF_THE_ASKER = ("/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/", "/proc/thread-self/")
"""Mean another file to each process that opens them; supervisord's cannot be found from here."""


class Places(NamedTuple):
    """One program's logs."""

    streams: Mapping[str, Stream]
    """Path to stream; a path that both streams go to is named once."""
    shared: bool
    """Another program writes to one of them: no growth can be told to be this one's."""
    troubles: tuple[str, ...] = ()


def places_of_all(infos: Mapping[str, ProcessInfo], ruleset: Ruleset, files: Files) -> dict[str, Places]:
    """The logs of every program, the unwatched ones included: they too may write to a watched one's log."""
    found = {program: _places(info, ruleset.policy_for(program)) for program, info in infos.items()}
    owners: defaultdict[object, set[str]] = defaultdict(set)
    keys = {path: _keys(path, files) for places in found.values() for path in places.streams}
    for program, places in found.items():
        for path in places.streams:
            for key in keys[path]:
                owners[key].add(program)
    return {program: _with_sharing(program, places, keys, owners) for program, places in found.items()}


def _places(info: ProcessInfo, policy: Policy | None) -> Places:
    named: list[tuple[str, Stream]] = [(info.stdout_logfile, "stdout"), (info.stderr_logfile, "stderr")]
    if policy is not None and policy.logs:
        named = [(path, "log") for path in policy.logs]
    streams: dict[str, Stream] = {}
    troubles = []
    for path, stream in named:
        if path.startswith(_OF_THE_ASKER):
            troubles.append(
                f"log {path} is supervisord's own output, which cannot be watched; give the program a log file"
            )
        elif path not in ("", _NULL):
            streams.setdefault(path, stream)
    return Places(streams, shared=False, troubles=tuple(troubles))


def _keys(path: str, files: Files) -> Iterable[object]:
    """By what two spellings of one file are known: its inode, and its path without links (for what is not there yet)."""
    seen = files.stat(path)
    return (files.resolve(path),) if isinstance(seen, ReadFailure) else (files.resolve(path), (seen.dev, seen.ino))


def _with_sharing(
    program: str, places: Places, keys: Mapping[str, Iterable[object]], owners: Mapping[object, set[str]]
) -> Places:
    troubles = list(places.troubles)
    for path in places.streams:
        others = sorted(set().union(*(owners[key] for key in keys[path])) - {program})
        if others:
            troubles.append(
                f"log {path} is shared with {', '.join(others)}: it cannot be told who writes, so it is no heartbeat of either;"
                " give each its own (%(program_name)s_%(process_num)s)"
            )
    return places._replace(shared=len(troubles) > len(places.troubles), troubles=tuple(troubles))
