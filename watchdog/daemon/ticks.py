"""The looking thread: one look at every program, every interval. May read the world; posts what it saw, and decides nothing.

It may get stuck, on a disk that does not answer, and is never waited for: the deciding thread goes on at each tick's deadline.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from watchdog.daemon.requests import Malformed, Request, take
from watchdog.look.history import History
from watchdog.look.host import sample_host
from watchdog.look.observe import Looker
from watchdog.model.event import HostObserved, Observed, Requested
from watchdog.model.observation import ProcessInfo
from watchdog.model.rule import Ruleset

UNTOLD = 1.0
"""Seconds between ticks until supervisord has told its programs for the first time."""


@dataclass(frozen=True, slots=True)
class TickBegan:
    """The programs that this tick will look at."""

    at: float
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class TickEnded:
    at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class MainGone:
    """A main process ended since supervisord was last asked."""


Posted = TickBegan | TickEnded | MainGone | HostObserved | Requested | Malformed


class Ticks:
    """Looks at the programs that `watch` was last told of."""

    def __init__(
        self,
        looker: Looker,
        history: History,
        runtime: Path,
        post: Callable[[Posted], None],
        lay: Callable[[Observed], None],
    ) -> None:
        self.history = history
        self._looker = looker
        self._runtime = runtime
        self._post = post
        self._lay = lay
        self._told: tuple[Mapping[str, ProcessInfo], Ruleset] | None = None
        self._taken: object = None
        self._refused: list[Malformed] = []
        self._wake = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="looker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ended = True
        self._wake.set()

    def watch(self, programs: Mapping[str, ProcessInfo], rules: Ruleset) -> None:
        """Look at these from the next tick on. Only a reference changes hands."""
        first, self._told = self._told is None, (programs, rules)
        if first:
            self._wake.set()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._ended:
            interval = self._tick()
            now = time.monotonic()
            # A tick that came late is not made up for: the next one is a whole interval away from now.
            due = due + interval if due + interval > now else now + interval
            self._wake.wait(due - now)
            self._wake.clear()

    def _tick(self) -> float:
        began = time.monotonic()
        self._take_requests()
        told = self._told
        if told is None:
            self._post(TickBegan(began, frozenset()))
            self._post(TickEnded(time.monotonic(), time.monotonic() - began))
            return UNTOLD
        programs, rules = told
        if self._taken is not told:
            self._looker.set_programs(programs, rules)
            self.history.keep(programs)
            self._taken = told
        self._post(TickBegan(began, frozenset(programs)))
        self._post(HostObserved(began, time.time(), sample_host()))
        for name, info in programs.items():
            self._look(name, info, rules)
        if self._looker.main_gone():
            self._post(MainGone())
        self._post(TickEnded(time.monotonic(), time.monotonic() - began))
        return rules.interval

    def _take_requests(self) -> None:
        """A file that cannot be removed is told of once, and not at every tick."""
        found = [_as_event(request, self._told) for request in take(self._runtime, time.time())]
        for event in found:
            if event not in self._refused:
                self._post(event)
        self._refused = [event for event in found if isinstance(event, Malformed)]

    def _look(self, name: str, info: ProcessInfo, rules: Ruleset) -> None:
        seen = self._looker.look(rules.policy_for(name), info, time.monotonic())
        event = Observed(time.monotonic(), time.time(), seen)
        self.history.append(event.at, seen)
        self._lay(event)


def _as_event(
    request: Request | Malformed, told: tuple[Mapping[str, ProcessInfo], Ruleset] | None
) -> Requested | Malformed:
    if isinstance(request, Malformed):
        return request
    if told is None:
        return Malformed(
            request.program, f"{request.verb}: supervisord has not told its programs yet; ask again in a moment"
        )
    if request.program not in told[0]:
        return Malformed(request.program, f"{request.verb}: supervisord has no such program")
    return Requested(time.monotonic(), time.time(), request.program, request.verb, request.for_s, request.why)
