"""A daemon that is killed, or told to end, in the middle of a real restart: the program is never left down.

Each case waits for one step of the transaction in the journal, or for one state of supervisord, and strikes right then.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.daemons import GONE_WITHIN, Daemon, daemon
from tests.e2e.seen import count, log_of, tidy
from tests.supervisord import Supervisord
from watchdog import journal

pytestmark = pytest.mark.slow


NAME = "ami:ami"


@contextmanager
def wedged(folder: Path) -> Iterator[tuple[Supervisord, Daemon]]:
    """A worker that has just lost a batch, and takes 1.5 s to stop; its daemon has seen it work."""
    script = folder / "worker.py"
    script.write_text(
        "import signal, sys, time\n"
        "from watchdog.demo.worker import main\n"
        "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1.5), sys.exit(0)))\n"
        f"main(['batches', '--lose-when', {str(folder / 'fault')!r}])\n"
    )
    programs = {"ami": {"command": f"{sys.executable} {script}", "startsecs": 1}}
    with Supervisord(programs) as host, tidy(host), daemon(host) as made:
        made.start()
        made.wait(lambda: count(made, NAME) >= 2, "it does batches")
        (folder / "fault").touch()
        yield host, made


def step(made: Daemon, name: str) -> bool:
    found = journal.read(made.folder / "state").transactions.get(NAME)
    return found is not None and found.step == name


def wait_for(ready: Callable[[], bool], made: Daemon) -> None:
    until = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < until, made.text()
        time.sleep(0.005)


MOMENTS: dict[str, Callable[[Supervisord, Daemon], bool]] = {
    "the intent is written": lambda _, made: step(made, "intent"),
    "supervisord stops it": lambda host, _: host.info(NAME).state == "STOPPING",
    "it is down": lambda host, _: host.info(NAME).state == "STOPPED",
    "a start is owed": lambda _, made: step(made, "owed"),
    "it starts": lambda host, made: step(made, "owed") and host.info(NAME).state == "STARTING",
    "it was started": lambda _, made: step(made, "started"),
}


def works_again(host: Supervisord, made: Daemon) -> bool:
    return host.info(NAME).state == "RUNNING" and log_of(host, "ami").new >= 3


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at_any_step_the_next_daemon_finishes(moment: str, tmp_path: Path) -> None:
    with wedged(tmp_path) as (host, made):
        pid = host.info(NAME).pid
        wait_for(lambda: MOMENTS[moment](host, made), made)
        made.end(signal.SIGKILL)
        assert not [i for i in made.incidents() if i.outcome]
        made.start()
        made.wait(lambda: works_again(host, made) or made.outcomes(NAME)[:1] == ["cleared"], "it is finished")
        made.wait(lambda: not journal.read(made.folder / "state").transactions, "the transaction is closed")
        if made.outcomes(NAME)[:1] == ["cleared"]:
            # Killed between the intent and the stop, some milliseconds: nothing had been stopped, and nothing is touched.
            assert moment == "the intent is written"
            assert (host.info(NAME).pid, host.info(NAME).state) == (pid, "RUNNING")
            assert len(log_of(host, "ami").lives) == 1
        else:
            made.wait(lambda: made.outcomes(NAME) == ["recovered"], "the same incident ends well")
            assert sum(c.restarts for c in journal.read(made.folder / "state").totals.values()) == 1
            assert len(log_of(host, "ami").lives) == 2
        assert made.end() == 0


@pytest.mark.parametrize("moment", ["supervisord stops it", "it starts"])
def test_told_to_end_it_finishes_the_restart_first(moment: str, tmp_path: Path) -> None:
    with wedged(tmp_path) as (host, made):
        wait_for(lambda: MOMENTS[moment](host, made), made)
        assert made.end(signal.SIGTERM) == 0, made.text()
        assert host.info(NAME).state == "RUNNING"
        assert step(made, "started")
        made.start()
        made.wait(lambda: made.outcomes(NAME) == ["recovered"], "the next daemon sees that it works")
        assert made.end() == 0


def test_told_to_end_while_confirming_it_is_gone_at_once_and_stops_nothing(tmp_path: Path) -> None:
    with wedged(tmp_path) as (host, made):
        pid = host.info(NAME).pid
        made.wait(lambda: made.program(NAME)["phase"] == "CONFIRMING", "it confirms")
        began = time.monotonic()
        assert made.end(signal.SIGTERM) == 0
        assert time.monotonic() - began < GONE_WITHIN
        assert host.info(NAME).pid == pid
