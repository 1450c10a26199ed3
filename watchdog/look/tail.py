"""Follows one log file: by how much it grew, and its new lines. May read the file; decides nothing, writes nothing.

Output means that the file grew. A shrink (copytruncate, clearProcessLogs) or a new inode (rotation) is a new baseline: its bytes
are no growth, though its lines are read. A file that was renamed is read to its end through the kept descriptor before the new
one is.
Bounds: 1 MiB of new text a look (what is beyond is skipped, and still counts as growth), 64 KiB of a line that has no end yet
(the rest of that line is dropped), 4 KiB of a line for matching.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from watchdog.ansi import ANSI
from watchdog.childread import ReadFailure
from watchdog.look.files import NOT_A_FILE, Files, OpenFile, is_regular

MOST_A_LOOK: Final = 1 << 20
MOST_OF_A_PARTIAL: Final = 1 << 16
MOST_OF_A_LINE: Final = 4096
"""Bounds the time of a slow pattern. (One with nested repeats can still take exponential time; nothing could end it.)"""

_ENDS = re.compile(rb"[\r\n]+")
"""A redrawn progress bar ends each of its states with a carriage return: every state is a line."""


class Growth(NamedTuple):
    """What one look at one log found."""

    state: Literal["there", "deleted", "unknown"]
    grown: int = 0
    """Bytes since the last look; 0 at a new baseline."""
    lines: tuple[str, ...] = ()
    """Complete lines that are not blank, without colours, cut at 4 KiB."""
    trouble: str | None = None


_QUIET: Final = Growth("there")


class LogTail:
    """One log, from where it ends at the first look; from its start when it is created later."""

    def __init__(self, files: Files, path: str) -> None:
        self.path = path
        self._files = files
        self._file: OpenFile | None = None
        self._id: tuple[int, int] | None = None
        self._offset = 0
        self._partial = b""
        self._skipping = False
        self._missed = False
        """It was not there at some look."""
        self._deleted = False
        self._stale = False
        """It was let go of at the last reading, because what was open is gone."""

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def look(self, *, read: bool) -> Growth:
        """By how much the log grew since the last look. `read`: its lines are wanted, too."""
        seen = self._files.stat(self.path)
        if isinstance(seen, ReadFailure):
            return (
                self._missing(seen, read) if seen.why == "vanished" else Growth("unknown", trouble=f"log {seen.detail}")
            )
        if not is_regular(seen):
            self.close()
            return Growth("unknown", trouble=f"log {self.path} {NOT_A_FILE}")
        if self._file is None:
            return self._begin(read)
        if (seen.dev, seen.ino) != self._id:
            return self._switch(read)
        found = self._advance(seen.size, read)
        # Closed meanwhile: the child that had it open was replaced, or a server forgot it (ESTALE). Once more, and no oftener.
        return self._begin(read) if self._file is None and self._stale else found

    def last_line(self) -> str | None:
        """The last line before where reading goes on, if it is in the last 64 KiB; for the start of watching."""
        if self._file is None:
            return None
        start = max(0, self._offset - MOST_OF_A_PARTIAL)
        data = self._file.pread(self._offset - start, start)
        if isinstance(data, ReadFailure):
            return None
        complete = data[: max(data.rfind(b"\n"), data.rfind(b"\r")) + 1]
        lines = _clean(reversed(_ENDS.split(complete)))
        return next(lines, None)

    def _begin(self, read: bool) -> Growth:
        """Open what is there now. Known by its inode (the child that had it open was replaced): go on where it was left."""
        file = self._files.open(self.path)
        if isinstance(file, ReadFailure):
            return Growth("unknown", trouble=f"log {file.detail}")
        seen = file.fstat()
        if isinstance(seen, ReadFailure):
            file.close()
            return Growth("unknown", trouble=f"log {seen.detail}")
        self._file, self._deleted = file, False
        if (seen.dev, seen.ino) == self._id:
            return self._advance(seen.size, read)
        first = self._id is None and not self._missed
        self._id = (seen.dev, seen.ino)
        self._restart(seen.size if first else 0)
        return self._rebase(seen.size, read)

    def _switch(self, read: bool) -> Growth:
        """Another file has the name: read the old one to its end, then the new one from its start, whose bytes are no growth."""
        last = self._drain(read)
        self.close()
        self._id = None
        self._missed = True
        new = self._begin(read)
        return new._replace(grown=last.grown, lines=last.lines + new.lines)

    def _missing(self, why: ReadFailure, read: bool) -> Growth:
        """The name is gone. Renamed, the open file is still the log; deleted, nobody else will ever read it, so it is let go of."""
        self._missed = True
        last = _QUIET
        if self._file is not None:
            seen = self._file.fstat()
            last = self._drain(read)
            if not isinstance(seen, ReadFailure) and seen.nlink > 0:
                return last
            self.close()
            self._id, self._deleted = None, True
        if not self._deleted:
            return Growth("unknown", trouble=f"log {why.detail}; it is watched once it is there")
        trouble = (
            f"log {self.path} was deleted; supervisord makes a new one when it starts the program again, or on SIGUSR2"
        )
        return last._replace(state="deleted", trouble=trouble)

    def _drain(self, read: bool) -> Growth:
        """What the open file grew by, whatever its name is now."""
        assert self._file is not None
        seen = self._file.fstat()
        return _QUIET if isinstance(seen, ReadFailure) else self._advance(seen.size, read)

    def _advance(self, size: int, read: bool) -> Growth:
        if size == self._offset:
            return _QUIET
        if size < self._offset:
            self._restart(0)
            return self._rebase(size, read)
        grown = size - self._offset
        new = self._rebase(size, read)
        return new._replace(grown=grown) if new.state == "there" else new

    def _restart(self, offset: int) -> None:
        self._offset = offset
        self._partial = b""
        self._skipping = False

    def _rebase(self, size: int, read: bool) -> Growth:
        """Take in everything up to `size`, as no growth."""
        if not read:
            self._restart(size)
            return _QUIET
        if size - self._offset > MOST_A_LOOK:
            self._restart(size - MOST_A_LOOK)
            self._skipping = True
        data = self._read(size)
        self._stale = isinstance(data, ReadFailure) and data.why == "vanished"
        if isinstance(data, ReadFailure):
            self.close()
            return Growth("unknown", trouble=f"log {data.detail}")
        self._offset = size
        return Growth("there", lines=tuple(_clean(self._split(data))))

    def _read(self, size: int) -> bytes | ReadFailure:
        assert self._file is not None
        data = b""
        while (left := size - self._offset - len(data)) > 0:
            piece = self._file.pread(left, self._offset + len(data))
            if isinstance(piece, ReadFailure):
                return piece
            if not piece:
                break  # it shrank meanwhile: the next look sees that
            data += piece
        return data

    def _split(self, data: bytes) -> list[bytes]:
        """Complete lines; what has no end yet is kept for the next look."""
        pieces = _ENDS.split(self._partial + data)
        rest = pieces.pop()
        if self._skipping and pieces:
            del pieces[0]  # its start was skipped
            self._skipping = False
        self._partial = b"" if self._skipping else rest[:MOST_OF_A_PARTIAL]
        return pieces


def _clean(pieces: Iterator[bytes] | list[bytes]) -> Iterator[str]:
    """Text for matching: no colours, no NUL (copytruncate leaves a hole of them), U+FFFD for what is not UTF-8, nothing blank."""
    for piece in pieces:
        text = piece.lstrip(b"\0")[: 2 * MOST_OF_A_LINE].decode("utf-8", "replace")
        if "\x1b" in text:
            text = ANSI.sub("", text)
        text = text[:MOST_OF_A_LINE].rstrip()
        if text:
            yield text
