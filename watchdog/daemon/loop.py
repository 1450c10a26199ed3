"""The deciding thread. It takes one event after another, lets `decide` decide, and hands the actions on; it never blocks.

systemd's watchdog is fed from here and nowhere else, after a full tick: every program was decided on, with its Observation or, at
the tick's deadline, with Unobserved.
"""

from __future__ import annotations

import logging
import queue
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from watchdog.config import Config
from watchdog.daemon.health import Health
from watchdog.daemon.perform import Performer
from watchdog.daemon.poller import Poller
from watchdog.daemon.requests import Malformed
from watchdog.daemon.scribe import Scribe
from watchdog.daemon.sdnotify import Notifier
from watchdog.daemon.ticks import MainGone, TickBegan, TickEnded, Ticks
from watchdog.journal import JournalState
from watchdog.judge.decide import decide
from watchdog.judge.resume import settle
from watchdog.judge.verify import under_way
from watchdog.logfmt import format_line
from watchdog.model.event import Event, Observed, Reloaded, Requested, SupervisorAnswered, Unobserved
from watchdog.model.rule import Ruleset
from watchdog.model.vitals import Vitals
from watchdog.model.world import Phase, Program, World

_log = logging.getLogger("watchdog")

QUIET_POLL = 30.0
"""Seconds between two askings of supervisord while every program is WATCHING."""

BUSY_POLL = 0.5
"""Seconds, while a program is STOPPING or STARTING."""

END_WITHIN = 50.0
"""Seconds for a begun restart after SIGTERM: its deadlines are 20 + 5 + 5 + 15 s, and the unit's TimeoutStopSec is 60."""

PATIENCE = 2.0
"""Intervals from a tick's begin to its deadline."""


@dataclass(frozen=True, slots=True)
class NewConfig:
    """A reload: a Config and its text, or why it was refused."""

    number: int
    """A later one counts, though an earlier one may take longer to read."""
    config: Config | None
    text: str = ""
    why: str = ""


Item = Event | TickBegan | TickEnded | MainGone | Malformed | Health | NewConfig


class Loop:
    """The state, and the one thread that changes it.

    `ticks` and `scribe` are missing while only begun restarts are finished.
    """

    def __init__(
        self,
        items: queue.SimpleQueue[Item],
        rules: Ruleset,
        world: World,
        vitals: Vitals,
        performer: Performer,
        poller: Poller,
        notifier: Notifier,
        *,
        ticks: Ticks | None = None,
        scribe: Scribe | None = None,
        remembered: JournalState | None = None,
    ) -> None:
        self.items = items
        self.looks: deque[Observed] = deque()
        """Looks of the tick under way. Laid down without waking this thread, since 200 wake-ups cost more than 200 looks; whatever
        wakes it, the end of the tick at the latest, has them decided on first."""
        self.rules = rules
        self.world = world
        self.vitals = vitals
        self.on_config: Callable[[NewConfig, Config], None] = lambda *_: None
        self._reloads = 0
        self._performer = performer
        self._poller = poller
        self._notifier = notifier
        self._ticks = ticks
        self._scribe = scribe
        self._remembered = remembered
        self._paced: tuple[Mapping[str, Program], bool | None] | None = None
        self._waiting: set[str] = set()
        self._deadline = time.monotonic() + PATIENCE * rules.interval
        self._matched = False

    def state(self) -> tuple[World, Ruleset, Vitals]:
        """The newest state, for whoever renders it; frozen values."""
        return self.world, self.rules, self.vitals

    def run(self, done: Callable[[World], bool]) -> None:
        """Decide on one event after another until `done`."""
        while not done(self.world):
            item = self._next()
            if item is not None:
                self._take(item)
            if self._ticks is not None and time.monotonic() >= self._deadline:
                self._overdue()

    def _next(self) -> Item | None:
        """The next item, or None when it is time to look after the tick, or after `done`. Without ticks no deadline moves on."""
        left = 1.0 if self._ticks is None else min(self._deadline - time.monotonic(), 1.0)
        try:
            return self.items.get(timeout=max(left, 0.0))
        except queue.Empty:
            return None

    def _take_looks(self) -> None:
        while self.looks:
            self._event(self.looks.popleft())

    def _take(self, item: Item) -> None:
        if isinstance(item, TickBegan):  # before its first looks are taken, and not after
            self._waiting = set(item.names)
            self._deadline = item.at + PATIENCE * self.rules.interval
        self._take_looks()
        if isinstance(item, TickEnded):
            self._full_tick(item.seconds)
        elif isinstance(item, MainGone):
            self._poller.ask()
        elif isinstance(item, Malformed):
            _log.warning("%s", format_line("request refused", None, None, [("what", item.path), ("why", item.why)]))
        elif isinstance(item, Health):
            self._health(item)
        elif isinstance(item, NewConfig):
            self._new_config(item)
        elif not isinstance(item, TickBegan):
            self._event(item)

    def _event(self, event: Event) -> None:
        observation = getattr(event, "observation", None)
        if observation is not None:
            self._waiting.discard(observation.program)
        self.world, actions = decide(self.rules, self.world, event)
        if isinstance(event, SupervisorAnswered):
            self._answered(event)
        for action in actions:
            self._performer.perform(action)
        self._pace()
        if isinstance(event, Requested):
            self._show()  # whoever asked waits to see it

    def _answered(self, event: SupervisorAnswered) -> None:
        supervisor = self._poller.supervisor
        if supervisor is not None:
            self.vitals = replace(self.vitals, rpc_seconds=supervisor.rpc_seconds, supervisor_url=supervisor.url)
        if self._remembered is not None:
            kept, self._remembered = self._remembered, None
            self.world = settle(self.world, kept.pauses, kept.given_up, kept.cooldowns, event.at, event.wall)
            self._say_resumed()
        if self._ticks is not None:
            self._ticks.watch(event.processes, self.rules)
        if not self._matched:
            self._matched = True
            self._warn_unmatched(event)

    def _say_resumed(self) -> None:
        """What the journal brought back, a line for each program that is not simply watched."""
        for program in self.world.programs.values():
            if program.phase is not Phase.WATCHING or program.paused_until_wall is not None:
                fields = [("phase", str(program.phase)), ("paused", "yes" if program.paused_until_wall else "no")]
                _log.info("%s", format_line("resumed from the journal", program.name, None, fields))

    def _warn_unmatched(self, event: SupervisorAnswered) -> None:
        for policy in self.rules.policies:
            if not any(fnmatchcase(name, policy.match) for name in event.processes):
                fields = [("match", policy.match)]
                _log.warning("%s", format_line("no program matches; kept, since it may appear", None, None, fields))

    def _pace(self) -> None:
        """How often supervisord is asked, by the phases. Looked at only when one of them changed, or supervisord came or went."""
        now = (self.world.programs, self.world.host.supervisor_up)
        if self._paced is not None and now[0] is self._paced[0] and now[1] is self._paced[1]:
            return
        self._paced = now
        every = QUIET_POLL if now[1] else self.rules.interval
        for program in now[0].values():
            if under_way(program):
                every = min(every, BUSY_POLL)
            elif program.phase is not Phase.WATCHING or program.restarting is not None:
                every = min(every, self.rules.interval)
        self._poller.every(every)

    # Ticks

    def _overdue(self) -> None:
        """The looking thread is late, or stuck: what was not looked at is unknown, and deciding goes on."""
        self._take_looks()
        now, wall = time.monotonic(), time.time()
        for name in sorted(self._waiting):
            self._event(Unobserved(now, wall, name, "the look did not come back in time"))
        self._full_tick(None)
        self._waiting = set(self.world.programs)
        self._deadline = now + PATIENCE * self.rules.interval

    def _full_tick(self, seconds: float | None) -> None:
        vitals = replace(self.vitals, ticks=self.vitals.ticks + 1, last_tick_wall=time.time())
        self.vitals = vitals if seconds is None else replace(vitals, tick_seconds=seconds)
        self._notifier.tell("WATCHDOG=1")
        if self._scribe is not None:
            self.vitals = replace(self.vitals, totals=self._performer.means.journal.totals)
            self._scribe.offer(self.world, self.rules, self.vitals)

    # The rest

    def _health(self, health: Health) -> None:
        was = self.vitals
        if not health.capture_usable and was.capture_usable is not False:
            text = "stacks cannot be read: a stall will be judged as unreadable"
            _log.error("%s", format_line(text, None, None, [("why", health.capture_why)]))
        if not health.archive_writable and was.archive_writable is not False:
            text = "the archive cannot be written: nothing is stopped without evidence"
            _log.error("%s", format_line(text, None, None, [("why", health.archive_why)]))
        if health.capture_usable and was.capture_usable is False:
            _log.info("stacks can be read again")
        if health.archive_writable and was.archive_writable is False:
            _log.info("the archive can be written again")
        self.vitals = replace(
            was,
            capture_usable=health.capture_usable,
            capture_why=health.capture_why,
            archive_writable=health.archive_writable,
            archive_why=health.archive_why,
            archive_bytes=health.archive_bytes,
        )
        self._show()

    def _show(self) -> None:
        """Have a snapshot written now, and not with the next tick but one."""
        if self._scribe is not None and self.vitals.ticks:
            self._scribe.offer(self.world, self.rules, self.vitals, at_once=True)

    def _new_config(self, new: NewConfig) -> None:
        if new.number < self._reloads:
            return
        self._reloads = new.number
        if new.config is None:
            _log.error("the new configuration is refused, the old one stays:\n%s", new.why)
            return
        self.rules = new.config.ruleset
        self.on_config(new, new.config)
        self._matched = False
        _log.info("configuration reloaded")
        self._event(Reloaded(time.monotonic(), time.time()))
        self._poller.ask()


class Ended:
    """Asked to end, and no program is between our stop and our start; or one is, and has been for too long to wait for.

    While supervisord does not answer nothing can be finished, and no deadline of a restart passes: waiting would only keep the
    daemon from ending. What is owed stands in the journal, and the next daemon, or `run --finish`, takes it up.
    """

    def __init__(self, within: float = END_WITHIN) -> None:
        self._within = within
        self._asked: float | None = None

    def __call__(self, world: World) -> bool:
        if not world.host.terminating:
            return False
        if self._asked is None:
            self._asked = time.monotonic()
        late = time.monotonic() - self._asked > self._within
        return late or world.host.supervisor_up is False or not any(under_way(p) for p in world.programs.values())
