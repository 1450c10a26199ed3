"""One line of the log: a message, then key=value. May make text only; writes nothing.

Names, paths and messages come from programs that we do not trust: whatever they hold, a line stays one line and a value one value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

LONGEST: Final = 4096
"""Characters of one value. journald cuts a line at 48 KiB, and a name of that length is no name."""

Value = str | int | float | None

_BARE: Final = re.compile(r"[^\s\"'=\\]+")
_NOT_KEY: Final = re.compile(r"[^A-Za-z0-9_.-]")
_SPOKEN: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def format_line(
    message: str, program: str | None = None, incident: str | None = None, fields: Iterable[tuple[str, Value]] = ()
) -> str:
    """`message program=group:name incident=ID key=value ...`, one line, all of it printable.

    A value is bare where it can be, else in double quotes with backslash escapes, as in logfmt. None is `unknown`; but a program or
    incident of None is left out. Floats have three decimals at most.
    """
    named = [(key, value) for key, value in (("program", program), ("incident", incident)) if value is not None]
    pairs = (f"{_NOT_KEY.sub('_', key)}={format_value(value)}" for key, value in [*named, *fields])
    return " ".join([_printable(message[:LONGEST], ""), *pairs])


def format_value(value: Value) -> str:
    """One value, bare or quoted."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    text = str(value)
    if len(text) > LONGEST:
        text = text[:LONGEST] + "..."
    if _BARE.fullmatch(text) and text.isprintable():
        return text
    return f'"{_printable(text, _QUOTED)}"'


_QUOTED: Final = '"\\'


def _printable(text: str, escape: str) -> str:
    """Line ends, controls, lone surrogates and marks that turn text around become escapes, and so does each of `escape`."""
    if text.isprintable() and not any(letter in text for letter in escape):
        return text
    return "".join(f"\\{c}" if c in escape else c if c.isprintable() else _SPOKEN.get(c) or _code(c) for c in text)


def _code(letter: str) -> str:
    number = ord(letter)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"
