"""Prometheus metrics, derived from the state at each scrape. May listen on the one address it is told.

Nothing is counted in the logic, and no lock of the deciding thread is taken: the provider hands over frozen values. What is
not known is left out, never 0.
"""

from __future__ import annotations

import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import HTTPServer
from typing import Final, NamedTuple, get_args

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import MetricsHandler
from prometheus_client.registry import Collector

from watchdog import __version__
from watchdog.model.observation import Identity, Observation
from watchdog.model.rule import Ruleset
from watchdog.model.vitals import Counts, Tally, Vitals
from watchdog.model.world import Look, Outcome, Phase, Program, World
from watchdog.show.distance import rule_states
from watchdog.show.status import age

Provider = Callable[[], tuple[World, Ruleset, Vitals]]
"""The newest state; called in the scraping thread, so it may only hand over a reference."""

Request = socket.socket | tuple[bytes, socket.socket]

AFTER_A_STOP: Final = frozenset({"recovered", "no_progress", "start_failed", "unkillable"})
"""Outcomes that only an incident with a restart has."""

CLIENT_TIMEOUT: Final = 10.0
"""Seconds that a client may keep the server waiting for each read or write; Prometheus' own scrape_timeout default is 10 s."""
CLIENTS: Final = 8
"""Served at once; more are turned away, so that a client that keeps opening connections costs no memory."""


class MetricsError(Exception):
    """The address cannot be listened on; str() says why and what to do."""


class Serving(NamedTuple):
    server: Server
    port: int
    """As bound."""


def serve(host: str, port: int, provider: Provider) -> Serving:
    """Answer scrapes on host:port in a thread of its own, until server.stop(). Port 0: a free one. Raises MetricsError."""
    registry = CollectorRegistry()
    registry.register(StateCollector(provider))
    try:
        server = Server(host, port, registry)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise MetricsError(
            f"Metrics cannot listen on {host}:{port}: {reason}. "
            "Set metrics.listen to a free address, to port 0 for any free port, or to off."
        ) from error
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return Serving(server, server.server_port)


class _Handler(MetricsHandler):
    """prometheus_client's own, but a silent client is dropped."""

    timeout = CLIENT_TIMEOUT


class Server(socketserver.ThreadingMixIn, HTTPServer):
    """A thread for each client, at most `CLIENTS` at once; none keeps the process from ending."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, port: int, registry: CollectorRegistry) -> None:
        self._lock = threading.Lock()
        self._busy = 0
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), type("Handler", (_Handler,), {"registry": registry}))

    def server_bind(self) -> None:
        """Without HTTPServer's getfqdn(), which asks a name server, and may wait for it for many seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def busy(self) -> int:
        """Clients that are being served."""
        with self._lock:
            return self._busy

    def verify_request(self, request: Request, client_address: object) -> bool:
        """Whether there is room for one more client; then its place is taken."""
        with self._lock:
            room = self._busy < CLIENTS
            self._busy += room
        return room

    def process_request_thread(self, request: Request, client_address: object) -> None:
        """One client, from its first byte to its last."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._busy -= 1

    def handle_error(self, request: Request, client_address: object) -> None:
        """A client that went away, or kept us waiting, is no news. Anything else is a bug and is treated like one in any thread."""
        error = sys.exception()
        if error is not None and not isinstance(error, OSError):
            threading.excepthook(
                threading.ExceptHookArgs((type(error), error, error.__traceback__, threading.current_thread()))
            )

    def stop(self) -> None:
        """Stop listening; scrapes under way end by themselves."""
        self.shutdown()
        self.server_close()


class StateCollector(Collector):
    """Every metric, made anew at each scrape."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._cpu = CpuTotals()
        self._one_scrape = threading.Lock()
        """Of scraping threads only: `CpuTotals` remembers the last scrape."""

    def describe(self) -> Iterator[Metric]:
        """Nothing: a registry would otherwise scrape once when the collector is registered."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Every family, those without a sample too, so that what exists can be seen."""
        world, ruleset, vitals = self._provider()
        families = _Families()
        with self._one_scrape:
            self._cpu.forget_all_but(world.programs)
            for name in sorted(world.programs):
                self._program(families, world.programs[name], world, ruleset)
        _totals(families, world, ruleset, vitals)
        _daemon(families, world, vitals)
        return iter(families.all.values())

    def _program(self, families: _Families, program: Program, world: World, ruleset: Ruleset) -> None:
        policy = ruleset.policy_for(program.name)
        look = world.looks.get(program.name)
        if policy is None:
            return
        for phase in Phase:
            families.add("program_phase", int(program.phase is phase), program.name, phase.value)
        if look is None or look.ident is None:
            return
        families.add("heartbeat_age_seconds", age(look.log), program.name, "log")
        families.add("heartbeat_age_seconds", age(look.progress), program.name, "progress")
        for state in rule_states(policy, look):
            families.add("rule_firing", int(state.firing), program.name, state.rule)
            families.add("rule_distance_ratio", state.ratio, program.name, state.rule)
        _gauges(families, program.name, look)
        families.add("program_cpu_seconds_total", self._cpu.total(program.name, look.observation), program.name)


def _gauges(families: _Families, program: str, look: Look) -> None:
    gauges = look.observation.gauges
    families.add("program_resident_bytes", gauges.rss, program)
    families.add("program_shared_memory_bytes", gauges.shmem, program)
    families.add("program_open_fds", gauges.fds, program)
    families.add("program_fd_limit_ratio", gauges.fds_ratio, program)
    families.add("program_blind", int(look.blind), program)


def _totals(families: _Families, world: World, ruleset: Ruleset, vitals: Vitals) -> None:
    """Every counter of a watched program is there from the start, at 0: increase() does not see a series begin at 1."""
    totals = {tally: Counts(0, 0) for tally in _possible(world, ruleset)} | dict(vitals.totals)
    for tally, counts in sorted(totals.items()):
        families.add("incidents_total", counts.incidents, *tally)
        if counts.restarts or tally.outcome in AFTER_A_STOP:
            families.add("restarts_total", counts.restarts, *tally)


def _possible(world: World, ruleset: Ruleset) -> Iterator[Tally]:
    for name in world.programs:
        policy = ruleset.policy_for(name)
        for rule in policy.rules if policy is not None else ():
            yield from (Tally(name, rule.name, outcome) for outcome in get_args(Outcome))


def _daemon(families: _Families, world: World, vitals: Vitals) -> None:
    families.add("supervisor_up", world.host.supervisor_up)
    families.add("supervisor_rpc_seconds", vitals.rpc_seconds)
    families.add("last_tick_timestamp_seconds", vitals.last_tick_wall)
    families.add("tick_seconds", vitals.tick_seconds)
    families.add("capture_usable", vitals.capture_usable)
    families.add("archive_bytes", vitals.archive_bytes)
    families.add("archive_writable", vitals.archive_writable)
    families.add("build_info", 1, __version__)


class _Families:
    """The samples of one scrape, by family."""

    def __init__(self) -> None:
        self.all: dict[str, GaugeMetricFamily | CounterMetricFamily] = {
            name: (CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily)(
                f"watchdog_{name}", help_, labels=labels
            )
            for name, (labels, help_) in FAMILIES.items()
        }

    def add(self, family: str, value: float | None, *labels: str) -> None:
        """One sample; a value that is not known makes none."""
        if value is not None:
            self.all[family].add_metric(labels, float(value))


FAMILIES: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "program_phase": (("program", "phase"), "1 for the phase that the program is in, 0 for the others."),
    "heartbeat_age_seconds": (
        ("program", "heartbeat"),
        "Looked-at seconds since the heartbeat (log, progress) was seen to change; without a sample where it is absent or unknown.",
    ),
    "rule_firing": (("program", "rule"), "1 while some group of the rule holds."),
    "rule_distance_ratio": (
        ("program", "rule"),
        "How near the rule's nearest group is to firing; 1 or more: it holds; without a sample where that is not known.",
    ),
    "incidents_total": (("program", "rule", "outcome"), "Closed incidents, since the journal began."),
    "restarts_total": (
        ("program", "rule", "outcome"),
        "Closed incidents that stopped the program, since the journal began.",
    ),
    "program_resident_bytes": (
        ("program",),
        "Resident memory of the process tree: anonymous and file pages of every process, where pages that a fork left shared "
        "count in each, and the shared memory of the process that has most of it.",
    ),
    "program_shared_memory_bytes": (
        ("program",),
        "Resident shared memory of the process of the tree that has most of it; the whole tree has at least that much.",
    ),
    "program_open_fds": (("program",), "Open file descriptors of the process tree."),
    "program_fd_limit_ratio": (
        ("program",),
        "Open descriptors over the soft limit, of the process that is nearest to it.",
    ),
    "program_cpu_seconds_total": (
        ("program",),
        "CPU seconds of the process tree: of its processes since each began, and of ended ones that some scrape had seen.",
    ),
    "program_blind": (("program",), "1 when none of the program's stall groups can fire."),
    "supervisor_up": ((), "1 while supervisord answers."),
    "supervisor_rpc_seconds": ((), "How long supervisord took for its last answer."),
    "last_tick_timestamp_seconds": ((), "When the last full tick ended, in seconds since the epoch."),
    "tick_seconds": ((), "How long the last full tick took."),
    "capture_usable": ((), "1 when stacks can be dumped: py-spy is there and permitted."),
    "archive_bytes": ((), "Size of the incident archive."),
    "archive_writable": ((), "1 when the incident archive can be written; nothing is stopped while it cannot."),
    "build_info": (("version",), "1; the version is a label."),
}


class CpuTotals:
    """A tree's CPU seconds as a counter: a child that ends takes its seconds out of /proc, but not out of the sum."""

    def __init__(self) -> None:
        self._of: dict[str, _Tree] = {}

    def forget_all_but(self, programs: Mapping[str, object]) -> None:
        """Keep the memory as small as the world is."""
        for name in self._of.keys() - programs.keys():
            del self._of[name]

    def total(self, program: str, seen: Observation) -> float | None:
        """CPU seconds of the tree's processes, of each since it began; None: the tree could not be read.

        Processes that ended count, if they were there when somebody asked about this main process.
        """
        if seen.ident is None or not seen.tree:
            return None
        before = self._of.get(program)
        if before is None or before.main != seen.ident:
            before = _Tree(seen.ident, {}, {}, 0.0)
        living = {p.identity: p.cpu_s for p in seen.tree}
        # A process that is missing once may have been overlooked: its seconds are folded into the sum when it is missing twice.
        missing = {i: s for i, s in before.living.items() if i not in living}
        ended = before.ended + sum(s for i, s in before.missing.items() if i not in living)
        self._of[program] = _Tree(seen.ident, living, missing, ended)
        return ended + sum(missing.values()) + sum(living.values())


class _Tree(NamedTuple):
    main: Identity
    living: Mapping[Identity, float]
    missing: Mapping[Identity, float]
    ended: float
    """Seconds of processes that are gone."""
