"""One YAML file to plain values and the line of each. May read that one file; knows nothing of what the keys mean.

The values are those of YAML 1.2's core schema: `off`, `no` and `2026-01-01` are words, `012` is twelve, `1:30` is text.
YAML 1.1, which PyYAML speaks, would turn the keys `no` and `on` into booleans and 1:30 into ninety.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from watchdog.problems import ConfigError, Problem, Where, show, spell

MAX_BYTES = 1 << 20
"""A configuration of a thousand programs is under 200 kB."""

MAX_DEPTH = 24
"""The deepest legal place, a frame in a signature, is 6 deep. PyYAML composes by recursion, 3 Python frames a level."""

MAX_NODES = 50_000
"""Values with every alias written out: nine aliases of nine aliases, nine deep, would be 387 million."""


@dataclass(frozen=True, slots=True)
class Document:
    """What a file says, and where."""

    file: str
    data: object
    """dict with str keys, list, str, int, float, bool or None; None for an empty file."""
    lines: Mapping[Where, int]
    problems: tuple[Problem, ...] = ()
    """What is wrong with single places; what they would say is left out of `data`, and the rest can still be judged."""

    def line(self, where: Where) -> int | None:
        """The line of a place; of the nearest place around it where it has none of its own (a missing key)."""
        for end in range(len(where), -1, -1):
            if where[:end] in self.lines:
                return self.lines[where[:end]]
        return None


def read_document(path: Path) -> Document:
    """The whole file, at most MAX_BYTES of UTF-8. Raises ConfigError; never blocks on a FIFO or device."""
    return parse_document(str(path), read_bytes(path))


def read_bytes(path: Path) -> bytes:
    """The content of a regular file, at most MAX_BYTES. Raises ConfigError."""
    try:
        # O_NONBLOCK: opening a FIFO that nobody writes to would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise _whole(path, "a directory" if stat.S_ISDIR(mode) else "a FIFO or device", "a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(descriptor)
    if len(content) > MAX_BYTES:
        raise _whole(path, "more than 1 MiB", "at most 1 MiB", "is this the right file?")
    return content


def parse_document(file: str, content: bytes) -> Document:
    """`content` as a Document that calls itself `file`. Raises ConfigError where nothing of it can be judged."""
    text = _decode(file, content)
    node = _compose(file, text)
    builder = _Builder(file)
    data = None if node is None else builder.value(node, ())
    return Document(file, data, MappingProxyType({(): 1, **builder.lines}), tuple(builder.problems))


def _decode(file: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        found = f"the byte 0x{content[error.start]:02x}, which is not UTF-8"
        raise ConfigError([Problem(file, line, "", found, "text in UTF-8")]) from error


def _compose(file: str, text: str) -> Node | None:
    loader = None
    try:
        loader = _Loader(text)
        return loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        words = ", ".join(part for part in (error.context, error.problem) if part)
        raise _syntax(file, mark.line + 1 if mark else None, words) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _syntax(file, line, f"the character {show(text[error.position])}") from error
    except (ValueError, OverflowError) as error:
        # PyYAML 6.0 lets these escape from an escape like "\UFFFFFFFF" and from a %YAML number of 5,000 digits.
        place = loader.line + 1 if loader is not None else None
        raise _syntax(file, place, f"an escape or number out of range: {error}") from error
    finally:
        if loader is not None:
            loader.dispose()


class _Loader(yaml.SafeLoader):
    """Composes nodes with limits; YAML 1.2's core schema instead of 1.1's."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # not those it would inherit
    depth = 0
    nodes = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        self.depth += 1
        self.nodes += 1
        if self.depth > MAX_DEPTH or self.nodes > MAX_NODES:
            problem = f"more than {MAX_DEPTH} levels" if self.depth > MAX_DEPTH else f"more than {MAX_NODES} values"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=self.peek_event().start_mark)  # type: ignore[no-untyped-call]
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


_TAG = "tag:yaml.org,2002:"
_WORDS = (f"{_TAG}str", f"{_TAG}merge")
# int() of more than 4,300 digits raises; 18 are enough for bytes, and leave longer ones as text, which is then refused.
_CORE: dict[str, tuple[re.Pattern[str], str, Callable[[str], object]]] = {
    f"{_TAG}null": (re.compile(r"(?:~|null|Null|NULL|)\Z"), "~nN", lambda text: None),
    f"{_TAG}bool": (re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), "tTfF", lambda text: text.lower() == "true"),
    f"{_TAG}int": (re.compile(r"[-+]?[0-9]{1,18}\Z"), "-+0123456789", int),
    f"{_TAG}float": (
        re.compile(r"[-+]?(?:\.[0-9]{1,18}|[0-9]{1,18}(?:\.[0-9]{0,18})?)(?:[eE][-+]?[0-9]{1,2})?\Z"),
        "-+.0123456789",
        float,
    ),
}
"""Of each tag: what a plain scalar of it looks like, the characters it may begin with, its value."""

for _tag, (_pattern, _first, _) in _CORE.items():
    _Loader.add_implicit_resolver(_tag, _pattern, [*_first, ""] if _pattern.match("") else list(_first))
_Loader.add_implicit_resolver(f"{_TAG}merge", re.compile(r"<<\Z"), ["<"])


class _Builder:
    """Nodes to values, with the line of each place; gathers every problem on the way."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: dict[Where, int] = {}
        self.problems: list[Problem] = []
        self.nodes = 0

    def value(self, node: Node, where: Where) -> object:
        """Sets the line of `where` unless its key has set it; a scalar's own line counts before its key's."""
        self.nodes += 1
        if self.nodes > MAX_NODES or len(where) > MAX_DEPTH:
            # Not only this place: an alias that holds itself, or a bomb of aliases, has no end.
            found = "aliases (*name) that hold themselves or multiply"
            raise ConfigError([*self.problems, self._problem(node, where, found, "each value written out")])
        match node:
            case MappingNode(tag="tag:yaml.org,2002:map"):
                self.lines.setdefault(where, node.start_mark.line + 1)
                return self._mapping(node, where)
            case SequenceNode(tag="tag:yaml.org,2002:seq"):
                self.lines.setdefault(where, node.start_mark.line + 1)
                return self._sequence(node, where)
            case ScalarNode():
                self.lines[where] = node.start_mark.line + 1
                return self._scalar(node, where)
        self._tagged(node, where)
        return None

    def _sequence(self, node: SequenceNode, where: Where) -> list[object]:
        return [self.value(child, (*where, index)) for index, child in enumerate(node.value)]

    def _mapping(self, node: MappingNode, where: Where) -> dict[str, object]:
        values: dict[str, object] = {}
        for key_node, child in node.value:
            if not isinstance(key_node, ScalarNode):
                self._add(key_node, where, f"{_kind(key_node)} as a key", "text as a key")
                continue
            key = key_node.value
            here = (*where, key)
            if key_node.tag == f"{_TAG}merge":
                self._add(key_node, where, "a merge key '<<'", "each key written out, or an alias as a whole value")
            elif key in values:
                first = self.lines[here]
                self._add(key_node, here, f"the key {show(key)} again", "each key once", f"first in line {first}")
            elif self._clean(key_node, here):
                self.lines[here] = key_node.start_mark.line + 1
                values[key] = self.value(child, here)
        return values

    def _scalar(self, node: ScalarNode, where: Where) -> object:
        if not self._clean(node, where):
            return None
        if node.tag in _WORDS:
            return node.value
        pattern, _, read = _CORE.get(node.tag, (None, "", str))
        # A tag may be written out, too: `!!int maybe`.
        if pattern is not None and pattern.match(node.value):
            return read(node.value)
        self._tagged(node, where)
        return None

    def _tagged(self, node: Node, where: Where) -> None:
        self._add(node, where, f"the tag {show(node.tag)}", "plain values without tags")

    def _clean(self, node: ScalarNode, where: Where) -> bool:
        # NUL ends a path in the kernel; half of a surrogate pair cannot be written to any log.
        if not any(c == "\0" or "\ud800" <= c <= "\udfff" for c in node.value):
            return True
        self._add(node, where, "a NUL or half of a surrogate pair", "text without it")
        return False

    def _add(self, node: Node, where: Where, found: str, allowed: str, hint: str = "") -> None:
        self.problems.append(self._problem(node, where, found, allowed, hint))

    def _problem(self, node: Node, where: Where, found: str, allowed: str, hint: str = "") -> Problem:
        return Problem(self.file, node.start_mark.line + 1, spell(where), found, allowed, hint)


def _kind(node: Node) -> str:
    return "a list" if isinstance(node, SequenceNode) else "a mapping"


def _syntax(file: str, line: int | None, words: str) -> ConfigError:
    return ConfigError([Problem(file, line, "", f"a YAML error: {words}", "YAML")])


def _whole(path: Path, found: str, allowed: str, hint: str = "") -> ConfigError:
    return ConfigError([Problem(str(path), None, "", found, allowed, hint)])


def _unreadable(path: Path, error: OSError) -> ConfigError:
    reason = (error.strerror or str(error)).lower()
    hints = {"FileNotFoundError": "check the path", "PermissionError": "let the user of the daemon read it"}
    return _whole(path, reason, "a file that can be read", hints.get(type(error).__name__, ""))
