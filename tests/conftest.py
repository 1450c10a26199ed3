"""What holds for every test: in CI a skipped test is a failed run, since there nothing may be missing."""

from __future__ import annotations

import os

import pytest


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in CI that skipped anything, and say so; the reasons are in the summary (-ra)."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not os.environ.get("CI"):
        return
    if skipped := len(reporter.stats.get("skipped", ())):
        reporter.write_line(f"\n{skipped} skipped: in CI nothing may be missing, so this run has failed", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
