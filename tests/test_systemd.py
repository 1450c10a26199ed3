"""The files for systemd: accepted by systemd's own tools, and in step with the numbers of the rules.

What needs those tools is `slow`, a tier of .ci/run: not every machine that runs the tests has systemd.
"""

from __future__ import annotations

import re
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
UNIT = ROOT / "systemd/worker-watchdog.service"
INSTALLED = "/opt/worker-watchdog/bin/watchdog"

SURVIVORS_S = 5.0
"""From TERM to KILL of a stopped program's survivors."""


def settings() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text().splitlines():
        if re.match(r"\w+=", line):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def seconds(value: str) -> float:
    return float(value.removesuffix("s"))


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, command)], check=False, capture_output=True, text=True, timeout=60)


def test_each_line_has_its_reason() -> None:
    lines = UNIT.read_text().splitlines()
    plain = {
        "[Unit]",
        "[Service]",
        "[Install]",
        "Description",
        "WantedBy",
        "User",
        "Group",
        "StateDirectoryMode",
        "RuntimeDirectoryMode",
    }
    bare = [
        line
        for before, line in pairwise(lines)
        if line and not line.startswith("#") and not before.startswith("#") and line.partition("=")[0] not in plain
    ]
    assert bare == []


def test_the_service_is_fed_and_restarted() -> None:
    unit = settings()
    assert unit["Type"] == ["notify"]
    assert unit["Restart"] == ["always"]
    assert unit["StartLimitIntervalSec"] == ["0"]
    assert unit["ExecStart"] == [f"{INSTALLED} run"]
    assert unit["ExecStopPost"] == [f"{INSTALLED} run --finish"]
    assert unit["ExecReload"] == ["/bin/kill -HUP $MAINPID"]


def test_a_begun_restart_fits_the_time_to_stop() -> None:
    rule = yaml.safe_load((ROOT / "rules/stall.yaml").read_text())
    needed = seconds(rule["stop"]["within"]) + SURVIVORS_S + seconds(rule["start"]["within"])
    assert needed < seconds(settings()["TimeoutStopSec"][0])


def test_the_sample_interval_feeds_the_service_watchdog() -> None:
    sample = yaml.safe_load((ROOT / "systemd/watchdog.yaml").read_text()) or {}
    assert 3 * seconds(sample.get("interval", "5s")) < seconds(settings()["WatchdogSec"][0])


def test_its_directories_are_those_of_the_tmpfiles() -> None:
    unit = settings()
    made = {
        line.split()[1] for line in (UNIT.with_suffix(".tmpfiles")).read_text().splitlines() if line.startswith("d ")
    }
    for directory in (f"/var/lib/{unit['StateDirectory'][0]}", f"/run/{unit['RuntimeDirectory'][0]}"):
        assert directory in made


@pytest.mark.slow
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """With a command that exists here: `verify` looks for it."""
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace(INSTALLED, "/bin/true"))
    done = run("systemd-analyze", "verify", copy)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
def test_systemd_would_tell_an_error(tmp_path: Path) -> None:
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace(INSTALLED, "/bin/true").replace("KillMode=", "KillMod="))
    assert "KillMod" in run("systemd-analyze", "verify", copy).stderr


@pytest.mark.slow
def test_systemd_makes_the_user_and_the_directories(tmp_path: Path) -> None:
    """Needs root, as these tools do, and changes nothing outside of `tmp_path`."""
    (tmp_path / "etc").mkdir()
    made = run("systemd-sysusers", f"--root={tmp_path}", UNIT.with_suffix(".sysusers"))
    assert made.returncode == 0, made.stderr
    assert "worker-watchdog" in (tmp_path / "etc/passwd").read_text()
    made = run("systemd-tmpfiles", f"--root={tmp_path}", "--create", UNIT.with_suffix(".tmpfiles"))
    assert (made.returncode, made.stderr) == (0, "")
    assert (tmp_path / "var/lib/worker-watchdog").stat().st_mode & 0o777 == 0o750
