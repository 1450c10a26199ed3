"""The daemon's parts while it watches: made, started, reloaded and ended together. Decides nothing."""

from __future__ import annotations

import logging
import os
import queue
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from watchdog.collect.bundle import Places
from watchdog.config import Config, ConfigError, load
from watchdog.daemon import known
from watchdog.daemon.health import HealthChecks
from watchdog.daemon.locks import Taken, lock_supervisor
from watchdog.daemon.loop import PATIENCE, Ended, Item, Loop, NewConfig
from watchdog.daemon.perform import Means, Performer
from watchdog.daemon.poller import Poller
from watchdog.daemon.scribe import Scribe
from watchdog.daemon.sdnotify import Notifier
from watchdog.daemon.ticks import Ticks
from watchdog.exitcode import FINE, UNREACHABLE
from watchdog.journal import Journal
from watchdog.look.history import History
from watchdog.look.observe import Looker
from watchdog.model.event import Observed, Terminating
from watchdog.model.observation import ProcessInfo
from watchdog.model.vitals import Vitals
from watchdog.model.world import World
from watchdog.procfs import Procfs
from watchdog.resources import MissingResources
from watchdog.show.metrics import MetricsError, serve
from watchdog.supervisor import Supervisor, lock_key

_log = logging.getLogger("watchdog")

FLUSH = 1.0
"""Seconds that the journal gets when the daemon ends: SIGTERM promises to be gone within 2."""


class Watch:
    """Everything that runs. Raises OSError when a directory cannot be made."""

    def __init__(
        self,
        config: Config,
        state: Path,
        performer: Performer,
        items: queue.SimpleQueue[Item],
        world: World,
        vitals: Vitals,
        notifier: Notifier,
    ) -> None:
        self.exit_code = FINE
        self._reloads = 0
        self._state, self._items, self._notifier = state, items, notifier
        self._lock: socket.socket | None = None
        for directory in (config.runtime, config.runtime / "requests"):
            directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        rules = config.ruleset
        self._settings = config.supervisor
        self._poller = Poller(config.supervisor, items.put)
        self._poller.on_found = self._found
        history = History(rules.interval)
        self._ticks = Ticks(Looker(Procfs()), history, config.runtime, items.put, self._lay)
        self._health = HealthChecks(config.archive.directory, items.put)
        self._scribe = Scribe(config.runtime)
        self.performer = performer
        journal = performer.means.journal
        performer.means = self._means(config, journal, history)
        vitals = replace(vitals, archive_directory=str(config.archive.directory), supervisor_url=config.supervisor.url)
        self._loop = Loop(
            items, rules, world, vitals, self.performer, self._poller, notifier,
            ticks=self._ticks, scribe=self._scribe, remembered=journal.state,
        )  # fmt: skip
        self._loop.on_config = self._configured
        self._config = config

    def _lay(self, look: Observed) -> None:
        self._loop.looks.append(look)

    def _means(self, config: Config, journal: Journal, history: History) -> Means:
        return Means(
            post=self._items.put,
            journal=journal,
            supervisor=lambda: self._poller.supervisor,
            ask=self._poller.ask,
            info_of=self._info_of,
            logs_of=self._logs_of,
            places=_places(config),
            history=history,
            config_text=_text_of(config),
        )

    # supervisord

    def lock_supervisor(self) -> Taken | None:
        """Be the only watchdog of the supervisord that the configuration names; remember the way to it."""
        return None if self._settings.url is None else self._take(self._settings.url)

    def _take(self, url: str) -> Taken | None:
        lock = lock_supervisor(lock_key(url))
        if isinstance(lock, Taken):
            return lock
        self._lock = lock
        try:
            known.remember(self._state, self._settings, url)
        except OSError as error:
            _log.error("the way to supervisord cannot be remembered in %s: %s", self._state, error)
        return None

    def _found(self, supervisor: Supervisor) -> None:
        """Called in the polling thread: supervisord was found where it usually is."""
        _log.info("supervisord found at %s", supervisor.url)
        taken = self._take(supervisor.url)
        if taken is not None:
            _log.error("%s", taken)
            self.exit_code = UNREACHABLE
            self._items.put(Terminating(time.monotonic(), time.time()))

    def _info_of(self, program: str) -> ProcessInfo | None:
        found = self._loop.world.programs.get(program)
        return found.info if found else None

    def _logs_of(self, program: str) -> tuple[str, ...]:
        policy, info = self._loop.rules.policy_for(program), self._info_of(program)
        if policy is not None and policy.logs:
            return policy.logs
        return () if info is None else tuple(p for p in (info.stdout_logfile, info.stderr_logfile) if p)

    # Life

    def run(self) -> World:
        """Watch until asked to end and nothing is under way; the world as it is then."""
        self._serve_metrics()
        self._poller.start()
        self._ticks.start()
        self._scribe.start()
        self._health.start()
        self._notifier.tell("READY=1", "STATUS=watching")
        self._loop.run(Ended())
        self._notifier.tell("STOPPING=1")
        self._poller.end()
        self._ticks.end()
        self.performer.flush(FLUSH)
        return self._loop.world

    def _serve_metrics(self) -> None:
        where = self._config.metrics
        if where is None:
            return
        try:
            serving = serve(where.host, where.port, self._loop.state)
        except MetricsError as error:
            _log.error("%s", error)
            return
        listen = f"{where.host}:{serving.port}"
        self._loop.vitals = _with_listen(self._loop.vitals, listen)
        _log.info("metrics on http://%s/metrics", listen)

    def reload(self, path: Path | None) -> None:
        """SIGHUP: read the configuration in a thread of its own, since its disk may hang; a bad one is refused."""
        self._reloads += 1
        try:
            threading.Thread(target=self._load, args=(path, self._reloads), name="reload", daemon=True).start()
        except RuntimeError as error:
            self._items.put(NewConfig(self._reloads, None, why=f"no thread is to be had to read it: {error}"))

    def _load(self, path: Path | None, number: int) -> None:
        try:
            config = load(path)
            slow = too_slow(config)
            new = NewConfig(number, None if slow else config, _text_of(config), slow)
        except (ConfigError, MissingResources) as error:
            new = NewConfig(number, None, why=str(error))
        self._items.put(new)

    def _configured(self, new: NewConfig, config: Config) -> None:
        """Called in the deciding thread when a new configuration is taken."""
        old, self._config = self._config, config
        fixed = {
            "supervisor": (old.supervisor, config.supervisor),
            "state": (old.state, config.state),
            "runtime": (old.runtime, config.runtime),
            "metrics": (old.metrics, config.metrics),
        }
        for key in (k for k, (was, now) in fixed.items() if was != now):
            _log.warning("%s is new in the configuration; it counts from the next start of the daemon on", key)
        self.performer.means.places = _places(config)
        self.performer.means.config_text = new.text
        self._health.archive = config.archive.directory
        self._loop.vitals = replace(self._loop.vitals, archive_directory=str(config.archive.directory))


def too_slow(config: Config, environ: Mapping[str, str] = os.environ) -> str:
    """Why this interval cannot be used under systemd's watchdog; '' when it can.

    Its watchdog is fed after a full tick, which may take PATIENCE intervals; a unit that asks for more would be killed, and not
    told why.
    """
    told = environ.get("WATCHDOG_USEC", "")
    seconds = int(told) / 1e6 if told.isdigit() else 0.0
    if not seconds or config.ruleset.interval * (PATIENCE + 1) <= seconds:
        return ""
    most = seconds / (PATIENCE + 1)
    return (
        f"interval: {config.ruleset.interval:g} s is too long for systemd's WatchdogSec of {seconds:g} s: "
        "a healthy daemon would be killed. "
        f"Use an interval of at most {most:g} s, or raise WatchdogSec in the unit."
    )


def _places(config: Config) -> Places:
    return Places(archive=config.archive.directory, keep=config.archive.keep, runtime=config.runtime)


def _text_of(config: Config) -> str:
    """The configuration for the bundle, where it is redacted."""
    if config.path is None:
        return "# no configuration: defaults\n"
    try:
        return config.path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        return f"# {config.path}: {error.strerror}\n"


def _with_listen(vitals: Vitals, listen: str) -> Vitals:
    return replace(vitals, metrics_listen=listen)
