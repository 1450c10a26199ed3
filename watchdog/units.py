"""Single values of a configuration: durations, sizes, shares, numbers, texts, patterns, paths. Pure.

Each function takes the value as YAML gave it and returns what the model wants, or raises Invalid. Durations and sizes
always carry a unit: a bare 270 in a file is seconds to one reader and minutes to the next.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Sequence
from math import isfinite
from pathlib import Path
from typing import Final

from watchdog.model.rule import Level
from watchdog.problems import Invalid, choice, nearest, show

_DURATIONS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZES: Final = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_QUANTITY: Final = re.compile(r"([-+]?[0-9]{1,18}(?:\.[0-9]{1,18})?) ?([A-Za-z%]*)")

_LONGEST: Final = 36_500 * 86400.0
"""Seconds; a hundred years, beyond which only a slip of the keys can be meant."""

_LONGEST_PATTERN: Final = 2_000

_SOME_DURATION: Final = "a duration with its unit (ms, s, m, h, d), such as 30s"
_SOME_SIZE: Final = "a size with its unit (B, kB, MB, GB, KiB, MiB, GiB, TiB), such as 5GiB"
_SOME_SHARE: Final = "a share in percent, such as 10%"


def duration(value: object) -> float:
    """Seconds, above 0."""
    seconds = duration_or_zero(value)
    if seconds == 0.0:
        raise Invalid(show(value), f"{_SOME_DURATION}; more than 0")
    return seconds


def duration_or_zero(value: object) -> float:
    """Seconds, 0 or more."""
    seconds = _quantity(value, _DURATIONS, _SOME_DURATION)
    if seconds > _LONGEST:
        raise Invalid(show(value), "at most a hundred years")
    return seconds


def size(value: object) -> int:
    """Bytes, above 0."""
    count = round(_quantity(value, _SIZES, _SOME_SIZE))
    if count == 0:
        raise Invalid(show(value), f"{_SOME_SIZE}; at least one byte")
    return count


def percentage(value: object) -> float:
    """`10%` as 0.1; from 0 % up to, but not, 100 %."""
    share = _quantity(value, {"%": 0.01}, _SOME_SHARE)
    if share >= 1.0:
        raise Invalid(show(value), f"{_SOME_SHARE}; less than 100%")
    return share


def _quantity(value: object, units: dict[str, float] | dict[str, int], allowed: str) -> float:
    """A number and its unit; 0 or more."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise Invalid(show(value), allowed, f"a bare number has no unit; {_suggestion(value, units)}")
    found = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if found is None or found[2] not in units:
        bare = found is not None and not found[2]
        raise Invalid(show(value), allowed, "a bare number has no unit" if bare else "")
    number = float(found[1])
    if number < 0:
        raise Invalid(show(value), f"{allowed}; not negative")
    return number * units[found[2]]


def _suggestion(value: float, units: Collection[str]) -> str:
    if "%" in units:
        percent = value * 100 if value < 1 else value  # 0.1 and 10 are both meant as 10 %
        return f"if a share is meant, write {percent:g}%"
    unit = "s" if "s" in units else "B"
    return f"if {unit} is meant, write {value}{unit}"


def whole(low: int, high: int = 10**9) -> Callable[[object], int]:
    """Reads a whole number from `low` to `high`."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            bounds = f"at least {low}" if high == 10**9 else f"from {low} to {high}"
            raise Invalid(show(value), f"a whole number, {bounds}")
        return value

    return read


def number(low: float, high: float | None = None, *, above: bool = False) -> Callable[[object], float]:
    """Reads a number from `low` (or, with `above`, only above it) to `high`."""
    allowed = f"a number {'above' if above else 'of at least'} {low:g}" + (
        f", at most {high:g}" if high is not None else ""
    )

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise Invalid(show(value), allowed)
        if value < low or (above and value == low) or (high is not None and value > high):
            raise Invalid(show(value), allowed)
        return float(value)

    return read


def boolean(value: object) -> bool:
    """true or false; YAML 1.1's yes, no, on and off are words here."""
    if not isinstance(value, bool):
        raise Invalid(show(value), "true, false")
    return value


def text(value: object) -> str:
    """Any text that is not blank."""
    if not isinstance(value, str):
        hint = f"put it in quotes: '{value}'" if isinstance(value, int | float) and not isinstance(value, bool) else ""
        raise Invalid(show(value), "text", hint)
    if not value.strip():
        raise Invalid("an empty text", "text")
    return value


def secret(value: object) -> str:
    """As text(), but what was found is never shown."""
    if isinstance(value, str) and value:
        return value
    found = "an empty text" if value == "" else "nothing" if value is None else "something that is not text"
    raise Invalid(found, "text", "put it in quotes")


def label(value: object) -> str:
    """A name that is safe in a metric's label, a log line and a file name."""
    name = text(value)
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name) is None:
        raise Invalid(show(name), "a name of at most 64 letters, digits, '-', '_' and '.'")
    return name


def title(value: object) -> str:
    """One printable line of at most 200 characters."""
    line = text(value).strip()
    if len(line) > 200 or not line.isprintable():
        raise Invalid(show(line), "one line of at most 200 printable characters")
    return line


def prose(value: object) -> str:
    """Text without the blank lines that YAML's `|` and `>` leave at its end."""
    return text(value).strip()


def one_of(words: Sequence[str]) -> Callable[[object], str]:
    """Reads one of the words."""

    def read(value: object) -> str:
        if isinstance(value, str) and value in words:
            return value
        raise Invalid(show(value), choice(words), nearest(value, words) if isinstance(value, str) else "")

    return read


_level = one_of([str(level) for level in Level])


def level(value: object) -> Level:
    """observe, report or restart."""
    return Level[_level(value).upper()]


def pattern(value: object, groups: Collection[str] = ()) -> str:
    """A regular expression that compiles and has no named groups but these; the text itself is returned."""
    words = text(value)
    if len(words) > _LONGEST_PATTERN:
        raise Invalid(show(words), f"a regular expression of at most {_LONGEST_PATTERN} characters")
    for name in _compile(words).groupindex:
        if name not in groups:
            known = f"named groups {choice(groups)}" if groups else "no named groups"
            raise Invalid(f"the named group {name!r}", known, nearest(name, groups))
    return words


def selective(value: object) -> str:
    """A pattern that does not match just any line: one that does would make silence, or a marker, of everything."""
    words = pattern(value)
    if _compile(words).search("") is not None:
        raise Invalid(show(words), "a regular expression that does not match an empty line")
    return words


def _compile(words: str) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            # `[[]` is legal and only warns that its meaning may change one day.
            warnings.simplefilter("ignore", FutureWarning)
            return re.compile(words)
    except (re.error, OverflowError, RecursionError) as error:
        raise Invalid(show(words), "a regular expression", str(error)) from error


def absolute(value: object) -> Path:
    """An absolute path; whether anything is there is not looked at."""
    words = text(value)
    if not words.startswith("/"):
        raise Invalid(
            show(words), "an absolute path", "the daemon runs in /, so it would not be found where you are now"
        )
    return Path(words)


def path_template(value: object) -> str:
    """An absolute path with {program}, {group}, {process} and {pid}."""
    words = str(absolute(value))
    known = ("program", "group", "process", "pid")
    rest = words
    for name in re.findall(r"\{([^{}]*)\}", words):
        if name not in known:
            raise Invalid(f"'{{{name}}}'", choice(f"{{{k}}}" for k in known), nearest(name, known))
        rest = rest.replace(f"{{{name}}}", "")
    if "{" in rest or "}" in rest:
        raise Invalid(show(words), f"a path with {choice(f'{{{k}}}' for k in known)} and no other braces")
    return words
