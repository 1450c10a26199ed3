"""Orders to supervisord: given once, only for the process they are meant for, with a name for everything that may come of it."""

from __future__ import annotations

import errno
import os
import time
import xmlrpc.client
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from tests.fake_rpc import Behaviour, FakeRpc, answer, http, process_info, send
from tests.supervisord import Supervisord
from watchdog.act.restart import kill, start, stop
from watchdog.model.event import StopResult
from watchdog.model.observation import Identity
from watchdog.procfs import identity_of
from watchdog.supervisor import Supervisor

PROGRAM = "lab:worker_03"
IDENT = Identity(4711, 987654)
STARTED_AT = 1_700_000_001
BAD_NAME = xmlrpc.client.Fault(10, "BAD_NAME: lab:worker_03")


def starttime_of(pid: int) -> int | None:
    found = identity_of(pid)
    return None if found is None else found.starttime


def fake_starttime_of(pid: int) -> int | None:
    return {4711: 987654}.get(pid)


@pytest.fixture(scope="module")
def host() -> Iterator[Supervisord]:
    programs = {
        "worker": {"command": "sleep 600", "startsecs": 0, "stopwaitsecs": 1, "numprocs": 2},
        "stubborn": {
            "command": """sh -c 'trap "" TERM; echo ready; while :; do sleep 0.05; done'""",
            "startsecs": 0,
            "stopwaitsecs": 600,
        },
        "flaky": {"command": "false", "startsecs": 60, "startretries": 1000},
    }
    with Supervisord(programs, stop_within=0) as host:
        yield host


def running(host: Supervisord, program: str) -> tuple[Identity, int]:
    info = host.info(program)
    if info.state != "RUNNING":
        host.rpc.start(program)
        info = host.wait_for(program, "RUNNING")
    ident = identity_of(info.pid)
    assert ident is not None
    return ident, info.started_at


def test_the_whole_way(host: Supervisord) -> None:
    program = "worker:worker_00"
    ident, started_at = running(host, program)
    sibling = host.info("worker:worker_01").pid
    assert stop(host.rpc, program, ident, started_at, starttime_of) == ("sent", "")
    host.wait_for(program, "STOPPED")
    assert stop(host.rpc, program, ident, started_at, starttime_of)[0] == "not_running"
    assert start(host.rpc, program) == (False, None)
    assert start(host.rpc, program) == (False, None)  # already started is no error
    assert host.wait_for(program, "RUNNING").pid != ident.pid
    assert stop(host.rpc, program, ident, started_at, starttime_of)[0] == "changed"
    assert host.info(program).state == "RUNNING"
    assert host.info("worker:worker_01").pid == sibling


def test_another_start_of_the_same_pid_is_not_stopped(host: Supervisord) -> None:
    program = "worker:worker_01"
    ident, started_at = running(host, program)
    older = Identity(ident.pid, ident.starttime - 1)
    for who, when in (
        (older, started_at),
        (ident, started_at - 1),
        (Identity(ident.pid + 1, ident.starttime), started_at),
    ):
        result, detail = stop(host.rpc, program, who, when, starttime_of)
        assert result == "changed"
        assert detail
    assert stop(host.rpc, program, ident, started_at, lambda _: None)[0] == "changed"
    assert kill(host.rpc, program, older, starttime_of) is not None
    assert identity_of(host.info(program).pid) == ident


def test_kill_ends_what_ignores_the_stop(host: Supervisord) -> None:
    program = "stubborn:stubborn"
    ident, started_at = running(host, program)
    while "ready" not in host.log("stubborn").read_text():
        time.sleep(0.01)
    assert stop(host.rpc, program, ident, started_at, starttime_of).result == "sent"
    assert host.info(program).state == "STOPPING"
    result, detail = stop(host.rpc, program, ident, started_at, starttime_of)
    assert (result, "fault 70" in detail) == ("not_running", True)
    assert kill(host.rpc, program, ident, starttime_of) is None
    host.wait_for(program, "STOPPED")
    assert not psutil.pid_exists(ident.pid)
    error = kill(host.rpc, program, ident, starttime_of)
    assert error is not None
    assert "STOPPED" in error


def test_backoff_has_nothing_to_stop_and_needs_no_start(host: Supervisord) -> None:
    host.wait_for("flaky:flaky", "BACKOFF")
    assert start(host.rpc, "flaky:flaky") == (False, None)


def test_a_program_that_was_removed(host: Supervisord) -> None:
    assert stop(host.rpc, PROGRAM, IDENT, STARTED_AT, fake_starttime_of).result == "gone"
    outcome = start(host.rpc, PROGRAM)
    assert outcome.gone
    assert outcome.error is not None
    assert PROGRAM in outcome.error
    assert kill(host.rpc, PROGRAM, IDENT, fake_starttime_of) is not None


def hang(seconds: float) -> Behaviour:
    def wait(connection: Any) -> None:
        connection.settimeout(seconds)
        connection.recv(1)  # until the client gives up

    return wait


@pytest.mark.parametrize(
    ("behaviour", "result"),
    [
        (answer(True), "sent"),
        (hang(5), "unsure"),
        (send(b""), "unsure"),
        (send(http(b"", "500 Internal Server Error")), "unsure"),
        (answer(False), "unsure"),
        (send(http(b"", "401 Unauthorized")), "refused"),
        (answer(xmlrpc.client.Fault(70, "NOT_RUNNING")), "not_running"),
        (answer(xmlrpc.client.Fault(30, "FAILED")), "refused"),
        (answer(xmlrpc.client.Fault(6, "SHUTDOWN_STATE")), "refused"),
        (answer(BAD_NAME), "gone"),
    ],
)
def test_what_may_come_of_a_stop(behaviour: Behaviour, result: StopResult) -> None:
    methods = {"supervisor.getProcessInfo": answer(process_info(PROGRAM)), "supervisor.stopProcess": behaviour}
    with FakeRpc(methods) as server:
        outcome = stop(Supervisor(server.url, timeout=0.3), PROGRAM, IDENT, STARTED_AT, fake_starttime_of)
        assert server.asked == ["supervisor.getProcessInfo", "supervisor.stopProcess"]
    assert outcome.result == result
    assert bool(outcome.detail) is (result != "sent")


@pytest.mark.parametrize(
    ("behaviour", "result"),
    [
        (hang(5), "unreachable"),
        (send(b""), "refused"),
        (send(http(b"", "500 Internal Server Error")), "refused"),
        (answer(BAD_NAME), "gone"),
        (answer(process_info(PROGRAM, pid=0, state=30)), "not_running"),
        (answer(process_info(PROGRAM, pid=4712)), "changed"),
        (answer(process_info(PROGRAM, start=STARTED_AT + 1)), "changed"),
    ],
)
def test_nothing_is_sent_unless_it_is_the_same_process(behaviour: Behaviour, result: StopResult) -> None:
    with FakeRpc({"supervisor.getProcessInfo": behaviour}) as server:
        outcome = stop(Supervisor(server.url, timeout=0.3), PROGRAM, IDENT, STARTED_AT, fake_starttime_of)
        assert server.asked == ["supervisor.getProcessInfo"]
    assert outcome.result == result
    assert outcome.detail


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOMEM])
def test_a_start_that_cannot_be_told_sends_nothing_and_is_not_a_change(code: int) -> None:
    """`changed` ends the incident as cleared; out of descriptors it may well be the same process."""

    def refuse(_: int) -> int | None:
        raise OSError(code, os.strerror(code))

    with FakeRpc({"supervisor.getProcessInfo": answer(process_info(PROGRAM))}) as server:
        rpc = Supervisor(server.url)
        outcome = stop(rpc, PROGRAM, IDENT, STARTED_AT, refuse)
        error = kill(rpc, PROGRAM, IDENT, refuse)
        assert server.asked == ["supervisor.getProcessInfo"] * 2
    assert outcome.result == "unreachable"
    assert os.strerror(code) in outcome.detail
    assert error is not None
    assert os.strerror(code) in error


def test_a_supervisord_that_went_away_between_the_two_calls() -> None:
    with FakeRpc({}) as gone:
        pass

    class Leaving(Supervisor):
        def stop(self, name: str) -> Any:
            return Supervisor(gone.url).stop(name)

    with FakeRpc({"supervisor.getProcessInfo": answer(process_info(PROGRAM))}) as server:
        outcome = stop(Leaving(server.url), PROGRAM, IDENT, STARTED_AT, fake_starttime_of)
    assert outcome.result == "unreachable"


def test_kill_compares_and_reports() -> None:
    methods = {
        "supervisor.getProcessInfo": answer(process_info(PROGRAM, start=1)),  # a kill has no start to compare with
        "supervisor.signalProcess": answer(xmlrpc.client.Fault(30, "FAILED: kill")),
    }
    with FakeRpc(methods) as server:
        error = kill(Supervisor(server.url), PROGRAM, IDENT, fake_starttime_of)
        assert server.asked == ["supervisor.getProcessInfo", "supervisor.signalProcess"]
        assert xmlrpc.client.loads(server.requests[1][1])[0] == (PROGRAM, "KILL")
    assert error is not None
    assert "FAILED: kill" in error


@pytest.mark.parametrize(
    ("behaviour", "gone"),
    [(answer(BAD_NAME), True), (answer(xmlrpc.client.Fault(50, "SPAWN_ERROR")), False), (hang(5), False)],
)
def test_a_start_that_failed(behaviour: Behaviour, gone: bool) -> None:
    with FakeRpc(behaviour) as server:
        outcome = start(Supervisor(server.url, timeout=0.3), PROGRAM)
        assert server.asked == ["supervisor.startProcess"]
        assert xmlrpc.client.loads(server.requests[0][1])[0] == (PROGRAM, False)
    assert outcome.gone is gone
    assert outcome.error
