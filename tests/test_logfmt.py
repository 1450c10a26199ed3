"""A log line stays one line, and each value one value, whatever is in it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchdog.logfmt import LONGEST, Value, format_line, format_value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("lab:worker_03", "lab:worker_03"),
        ("grüße", "grüße"),
        ("", '""'),
        ("two words", '"two words"'),
        ('say "no"', '"say \\"no\\""'),
        ("a=b", '"a=b"'),
        ("back\\slash", '"back\\\\slash"'),
        ("a\nb\r\tc", '"a\\nb\\r\\tc"'),
        ("\x1b[31m\x00", '"\\x1b[31m\\x00"'),
        ("a\u2028b\x85", '"a\\u2028b\\x85"'),
        ("\u202egnp.exe", '"\\u202egnp.exe"'),
        ("\udcff", '"\\udcff"'),
        ("\U000e0001", '"\\U000e0001"'),
        (None, "unknown"),
        (0, "0"),
        (True, "yes"),
        (False, "no"),
        (412.0, "412"),
        (0.00071, "0.001"),
        (100.0, "100"),
        (0.0, "0"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
    ],
)
def test_values(value: Value, text: str) -> None:
    assert format_value(value) == text


def test_a_line() -> None:
    fields: list[tuple[str, Value]] = [
        ("rule", "stall"),
        ("quiet_s", 271.5),
        ("why", "log and progress"),
        ("cpu", None),
    ]
    assert (
        format_line("stalled", "lab:worker_03", "20261130-0001", fields)
        == 'stalled program=lab:worker_03 incident=20261130-0001 rule=stall quiet_s=271.5 why="log and progress" cpu=unknown'
    )
    assert format_line("supervisord answers") == "supervisord answers"


def test_a_hostile_name_makes_no_second_line_and_no_second_field() -> None:
    line = format_line("seen", "g:x incident=forged\nERROR all is well", None, [("k y=\n", "v")])
    assert line == 'seen program="g:x incident=forged\\nERROR all is well" k_y__=v'


def test_a_message_is_escaped_but_not_quoted() -> None:
    assert format_line('it says "no"\nand more') == 'it says "no"\\nand more'


def test_a_value_has_an_end() -> None:
    assert len(format_value("x" * 1_000_000)) == LONGEST + 3
    assert len(format_line("x" * 1_000_000)) == LONGEST


@settings(deadline=None, derandomize=True, database=None)
@given(st.text(), st.text(), st.text())
def test_any_text_gives_one_printable_line(message: str, program: str, value: str) -> None:
    line = format_line(message, program, None, [("key", value)])
    assert line.isprintable()
    line.encode()
    assert len(line.splitlines()) == 1
