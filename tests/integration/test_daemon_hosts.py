"""Hosts on which something is missing or wrong: py-spy, the archive, the password. It is told at once, and nothing is stopped."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.daemons import WITHIN, Daemon, daemon
from tests.supervisord import StartSupervisord, Supervisord
from watchdog.demo import worker

SLEEPS = {"command": "sleep 1000", "startsecs": 0}


def private_python(folder: Path) -> Path:
    """An interpreter with all that ours has installed, and nothing beside it: a venv that borrows our site-packages."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    (folder / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
    packages = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    packages.parent.mkdir(parents=True)
    packages.symlink_to(sysconfig.get_path("purelib"))
    return folder / "bin" / "python"


def no_pyspy(python: Path) -> str:
    return "py-spy was found neither beside"


def broken_pyspy(python: Path) -> str:
    script = python.with_name("py-spy")
    script.write_text("#!/bin/sh\necho 'Error: no such luck' >&2\nexit 1\n")
    script.chmod(0o755)
    return "no such luck"


# A py-spy that fails is tried for 10 s, in case the child that it is tried on was not ready yet.
@pytest.mark.parametrize("pyspy", [no_pyspy, pytest.param(broken_pyspy, marks=pytest.mark.slow)])
def test_without_pyspy_it_is_said_at_start_and_the_programs_are_still_watched(
    supervisord: StartSupervisord, pyspy: Callable[[Path], str]
) -> None:
    with daemon(supervisord({"sleeper": SLEEPS})) as made:
        made.python = private_python(made.folder / "venv")
        made.environ["PATH"] = str(made.python.parent)
        says = pyspy(made.python)
        made.start()
        made.wait(lambda: made.metric("watchdog_capture_usable") == 0.0, "it is told in metrics")
        (line,) = [line for line in made.text().splitlines() if "stacks cannot be read" in line]
        assert "ERROR" in line
        assert says in line
        made.wait(
            lambda: says in ((made.snapshot() or {}).get("daemon") or {}).get("capture_why", ""), "status says so"
        )
        made.wait(lambda: made.program("sleeper:sleeper").get("rss"), "its memory is looked at all the same")
        assert made.end() == 0


def shorten(made: Daemon) -> None:
    """The demo's times once more, for one worker that does a batch every 0.1 s."""
    made.config.write_text(made.config.read_text().replace("interval: 0.5s", "interval: 0.2s"))
    for path in (*made.folder.glob("rules/*.yaml"), *made.folder.glob("signatures/*.yaml")):
        text = path.read_text().replace("for: 6s", "for: 2s").replace("for: 3s", "for: 1s")
        path.write_text(text.replace("every: 2s", "every: 500ms").replace("quiet: 4s", "quiet: 1s"))


def test_a_wedged_worker_is_not_stopped_where_no_evidence_can_be_written(
    supervisord: StartSupervisord, tmp_path: Path
) -> None:
    fault = tmp_path / "fault"
    command = f"{sys.executable} {worker.__file__} batches --every 0.1 --lose-when {fault}"
    host = supervisord({"ami": {"command": command, "startsecs": 0}})
    with daemon(host) as made:
        shorten(made)
        (made.folder / "incidents").write_text("in the way of the archive")
        (made.folder / "run").mkdir()
        (made.folder / "run" / "fallback").write_text("in the way of the fallback")
        made.start()
        made.wait(lambda: made.program("ami:ami").get("heartbeats", {}).get("progress"), "it does batches")
        pid = host.info("ami:ami").pid
        fault.touch()
        made.wait(lambda: made.metric("watchdog_archive_writable") == 0.0, "it is told in metrics")
        (line,) = [line for line in made.text().splitlines() if "the archive cannot be written:" in line]
        assert "ERROR" in line
        assert str(made.folder / "incidents") in line
        made.wait(lambda: made.outcomes("ami:ami") == ["vetoed"], "its incident ends")
        (incident,) = made.incidents()
        assert (incident.verdict, incident.kind, incident.bundle) == ("wedged", "queue-lost-item", None)
        assert "its evidence could not be written; nothing was stopped" in incident.detail
        assert str(made.folder / "run" / "fallback") in incident.detail
        assert (host.info("ami:ami").pid, host.info("ami:ami").state) == (pid, "RUNNING")
        assert made.end() == 0


def unix(host: Supervisord) -> str:
    return host.url


def http(host: Supervisord) -> str:
    assert host.http_url is not None
    return host.http_url


@pytest.mark.parametrize("url", [unix, http])
def test_a_wrong_password_is_told_once_and_everywhere(
    supervisord: StartSupervisord, url: Callable[[Supervisord], str]
) -> None:
    host = supervisord({"sleeper": SLEEPS}, http=True, user="dog", password="swordfish")
    with daemon(url(host)) as made:
        made.config.write_text(made.config.read_text().replace("{url: ", "{user: dog, password: marlinspike, url: "))
        made.start()
        made.wait(lambda: made.metric("watchdog_supervisor_up") == 0.0, "it is told in metrics")
        ticks = made.snapshot()["daemon"]["ticks"]  # type: ignore[index]
        made.wait(lambda: made.snapshot()["daemon"]["ticks"] > ticks + 2, "it asks again")  # type: ignore[index]
        (line,) = [line for line in made.text().splitlines() if "supervisord does not answer" in line]
        assert "wants another user name or password" in line
        for command in ("check", "observe"):
            done = watchdog(made, command)
            assert done.returncode == 3, done.stdout + done.stderr
            assert "set supervisor.user and supervisor.password" in done.stdout + done.stderr
            assert "Traceback" not in done.stderr
            assert "marlinspike" not in done.stdout + done.stderr
        assert made.end() == 0
        assert "marlinspike" not in made.text()


def watchdog(made: Daemon, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "watchdog", "-c", str(made.config), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=WITHIN)
