"""Runs one demo: begins it, looks at what an operator can see, has things go wrong, and ends it. Decides nothing about programs.

It looks at the daemon's snapshot, at the journal's incidents, and at the workers' own logs. It may write the two fault files.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

from watchdog import journal
from watchdog.demo.processes import Processes
from watchdog.demo.stage import Stage
from watchdog.demo.story import BATCHING, IDLE, SLOW, WEDGED, Seen, Story, WorkerLog, read_log
from watchdog.show import status

LIMIT: Final = 60.0
"""Seconds until it is given up. Ending all processes takes 25 s at worst, so it is over within 90 s."""

EVERY: Final = 0.2
"""Seconds between two looks."""

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Unusable(Exception):
    """The demo cannot show anything here; the message says what to do."""


@dataclass(slots=True)
class Interruption:
    """The signal that ended the demo. Handlers only note it: an exception from a handler could interrupt the cleaning up."""

    number: int | None = None

    def note(self, number: int, frame: FrameType | None) -> None:
        """As a signal handler."""
        self.number = number


@dataclass(slots=True)
class Ending:
    """How a demo ended."""

    story: Story = field(default_factory=Story)
    seconds: float = 0.0
    problem: str | None = None
    """Why it ended early; None: it did not."""
    signal: int | None = None


Watcher = Callable[[Story, Seen], None]
"""Told of each look, after the story was."""


@contextmanager
def noted_signals() -> Iterator[Interruption]:
    """Ctrl-C, TERM, and HUP (the terminal went away) are noted, until the end of the context."""
    interruption = Interruption()
    before = {number: signal.signal(number, interruption.note) for number in _SIGNALS}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(stage: Stage, tell: Watcher) -> Ending:
    """From the first process to the last. Raises Unusable, OSError; whatever happens, no process is left."""
    began = time.monotonic()
    ending = Ending()
    with noted_signals() as interruption:
        with Processes(stage) as processes:
            begun = {"supervisord": processes.begin_supervisord(), "watchdog run": processes.begin_daemon()}
            while ending.problem is None and not ending.story.over:
                time.sleep(EVERY)
                at_s = time.monotonic() - began
                ending.problem = _trouble(interruption, begun, at_s) or _step(stage, ending.story, at_s, tell)
        ending.signal = interruption.number
    ending.seconds = time.monotonic() - began
    return ending


def _trouble(interruption: Interruption, begun: Mapping[str, subprocess.Popen[bytes]], at_s: float) -> str | None:
    """Why the demo cannot go on; None: it can."""
    if interruption.number is not None:
        return f"interrupted by {signal.Signals(interruption.number).name}"
    for name, process in begun.items():
        if process.poll() is not None:
            return f"{name} ended by itself, exit code {process.returncode}"
    return f"not over after {LIMIT:.0f} s" if at_s > LIMIT else None


def _step(stage: Stage, story: Story, at_s: float, tell: Watcher) -> str | None:
    """One look. Returns why the demo cannot go on; None: it can. Raises Unusable, OSError."""
    snapshot = status.read(status.path_in(stage.runtime), time.time())
    if isinstance(snapshot, status.Unreadable):
        return None  # the daemon has not written yet
    if snapshot["daemon"]["capture_usable"] is False:
        raise Unusable(f"no stack can be read. {snapshot['daemon']['capture_why']}")
    was_ready = story.ready
    seen = _look(stage, snapshot, at_s, was_ready)
    story.look(seen)
    if story.ready and not was_ready:
        for program in (WEDGED, SLOW):
            _fault(stage, program).touch()
    try:
        tell(story, seen)
    except OSError as error:  # EIO: the terminal went away; EPIPE: the reader of a pipe did
        return f"nobody reads its output: {error.strerror}"
    return None


def _look(stage: Stage, snapshot: status.Snapshot, at_s: float, faulty: bool) -> Seen:
    return Seen(
        at_s=at_s,
        programs={line["program"]: line for line in snapshot["programs"]},
        incidents=tuple(journal.read(stage.state).incidents.values()),
        logs={name: _log(stage.logs / f"{name.partition(':')[2]}.log") for name in (*BATCHING, IDLE)},
        taken=frozenset(name for name in (WEDGED, SLOW) if faulty and not _fault(stage, name).exists()),
    )


def _fault(stage: Stage, program: str) -> Path:
    return stage.fault(program.partition(":")[2])


def _log(path: Path) -> WorkerLog:
    try:
        return read_log(path.read_text())
    except FileNotFoundError:
        return read_log("")
