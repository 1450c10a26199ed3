"""Whatever happens to a valid file, it loads or is refused with problems that have one line each: no other error, no hang."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchdog import configfile, resources, rulefiles
from watchdog.model.rule import Rule
from watchdog.model.signature import Signature
from watchdog.problems import ConfigError
from watchdog.structure import Schema
from watchdog.yamlfile import parse_document

from .test_config import WHOLE
from .test_config_rules import EVERY_DETECTOR, SIGNATURE

SEEDS: list[tuple[bytes, type[Any], Schema]] = [
    (WHOLE.encode(), configfile.ConfigFile, configfile.SCHEMA),
    (EVERY_DETECTOR.encode(), Rule, rulefiles.SCHEMA),
    (SIGNATURE.encode(), Signature, rulefiles.SCHEMA),
    ((resources.systemd_directory() / "watchdog.yaml").read_bytes(), configfile.ConfigFile, configfile.SCHEMA),
]

# What has a meaning to YAML, to PyYAML's bugs, to int, float and re.
FRAGMENTS = [
    *(c.encode() for c in "{}[],:#&*!|>'\"%@`?-\n\t\r "),
    *(b"&a ", b"*a", b"<<: ", b"!!python/object:os ", b"!!int ", b"!!null ", b"!!set ", b"!!binary ", b"! ", b"? "),
    *(b'"\\UFFFFFFFF"', b'"\\ud800"', b'"\\0"', b"\x00", b"\xff", b"\xc2\x85", b"\xe2\x80\xa8", b"\xef\xbb\xbf"),
    *(b"\n---\n", b"\n...\n", b"%YAML 9.9\n", b"9" * 5000, b"1e999", b".inf", b".nan", b"-0", b"null", b"~", b"true"),
    *(b"(?P<count>", b"(a{99999999999})", b"(" * 300, b"[[a", b"(?i)", b"\\", b"*" * 9, b"[" * 60, b"{x"),
]


@st.composite
def mutations(draw: st.DrawFn) -> tuple[bytes, type[Any], Schema]:
    content, cls, schema = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        removed = draw(st.sampled_from([0, 0, 0, 1, 2, 7, 40]))
        inserted = draw(st.one_of(st.sampled_from(FRAGMENTS), st.binary(max_size=3)))
        content = content[:start] + inserted + content[start + removed :]
    return content, cls, schema


@given(mutations())
@settings(max_examples=600, deadline=5_000, derandomize=True)
def test_a_mutation_loads_or_is_refused(mutation: tuple[bytes, type[Any], Schema]) -> None:
    content, cls, schema = mutation
    try:
        assert isinstance(schema.read(parse_document("f.yaml", content), cls), cls)
    except ConfigError as error:
        lines = str(error).split("\n")
        assert len(lines) == len(error.problems) >= 1
        for line, problem in zip(lines, error.problems, strict=True):
            assert line.startswith("f.yaml:")
            assert problem.line is None or 1 <= problem.line <= content.count(b"\n") + content.count(b"\r") + 9
            line.encode()


# Values of every kind in every place: the schema may not meet one that it does not expect.
JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9), st.sampled_from(["5s", "off", "*"])
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=5,
)


@pytest.mark.parametrize("seed", SEEDS[:3], ids=["config", "rule", "signature"])
def test_any_value_in_any_place_loads_or_is_refused(seed: tuple[bytes, type[Any], Schema]) -> None:
    content, cls, schema = seed
    places = sorted(parse_document("f.yaml", content).lines, key=str)

    @given(st.sampled_from(places), JSON)
    @settings(max_examples=120, deadline=5_000, derandomize=True)
    def replace(where: tuple[str | int, ...], value: object) -> None:
        document = parse_document("f.yaml", content)
        data: Any = document.data
        if not where:
            data = value
        else:
            parent = data
            for step in where[:-1]:
                parent = parent[step]
            parent[where[-1]] = value
        try:
            schema.read(type(document)("f.yaml", data, document.lines), cls)
        except ConfigError as error:
            assert error.problems
            assert str(error).count("\n") == len(error.problems) - 1

    replace()


def test_every_seed_is_valid() -> None:
    for content, cls, schema in SEEDS:
        assert isinstance(schema.read(parse_document("f.yaml", content), cls), cls)


def test_a_cut_file_loads_or_is_refused(tmp_path: Path) -> None:
    # An editor that is killed, a full disk: the file ends anywhere.
    for content, cls, schema in SEEDS[:3]:
        for end in range(0, len(content), 11):
            try:
                schema.read(parse_document("f.yaml", content[:end]), cls)
            except ConfigError as error:
                assert error.problems
