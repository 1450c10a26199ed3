"""Asks supervisord for every program's state, in a thread of its own. May ask; posts what it was told, and decides nothing.

How often is told by the deciding thread (`every`), which knows the phases; `ask` asks at once.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping

from watchdog.config import SupervisorSettings
from watchdog.model.event import SupervisorAnswered, SupervisorSilent
from watchdog.model.observation import ProcessInfo
from watchdog.supervisor import Fault, ProgramSettings, Supervisor, find

SETTINGS_EVERY = 300.0
"""Seconds between two getAllConfigInfo: settings change by reread and update only."""

NEW_AFTER = 10.0
"""Seconds until they are asked for again because of a program that is not among them."""

AT_ONCE = 0.05
"""Seconds between two askings at the least, whatever is asked for."""


class Poller:
    """One supervisord, found where the configuration says or where it usually is."""

    def __init__(
        self,
        settings: SupervisorSettings,
        post: Callable[[SupervisorAnswered | SupervisorSilent], None],
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.settings = settings
        self.supervisor: Supervisor | None = None
        if settings.url is not None:
            self.supervisor = Supervisor(settings.url, settings.user, settings.password, settings.timeout)
        self.on_found: Callable[[Supervisor], None] = lambda _: None
        """Called in the polling thread when supervisord was found without configuration."""
        self._post = post
        self._environ = environ
        self._wake = threading.Event()
        self._every = 0.5
        self._known: Mapping[str, ProgramSettings] = {}
        self._known_at = float("-inf")
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="poller", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ended = True
        self._wake.set()

    def ask(self) -> None:
        """Ask as soon as may be."""
        self._wake.set()

    def every(self, seconds: float) -> None:
        """Ask so often from now on."""
        if seconds != self._every:
            sooner, self._every = seconds < self._every, seconds
            if sooner:
                self._wake.set()

    def _run(self) -> None:
        while not self._ended:
            self._wake.clear()
            self._post(self._poll())
            time.sleep(AT_ONCE)
            self._wake.wait(self._every)

    def _poll(self) -> SupervisorAnswered | SupervisorSilent:
        supervisor = self._find()
        answer = supervisor if isinstance(supervisor, Fault) else supervisor.processes()
        if isinstance(answer, Fault) or isinstance(supervisor, Fault):
            self._known_at = float("-inf")
            why = answer.hint() if isinstance(answer, Fault) else "unknown"
            return SupervisorSilent(time.monotonic(), time.time(), why)
        since = time.monotonic() - self._known_at
        if since > SETTINGS_EVERY or (since > NEW_AFTER and not answer.keys() <= self._known.keys()):
            self._learn(supervisor)
        return SupervisorAnswered(time.monotonic(), time.time(), {n: self._with_settings(i) for n, i in answer.items()})

    def _find(self) -> Supervisor | Fault:
        if self.supervisor is None:
            found = find(self._environ, self.settings.timeout)
            if isinstance(found, Fault):
                return found
            self.supervisor = found
            self.on_found(found)
        return self.supervisor

    def _learn(self, supervisor: Supervisor) -> None:
        found = supervisor.settings()
        self._known_at = time.monotonic()
        if not isinstance(found, Fault):
            self._known = found

    def _with_settings(self, info: ProcessInfo) -> ProcessInfo:
        known = self._known.get(info.program)
        return info if known is None or known.startsecs is None else info._replace(startsecs=float(known.startsecs))
