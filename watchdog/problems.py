"""What is wrong with a configuration, in words for an operator. May hold values and words only; reads no file."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches

_SHOWN = 60
"""Characters of a wrong value that are shown: enough to find it again, short enough for one line."""

Where = tuple[str | int, ...]
"""A place in a document: keys and indices from the top."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake, with its place. Empty texts are left out when it is printed."""

    file: str
    line: int | None
    path: str
    """`programs[0].mode`; '' is the whole file."""
    found: str
    allowed: str = ""
    hint: str = ""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        text = f"{place}: {self.path}: " if self.path else f"{place}: "
        text += f"found {self.found}"
        if self.allowed:
            text += f", allowed: {self.allowed}"
        return f"{text} ({self.hint})" if self.hint else text


class ConfigError(Exception):
    """Every problem of every file at once; one line each as text."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("\n".join(str(p) for p in self.problems))


class Invalid(ValueError):
    """One value is wrong; whoever knows the file and the place makes a Problem of it."""

    def __init__(self, found: str, allowed: str = "", hint: str = "", at: Where = ()) -> None:
        super().__init__(found, allowed, hint, at)
        self.found = found
        self.allowed = allowed
        self.hint = hint
        self.at = at
        """Below the value that was being read."""


def spell(where: Where) -> str:
    """`('programs', 0, 'mode')` as `programs[0].mode`."""
    text = ""
    for part in where:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{_key(part)}" if text else _key(part)
    return text


def _key(part: str) -> str:
    # A key of control characters or of 1 MB must not spoil the one line that tells of it.
    return part if part.isprintable() and 0 < len(part) <= _SHOWN else show(part)


def show(value: object) -> str:
    """A wrong value, short and on one line."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case str():
            short = value if len(value) <= _SHOWN else value[:_SHOWN] + "..."
            # Not repr() of what prints as it is: it doubles each backslash of a regular expression.
            return f"'{short}'" if short.isprintable() else repr(short)
        case _:
            return f"the number {value}"


def nearest(name: str, known: Collection[str]) -> str:
    """`did you mean 'restart'?`, or ''."""
    # Below half a likeness the guess only misleads; difflib's own 0.6 misses swapped letters in words as short as `mode`.
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else ""


def choice(words: Iterable[str]) -> str:
    """`observe, report, restart`."""
    return ", ".join(words)
