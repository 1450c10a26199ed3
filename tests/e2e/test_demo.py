"""`watchdog demo` as an operator runs it: a private supervisord, the real daemon, py-spy, one worker really wedged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil

from tests.e2e.seen import bundle_texts
from watchdog.demo.facts import Facts

WITHIN = 90.0
"""Seconds that the demo may take at most."""


def of_demo(folder: Path) -> list[int]:
    """Pids of all processes that have this demo's folder, or were begun by such a one, wherever they are now."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if str(folder) in " ".join(process.cmdline()) or process.environ().get("DEMO_TEST") == str(folder):
                found.append(process.pid)
    return found


@contextmanager
def demo(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """The command on a folder that it keeps. Every process of it inherits a mark by which strays are found."""
    environment = {**os.environ, "DEMO_TEST": str(folder)}
    process = subprocess.Popen(
        [sys.executable, "-m", "watchdog", "demo", "--keep", str(folder), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
        for pid in of_demo(folder):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_one_wedged_worker_is_diagnosed_and_restarted_and_three_are_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "it's kept"
    began = time.monotonic()
    with demo(folder, "--json") as process:
        out, err = process.communicate(timeout=WITHIN)
        assert time.monotonic() - began < WITHIN
        assert of_demo(folder) == []
    assert (process.returncode, err) == (0, ""), out + err
    facts: Facts = json.loads(out)
    assert facts["ok"]
    assert all(condition["holds"] for condition in facts["conditions"]), facts["conditions"]
    assert [len(facts["programs"][f"demo:{name}"]["pids"]) for name in ("wedged", "healthy", "idle", "slow")] == [
        2,
        1,
        1,
        1,
    ]
    restarts = [i for i in facts["incidents"] if i["action"] == "restart"]
    assert [(i["program"], i["kind"], i["outcome"]) for i in restarts] == [
        ("demo:wedged", "queue-lost-item", "recovered")
    ]
    order = list(restarts[0]["seconds"].items())
    assert [name for name, _ in order] == sorted((n for n, _ in order), key=dict(order).__getitem__)
    assert facts["kept"] == str(folder.resolve())
    texts = bundle_texts(facts["bundle"])
    assert "next_batch" in texts["evidence.json"]
    assert "load_for_ever" in texts["evidence.json"]
    assert any("is lost in the feeder thread" in text for name, text in texts.items() if name.startswith("logs/"))


def test_a_signal_ends_it_and_all_of_its_processes(tmp_path: Path) -> None:
    """Ctrl-C, TERM, and HUP (the terminal went away); three demos at once, to save time."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    with ExitStack() as demos:
        begun = [(number, folder := tmp_path / number.name, demos.enter_context(demo(folder))) for number in signals]
        for number, folder, process in begun:
            assert process.stdout is not None
            assert "working" in process.stdout.readline()
            assert len(of_demo(folder)) >= 10  # itself, supervisord, the daemon, four workers and three loaders
            process.send_signal(number)
        for number, folder, process in begun:
            out, err = process.communicate(timeout=30)
            assert of_demo(folder) == []
            assert process.returncode == 128 + number, out + err
            assert f"interrupted by {number.name}" in out


def test_a_reader_that_went_away_ends_it(tmp_path: Path) -> None:
    """`watchdog demo | head -1`"""
    folder = tmp_path / "kept"
    with demo(folder) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        process.wait(40)
        assert of_demo(folder) == []
    assert process.returncode == 1


def test_a_directory_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with demo(tmp_path) as process:
        _, err = process.communicate(timeout=20)
    assert process.returncode == 2
    assert "is not empty" in err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_directory_that_supervisord_cannot_name_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "100%"
    with demo(folder) as process:
        _, err = process.communicate(timeout=20)
    assert process.returncode == 2
    assert "no path with a % or ;" in err
    assert not folder.exists()


def test_without_supervisor_it_says_what_to_install() -> None:
    """As where only the daemon is installed: None in sys.modules stands for a module that cannot be found."""
    program = "import sys; sys.modules['supervisor'] = None; from watchdog.cli import main; main(['demo'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=20)
    assert done.returncode == 3, done.stderr
    assert "pip install 'worker-watchdog[demo]'" in done.stderr
