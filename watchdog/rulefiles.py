"""Rule and signature files to the model. May read the files of the directories it is given; changes nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from watchdog import resources, units
from watchdog.model.observation import GaugeName
from watchdog.model.rule import (
    Above,
    Below,
    Confirm,
    CpuAbove,
    CpuBelow,
    Detector,
    Group,
    InState,
    Level,
    Matches,
    Rule,
    RuleLimits,
    Stop,
    Unchanged,
    Working,
)
from watchdog.model.signature import Advice, FramePattern, Needs, Signature, ThreadPattern
from watchdog.problems import ConfigError, Invalid, Problem, show
from watchdog.structure import Reader, Schema, list_of
from watchdog.yamlfile import Document, read_document

T = TypeVar("T")

STATES: Final = "RSDTtZXxKWPI"
"""Letters of a process's state, proc_pid_stat(5)."""

_FRAME: Final = re.compile(r"([^\s@|.]+(?:\|[^\s@|.]+)*)@([^\s@|]+)")


@dataclass(frozen=True, slots=True)
class Library:
    """What the directories hold, and what is wrong with it."""

    rules: dict[str, Rule]
    signatures: tuple[Signature, ...]
    files: tuple[Path, ...]
    problems: tuple[Problem, ...]
    names: frozenset[str]
    """Of every rule, also of those that have problems."""


def read_library(rules: Iterable[Path], signatures: Iterable[Path]) -> Library:
    """Built-in rules and signatures, then those of the directories. Raises MissingResources only.

    A rule replaces the earlier one of its name; the signatures of a directory replace the earlier ones of their kinds.
    """
    reading = _Reading()
    built_in = resources.rules_directory()
    found_rules = reading.rules(_distinct(built_in, rules))
    found_signatures = reading.signatures(_distinct(built_in / "signatures", signatures))
    return Library(
        found_rules, found_signatures, tuple(reading.files), tuple(reading.problems), frozenset(reading.names)
    )


def _distinct(first: Path, others: Iterable[Path]) -> list[Path]:
    """`first`, then the others but it: whoever names the built-in directory means no second reading of it."""
    # Not Path.resolve, which raises on a loop of symbolic links; such a directory is told of when it is listed.
    return [first, *(other for other in others if os.path.realpath(other) != os.path.realpath(first))]


class _Reading:
    """Gathers files and problems over all directories."""

    def __init__(self) -> None:
        self.files: list[Path] = []
        self.problems: list[Problem] = []
        self.names: set[str] = set()

    def rules(self, directories: list[Path]) -> dict[str, Rule]:
        rules: dict[str, Rule] = {}
        for directory in directories:
            lines: dict[str, Document] = {}
            for document, rule in self._directory(directory, Rule):
                if rule.name in lines:
                    self._repeated(document, rule.name, lines[rule.name].file)
                    continue
                lines[rule.name] = document
                source = "built-in" if directory is directories[0] else document.file
                rules[rule.name] = replace(rule, source=source)
        self.names |= rules.keys()
        return rules

    def signatures(self, directories: list[Path]) -> tuple[Signature, ...]:
        signatures: list[Signature] = []
        for directory in directories:
            source = "built-in" if directory is directories[0] else None
            here = [replace(s, source=source or document.file) for document, s in self._directory(directory, Signature)]
            kinds = {signature.kind for signature in here}
            # One directory may well hold two signatures of one kind: two shapes of the same fault.
            signatures = [s for s in signatures if s.kind not in kinds] + here
        return tuple(signatures)

    def _directory(self, directory: Path, cls: type[T]) -> Iterator[tuple[Document, T]]:
        for path in self._listing(directory):
            self.files.append(path)
            try:
                document = read_document(path)
                self._remember(document)
                yield document, SCHEMA.read(document, cls)
            except ConfigError as error:
                self.names.add(path.stem)
                self.problems += error.problems

    def _listing(self, directory: Path) -> Iterator[Path]:
        """The rule files of a directory, by name."""
        try:
            paths = sorted(directory.iterdir())
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            self.problems.append(Problem(str(directory), None, "", reason, "a directory that can be read"))
            return
        for path in paths:
            if path.suffix == ".yml":
                self.problems.append(Problem(str(path), None, "", "the ending .yml", ".yaml", "rename it"))
            # An editor's lock and backup files begin with a dot, and are no rules.
            if path.suffix == ".yaml" and not path.name.startswith("."):
                yield path

    def _remember(self, document: Document) -> None:
        """The name of a rule that may turn out to be broken: who asks for it by name makes no second mistake."""
        if isinstance(document.data, dict) and isinstance(name := document.data.get("name"), str):
            self.names.add(name)

    def _repeated(self, document: Document, name: str, first: str) -> None:
        line = document.line(("name",))
        allowed = "each name once in a directory"
        self.problems.append(Problem(document.file, line, "name", show(name), allowed, f"{first} has it already"))


# The schema. Below, dataclasses are shapes of YAML that differ from the model's own.


@dataclass(frozen=True, slots=True)
class _Within:
    within: float


@dataclass(frozen=True, slots=True)
class _Bound:
    gauge: GaugeName
    value: object
    for_: float = 0.0


@dataclass(frozen=True, slots=True)
class _OneDetector:
    """An item of `all`: a mapping with exactly one of these keys."""

    unchanged: Unchanged | None = None
    above: _Bound | None = None
    below: _Bound | None = None
    cpu_below: CpuBelow | None = None
    cpu_above: CpuAbove | None = None
    working: bool | None = None
    matches: Matches | None = None
    state: InState | None = None

    def given(self) -> list[object]:
        return [value for name in self.__slots__ if (value := getattr(self, name)) is not None]

    def detector(self) -> Detector:
        (value,) = self.given()
        match value:
            case bool():
                return Working(value)
            case _Bound():
                cls = Above if value is self.above else Below
                return cls(value.gauge, _GAUGE_VALUES[value.gauge](value.value), value.for_)
        assert isinstance(value, Unchanged | CpuBelow | CpuAbove | Matches | InState)
        return value


_GAUGE_VALUES: Final = {
    "rss": units.size,
    "anon": units.size,
    "shmem": units.size,
    "fds": units.whole(1),
    "fds_ratio": units.number(0, 1, above=True),
    "threads": units.whole(1),
    "processes": units.whole(1),
    "cpu": units.number(0, above=True),
}
"""How a level of each gauge is written. None may be 0: nothing is ever below it, and all that lives is above it."""


def _check_bound(bound: _Bound) -> Iterator[Invalid]:
    try:
        _GAUGE_VALUES[bound.gauge](bound.value)
    except Invalid as error:
        yield Invalid(error.found, f"for {bound.gauge}, {error.allowed}", error.hint, at=("value",))


def _check_one(one: _OneDetector) -> Iterator[Invalid]:
    count = len(one.given())
    if count != 1:
        found = f"{count} detectors in one item" if count else "an empty mapping"
        yield Invalid(found, "one detector in each item of the list")


def _check_rule(rule: Rule) -> Iterator[Invalid]:
    names: set[str] = set()
    for index, group in enumerate(rule.when):
        if group.name in names:
            yield Invalid(f"{show(group.name)} again", "each group's name once in a rule", at=("when", index, "group"))
        names.add(group.name)


def _check_thread(pattern: ThreadPattern) -> Iterator[Invalid]:
    if pattern.direct and len(pattern.path) < 2:
        yield Invalid(
            "true", "true where `path` has two frames or more", "it says that they are neighbours", at=("direct",)
        )


def _check_signature(signature: Signature) -> Iterator[Invalid]:
    if not any(pattern.path or pattern.leaf for pattern in signature.main):
        yield Invalid("no frame", "`path` or `leaf` in at least one of its threads", at=("main",))


def read_frame(value: object) -> FramePattern:
    """`function|other@file-suffix`. Raises Invalid."""
    words = units.text(value)
    found = _FRAME.fullmatch(words)
    if found is None:
        hint = "only the last part of a dotted name counts: write that" if "." in words.partition("@")[0] else ""
        raise Invalid(show(words), "function@file-suffix, or function|other@file-suffix", hint)
    return FramePattern(tuple(found[1].split("|")), found[2])


def read_states(value: object) -> str:
    """Letters of process states. Raises Invalid."""
    words = units.text(value)
    if set(words) - set(STATES) or len(set(words)) < len(words):
        raise Invalid(show(words), f"letters of {STATES}, each once")
    return words


def _read_working(value: object) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise Invalid(show(value), "true, false, null")
    return value


def _one_or_more(read: Reader) -> Reader:
    """Reads a list, or one item in place of a list of one."""
    many = list_of(read, at_least=1)
    return lambda value: (read(value),) if isinstance(value, str) else many(value)


def _declare_rules(schema: Schema) -> None:
    cores = units.number(0, above=True)
    held = units.duration_or_zero
    schema.scalar(Level, units.level)
    schema.mapping(_Within)
    schema.mapping(Unchanged)
    schema.mapping(_Bound, check=_check_bound, value=lambda value: value, for_=held)
    schema.mapping(CpuBelow, cores=cores, for_=held)
    schema.mapping(CpuAbove, cores=cores, for_=held)
    schema.mapping(Matches, pattern=units.selective)
    schema.mapping(InState, state=read_states, for_=held)
    schema.mapping(_OneDetector, check=_check_one)
    one = schema.reader(_OneDetector)
    schema.mapping(
        Group, keys={"name": "group"}, name=units.title, all=list_of(lambda v: one(v).detector(), at_least=1)
    )
    schema.mapping(Confirm, dumps=units.whole(2, 20))
    schema.mapping(Stop)
    schema.mapping(RuleLimits)
    _declare_rule(schema)


def _declare_rule(schema: Schema) -> None:
    confirm = schema.reader(Confirm)
    group = schema.reader(Group)
    within = schema.reader(_Within)
    schema.mapping(
        Rule,
        check=_check_rule,
        omit=["source"],
        keys={"collect_within": "collect", "start_within": "start", "verify_within": "verify"},
        name=units.label,
        summary=units.title,
        when=list_of(group, at_least=1),
        confirm=lambda value: None if value == "none" else confirm(value),
        collect_within=lambda value: within(value).within,
        start_within=lambda value: within(value).within,
        verify_within=lambda value: within(value).within,
    )


def _declare_signatures(schema: Schema) -> None:
    cores = units.number(0, above=True)
    texts = _one_or_more(units.text)
    schema.scalar(FramePattern, read_frame)
    frames = _one_or_more(read_frame)
    schema.mapping(ThreadPattern, check=_check_thread, path=frames, leaf=frames, wchan=texts, state=read_states)
    schema.mapping(Needs, working=list_of(_read_working, at_least=1), cpu_below=cores, cpu_above=cores)
    schema.mapping(Advice, now=units.prose, for_good=units.prose)
    schema.mapping(
        Signature,
        check=_check_signature,
        omit=["source"],
        kind=units.label,
        verdict=units.one_of(("wedged", "idle", "busy")),
        summary=units.title,
        main=list_of(schema.reader(ThreadPattern), at_least=1),
        sources=list_of(units.text),
        log=list_of(units.selective),
    )


SCHEMA: Final = Schema()
_declare_rules(SCHEMA)
_declare_signatures(SCHEMA)
