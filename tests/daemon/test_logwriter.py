"""The log's lines on a stderr that nobody reads."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator

import pytest

from watchdog.daemon.logwriter import FLUSH, ROOM, LogWriter


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """One that is full."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"." * 512)
    except BlockingIOError:
        os.set_blocking(writer, True)
    yield reader, writer
    for end in (reader, writer):
        os.close(end)


def line(number: int) -> logging.LogRecord:
    return logging.LogRecord("watchdog", logging.INFO, __file__, 1, "line %s", (number,), None)


def read_until(reader: int, mark: str, text: str = "") -> str:
    """`text`, which was read before, and what comes until `mark` has."""
    while mark not in text:
        text += os.read(reader, 1 << 16).decode()
    return text


def test_nobody_waits_for_a_reader_and_what_was_dropped_is_told(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    handler = LogWriter(writer)
    began = time.monotonic()
    for number in range(ROOM + 100):
        handler.handle(line(number))
    handler.flush()
    assert time.monotonic() - began < FLUSH + 5.0
    text = read_until(reader, "were dropped")
    assert "line 0\n" in text
    text = read_until(reader, f"line {ROOM - 1}\n", text)
    assert "line 1\n" in text
    handler.handle(line(999_999))
    handler.flush()
    assert "line 999999\n" in read_until(reader, "line 999999\n")


def test_a_reader_that_went_away_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    handler = LogWriter(writer)
    handler.handle(line(1))
    handler.handle(line(2))
    began = time.monotonic()
    handler.flush()
    assert time.monotonic() - began < FLUSH
    os.close(writer)
