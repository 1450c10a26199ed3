"""YAML to values and lines: what is read otherwise than PyYAML would, and what no file may do to the daemon."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from watchdog.problems import ConfigError
from watchdog.yamlfile import MAX_DEPTH, Document, parse_document


def parse(text: str) -> Document:
    document = parse_document("f.yaml", text.encode())
    if document.problems:
        raise ConfigError(document.problems)
    return document


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("off", "off"),
        ("no", "no"),
        ("none", "none"),
        ("1:30", "1:30"),
        ("2026-01-01", "2026-01-01"),
        ("0x10", "0x10"),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-7", -7),
        ("012", 12),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("1e999", "1e999"),
        ("9" * 5000, "9" * 5000),
        ("true", True),
        ("~", None),
        ("null", None),
        ("'5'", "5"),
        ("!!str 5", "5"),
        ("", None),
        ("# only a comment", None),
        ("\ufefftrue", True),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text: str, value: object) -> None:
    data = parse(text).data
    assert data == value
    assert type(data) is type(value)


def test_keys_are_always_words() -> None:
    assert parse("{no: 1, on: 2, 5: 3, null: 4}").data == {"no": 1, "on": 2, "5": 3, "null": 4}


def test_each_place_has_its_line() -> None:
    document = parse("a:\n  b: 1\n  c:\n    - 2\n    - d: >-\n        text\ne: &x\n  f: 3\ng: *x\n")
    places = {(): 1, ("a",): 1, ("a", "b"): 2, ("a", "c"): 3, ("a", "c", 0): 4, ("a", "c", 1): 5, ("a", "c", 1, "d"): 5}
    places |= {("e",): 7, ("e", "f"): 8, ("g",): 9, ("g", "f"): 8}
    assert dict(document.lines) == places
    assert document.line(("a", "c", 1, "missing", 0)) == 5


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb: [1, 2", "f.yaml:2: found a YAML error: while parsing a flow sequence, "),
        ("a: 1\n  b: 2", "f.yaml:2: found a YAML error: mapping values are not allowed here"),
        ("a: 1\nb: *none", "f.yaml:2: found a YAML error: found undefined alias"),
        ("a: 1\n---\nb: 2", "f.yaml:2: found a YAML error: expected a single document"),
        ("a: 1\nb: \x00", "f.yaml:2: found a YAML error: the character '\\x00'"),
        ("a: 1\nb: \x1b[1m", "f.yaml:2: found a YAML error: the character '\\x1b'"),
        ('a: 1\nb: "\\UFFFFFFFF"', "f.yaml:2: found a YAML error: an escape or number out of range"),
        (f"%YAML {'9' * 5000}.1\n---\na: 1", "f.yaml:1: found a YAML error: an escape or number out of range"),
        ('a: 1\nb: "x\\0"', "f.yaml:2: b: found a NUL or half of a surrogate pair"),
        ('a: 1\n"\\ud800": 1', "f.yaml:2: '\\ud800': found a NUL or half of a surrogate pair"),
        ("a: 1\n? [b]\n: 2", "f.yaml:2: found a list as a key"),
        ("a: 1\n? {b: 1}\n: 2", "f.yaml:2: found a mapping as a key"),
        ("a: {b: 1,\n b: 2}", "f.yaml:2: a.b: found the key 'b' again, allowed: each key once (first in line 1)"),
        ("a: &x {b: 1}\nc:\n  <<: *x", "f.yaml:3: c: found a merge key '<<', allowed: each key written out"),
        ("a: !!python/object/apply:os.system [x]", "f.yaml:1: a: found the tag 'tag:yaml.org,2002:python/object/apply"),
        ("a: !!set {b, c}", "f.yaml:1: a: found the tag 'tag:yaml.org,2002:set'"),
        ("a: !!int maybe", "f.yaml:1: a: found the tag 'tag:yaml.org,2002:int'"),
        ("a: !!bool 2", "f.yaml:1: a: found the tag 'tag:yaml.org,2002:bool'"),
        ("a: !!binary aGk=", "f.yaml:1: a: found the tag"),
        ("a: !mine b", "f.yaml:1: a: found the tag '!mine'"),
    ],
)
def test_what_is_no_plain_yaml_is_refused_with_its_line(text: str, line: str) -> None:
    message = refused(text)
    assert message.startswith(line)
    assert "\n" not in message


def test_every_repeated_key_is_found() -> None:
    assert len(refused("a: 1\na: 2\nb: {c: 1, c: 2}\na: 3").splitlines()) == 3


def aliases_of_aliases() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("bomb", "words"),
    [
        (aliases_of_aliases, "aliases (*name) that hold themselves or multiply"),
        (lambda: "a: &a [*a]", "aliases (*name) that hold themselves or multiply"),
        (lambda: "a: &a {b: *a}", "aliases (*name) that hold themselves or multiply"),
        (lambda: "[" * 400_000, f"more than {MAX_DEPTH} levels"),
        (lambda: "{a: " * 200_000, f"more than {MAX_DEPTH} levels"),
        (lambda: "- " * 400_000, f"more than {MAX_DEPTH} levels"),
        (lambda: "- x\n" * 100_000, "more than 50000 values"),
    ],
)
def test_a_bomb_is_refused_soon(bomb: Callable[[], str], words: str) -> None:
    text = bomb()
    began = time.process_time()
    assert words in refused(text)
    # Without the limits: for ever, or a dead interpreter. 50,000 values take 3 s of CPU on the slowest machine we have.
    assert time.process_time() - began < 30
