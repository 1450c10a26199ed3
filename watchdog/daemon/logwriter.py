"""The lines of the log, on stderr. May write there, from a thread of its own; decides nothing.

A journald that hangs, or a pipe that nobody reads, holds up whoever writes into it. That must not be the thread that decides: a
program between our stop and our start would stay down. Lines for which there is no room are dropped, and counted.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from typing import Final

ROOM: Final = 2000
"""Lines that wait at most: hours of them, or a restart of all of 100 programs; 1 MB."""

FLUSH: Final = 0.5
"""Seconds that the lines get when the process ends: SIGTERM promises to be gone within 2."""


class LogWriter(logging.Handler):
    """Takes a line at once, whoever gives it, and writes it to `descriptor` when that can be had."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._lines: queue.Queue[str] = queue.Queue(ROOM)
        self._dropped = 0
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.put_nowait(self.format(record))
        except queue.Full:
            self._dropped += 1

    def flush(self) -> None:
        """Wait until every line is written, FLUSH seconds at most. Called by `logging` when the process ends."""
        until = time.monotonic() + FLUSH
        while self._lines.unfinished_tasks and time.monotonic() < until:
            time.sleep(0.005)

    def _run(self) -> None:
        while True:
            line = self._lines.get()
            dropped, self._dropped = self._dropped, 0
            self._write(f"{line}\n")
            if dropped:
                self._write(f"WARNING {dropped} lines of this log were dropped, for nobody read it\n")
            self._lines.task_done()

    def _write(self, text: str) -> None:
        """Straight to the descriptor: a thread that is stuck in `sys.stderr` keeps the interpreter from ending."""
        data = memoryview(text.encode(errors="backslashreplace"))
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            return  # nobody will read it any more
