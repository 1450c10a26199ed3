"""Whoever answers, however badly and slowly: a Fault of the right kind within the deadline, and never an exception."""

from __future__ import annotations

import socket
import time
import xmlrpc.client
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from supervisor.xmlrpc import Faults

from tests.fake_rpc import Behaviour, FakeRpc, answer, http, process_info, send, xml
from watchdog.supervisor import Fault, FaultKind, ProgramSettings, Supervisor, SupervisorIdentity
from watchdog.supervisor.fault import FAULT_CODES
from watchdog.supervisor.rpc import parse_answer

INFO = process_info("lab:worker_03")
CUT = http(xml([INFO]))[:-40]


def ask(behaviour: Behaviour, **options: Any) -> object:
    with FakeRpc(behaviour) as server:
        return Supervisor(server.url, **options).processes()


def fault_of(answered: object) -> Fault:
    assert isinstance(answered, Fault), answered
    return answered


@pytest.mark.parametrize(
    ("data", "kind", "says", "maybe_done"),
    [
        (http(b"", "500 Internal Server Error"), FaultKind.HTTP, "HTTP 500 Internal", True),
        (http(b"", "503 Busy"), FaultKind.HTTP, "HTTP 503", True),
        (http(b"", "404 Not Found"), FaultKind.HTTP, "HTTP 404", False),
        (http(b"", "302 Found", "Location: http://127.0.0.1:1/"), FaultKind.HTTP, "HTTP 302", False),
        (http(b"", "401 Unauthorized"), FaultKind.UNAUTHORIZED, "HTTP 401", False),
        (http(b"", "403 Forbidden"), FaultKind.UNAUTHORIZED, "HTTP 403", False),
        (b"SSH-2.0-OpenSSH_9.2\r\n", FaultKind.GARBLED, "no whole HTTP answer", True),
        (b"\x00\xff" * 5000, FaultKind.GARBLED, "no whole HTTP answer", True),
        (b"", FaultKind.GARBLED, "no whole HTTP answer", True),
        (b"HTTP/1.1 200 OK\r\nContent-Le", FaultKind.GARBLED, "not answered in XML-RPC", True),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n", FaultKind.GARBLED, "no whole HTTP answer", True),
        (b"HTTP/1.1 200 OK\r\nA: " + b"b" * 70_000 + b"\r\n\r\n", FaultKind.GARBLED, "no whole HTTP answer", True),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            FaultKind.GARBLED,
            "no whole HTTP answer",
            True,
        ),
        (CUT, FaultKind.GARBLED, "cut its answer short", True),
        (http(xml([INFO])[:-40]), FaultKind.GARBLED, "not answered in XML-RPC", True),
        (http(b"<html><body>It works!</body></html>"), FaultKind.GARBLED, "not answered in XML-RPC", True),
        (http(xmlrpc.client.dumps((1,), "m").encode()), FaultKind.GARBLED, "no XML-RPC response", True),
        (http(b"<methodResponse><params/></methodResponse>"), FaultKind.GARBLED, "", True),
    ],
)
def test_bad_answers(data: bytes, kind: FaultKind, says: str, maybe_done: bool) -> None:
    fault = fault_of(ask(send(data)))
    assert (fault.kind, fault.maybe_done) == (kind, maybe_done)
    assert says in fault.detail


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("text", "of type str instead of an array"),
        ({"a": 1}, "of type dict instead of an array"),
        ([7], "of type int instead of a struct"),
        ([process_info("a:b", pid="4711")], "pid is of type str"),
        ([process_info("a:b", pid=True)], "pid is of type bool"),
        ([process_info("a:b", pid=-1)], "pid is -1"),
        ([process_info("a:b", pid=2**31 - 1)], "no pid"),
        ([process_info("a:b", start=1.5)], "start is of type float"),
        ([process_info("a:b", stdout_logfile=[])], "stdout_logfile is of type list"),
        ([process_info("a:b", state="RUNNING")], "state is of type str"),
        ([{key: value for key, value in INFO.items() if key != "group"}], "group is missing"),
        ([process_info("a:b"), process_info("a:b", pid=4712)], "two programs of one name"),
    ],
)
def test_wrong_types(value: Any, says: str) -> None:
    fault = fault_of(ask(answer(value)))
    assert fault.kind is FaultKind.GARBLED
    assert says in fault.detail


def test_what_is_not_essential_may_be_missing() -> None:
    lean = {key: INFO[key] for key in ("name", "group", "state", "pid", "start")}
    found = ask(answer([lean]))
    assert isinstance(found, dict)
    info = found["lab:worker_03"]
    assert (info.pid, info.started_at, info.exitstatus, info.stdout_logfile) == (4711, 1_700_000_001, 0, "")


def test_fields_are_not_mixed_up() -> None:
    found = ask(answer([process_info("lab:worker_03", spawnerr="no exec", description="fell over")]))
    assert isinstance(found, dict)
    info = found["lab:worker_03"]
    assert (info.group, info.name, info.pid, info.started_at) == ("lab", "worker_03", 4711, 1_700_000_001)
    assert (info.exitstatus, info.stdout_logfile, info.stderr_logfile) == (3, "/out.log", "/err.log")
    assert (info.spawnerr, info.description) == ("no exec", "fell over")


@pytest.mark.parametrize(
    ("number", "state"), [(0, "STOPPED"), (200, "FATAL"), (1000, "UNKNOWN"), (77, "UNKNOWN"), (-5, "UNKNOWN")]
)
def test_states(number: int, state: str) -> None:
    found = ask(answer([process_info("a:b", state=number)]))
    assert isinstance(found, dict)
    assert found["a:b"].state == state


@pytest.mark.parametrize("name", ["a b:c d", "../..:etc", "grüße:\U0001f600", "a:b:c", "a:x\ny"])
def test_hostile_names_are_kept_as_given(name: str) -> None:
    methods = {
        "supervisor.getAllProcessInfo": answer([process_info(name)]),
        "supervisor.getProcessInfo": answer(process_info(name)),
        "supervisor.stopProcess": answer(True),
    }
    with FakeRpc(methods) as server:
        client = Supervisor(server.url)
        found = client.processes()
        assert isinstance(found, dict)
        assert list(found) == [name]
        assert client.process(name) == found[name]
        assert client.stop(name) is None
        assert [xmlrpc.client.loads(body)[0] for _, body in server.requests] == [(), (name,), (name, False)]


def test_an_answer_about_another_program_is_garbled() -> None:
    with FakeRpc(answer(process_info("lab:worker_04"))) as server:
        fault = fault_of(Supervisor(server.url).process("lab:worker_03"))
    assert fault.kind is FaultKind.GARBLED
    assert "worker_04" in fault.detail


@pytest.mark.parametrize("value", [False, 1, "True", [True]])
def test_only_true_means_taken(value: Any) -> None:
    with FakeRpc(answer(value)) as server:
        assert fault_of(Supervisor(server.url).stop("a:b")).kind is FaultKind.GARBLED


def test_settings_tolerate_other_versions() -> None:
    told = [{"group": "g", "name": "p", "startsecs": "3", "stopwaitsecs": 9, "autostart": "auto", "killasgroup": True}]
    with FakeRpc(answer(told)) as server:
        assert Supervisor(server.url).settings() == {"g:p": ProgramSettings(stopwaitsecs=9, killasgroup=True)}


def test_identity_of_others() -> None:
    state = {"statecode": 1, "statename": "RUNNING"}
    fault = {"faultCode": 1, "faultString": "UNKNOWN_METHOD"}
    with FakeRpc(answer(["4.2.5", "lab", 4711, state])) as server:
        assert Supervisor(server.url).identity() == SupervisorIdentity("4.2.5", "lab", 4711, "RUNNING")
    for value, kind in (
        (["4.2.5", "lab", 4711, fault], FaultKind.OTHER),
        (["4.2.5", "lab", 4711], FaultKind.GARBLED),
        (["4.2.5", "lab", "4711", state], FaultKind.GARBLED),
        (["4.2.5", "lab", 4711, {"faultCode": "x"}], FaultKind.GARBLED),
    ):
        with FakeRpc(answer(value)) as server:
            assert fault_of(Supervisor(server.url).identity()).kind is kind


@pytest.mark.parametrize("seconds_between", [0.02, 0.25])
@pytest.mark.parametrize("start", [0, len(http(b"")) + 10])
def test_a_trickle_does_not_stretch_the_deadline(start: int, seconds_between: float) -> None:
    data = http(xml([process_info("a:b", description="x" * 2000)]))

    def trickle(connection: socket.socket) -> None:
        connection.sendall(data[:start])
        for byte in data[start:]:
            connection.sendall(bytes([byte]))
            server.wait(seconds_between)

    with FakeRpc(trickle) as server:
        began = time.monotonic()
        fault = fault_of(Supervisor(server.url, timeout=0.4).processes())
        assert 0.4 <= time.monotonic() - began < 4
    assert fault.kind is FaultKind.TIMEOUT
    assert "0.4 s" in fault.detail


def test_silence_ends_at_the_deadline(tmp_path: Path) -> None:
    with FakeRpc(lambda _: server.wait(30), tmp_path / "s") as server:
        began = time.monotonic()
        assert fault_of(Supervisor(server.url, timeout=0.2).stop("a:b")).kind is FaultKind.TIMEOUT
        assert time.monotonic() - began < 4


def test_a_full_queue_of_connections(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as frozen, socket.socket(socket.AF_UNIX) as first:
        frozen.bind(str(tmp_path / "s"))
        frozen.listen(0)
        first.connect(str(tmp_path / "s"))
        fault = fault_of(Supervisor(f"unix://{tmp_path / 's'}", timeout=0.2).processes())
    assert fault.kind is FaultKind.UNREACHABLE
    assert "queue is full" in fault.detail


def test_too_large() -> None:
    big = http(xml([process_info("a:b", description="x" * 10_000_000)]))
    assert fault_of(ask(send(big))).kind is FaultKind.GARBLED
    assert "more than" in fault_of(ask(send(big))).detail
    assert isinstance(ask(send(big), max_bytes=11_000_000), dict)


def test_endless() -> None:
    def endless(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b"<" * 65536)

    assert "more than 1000000 bytes" in fault_of(ask(endless, max_bytes=1_000_000)).detail


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.0 200 OK\r\n\r\n" + xml([INFO]),
        b"HTTP/1.1 100 Continue\r\n\r\n" + http(xml([INFO])),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(xml([INFO])), xml([INFO])),
    ],
)
def test_other_servers_ways_to_answer(data: bytes) -> None:
    assert isinstance(ask(send(data)), dict)


def test_what_is_sent() -> None:
    with FakeRpc(answer([])) as server:
        assert Supervisor(server.url, "anna", "wörd").processes() == {}
        assert Supervisor(server.url + "/proxied/RPC2").processes() == {}
        (first, body), (second, _) = server.requests
    assert first.startswith(b"POST /RPC2 HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Basic YW5uYTp3w7ZyZA==" in first
    assert xmlrpc.client.loads(body) == ((), "supervisor.getAllProcessInfo")
    assert second.startswith(b"POST /proxied/RPC2 HTTP/1.1\r\n")
    assert b"Authorization" not in second


@pytest.mark.parametrize(("code", "kind"), [*FAULT_CODES.items(), (1, FaultKind.OTHER), (-32500, FaultKind.OTHER)])
def test_every_fault_has_our_name_and_a_hint(code: int, kind: FaultKind) -> None:
    fault = fault_of(ask(answer(xmlrpc.client.Fault(code, "SAID: lab:worker_03"))))
    assert (fault.kind, fault.code, fault.maybe_done) == (kind, code, False)
    assert "SAID: lab:worker_03" in fault.detail


@pytest.mark.parametrize("kind", FaultKind)
def test_a_hint_says_what_happened_what_it_means_and_what_to_do(kind: FaultKind) -> None:
    happened, means, todo = (
        Fault(kind, "It happened").hint().replace("What to do: ", "").split(sep)[0] for sep in (":", ".", "\0")
    )
    assert happened == "It happened"
    assert len(means) > len(happened) + 10
    assert todo.endswith(".")
    assert len(todo) > len(means) + 5


def test_the_codes_of_the_supervisor_that_is_installed() -> None:
    ours = {
        "SHUTDOWN_STATE": FaultKind.SHUTTING_DOWN,
        "BAD_NAME": FaultKind.BAD_NAME,
        "NO_FILE": FaultKind.NO_FILE,
        "NOT_EXECUTABLE": FaultKind.NO_FILE,
        "FAILED": FaultKind.FAILED,
        "ABNORMAL_TERMINATION": FaultKind.FAILED,
        "SPAWN_ERROR": FaultKind.SPAWN_ERROR,
        "ALREADY_STARTED": FaultKind.ALREADY_STARTED,
        "NOT_RUNNING": FaultKind.NOT_RUNNING,
    }
    assert {getattr(Faults, name): kind for name, kind in ours.items()} == FAULT_CODES


PIECES = [
    b"<int>",
    b"</int>",
    b"<struct>",
    b"</member>",
    b"<fault>",
    b"<array>",
    b"<nil/>",
    b"<double>x</double>",
    b"99999999999",
]
PIECES += [
    b"<dateTime.iso8601>",
    b"<base64>",
    b"<bigdecimal>",
    b"</data>",
    b"</value>",
    b"<value>",
    b"<boolean>7</boolean>",
    b"\xff",
]


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2000), st.integers(0, 30), st.sampled_from([*PIECES, b""])), min_size=1, max_size=6
    )
)
def test_no_mutated_answer_raises(changes: list[tuple[int, int, bytes]]) -> None:
    body = xml([INFO, 1.5, [True, None or ""], {"a": b"x"}])
    for at, length, piece in changes:
        body = body[:at] + piece + body[at + length :]
    parse_answer(body, "any")


@pytest.mark.parametrize(
    "inner",
    [
        "<boolean>7</boolean>",
        "<int>" + "9" * 5000 + "</int>",
        "<double>x</double>",
        "<bigdecimal>x</bigdecimal>",
        "<base64>A</base64>",
        "<struct><member><name>a</name></member></struct>",
        "<struct><member><value><array><data/></array></value><value>1</value></member></struct>",
        "<dateTime.iso8601>x</dateTime.iso8601>",
        "<nope>1</nope>",
        "</data>",
    ],
)
@pytest.mark.parametrize(
    "around", ["<params><param><value>{}</value></param></params>", "<fault><value>{}</value></fault>"]
)
def test_odd_values_are_values_or_faults(inner: str, around: str) -> None:
    body = f"<methodResponse>{around.format(inner)}</methodResponse>"
    fault = parse_answer(body.encode(), "odd")
    assert isinstance(fault, Fault)
    assert fault.kind is FaultKind.GARBLED


def test_entities_do_not_grow() -> None:
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "ha"}">' for n in range(10))
    body = (
        f"<!DOCTYPE x [{entities}]><methodResponse><params><param><value>&e9;</value></param></params></methodResponse>"
    )
    began = time.monotonic()
    answered = parse_answer(body.encode(), "bomb")
    assert time.monotonic() - began < 5
    assert isinstance(answered, Fault) or len(answered) < 1000
