"""A program's progress file. May stat and read it; decides nothing, writes nothing.

A change of its content is a heartbeat, whatever the content; the keys of a JSON object have meaning. A file that was last written
before the process began, or that the process before it left, is not this one's: "none yet". Once it is seen to differ from what the
first look at the process found, it is this one's whatever its time, since wall clocks are set back. A file that vanished, is torn
(it begins as a JSON object and is none), empty, binary, over 1 MiB or no regular file is unknown.
"""

from __future__ import annotations

import hashlib
import json
from typing import Final, Literal, NamedTuple

from watchdog.childread import FileStat, ReadFailure
from watchdog.look.files import NOT_A_FILE, Files, is_regular
from watchdog.look.heartbeats import whole_number
from watchdog.model.observation import Identity, ProcessInfo

LARGEST: Final = 1 << 20
SLACK_NS: Final = 1_000_000_000
"""A file this much older than the process still counts as its own: filesystems and the kernel round."""
_LONGEST_PHASE = 200


class FileSeen(NamedTuple):
    """What one look at a progress file found; the fields are those of an Observation."""

    progress: int | None
    """How often it was seen to change; 0: none yet; None: unknown."""
    progress_count: int | None = None
    progress_total: int | None = None
    says: Literal["working", "idle"] | None = None
    in_flight: int | None = None
    phase: str | None = None
    trouble: str | None = None


NONE_YET: Final = FileSeen(0)


class ProgressFile:
    """One program's progress file. Used by one thread."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._left_behind: FileStat | None = None
        self._first: FileStat | None = None
        """What the first look at this process found; None: no file, or it was not looked yet."""
        self._looked = False
        self._read: FileStat | None = None
        self._digest = b""
        self._seen = NONE_YET

    def restart(self) -> None:
        """Another main process is watched from now on; what lies there is its predecessor's until it is written anew."""
        self._left_behind = self._read or self._left_behind
        self._first, self._looked = None, False
        self._read, self._digest, self._seen = None, b"", NONE_YET

    def look(self, path: str | None, began_ns: int | None) -> FileSeen:
        """The file now.

        `path` None: it may not be read, see path_of. `began_ns`: when the process began, wall clock; None: not known.
        """
        if path is None:
            return FileSeen(
                None, trouble="progress.file leads out of its directory with the names of this program; not read"
            )
        found = self._files.stat(path)
        if isinstance(found, ReadFailure):
            if found.why == "vanished" and self._seen.progress == 0:
                self._looked = True
                return NONE_YET
            return FileSeen(None, trouble=f"progress file {found.detail}")
        if not is_regular(found):  # whatever its age: a device is no file that has yet to be written
            return FileSeen(None, trouble=f"progress file {path} {NOT_A_FILE}")
        if self._seen.progress == 0 and self._is_older(found, began_ns):
            return NONE_YET
        if _unchanged(found, self._read):
            return self._seen
        return self._read_anew(path, found)

    def _is_older(self, found: FileStat, began_ns: int | None) -> bool:
        """Was it written before this process began?"""
        if not self._looked:
            self._first, self._looked = found, True
        if _unchanged(found, self._left_behind):
            return True
        if not _unchanged(found, self._first):
            return False  # written since this process is watched
        return began_ns is not None and found.mtime_ns < began_ns - SLACK_NS

    def _read_anew(self, path: str, found: FileStat) -> FileSeen:
        content = self._content(path, found)
        if isinstance(content, str):
            return FileSeen(None, trouble=f"progress file {path} {content}")
        said = parse(content)
        if isinstance(said, str):
            return FileSeen(None, trouble=f"progress file {path} {said}")
        digest = hashlib.blake2b(content, digest_size=16).digest()
        generation = (self._seen.progress or 0) + (digest != self._digest)
        trouble = None if said.trouble is None else f"progress file {path} {said.trouble}"
        self._read, self._digest, self._seen = found, digest, said._replace(progress=generation, trouble=trouble)
        return self._seen

    def _content(self, path: str, found: FileStat) -> bytes | str:
        """The whole content, or what is wrong with the file."""
        if found.size > LARGEST:
            return f"is larger than {LARGEST >> 20} MiB, and not read"
        file = self._files.open(path)
        if isinstance(file, ReadFailure):
            return f"could not be read: {file.detail}"
        try:
            content = file.pread(found.size + 1, 0)
        finally:
            file.close()
        return f"could not be read: {content.detail}" if isinstance(content, ReadFailure) else content


def _unchanged(found: FileStat, before: FileStat | None) -> bool:
    """Is it the same file with the same size and time? (mode and links do not matter)"""
    return before is not None and found[:4] == before[:4]


def parse(content: bytes) -> FileSeen | str:
    """What the content says (progress 0), or what is wrong with it, in words that follow the file's name."""
    try:
        text = content.decode("utf-8").strip()
    except UnicodeDecodeError:
        return "is binary; it should be text, best a JSON object"
    if "\0" in text:
        return "is binary; it should be text, best a JSON object"
    if not text:
        return "is empty; write it under another name, then rename it"
    if not text.startswith("{"):
        return NONE_YET
    try:
        keys = json.loads(text)
    except (ValueError, RecursionError):
        return "is torn (no whole JSON object); write it under another name, then rename it"
    return _parse_keys(keys)


def _parse_keys(keys: dict[str, object]) -> FileSeen:
    numbers = {name: _number(keys.get(name)) for name in ("count", "total", "in_flight")}
    wrong = [name for name, value in numbers.items() if value is None and keys.get(name) is not None]
    state = keys.get("state")
    says: Literal["working", "idle"] | None = "working" if state == "working" else "idle" if state == "idle" else None
    if says is None and state is not None:
        wrong.append("state")
    phase = keys.get("phase")
    return FileSeen(
        0,
        progress_count=numbers["count"],
        progress_total=numbers["total"],
        says=says,
        in_flight=numbers["in_flight"],
        phase=phase[:_LONGEST_PHASE] if isinstance(phase, str) else None,
        trouble=f"has {', '.join(wrong)} that cannot be understood (whole numbers; state: working or idle)"
        if wrong
        else None,
    )


def _number(value: object) -> int | None:
    """A whole number, also one written as text (`"12"`) or with a fraction of zero (12.0)."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return whole_number(str(value)) if isinstance(value, int | str) and len(str(value)) < 32 else None


def path_of(template: str, info: ProcessInfo, ident: Identity) -> str | None:
    """The file of this process; None where its names would lead out of the directory that the template names.

    `/` and NUL in names become `_`, and a part of the path that becomes `..` is refused: supervisord's own names hold neither, but
    a server that only claims to be one may send any.
    """
    names = {"program": info.program, "group": info.group, "process": info.name, "pid": str(ident.pid)}
    path = template
    for name, value in names.items():
        path = path.replace("{" + name + "}", value.replace("/", "_").replace("\0", "_"))
    climbs = path.split("/").count("..") != template.split("/").count("..")
    return None if climbs else path
