"""supervisord's own behaviour, which this project relies on: every claim is tried on a real one."""

from __future__ import annotations

import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.supervisord import StartSupervisord, Supervisord
from watchdog.supervisor import Fault, FaultKind, Supervisor, parse_url
from watchdog.supervisor.rpc import call

SLEEP = {"command": "sleep 600", "startsecs": 0, "stopwaitsecs": 1}
"""stopwaitsecs, since a stop signal that comes between supervisord's fork and its exec is lost: the child still has its handler."""
STUBBORN = {"command": """sh -c 'trap "" TERM; echo ready; while :; do sleep 0.05; done'""", "startsecs": 0}
"""Ignores TERM, so it stays in STOPPING for stopwaitsecs."""


def raw(host: Supervisord, method: str, *params: Any) -> Any:
    """As any client would call it, without our checks."""
    return call(parse_url(host.url), 5.0, 1 << 20, f"supervisor.{method}", *params)


def kind(answer: object) -> FaultKind | None:
    return answer.kind if isinstance(answer, Fault) else None


def wait_for_line(path: Path, text: str) -> None:
    until = time.monotonic() + 10
    while not path.exists() or text not in path.read_text():
        assert time.monotonic() < until, f"{text!r} never came in {path}"
        time.sleep(0.01)


@pytest.fixture
def stubborn(supervisord: StartSupervisord, request: pytest.FixtureRequest) -> Supervisord:
    host = supervisord({"stubborn": STUBBORN | {"stopwaitsecs": request.param}}, stop_within=0)
    wait_for_line(host.log("stubborn"), "ready")
    return host


def test_processes_are_told_by_group_and_name(supervisord: StartSupervisord) -> None:
    programs = {"worker": SLEEP | {"numprocs": 2}, "other": SLEEP | {"autostart": "false", "redirect_stderr": "true"}}
    host = supervisord(programs, "[group:mixed]\nprograms=other\n", stop_within=0)
    found = host.rpc.processes()
    assert not isinstance(found, Fault)
    assert set(found) == {"worker:worker_00", "worker:worker_01", "mixed:other"}
    running, stopped = found["worker:worker_01"], found["mixed:other"]
    assert running._replace(description="") == host.info("worker:worker_01")._replace(
        description=""
    )  # it tells the uptime
    assert (running.group, running.name, running.state) == ("worker", "worker_01", "RUNNING")
    assert psutil.Process(running.pid).ppid() == host.pid
    assert abs(running.started_at - time.time()) < 60
    assert running.stdout_logfile == str(host.log("worker_01"))
    assert running.stderr_logfile == str(host.log("worker_01", "stderr"))
    assert (stopped.state, stopped.pid, stopped.started_at) == ("STOPPED", 0, 0)
    assert stopped.stderr_logfile == ""  # redirect_stderr empties it


def test_settings_tell_what_deadlines_need(supervisord: StartSupervisord) -> None:
    quick = SLEEP | {"stopwaitsecs": 7, "stopsignal": "INT", "autostart": "false", "redirect_stderr": "true"}
    host = supervisord({"quick": quick, "plain": {"command": "sleep 600"}}, stop_within=0)
    found = host.rpc.settings()
    assert not isinstance(found, Fault)
    told = found["quick:quick"]
    assert (told.startsecs, told.stopwaitsecs, told.stopsignal) == (0, 7, 2)
    assert (told.autostart, told.redirect_stderr) == (False, True)
    assert (found["plain:plain"].startsecs, found["plain:plain"].autostart) == (1, True)


def test_identity_and_time_of_a_call(supervisord: StartSupervisord) -> None:
    host = supervisord(stop_within=0)
    fresh = Supervisor(host.url)
    assert fresh.rpc_seconds is None
    found = fresh.identity()
    assert not isinstance(found, Fault)
    assert (found.pid, found.identification, found.state) == (host.pid, host.directory.name, "RUNNING")
    assert found.version[0].isdigit()
    assert fresh.rpc_seconds is not None
    assert 0 < fresh.rpc_seconds < 5


@pytest.mark.parametrize("stubborn", [1], indirect=True)
def test_a_start_in_stopping_is_accepted_and_does_nothing(stubborn: Supervisord) -> None:
    name = "stubborn:stubborn"
    assert stubborn.rpc.stop(name) is None
    assert stubborn.info(name).state == "STOPPING"
    assert stubborn.rpc.start(name) is None
    assert kind(stubborn.rpc.stop(name)) is FaultKind.NOT_RUNNING
    stubborn.wait_for(name, "STOPPED")
    time.sleep(1.2)  # supervisord's own turn takes 1 s: autorestart does not bring it back either
    assert stubborn.info(name).state == "STOPPED"
    assert stubborn.rpc.start(name) is None
    assert stubborn.info(name).state == "RUNNING"


@pytest.mark.parametrize("stubborn", [600], indirect=True)
def test_kill_works_in_stopping(stubborn: Supervisord) -> None:
    name = "stubborn:stubborn"
    pid = stubborn.info(name).pid
    assert stubborn.rpc.stop(name) is None
    assert stubborn.rpc.kill(name) is None
    assert stubborn.wait_for(name, "STOPPED").pid == 0
    assert not psutil.pid_exists(pid)
    assert kind(stubborn.rpc.kill(name)) is FaultKind.NOT_RUNNING


@pytest.mark.parametrize("stubborn", [600], indirect=True)
def test_shutting_down_is_a_fault_of_its_own(stubborn: Supervisord) -> None:
    assert raw(stubborn, "shutdown") is True
    assert kind(stubborn.rpc.processes()) is FaultKind.SHUTTING_DOWN
    assert kind(stubborn.rpc.stop("stubborn:stubborn")) is FaultKind.SHUTTING_DOWN
    assert kind(stubborn.rpc.identity()) is FaultKind.SHUTTING_DOWN


def test_only_the_full_name_names_a_program(supervisord: StartSupervisord) -> None:
    host = supervisord({"worker": SLEEP | {"numprocs": 2}}, stop_within=0)
    for name in ("worker_00", "worker:worker_07", "none:worker_00"):
        assert kind(raw(host, "getProcessInfo", name)) is FaultKind.BAD_NAME
        assert kind(host.rpc.process(name)) is FaultKind.BAD_NAME
        assert kind(host.rpc.stop(name)) is FaultKind.BAD_NAME
    assert kind(raw(host, "getProcessInfo", "worker:*")) is FaultKind.BAD_NAME


@pytest.mark.parametrize("name", ["worker:*", "worker:"])
def test_a_group_is_never_stopped_by_its_name(supervisord: StartSupervisord, name: str) -> None:
    host = supervisord({"worker": SLEEP | {"numprocs": 2}}, stop_within=0)
    pids = {host.info(f"worker:worker_0{number}").pid for number in (0, 1)}
    for tell in (host.rpc.stop, host.rpc.kill, host.rpc.start):
        assert kind(tell(name)) is FaultKind.BAD_NAME
    assert {host.info(f"worker:worker_0{number}").pid for number in (0, 1)} == pids
    assert not isinstance(raw(host, "stopProcess", name, False), Fault)  # supervisord itself would have taken it
    for number in (0, 1):
        host.wait_for(f"worker:worker_0{number}", "STOPPED")


def test_hostile_names_are_just_unknown(supervisord: StartSupervisord) -> None:
    host = supervisord({"worker": SLEEP}, stop_within=0)
    for name in ("a b:c d", "../..:etc", "grüße:\U0001f600", "a:b:c", "<x>&amp;:]]>", "g:" + "x" * 100_000):
        for ask in (host.rpc.process, host.rpc.stop, host.rpc.start, host.rpc.kill):
            assert kind(ask(name)) is FaultKind.BAD_NAME
    assert host.info("worker:worker").state == "RUNNING"


@pytest.mark.parametrize("name", ["g:\0", "g:\x1b[31m", "g:\ud800", "g:\uffff", "", ":", "g", ":p"])
def test_names_that_xml_cannot_carry_are_not_sent(name: str) -> None:
    fault = Supervisor("unix:///nowhere/at/all").process(name)
    assert isinstance(fault, Fault)
    assert fault.kind is FaultKind.BAD_NAME  # and not unreachable: nothing was tried


def test_backoff_counts_as_running(supervisord: StartSupervisord) -> None:
    host = supervisord({"flaky": {"command": "false", "startsecs": 60, "startretries": 100}}, stop_within=0)
    assert host.wait_for("flaky:flaky", "BACKOFF").pid == 0
    assert kind(host.rpc.start("flaky:flaky")) is FaultKind.ALREADY_STARTED
    assert host.rpc.stop("flaky:flaky") is None


def test_start_of_what_cannot_run(supervisord: StartSupervisord) -> None:
    off = {"autostart": "false", "startsecs": 0}
    host = supervisord(
        {"absent": off | {"command": "/nowhere/x"}, "text": off | {"command": "/etc/passwd"}}, stop_within=0
    )
    assert kind(host.rpc.start("absent:absent")) is FaultKind.NO_FILE
    assert kind(host.rpc.start("text:text")) is FaultKind.NO_FILE


def test_stop_and_start_give_a_new_process(supervisord: StartSupervisord) -> None:
    host = supervisord({"worker": SLEEP}, stop_within=0)
    name, before = "worker:worker", host.info("worker:worker")
    assert kind(host.rpc.start(name)) is FaultKind.ALREADY_STARTED
    assert host.rpc.stop(name) is None
    host.wait_for(name, "STOPPED")
    assert kind(host.rpc.stop(name)) is FaultKind.NOT_RUNNING
    assert host.rpc.start(name) is None
    after = host.info(name)
    assert after.pid not in (0, before.pid)
    assert after.started_at >= before.started_at


def test_a_frozen_supervisord_costs_one_deadline(supervisord: StartSupervisord) -> None:
    host = supervisord({"worker": SLEEP}, timeout=0.3, stop_within=0)
    host.freeze()
    for ask in (host.rpc.processes, lambda: host.rpc.stop("worker:worker")):
        began = time.monotonic()
        fault = ask()
        assert isinstance(fault, Fault)
        assert fault.kind is FaultKind.TIMEOUT  # connecting works: the kernel accepts
        assert fault.maybe_done
        assert 0.3 <= time.monotonic() - began < 3
        assert host.rpc.rpc_seconds is not None
        assert host.rpc.rpc_seconds >= 0.3
    host.rpc.timeout = 5.0
    host.thaw()
    host.wait_for("worker:worker", "STOPPED")  # it acts on what it was sent while it was frozen


@pytest.mark.parametrize("login", [(None, None), ("anna", None), ("anna", "Pass word:2"), ("berta", "pass:wörd")])
def test_wrong_password(supervisord: StartSupervisord, login: tuple[str | None, str | None]) -> None:
    host = supervisord(http=True, user="anna", password="pass:wörd", stop_within=0)
    for url in (host.url, host.http_url):
        assert url is not None
        assert kind(Supervisor(url, *login).processes()) is FaultKind.UNAUTHORIZED
        assert Supervisor(url, "anna", "pass:wörd").processes() == {}


def test_password_in_the_url(supervisord: StartSupervisord) -> None:
    host = supervisord(http=True, user="anna", password="p@ss/word", stop_within=0)
    assert host.http_url is not None
    place = host.http_url.removeprefix("http://")
    client = Supervisor(f"http://anna:p%40ss%2Fword@{place}/RPC2")
    assert client.processes() == {}
    assert client.url == host.http_url
    assert "word" not in repr(client)


def test_wrong_path_on_the_right_port(supervisord: StartSupervisord) -> None:
    host = supervisord(http=True, stop_within=0)
    fault = Supervisor(f"{host.http_url}/nowhere").processes()
    assert isinstance(fault, Fault)
    assert (fault.kind, fault.code // 100, fault.maybe_done) == (FaultKind.HTTP, 4, False)  # 4.3.0: 400
    assert "/nowhere" in fault.detail


def test_a_name_is_looked_up(supervisord: StartSupervisord) -> None:
    host = supervisord(http=True, stop_within=0)
    assert host.http_url is not None
    assert Supervisor(host.http_url.replace("127.0.0.1", "localhost")).processes() == {}


def test_nothing_there(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram, socket.socket(socket.AF_UNIX) as dead:
        datagram.bind(str(tmp_path / "datagram"))
        dead.bind(str(tmp_path / "dead"))
        for name in ("absent", "file", "folder", "file/below", "datagram", "dead"):
            fault = Supervisor(f"unix://{tmp_path / name}").stop("g:p")
            assert isinstance(fault, Fault)
            assert (fault.kind, fault.maybe_done) == (FaultKind.UNREACHABLE, False)
            assert str(tmp_path / name) in fault.detail


def test_nobody_listens_on_the_port() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        assert kind(Supervisor(url).processes()) is FaultKind.UNREACHABLE


@contextmanager
def another_user(path: Path) -> Iterator[None]:
    """Be somebody who may not write to `path`."""
    mode = path.stat().st_mode
    if os.geteuid() == 0:
        os.seteuid(65534)
    else:
        path.chmod(0)
    try:
        yield
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
        path.chmod(stat.S_IMODE(mode))


def test_not_permitted(supervisord: StartSupervisord) -> None:
    host = supervisord(stop_within=0)
    host.directory.chmod(0o755)
    with another_user(host.socket):
        fault = host.rpc.processes()
    assert kind(fault) is FaultKind.NOT_PERMITTED
    assert host.rpc.processes() == {}


def test_own_log(supervisord: StartSupervisord) -> None:
    host = supervisord(stop_within=0)
    whole = host.rpc.log_tail()
    assert isinstance(whole, str)
    assert f"supervisord started with pid {host.pid}" in whole
    assert host.rpc.log_tail(10) == whole[-10:]
    assert host.rpc.log_tail(0) == whole[-1:]  # to supervisord itself, 0 is all of it
    with (host.directory / "supervisord.log").open("ab") as log:
        log.write("a\x00\x1b[31mé]]>&<".encode())
    assert host.rpc.log_tail(14) == "a??[31mé]]>&<"
    (host.directory / "supervisord.log").unlink()
    assert kind(host.rpc.log_tail()) is FaultKind.NO_FILE


def test_many_threads_each_get_their_own_answer(supervisord: StartSupervisord) -> None:
    host = supervisord({f"w{number}": SLEEP for number in range(4)}, stop_within=0)
    wrong: list[object] = []

    def ask(name: str) -> None:
        for _ in range(15):
            info = host.rpc.process(name)
            if isinstance(info, Fault) or info.program != name:
                wrong.append(info)

    threads = [threading.Thread(target=ask, args=(f"w{number}:w{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
