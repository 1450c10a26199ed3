"""The processes of one demo: begun here, and every one of them ended here. May end descendants of this process only, each by pid.

This process becomes a subreaper for the time: a process of a worker that loses its parent becomes a child of ours, so that none is
ever out of sight. The other way round, when this process is killed the kernel sends TERM to supervisord and to the daemon.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil

from watchdog.demo.stage import Stage

TERM_WITHIN: Final = 10.0
"""Seconds: a restart that has begun is finished by the daemon first, and supervisord's stopwaitsecs is 5."""

KILL_WITHIN: Final = 5.0

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)

OTHERS_SETTINGS: Final = ("WATCHDOG_CONFIG", "SUPERVISOR_SERVER_URL", "NOTIFY_SOCKET", "WATCHDOG_USEC")
"""Of a real watchdog or supervisord around us, from which the demo keeps apart."""


class Processes:
    """supervisord and the daemon of a stage, as a context: on leaving it no process of them is left."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._begun: list[subprocess.Popen[bytes]] = []
        self._mine = _children()
        """Children that this process had before: not ours to end."""

    def __enter__(self) -> Self:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.end()
        finally:
            _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)

    def begin_supervisord(self) -> subprocess.Popen[bytes]:
        """Its programs start with it. Raises OSError."""
        command = [sys.executable, "-m", "supervisor.supervisord", "-n", "-c", str(self.stage.supervisord)]
        return self._begin(command, self.stage.logs / "supervisord.out")

    def begin_daemon(self) -> subprocess.Popen[bytes]:
        """`watchdog run`, as an operator would run it. Raises OSError."""
        command = [sys.executable, "-m", "watchdog", "-c", str(self.stage.config), "run"]
        return self._begin(command, self.stage.daemon_log)

    def _begin(self, command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        # A session of its own: Ctrl-C on the terminal is for this process alone, which then ends the others in order.
        with log.open("ab") as file:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=_environment(os.environ),
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - this process has one thread
            )
        self._begun.append(process)
        return process

    def end(self) -> None:
        """The daemon first, so that it mends nothing meanwhile; then supervisord, which ends its programs; then the rest."""
        while self._begun:
            _terminate(self._begun.pop())
        until = time.monotonic() + KILL_WITHIN
        while left := self.left():
            for process in left:
                _kill(process)
            if time.monotonic() > until:
                break  # in state D: it dies when the kernel lets go of it
            time.sleep(0.02)

    def left(self) -> list[psutil.Process]:
        """Our descendants that live, without those this process had before."""
        return [process for process in _descendants() if process not in self._mine]


def _environment(around: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in around.items() if key not in OTHERS_SETTINGS}


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _terminate(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(TERM_WITHIN)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(KILL_WITHIN)


def _children() -> frozenset[psutil.Process]:
    return frozenset(psutil.Process().children(recursive=True))


def _descendants() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def _kill(process: psutil.Process) -> None:
    """psutil compares the start time before it sends, so a reused pid is safe. A zombie that is our child is taken away."""
    try:
        process.kill()
        process.wait(0.2)
    except (psutil.NoSuchProcess, psutil.TimeoutExpired):
        return
