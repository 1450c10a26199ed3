"""A real daemon for tests, on a real supervisord, with the demo's shortened numbers; ended by pid whatever happens."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.supervisord import Supervisord
from watchdog import journal
from watchdog.demo import stage
from watchdog.demo.stage import BATCH
from watchdog.model.record import IncidentRecord
from watchdog.resources import rules_directory

WITHIN = 60.0
"""Seconds for anything that is waited for: far more than it takes, since the machines are shared."""

GONE_WITHIN = 5.0
"""Seconds from SIGTERM to the process's end. The promise is 2 s; an interpreter that tears down eight threads on two cores, which
other tests use too, may take as long again."""

CONFIG = """\
supervisor: {{url: '{url}'}}
interval: 0.5s
programs:
  - match: '*'
    mode: {mode}
    rules: [stall]
    progress: {{log: '{batch}'}}
    idle: {{line: 'No jobs found, sleeping', for: 30m}}
archive: {{directory: '{folder}/incidents'}}
state: {{directory: '{folder}/state'}}
runtime: {{directory: '{folder}/run'}}
rules: ['{folder}/rules']
signatures: ['{folder}/signatures']
metrics: {{listen: '127.0.0.1:0'}}
"""


class Daemon:
    """`watchdog -c CONFIG run`, with a folder of its own for state, archive, runtime, rules and log."""

    def __init__(self, folder: Path, url: str, mode: str = "restart") -> None:
        self.folder = folder
        self.config = folder / "watchdog.yaml"
        self.log = folder / "watchdog.log"
        self.python = Path(sys.executable)
        self.environ = dict(os.environ)
        self.process: subprocess.Popen[bytes] | None = None
        stage.write_rules(folder / "rules")
        stage.write_signatures(rules_directory() / "signatures", folder / "signatures")
        self.config.write_text(CONFIG.format(url=url, mode=mode, folder=folder, batch=BATCH))

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [str(self.python), "-m", "watchdog", "-c", str(self.config), "run", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self.environ,
            )
        return self.process

    def run(self, *arguments: str) -> int:
        """Start it and wait for its end; the exit code."""
        return self.start(*arguments).wait(WITHIN)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait; the exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(WITHIN)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGCONT)
            self.process.kill()
            self.process.wait(WITHIN)

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def snapshot(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads((self.folder / "run" / "status.json").read_bytes())
        except FileNotFoundError:
            return None
        return found

    def metric(self, name: str) -> float | None:
        """One sample without labels of a scrape, or None: without a sample, or it does not listen yet."""
        listen = (self.snapshot() or {}).get("metrics")
        if listen is None:
            return None
        with urllib.request.urlopen(f"http://{listen}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return next((float(line.split()[1]) for line in lines if line.startswith(f"{name} ")), None)

    def program(self, name: str) -> dict[str, Any]:
        """One program of the snapshot; empty where it has none."""
        found = self.snapshot() or {"programs": []}
        return next((p for p in found["programs"] if p["program"] == name), {})

    def incidents(self) -> list[IncidentRecord]:
        return list(journal.read(self.folder / "state").incidents.values())

    def outcomes(self, program: str) -> list[str | None]:
        return [i.outcome for i in self.incidents() if i.program == program]

    def wait(self, ready: Callable[[], object], what: str, within: float = WITHIN) -> None:
        """Until `ready()`. Raises AssertionError with the daemon's log."""
        until = time.monotonic() + within
        while not ready():
            assert time.monotonic() < until, f"not within {within:g} s: {what}\n{self.text()[-6000:]}"
            time.sleep(0.05)

    def wait_watching(self) -> None:
        """Until it has looked at every program, with supervisord answering."""
        self.wait(lambda: (s := self.snapshot()) and s["supervisor"]["up"] and s["programs"], "the daemon watches")


@contextmanager
def daemon(supervisord: Supervisord | str, mode: str = "restart") -> Iterator[Daemon]:
    """A daemon for this supervisord (or url), not started yet; ended, and its folder removed, at the end."""
    folder = Path(tempfile.mkdtemp(prefix="wd-"))
    made = Daemon(folder, supervisord if isinstance(supervisord, str) else supervisord.url, mode)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)
