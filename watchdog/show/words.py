"""Numbers and strangers' text, as a person reads them. Pure."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

COLOURS: Final = {"red": "31", "green": "32", "yellow": "33", "bold": "1", "dim": "2"}

_STEPS: Final = (("d", 86400), ("h", 3600), ("min", 60))
_SIZES: Final = ("KiB", "MiB", "GiB", "TiB")


def paint(text: str, style: str, colour: bool) -> str:
    """`text` in one of COLOURS, or plain."""
    return f"\x1b[{COLOURS[style]}m{text}\x1b[0m" if colour and text else text


def clean(text: str) -> str:
    """Text that came from elsewhere, on one line and without control characters, which could rewrite the terminal."""
    return "".join(c if c.isprintable() else " " if c in "\t\n" else "?" for c in text)


def duration(seconds: float | None) -> str:
    """`4 s`, `2 min 5 s`, `3 h 12 min`: two parts at most; `-` when not known."""
    if seconds is None:
        return "-"
    seconds = max(float(seconds), 0.0)
    if seconds < 9.95:
        return f"{seconds:.0f} s" if seconds.is_integer() else f"{seconds:.1f} s"
    rest = round(seconds)
    for index, (unit, size) in enumerate(_STEPS):
        if rest >= size:
            small, of_small = _STEPS[index + 1] if index + 1 < len(_STEPS) else ("s", 1)
            part = rest % size // of_small
            return f"{rest // size} {unit}" + (f" {part} {small}" if part else "")
    return f"{rest} s"


def size(count: int | None) -> str:
    """`512 B`, `3.4 GiB`; `-` when not known."""
    if count is None:
        return "-"
    if count < 1024:
        return f"{count} B"
    value = float(count)
    for unit in _SIZES:
        value /= 1024
        if value < 1023.95 or unit == _SIZES[-1]:
            break
    return f"{value:.1f} {unit}" if value < 99.95 else f"{value:.0f} {unit}"


def number(value: int | None) -> str:
    """The number; `-` when not known."""
    return "-" if value is None else str(value)


def moment(wall: float) -> str:
    """Local time with its offset, to the second; what lies beyond the calendar is unknown."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S%z", time.localtime(wall))
    except (ValueError, OverflowError, OSError):
        return "unknown"


def shorten(text: str, width: int) -> str:
    """At most `width` characters; the middle goes, since both ends of `group:name_07` tell programs apart."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> list[str]:
    """Columns two spaces apart, as wide as their widest cell; the columns in `right` are flush right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = []
    for row in [head, *rows]:
        cells = [c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    return lines
