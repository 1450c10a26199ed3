"""Takes secrets out of everything before it is written. Touches nothing, but lets other threads run in between.

Four passes, each linear in the text (every repeat is bounded, or stops at what the next one begins with):
known values, also cut short, wrapped over lines or with box drawing in between; PEM blocks; shapes (URL credentials,
signed queries, tokens with a known prefix); and values of secret names, in any of the ways people write them.
What was hidden reads `*redacted*`, and is counted. Text is also rid of ANSI escapes, which may sit inside a secret.

Long text is taken in blocks of whole lines: one pass over 6 MB would hold the interpreter's lock, and with it the deciding thread,
for 0.3 s. A block ends only where the text around reads the same when it is redacted in two parts as when it is redacted in one,
so that a secret of several lines stays in one block.
"""

from __future__ import annotations

import json
import re
import time
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import quote

from watchdog.ansi import ANSI
from watchdog.collect.secretnames import SHORTEST, strength
from watchdog.collect.secretvalues import hide_named

MASK = "*redacted*"

_GAP = re.compile(r"[\s\u2500-\u257f]+")
"""Line ends, blanks and box drawing: what may stand inside a value that was wrapped."""

_CUT_AFTER = re.compile(
    r"[ \t\u2500-\u257f]{0,200}(?:[\"'`)\]}]{0,4}(?:[+,]?\d{0,6})[ \t\u2500-\u257f]{0,200}(?:\n|\Z)"
    r"|\u2026|\.\.|\*\*(?!redacted)|[\"'`])"
)
"""What stands after a value that was cut short: the line's end, an ellipsis, a closing quote (rich: `'abcdefgh'+32`)."""
_CUT_BEFORE = ("\u2026", "..")

_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]{1,40}-----"
    r"(?:(?:[A-Za-z0-9+/=\s\\,:\u2500-\u257f]|-(?!----))*-----END [A-Z0-9 ]{1,40}-----"
    r"|(?:[A-Za-z0-9+/=\\]{16,}|[\s\u2500-\u257f]+)*)"
)
"""A whole block, or, where its end was cut off, its lines of 16 characters or more."""

_SHAPES: tuple[tuple[str, re.Pattern[str], str], ...] = (
    ("url credentials", re.compile(r"(://[^\s/:@\"'<>\[\]]{0,256}:)[^\s/\"'<>]{1,512}(@)"), rf"\1{MASK}\2"),
    (
        "url credentials",  # cut off before the @; what is no port was a password
        re.compile(r"(://[^\s/:@\"'<>\[\]*]{1,256}:)(?!\d{1,5}(?:\D|$))[^\s/\"'<>@*]{3,512}"),
        rf"\1{MASK}",
    ),
    ("url credentials", re.compile(r"(://)[^\s/:@\"'<>\[\]*]{8,512}(@)"), rf"\1{MASK}\2"),
    (
        "signed query",
        re.compile(
            r"([?&;](?:x-(?:amz|goog)-(?:signature|credential|security-token)|signature|sig|awsaccesskeyid|code|sv|se|key-pair-id)=)"
            r"[^\s&\"'<>]{1,4096}",
            re.IGNORECASE,
        ),
        rf"\1{MASK}",
    ),
    ("known shape", re.compile(r"(?<![A-Za-z0-9])(?:AKIA|ASIA|AGPA|AIDA|AROA)[A-Z0-9]{12,20}(?![A-Za-z0-9])"), MASK),
    (
        "known shape",
        re.compile(
            r"(?<![A-Za-z0-9])(?:gh[pousr]_|github_pat_|glpat-|hf_|npm_|dckr_pat_|xox[a-z]-|AIza|ya29\.|pypi-AgE|SG\.)[\w.-]{8,512}"
        ),
        MASK,
    ),
    ("known shape", re.compile(r"(?<![A-Za-z0-9_-])[sr]k[-_](?=[\w-]{0,40}\d)[\w-]{12,512}"), MASK),
    ("known shape", re.compile(r"(?<![A-Za-z0-9])eyJ[\w-]{8,4096}(?:\.[\w-]{1,4096}){0,2}"), MASK),
    ("known shape", re.compile(r"(hooks\.slack\.com/services/)[\w/]{8,256}"), rf"\1{MASK}"),
    (
        "header",
        re.compile(r"\b(Bearer\s{1,4})(?=[\w.~+/-]{0,40}\d|[\w.~+/-]{24})[\w.~+/=-]{8,4096}", re.IGNORECASE),
        rf"\1{MASK}",
    ),
    ("header", re.compile(r"\b(Basic\s{1,4})(?=[\w+/]{0,40}[0-9=])[\w+/=]{8,4096}", re.IGNORECASE), rf"\1{MASK}"),
)


BLOCK = 1 << 17
"""Characters that are redacted at once, about: one pass over them takes 1-4 ms."""
CONTEXT = 1 << 14
"""Characters before and after a place that tell whether a block may end there. Only known values, PEM and YAML blocks can be longer
than half of it, and for those it is made so: see `_context_of`."""
_BLOCK_HEAD = re.compile(r"[|>][-+0-9]{0,2}[ \t]{0,16}\n[ \t]")

_SHORT = 200
_MOST_CLEAN = 10_000
_MOST_ROUNDS = 4
"""What was hidden could show a pattern that was not one before (a quote that now has no partner). In 60,000 random texts made of
the parts of secrets one round was enough each time; a second one proves it, and more are for what nobody thought of."""


class Redactor:
    """Hides secrets in text and in values, and counts what it hid by kind."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        """`known`: values that are secret for certain; those under SHORTEST visible characters are left to the names."""
        values = {_GAP.sub("", form) for value in known for form in _forms(ANSI.sub("", value))}
        self._known = tuple(
            sorted((v for v in values if len(v) >= SHORTEST and v not in MASK), key=lambda v: (-len(v), v))
        )
        self._context = max(CONTEXT, 4 * len(self._known[0]) if self._known else 0)
        self._counts: Counter[str] = Counter()
        self._clean: set[str] = set()
        """Short texts that held no secret: an hour of observations repeats a few names 50,000 times."""

    @property
    def counts(self) -> dict[str, int]:
        """How much was hidden so far, by kind."""
        return {kind: count for kind, count in sorted(self._counts.items()) if count}

    def text(self, text: str) -> str:
        """`text` without secrets and ANSI escapes; again the same when given its own result."""
        if len(text) > BLOCK:
            return "".join(map(self._block, self._blocks(text)))
        if text in self._clean:
            return text
        text = self._block(text)
        if len(text) <= _SHORT and len(self._clean) < _MOST_CLEAN:
            self._clean.add(text)
        return text

    def _block(self, text: str) -> str:
        for _ in range(_MOST_ROUNDS):
            hidden = self._hide(text, self._counts)
            if hidden == text:
                break
            text = hidden
        return text

    def _blocks(self, text: str) -> Iterator[str]:
        """`text` in parts of whole lines, of about BLOCK characters each where nothing has to be kept together."""
        begin = 0
        while begin < len(text):
            end = self._end_of_block(text, begin)
            yield text[begin:end]
            begin = end
            time.sleep(0)  # lets others have the interpreter's lock

    def _end_of_block(self, text: str, begin: int) -> int:
        """The first line end after BLOCK characters that may be one; the steps grow, so that there are few tries in any text."""
        step = 1
        while (end := text.find("\n", begin + BLOCK - 1 + step) + 1) > 0:
            if self._may_end(text[self._context_of(text, begin, end) : end], text[end : end + self._context]):
                return end
            step = 2 * step + 80
        return len(text)

    def _context_of(self, text: str, begin: int, end: int) -> int:
        """From where on what is hidden across `end` can be seen; not before `begin`, since nothing is hidden across that."""
        starts = [end - self._context]
        pem = text.rfind("-----BEGIN ", begin, end)
        if pem >= 0 and text.find("-----END ", pem, end) < 0:
            starts.append(pem)
        *_, head = None, *_BLOCK_HEAD.finditer(text, begin, end)
        if head is not None:
            starts.append(text.rfind("\n", begin, head.start()) + 1)
        return max(begin, min(starts))

    def _may_end(self, before: str, after: str) -> bool:
        """Is nothing hidden across the place between these two, nor because of it?"""
        unused: Counter[str] = Counter()
        return self._hide(before, unused) + self._hide(after, unused) == self._hide(before + after, unused)

    def _hide(self, text: str, counts: Counter[str]) -> str:
        text = self._hide_known(ANSI.sub("", text), counts)
        text = _sub("pem block", _PEM, MASK, text, counts)
        for kind, pattern, into in _SHAPES:
            text = _sub(kind, pattern, into, text, counts)
        text, hidden = hide_named(text, MASK)
        counts["named value"] += hidden
        return text

    def value(self, value: object) -> object:
        """The same for a JSON value: its strings, and whatever stands under a secret name. Keys keep their names."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(k)): self._item(str(k), v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(v) for v in value]
        return value

    def _item(self, name: str, value: object) -> object:
        secret = strength(name) == "strong" or (strength(name) == "weak" and isinstance(value, str))
        if not secret or value is None or isinstance(value, bool) or value in ("", MASK):
            return self.value(value)
        self._counts["named value"] += 1
        return MASK

    def _hide_known(self, text: str, counts: Counter[str]) -> str:
        if not self._known:
            return text
        page = _Page(text)
        for value in self._known:
            page.find_whole(value)
        for value in self._known:
            page.find_cut(value)
        hidden = page.hidden()
        counts["known value"] += page.whole
        counts["known value, cut short"] += page.cut
        return hidden


def _sub(kind: str, pattern: re.Pattern[str], into: str, text: str, counts: Counter[str]) -> str:
    def hide(found: re.Match[str]) -> str:
        hidden = found.expand(into)
        counts[kind] += hidden != found.group()
        return hidden

    return pattern.sub(hide, text)


def _forms(value: str) -> set[str]:
    """A value as it may stand in a log: as it is, in a repr or JSON, in a URL, and each long line of several."""
    lines = value.splitlines()
    forms = {value, json.dumps(value)[1:-1], repr(value)[1:-1], quote(value, safe=""), quote(value)}
    return forms | ({line for line in lines if len(line) >= 2 * SHORTEST} if len(lines) > 1 else set())


class _Span(NamedTuple):
    """What is to be hidden, as places in the text without its gaps."""

    begin: int
    end: int
    whole: bool
    """A whole value, not one that was cut short."""


class _Page:
    """A text, the same without its gaps, and what is to be hidden of it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._bare_at = array("I", [0])
        self._text_at = array("I", [0])
        """Where each run between two gaps begins, in `_bare` and in the text."""
        for gap in _GAP.finditer(text):
            self._bare_at.append(self._bare_at[-1] + gap.start() - self._text_at[-1])
            self._text_at.append(gap.end())
        self._bare = _GAP.sub("", text)
        self._spans: list[_Span] = []
        self.whole = 0
        self.cut = 0

    def _at(self, place: int) -> int:
        """Where a character of `_bare` stands in the text."""
        run = bisect_right(self._bare_at, place) - 1
        return self._text_at[run] + place - self._bare_at[run]

    def find_whole(self, value: str) -> None:
        found = self._bare.find(value)
        while found >= 0:
            self._spans.append(_Span(found, found + len(value), True))
            found = self._bare.find(value, found + len(value))

    def find_cut(self, value: str) -> None:
        """Beginnings of at least SHORTEST characters before a cut, and endings after one."""
        self._find_part(value[:SHORTEST], lambda at: self._beginning(value, at))
        self._find_part(value[-SHORTEST:], lambda at: self._ending(value, at))

    def hidden(self) -> str:
        """The text with MASK in place of each span; a span over several lines keeps its line ends."""
        pieces: list[str] = []
        done = 0
        for first, last, whole in _merged(self._spans):
            begin, end = self._at(first), self._at(last - 1) + 1
            self.whole += whole
            self.cut += not whole
            pieces += [self._text[done:begin], MASK, "\n" * self._text.count("\n", begin, end)]
            done = end
        return "".join([*pieces, self._text[done:]])

    def _find_part(self, seed: str, part: Callable[[int], _Span | None]) -> None:
        """Every place of `seed`, overlapping ones too, where `part` sees a part of a value."""
        at = self._bare.find(seed)
        while at >= 0:
            found = part(at)
            if found is not None:
                self._spans.append(found)
            at = self._bare.find(seed, at + 1 if found is None else found.end)

    def _beginning(self, value: str, at: int) -> _Span | None:
        length = _longest(len(value), lambda n: self._bare.startswith(value[:n], at))
        if length == len(value):
            return None  # whole, and hidden as such
        end = at + length
        cut = length >= 2 * SHORTEST or _CUT_AFTER.match(self._text, self._at(end - 1) + 1)
        return _Span(at, end, False) if cut else None

    def _ending(self, value: str, at: int) -> _Span | None:
        end = at + SHORTEST
        length = _longest(len(value), lambda n: n <= end and self._bare.endswith(value[-n:], 0, end))
        if length == len(value):
            return None
        begin = self._at(end - length)
        cut = length >= 2 * SHORTEST or begin == 0 or self._text.endswith(_CUT_BEFORE, 0, begin)
        return _Span(end - length, end, False) if cut else None


def _longest(most: int, fits: Callable[[int], bool]) -> int:
    """The greatest n from SHORTEST to `most` that fits, where every smaller one does, too."""
    low, high = SHORTEST, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _merged(spans: list[_Span]) -> list[_Span]:
    """Overlapping spans as one, in order."""
    merged: list[_Span] = []
    for span in sorted(spans):
        if merged and span.begin < merged[-1].end:
            last = merged[-1]
            merged[-1] = _Span(last.begin, max(span.end, last.end), span.whole or last.whole)
        else:
            merged.append(span)
    return merged
