"""A notice reaches the log at a level that alerts are set on."""

from __future__ import annotations

import logging

import pytest

from watchdog.act.notify import notify
from watchdog.model.action import Say


def test_a_notice_is_an_error_line_whatever_its_level(caplog: pytest.LogCaptureFixture) -> None:
    say = Say("info", "lab:worker_03", "20261130-0001", "given up", (("restarts", 3), ("rule", "stall")), notice=True)
    with caplog.at_level(logging.DEBUG, logger="watchdog"):
        notify(say)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.name.startswith("watchdog")
    assert record.getMessage() == "given up program=lab:worker_03 incident=20261130-0001 restarts=3 rule=stall"


def test_percent_signs_are_only_text(caplog: pytest.LogCaptureFixture) -> None:
    notify(Say("error", None, None, "/dev/shm is 97 % full: %s %d"))
    assert caplog.records[0].getMessage() == "/dev/shm is 97 % full: %s %d"
