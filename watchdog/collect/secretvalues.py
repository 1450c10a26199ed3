"""Finds the values that stand beside secret names in text, in any of the ways people write them. Pure.

`name=value`, `name: value`, JSON (also inside a string), Python reprs and source, headers as lines or pairs, options
(`--password X`, also in a list), XML elements, tables. Linear: each keyword is looked at once, and what is matched around it is
bounded or ends with its line.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from watchdog.collect.secretnames import KEYWORD, Strength, strength

_BOX = r"\u2500-\u257f"
_LONGEST_NAME = 64

_NAME_REST = re.compile(rf"[A-Za-z0-9_-]{{0,{_LONGEST_NAME}}}")
_QUOTE = r"\\{0,4}[\"'`]"

_ASSIGNED = re.compile(
    rf"(?:{_QUOTE})?\]?[ \t]{{0,16}}(?P<sep>=>|:=|[!=]=|=|:)[ \t]{{0,16}}"
    r"(?:[A-Za-z_][\w.|\[\], ]{0,60}?[ \t]=[ \t])?"  # an annotation: `password: str = "..."`
)
_PAIRED = re.compile(rf"{_QUOTE}[ \t]{{0,16}},[ \t]{{0,16}}(?=[bru]?{_QUOTE})")
_OPTION = re.compile(rf"(?:{_QUOTE})?(?:[ \t]{{0,16}},[ \t]{{0,16}}|[ \t]{{1,16}}|\x00)(?!-)")
_ELEMENT = re.compile(r">")
_CELL = re.compile(rf"[ \t]{{1,200}}[|{_BOX}][ \t]{{1,200}}(?![|{_BOX}])")

_OPEN = re.compile(r"[rbfuRBFU]{0,2}(?P<quote>\"\"\"|'''|\\{0,4}[\"'`])")
_BARE = re.compile(
    rf"(?:(?:Bearer|Basic|Digest|Token|Negotiate|ApiKey)[ \t]{{1,4}})?[^\s\"'`<>&{_BOX}\u2026]+", re.IGNORECASE
)
_REST_OF_LINE = re.compile(rf"[^\n\"'`{_BOX}]+")
_LINE_START = re.compile(r"(?:\A|\n)[ \t-]*\Z")
_DEEPEST = 200
"""Characters of indentation."""
_LONGEST_BLOCK = 8192
"""Characters between triple quotes."""
_BLANKS = " \t\r" + "".join(map(chr, range(0x2500, 0x2580)))
_WRAPPED = re.compile(rf"(?:[ \t{_BOX}]{{0,200}}\n[ \t{_BOX}]{{0,200}}[^\s\"'`{_BOX}]{{1,512}}){{1,4}}(?=[\"'`])")
"""One word on each further line, up to the closing quote: a value that a box has wrapped."""

_BLOCK = re.compile(r"(?P<head>[|>][-+0-9]{0,2}[ \t]{0,16}\n(?P<indent>[ \t]{1,64}))[^\n]+\n?(?:(?P=indent)[^\n]*\n?)*")
"""A YAML block: all lines that are indented as its first."""

_KEPT = re.compile(r"(?:none|null|nil|true|false|undefined|\*{1,40}|\.\.\.)(?=[\s,;)\]}\"'`&<]|$)", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d{1,20}(?:\.\d{1,20})?(?=[\s,;)\]}:&]|$)")
_LINE_NUMBER = re.compile(r"\d{1,6}(?=[\s,;)\]}:]|$)")
_CLOSERS = ",;)]}"


class _Name(NamedTuple):
    begin: int
    end: int
    strength: Strength


def hide_named(text: str, mask: str) -> tuple[str, int]:
    """`text` with `mask` for every value of a secret name, and how many there were."""
    pieces: list[str] = []
    done = at = hidden = 0
    while (keyword := KEYWORD.search(text, at)) is not None:
        name = _whole_name(text, keyword, at)
        at = name.end
        span = None if name.strength == "no" else _value(text, name)
        if span is None or span[0] == span[1]:
            continue
        begin, at = span
        hidden += text[begin:at] != mask
        pieces += [text[done:begin], mask]
        done = at
    return "".join([*pieces, text[done:]]), hidden


def _whole_name(text: str, keyword: re.Match[str], floor: int) -> _Name:
    """The name around a keyword, up to _LONGEST_NAME characters to each side of it, not before `floor`."""
    begin = keyword.start()
    floor = max(floor, begin - _LONGEST_NAME)
    while begin > floor and (text[begin - 1].isalnum() or text[begin - 1] in "_-") and text[begin - 1].isascii():
        begin -= 1
    rest = _NAME_REST.match(text, keyword.end())
    end = rest.end() if rest else keyword.end()
    return _Name(begin, end, strength(text[begin:end]))


def _value(text: str, name: _Name) -> tuple[int, int] | None:
    """Where the value of the name stands; None where there is none, or one that says nothing (null, a line number)."""
    sep = _separator(text, name)
    if sep is None:
        return None
    at = sep.end()
    tight = sep.group() == ":"
    opened = _OPEN.match(text, at)
    if opened is not None:
        return opened.end(), _closing(text, opened)
    if _KEPT.match(text, at) or (name.strength == "weak" and _NUMBER.match(text, at)):
        return None
    if tight and _LINE_NUMBER.match(text, at):
        return None  # `in get_token:45`
    block = _BLOCK.match(text, at)
    if block is not None:
        return block.end("head"), block.end() - text.endswith("\n", at, block.end())
    return _bare(text, name, sep)


def _separator(text: str, name: _Name) -> re.Match[str] | None:
    before = text[name.begin - 1 : name.begin]
    found = _ASSIGNED.match(text, name.end) or _PAIRED.match(text, name.end)
    if found is None and text[name.begin] == "-":
        found = _OPTION.match(text, name.end)
    if found is None and before == "<":
        found = _ELEMENT.match(text, name.end)
    if found is None and name.strength == "strong":
        found = _CELL.match(text, name.end)
    return found


def _closing(text: str, opened: re.Match[str]) -> int:
    """The end of a quoted value: its closing quote, or the end of its line, or of the lines that a box wrapped it over."""
    quote, at = opened["quote"], opened.end()
    if len(quote) == 3 and quote[0] == quote[1]:
        end = text.find(quote, at, at + _LONGEST_BLOCK)
        if end >= 0:
            return end
    body = _body(quote).match(text, at)
    end = body.end() if body else at
    if text.startswith(quote, end):
        return end
    end = at + len(text[at:end].rstrip(_BLANKS))
    wrapped = _WRAPPED.match(text, end)
    return wrapped.end() if wrapped and text.startswith(quote, wrapped.end()) else end


@lru_cache(maxsize=64)
def _body(quote: str) -> re.Pattern[str]:
    """What may stand before the closing quote, on one line. A backslash escapes inside plain quotes; an escaped quote ends
    at the next that is escaped as often."""
    if len(quote) == 1:
        return re.compile(rf"(?:[^\\\n{quote}]|\\.)*")
    return re.compile(rf"(?:(?!{re.escape(quote)})[^\n])*")


def _bare(text: str, name: _Name, sep: re.Match[str]) -> tuple[int, int] | None:
    """An unquoted value: a word, or the rest of the line where the line is a header's or a YAML key's."""
    key = text[name.begin : name.end].lower()
    colon = sep.groupdict().get("sep") == ":" and not sep.group().startswith(("'", '"', "\\"))
    line_start = _LINE_START.search(text, max(0, name.begin - _DEEPEST), name.begin) is not None
    header = "authorization" in key or "cookie" in key
    whole_line = colon and name.strength == "strong" and (header or (line_start and sep.group().endswith(" ")))
    found = (_REST_OF_LINE if whole_line else _BARE).match(text, sep.end())
    if found is None:
        return None
    value = found.group().rstrip() if whole_line else found.group().rstrip(_CLOSERS) or found.group()
    return sep.end(), sep.end() + len(value)
