"""Plain values to frozen dataclasses, with every mistake at its place. May not read files; knows no key of any schema.

cattrs walks the dataclasses (fields, defaults, nesting) and gathers all errors with their paths. What it does not do is
added here: strict types (it would make 5 of "5"), names of keys, nearest names, rules across keys, lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, Generic, Literal, TypeVar, Union, cast, get_args, get_origin

from cattrs import Converter
from cattrs.errors import (
    AttributeValidationNote,
    BaseValidationError,
    ClassValidationError,
    ForbiddenExtraKeysError,
    IterableValidationError,
    IterableValidationNote,
)
from cattrs.gen import make_dict_structure_fn, override

from watchdog import units
from watchdog.problems import ConfigError, Invalid, Problem, Where, choice, nearest, show, spell
from watchdog.yamlfile import Document

T = TypeVar("T")
Reader = Callable[[object], object]
"""A value as YAML gave it to what the model wants; raises Invalid."""


class Schema:
    """The shapes a document may have. Inner shapes are declared before the ones that hold them."""

    def __init__(self) -> None:
        self._converter = Converter(detailed_validation=True, forbid_extra_keys=True)
        self._keys: dict[type, dict[str, str]] = {}
        """Of each class: attribute to key."""
        # Strict where cattrs would convert; most floats of the model are seconds, the others have a reader of their own.
        for cls, read in ((str, units.text), (bool, units.boolean), (int, units.whole(1)), (float, units.duration)):
            self._converter.register_structure_hook(cls, _hook(read))
        self._converter.register_structure_hook_factory(_is_literal, _literal_hook)
        self._converter.register_structure_hook_factory(_is_optional, self._optional_hook)
        self._converter.register_structure_hook_factory(_is_tuple, self._list_hook)

    def scalar(self, cls: type[Any], read: Reader) -> None:
        """Values of this class are read by `read`, wherever they stand."""
        self._converter.register_structure_hook(cls, _hook(read))

    def mapping(
        self,
        cls: type[T],
        *,
        check: Callable[[T], Iterable[Invalid]] | None = None,
        short: Callable[[str], T] | None = None,
        keys: Mapping[str, str] | None = None,
        omit: Sequence[str] = (),
        **readers: Reader,
    ) -> None:
        """A mapping to the dataclass `cls`. Keys are its attributes' names without a trailing `_`, or as `keys` says.

        `omit` names attributes that are no keys; `readers` read single attributes; `short` reads text in place of the
        mapping; `check` yields what is wrong across keys, once each of them is right.
        """
        names = [field.name for field in fields(cast(Any, cls)) if field.name not in omit]  # always a dataclass
        known = {name: (keys or {}).get(name, name.rstrip("_")) for name in names}
        self._keys[cls] = known
        overrides = {
            name: override(rename=key, struct_hook=_hook(readers[name]) if name in readers else None)
            for name, key in known.items()
        }
        overrides |= {name: override(omit=True) for name in omit}
        build = make_dict_structure_fn(cls, self._converter, **overrides)  # type: ignore[arg-type]
        shape = _Shape(cls, build, check, short, tuple(known.values()))
        self._converter.register_structure_hook(cls, shape)

    def reader(self, cls: type[T]) -> Callable[[object], T]:
        """Reads a value of a declared class, for use in another shape's reader."""
        return lambda value: self._converter.structure(value, cls)

    def read(self, document: Document, cls: type[T]) -> T:
        """The document's value as `cls`. Raises ConfigError with every problem, of its YAML and of its shape."""
        data = {} if document.data is None else document.data  # a file of nothing but comments
        try:
            made = self._converter.structure(data, cls)
        except (Invalid, BaseValidationError) as error:
            raise ConfigError([*document.problems, *self._problems(document, error)]) from error
        if document.problems:
            raise ConfigError(document.problems)
        return made

    def _problems(self, document: Document, error: Exception) -> Iterator[Problem]:
        """A place that could not be read as YAML is told of once: its shape was never seen."""
        told = {problem.path for problem in document.problems}
        for where, one in self._flatten(error, ()):
            if spell(where) not in told:
                yield Problem(document.file, document.line(where), spell(where), one.found, one.allowed, one.hint)

    def _flatten(self, error: Exception, where: Where) -> Iterator[tuple[Where, Invalid]]:
        """Each mistake with its place, out of the tree of groups that cattrs raises."""
        match error:
            case Invalid():
                yield (*where, *error.at), error
            case ForbiddenExtraKeysError():
                known = self._keys[error.cl].values()
                for key in sorted(error.extra_fields):
                    yield (*where, key), Invalid("an unknown key", choice(known), nearest(key, tuple(known)))
            case KeyError():
                yield where, Invalid("nothing", "a value", "this key is required")
            case ClassValidationError() | IterableValidationError():
                for inner in error.exceptions:
                    yield from self._flatten(inner, where + self._step(error.cl, inner))
            case _:
                raise error  # a bug of a reader, not a mistake of the operator

    def _step(self, cls: type, error: Exception) -> Where:
        """The key or index that cattrs noted on an error within `cls`; () for an error of the whole."""
        for note in getattr(error, "__notes__", ()):
            if isinstance(note, AttributeValidationNote):
                return (self._keys[cls][note.name],)
            if isinstance(note, IterableValidationNote):
                return (note.index,)
        return ()

    def _optional_hook(self, annotation: Any) -> Callable[[Any, Any], Any]:
        (inner,) = (t for t in get_args(annotation) if t is not NoneType)
        read = self._converter.get_structure_hook(inner)

        # None is what a missing key means. A key with nothing behind it is a slip: its value was commented out.
        def structure(value: Any, _: Any) -> Any:
            if value is None:
                raise Invalid("nothing", "a value", "remove the key, or give it a value")
            return read(value, inner)

        return structure

    def _list_hook(self, annotation: Any) -> Callable[[Any, Any], Any]:
        inner = get_args(annotation)[0]
        read = self._converter.get_structure_hook(inner)
        return lambda value, _: read_list(value, lambda item: read(item, inner))


class _Shape(Generic[T]):
    """The hook of one mapping: what must be so before and after cattrs reads its keys."""

    def __init__(
        self,
        cls: type[T],
        build: Callable[[Mapping[str, Any], Any], T],
        check: Callable[[T], Iterable[Invalid]] | None,
        short: Callable[[str], T] | None,
        keys: Sequence[str],
    ) -> None:
        self._cls = cls
        self._build = build
        self._check = check
        self._short = short
        self._keys = keys

    def __call__(self, value: Any, _: Any = None) -> T:
        if self._short is not None and isinstance(value, str):
            return self._short(value)
        if not isinstance(value, dict):
            raise Invalid(show(value), f"{'text, or ' if self._short else ''}a mapping with {choice(self._keys)}")
        built = self._build(value, self._cls)
        wrong = list(self._check(built)) if self._check is not None else []
        if wrong:
            raise ClassValidationError("rules across keys", wrong, self._cls)
        return built


def read_list(value: object, read: Reader, *, at_least: int = 0) -> tuple[Any, ...]:
    """Each item of a list by `read`; every mistake is gathered. Raises Invalid or IterableValidationError."""
    if not isinstance(value, list) or len(value) < at_least:
        raise Invalid(
            "an empty list" if value == [] else show(value), "a list" + (" of one or more" if at_least else "")
        )
    good, bad = [], []
    for index, item in enumerate(value):
        try:
            good.append(read(item))
        except (Invalid, BaseValidationError) as error:
            error.add_note(IterableValidationNote(f"item {index}", index, object))
            bad.append(error)
    if bad:
        raise IterableValidationError("items of a list", bad, tuple)
    return tuple(good)


def list_of(read: Reader, *, at_least: int = 0) -> Reader:
    """Reads a list."""
    return lambda value: read_list(value, read, at_least=at_least)


def _hook(read: Reader) -> Callable[[Any, Any], Any]:
    def structure(value: Any, _: Any = None) -> Any:
        return read(value)

    return structure


def _is_literal(annotation: Any) -> bool:
    return get_origin(annotation) is Literal


def _literal_hook(annotation: Any) -> Callable[[Any, Any], Any]:
    return _hook(units.one_of(get_args(annotation)))


def _is_optional(annotation: Any) -> bool:
    return (
        get_origin(annotation) in (Union, UnionType)
        and len(get_args(annotation)) == 2
        and NoneType in get_args(annotation)
    )


def _is_tuple(annotation: Any) -> bool:
    return get_origin(annotation) is tuple and get_args(annotation)[1:] == (Ellipsis,)
