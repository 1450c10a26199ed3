"""Metrics: their names, values and absences; the server against bad clients; and what Prometheus' own tools say."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.show.worlds import RULESET, VITALS, info, observed, only, process, world
from watchdog import __version__
from watchdog.model.observation import Gauges, Identity, Observation
from watchdog.model.vitals import Vitals
from watchdog.model.world import Phase, Program, World
from watchdog.show import metrics
from watchdog.show.metrics import CpuTotals, MetricsError, Serving, StateCollector

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def text(of: World | None = None, vitals: Vitals = VITALS) -> bytes:
    registry = CollectorRegistry()
    registry.register(StateCollector(lambda: (of if of is not None else world(), RULESET, vitals)))
    return generate_latest(registry)


def parsed(scraped: bytes) -> Samples:
    families = text_string_to_metric_families(scraped.decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def value(of: Samples, name: str, **labels: str) -> float | None:
    return of.get((f"watchdog_{name}", tuple(sorted(labels.items()))))


def test_every_name_of_the_design_is_there_and_no_other() -> None:
    names = {line.split()[2] for line in text().decode().splitlines() if line.startswith("# TYPE")}
    assert names == {
        f"watchdog_{name}"
        for name in (
            "program_phase",
            "heartbeat_age_seconds",
            "rule_firing",
            "rule_distance_ratio",
            "incidents_total",
            "restarts_total",
            "program_resident_bytes",
            "program_shared_memory_bytes",
            "program_open_fds",
            "program_fd_limit_ratio",
            "program_cpu_seconds_total",
            "program_blind",
            "supervisor_up",
            "supervisor_rpc_seconds",
            "last_tick_timestamp_seconds",
            "tick_seconds",
            "capture_usable",
            "archive_bytes",
            "archive_writable",
            "build_info",
        )
    }


def test_phase_is_a_state_set() -> None:
    found = parsed(text())
    phases = {p.value: value(found, "program_phase", program="gpu:three", phase=p.value) for p in Phase}
    assert phases == {p.value: float(p is Phase.COLLECTING) for p in Phase}


def test_each_program_has_its_own_values() -> None:
    found = parsed(text())
    one = {"program": "gpu:one"}
    assert value(found, "heartbeat_age_seconds", heartbeat="log", **one) == 27.0
    assert value(found, "heartbeat_age_seconds", heartbeat="progress", **one) == 90.0
    assert value(found, "rule_firing", rule="stall", **one) == 0.0
    assert value(found, "rule_firing", rule="stall", program="gpu:three") == 1.0
    assert value(found, "rule_distance_ratio", rule="stall", **one) == pytest.approx(0.1)
    assert value(found, "program_resident_bytes", **one) == 101_000
    assert value(found, "program_shared_memory_bytes", **one) == 80_800
    assert value(found, "program_open_fds", **one) == 4
    assert value(found, "program_fd_limit_ratio", **one) == 0.25
    assert value(found, "program_cpu_seconds_total", **one) == 12.5
    assert value(found, "program_blind", **one) == 0.0
    assert value(found, "program_blind", program="cpu:two") == 1.0


def test_counters_come_from_the_journals_totals() -> None:
    found = parsed(text())
    of = {"program": "gpu:one", "rule": "stall"}
    assert value(found, "incidents_total", outcome="recovered", **of) == 5
    assert value(found, "restarts_total", outcome="recovered", **of) == 4
    assert value(found, "incidents_total", outcome="vetoed", program="cpu:two", rule="stall") == 9
    assert value(found, "restarts_total", outcome="vetoed", program="cpu:two", rule="stall") is None


def test_every_counter_of_a_watched_program_is_there_at_zero_before_anything_happens() -> None:
    """increase() sees a series that begins at 0 go to 1, and not one that begins at 1."""
    found = parsed(text(vitals=replace(VITALS, totals={})))
    for outcome in ("recovered", "no_progress", "start_failed", "unkillable"):
        assert value(found, "restarts_total", outcome=outcome, program="gpu:one", rule="stall") == 0
    for outcome in ("recovered", "cleared", "vetoed", "reported"):
        assert value(found, "incidents_total", outcome=outcome, program="gpu:one", rule="stall") == 0


def test_the_daemons_own_values() -> None:
    found = parsed(text())
    assert value(found, "supervisor_up") == 1
    assert value(found, "supervisor_rpc_seconds") == 0.003
    assert value(found, "last_tick_timestamp_seconds") == VITALS.last_tick_wall
    assert value(found, "tick_seconds") == 0.021
    assert value(found, "capture_usable") == 1
    assert value(found, "archive_bytes") == 777_777
    assert value(found, "archive_writable") == 1
    assert value(found, "build_info", version=__version__) == 1


def test_what_is_not_known_is_left_out_and_never_zero() -> None:
    found = parsed(text(World(), Vitals(pid=1, started_wall=1.0)))
    assert list(found) == [("watchdog_build_info", (("version", __version__),))]
    blank = observed("gpu:one", 101, log=None, progress=None)._replace(gauges=Gauges(), cpu_seconds=None, tree=())
    look = world().looks["gpu:one"]._replace(observation=blank)
    look = look._replace(log=look.log._replace(unknown=5.0), progress=look.progress._replace(unknown=5.0))
    found = parsed(text(only(Program("gpu:one", info=info("gpu:one", 101)), look)))
    assert {name for name, _ in found} & {
        "watchdog_heartbeat_age_seconds",
        "watchdog_rule_distance_ratio",
        "watchdog_program_resident_bytes",
        "watchdog_program_open_fds",
        "watchdog_program_cpu_seconds_total",
    } == set()


def test_an_unwatched_program_and_one_that_does_not_run_have_no_gauges() -> None:
    found = parsed(text())
    assert not [labels for _, labels in found if ("program", "other:four") in labels]
    stopped = Program("gpu:one", info=info("gpu:one", 0, "STOPPED"))
    found = parsed(text(only(stopped, world().looks["gpu:one"]._replace(ident=None))))
    assert {name for name, labels in found if ("program", "gpu:one") in labels} <= {
        "watchdog_program_phase",
        "watchdog_incidents_total",
        "watchdog_restarts_total",
    }


def tree(*seconds: tuple[int, float], main: int = 10) -> Observation:
    processes = tuple(process(pid, 2, cpu) for pid, cpu in seconds)
    return observed("gpu:one", main)._replace(ident=Identity(main, main + 90_000), tree=processes)


def test_cpu_never_goes_backwards_while_the_main_process_lives() -> None:
    cpu = CpuTotals()
    assert cpu.total("gpu:one", tree((10, 5.0), (11, 7.0))) == 12.0
    assert cpu.total("gpu:one", tree((10, 6.0))) == 13.0, "the child ended; its 7 s stay"
    assert cpu.total("gpu:one", tree((10, 6.5))) == 13.5
    assert cpu.total("gpu:one", tree((10, 6.5), (12, 1.0))) == 14.5


def test_a_child_that_was_overlooked_once_is_not_counted_twice() -> None:
    cpu = CpuTotals()
    cpu.total("gpu:one", tree((10, 5.0), (11, 7.0)))
    assert cpu.total("gpu:one", tree((10, 5.0))) == 12.0
    assert cpu.total("gpu:one", tree((10, 5.0), (11, 7.5))) == 12.5


def test_cpu_begins_anew_with_a_new_main_process() -> None:
    cpu = CpuTotals()
    cpu.total("gpu:one", tree((10, 500.0)))
    assert cpu.total("gpu:one", tree((20, 1.0), main=20)) == 1.0


def test_cpu_of_a_tree_that_could_not_be_read_is_left_out_and_goes_on_after() -> None:
    cpu = CpuTotals()
    cpu.total("gpu:one", tree((10, 5.0), (11, 7.0)))
    assert cpu.total("gpu:one", tree()) is None
    assert cpu.total("gpu:one", tree((10, 6.0))) == 13.0


def test_cpu_forgets_programs_that_are_gone() -> None:
    cpu = CpuTotals()
    cpu.total("gpu:one", tree((10, 5.0), (11, 7.0)))
    cpu.forget_all_but({})
    assert cpu.total("gpu:one", tree((10, 5.0))) == 5.0


@pytest.fixture
def serving() -> Iterator[Serving]:
    found = metrics.serve("127.0.0.1", 0, lambda: (world(), RULESET, VITALS))
    yield found
    found.server.stop()


def scrape(port: int) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        body: bytes = answer.read()
    return body


def test_serves_on_a_free_port_and_says_which(serving: Serving) -> None:
    assert serving.port > 0
    assert scrape(serving.port) == text()


def test_a_port_in_use_is_an_error_with_what_to_do(serving: Serving) -> None:
    with pytest.raises(MetricsError, match=rf"127\.0\.0\.1:{serving.port}.*in use.*metrics\.listen"):
        metrics.serve("127.0.0.1", serving.port, lambda: (world(), RULESET, VITALS))


@pytest.mark.parametrize(("host", "port"), [("256.1.1.1", 0), ("192.0.2.1", 0), ("127.0.0.1", 70_000)])
def test_an_address_that_is_not_ours_is_an_error(host: str, port: int) -> None:
    with pytest.raises(MetricsError, match=r"metrics\.listen"):
        metrics.serve(host, port, lambda: (world(), RULESET, VITALS))


def test_silent_clients_are_dropped_and_hold_up_nobody(monkeypatch: pytest.MonkeyPatch, serving: Serving) -> None:
    assert metrics._Handler.timeout == metrics.CLIENT_TIMEOUT
    monkeypatch.setattr(metrics._Handler, "timeout", 0.3)
    silent = [socket.create_connection(("127.0.0.1", serving.port), timeout=10) for _ in range(metrics.CLIENTS)]
    try:
        for client in silent:
            client.settimeout(10)
            assert client.recv(1) == b"", "the server hung up"
    finally:
        for client in silent:
            client.close()
    assert scrape(serving.port) == text()


def test_too_many_clients_are_turned_away_and_cost_no_thread(serving: Serving) -> None:
    clients = [socket.create_connection(("127.0.0.1", serving.port), timeout=10) for _ in range(metrics.CLIENTS)]
    deadline = time.monotonic() + 10
    while serving.server.busy() < metrics.CLIENTS and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        with socket.create_connection(("127.0.0.1", serving.port), timeout=10) as late:
            assert late.recv(1) == b""
        assert serving.server.busy() == metrics.CLIENTS
    finally:
        for client in clients:
            client.close()
    while serving.server.busy() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert scrape(serving.port) == text()


def test_a_client_that_hangs_up_is_no_news(serving: Serving, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_connection(("127.0.0.1", serving.port), timeout=10) as client:
        client.sendall(b"GET /metrics HTTP/1.0\r\n")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # close() sends a reset
    assert scrape(serving.port) == text()
    assert capfd.readouterr().err == ""


def test_a_bug_in_a_scrape_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    done = threading.Event()

    def hook(told: threading.ExceptHookArgs) -> None:
        seen.append(str(told.exc_value))
        done.set()

    def provider() -> tuple[World, object, Vitals]:
        raise KeyError("a bug")

    monkeypatch.setattr(threading, "excepthook", hook)
    broken = metrics.serve("127.0.0.1", 0, provider)  # type: ignore[arg-type]
    try:
        with socket.create_connection(("127.0.0.1", broken.port), timeout=10) as client:
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert done.wait(10)
    finally:
        broken.server.stop()
    assert seen == ["'a bug'"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_has_nothing_to_say() -> None:
    for scraped in (text(), text(World(), replace(VITALS, totals={}))):
        checked = subprocess.run(
            ["promtool", "check", "metrics"], input=scraped, capture_output=True, timeout=60, check=False
        )
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")
