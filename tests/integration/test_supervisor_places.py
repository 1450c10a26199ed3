"""Where supervisord is looked for, what a url may be, and which urls mean the same place."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests.fake_rpc import FakeRpc, answer
from tests.supervisord import StartSupervisord
from watchdog.supervisor import SOCKETS, Fault, FaultKind, Supervisor, discover, find, lock_key, parse_url

STATE = {"statecode": 1, "statename": "RUNNING"}


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "allowed: unix:///PATH or http://HOST:PORT"),
        ("/run/supervisor.sock", "allowed: unix:///PATH"),
        ("unix://", "no absolute path"),
        ("unix://run/supervisor.sock", "no absolute path"),
        ("unix:///run/\0", "no absolute path"),
        ("unix:///" + "a" * 107, "more than 107 bytes"),
        ("https://localhost:9001", "allowed"),
        ("http://localhost:0", "allowed"),
        ("http://localhost:99999", "Port out of range"),
        ("http://[::1:9001", "is no url"),
        ("http://:9001", "allowed"),
        ("http://local host:9001", "allowed"),
        ("http://localhost:9001/a b", "allowed"),
        ("ftp://anna:secret@localhost:9001", "allowed"),
        ("http://anna:secret\uff0f@localhost:9001", "is no url"),
    ],
)
def test_what_is_no_url(url: str, says: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        Supervisor(url)
    assert says in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_port_may_be_missing() -> None:
    assert parse_url("http://lab-7/").url == parse_url("http://lab-7:80").url == "http://lab-7:80"


def test_the_longest_path_is_a_path() -> None:
    url = "unix:///" + "a" * 106
    assert parse_url(url).url == url


def test_nobody_can_end_a_header_early() -> None:
    with pytest.raises(ValueError, match="allowed"):
        parse_url("http://localhost:9001/x\r\nEvil: 1")
    assert parse_url("http://localhost:9001/x\r\nEvil:1").path == "/xEvil:1"  # urlsplit drops line ends


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://localhost:9001", "http://127.0.0.1:9001/RPC2", True),
        ("http://localhost:9001", "http://anna:secret@[::1]:9001", True),
        ("http://LOCALHOST:9001", "http://localhost:9001/", True),
        ("http://localhost:9001", "http://localhost:9002", False),
        ("http://localhost:9001", "http://otherhost:9001", False),
        ("unix:///run/./x/../s", "unix:///run/s", True),
        ("unix:///run/s", "unix:///run/t", False),
    ],
)
def test_lock_key(one: str, other: str, same: bool) -> None:
    assert (lock_key(one) == lock_key(other)) is same
    assert "secret" not in lock_key(other)


def test_lock_key_follows_links(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "var").symlink_to(tmp_path / "run")
    assert lock_key(f"unix://{tmp_path}/var/s") == lock_key(f"unix://{tmp_path}/run/s") == f"unix://{tmp_path}/run/s"


def test_lock_key_of_no_url() -> None:
    assert lock_key("nonsense") == "nonsense"


def test_the_named_url_comes_first_and_each_place_once(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "b")
    sockets = [str(tmp_path / name) for name in ("a", "link", "b")]
    named = f"unix://{tmp_path / 'b'}"
    assert discover({"SUPERVISOR_SERVER_URL": f" {named} "}, sockets) == (named, f"unix://{tmp_path / 'a'}")
    assert discover({}, sockets) == (f"unix://{tmp_path / 'a'}", f"unix://{tmp_path / 'link'}")
    assert discover({"SUPERVISOR_SERVER_URL": ""}, []) == ()


def test_the_usual_places() -> None:
    assert discover({})[0] == f"unix://{SOCKETS[0]}"
    assert len(discover({})) in (3, 4)  # /var/run is a link to /run on most hosts


def test_find_takes_the_first_that_answers(supervisord: StartSupervisord, tmp_path: Path) -> None:
    host, other = supervisord(stop_within=0), supervisord(stop_within=0)
    (tmp_path / "dead").touch()
    found = find({}, candidates=[str(tmp_path / "dead"), str(host.socket), str(other.socket)])
    assert isinstance(found, Supervisor)
    assert found.url == host.url
    named = find({"SUPERVISOR_SERVER_URL": other.url}, candidates=[str(host.socket)])
    assert isinstance(named, Supervisor)
    assert named.url == other.url


def test_find_uses_the_password_for_the_named_one_only(tmp_path: Path) -> None:
    with FakeRpc(answer(["", "", 1, {}]), tmp_path / "a") as named, FakeRpc(answer([]), tmp_path / "b") as usual:
        environ = {"SUPERVISOR_SERVER_URL": named.url, "SUPERVISOR_USERNAME": "anna", "SUPERVISOR_PASSWORD": "x"}
        assert isinstance(find(environ, candidates=[str(tmp_path / "b")]), Fault)
        assert b"Authorization: Basic" in named.requests[0][0]
        assert b"Authorization" not in usual.requests[0][0]


def test_find_tells_all_that_it_tried(supervisord: StartSupervisord, tmp_path: Path) -> None:
    locked = supervisord(user="anna", password="x", stop_within=0)
    absent = tmp_path / "absent"
    fault = find({"SUPERVISOR_SERVER_URL": "nonsense"}, candidates=[str(absent), str(locked.socket)])
    assert isinstance(fault, Fault)
    assert fault.kind is FaultKind.UNAUTHORIZED  # tells more than that nobody is at the other places
    for place in ("'nonsense'", str(absent), locked.url):
        assert place in fault.detail
    nothing = find({}, candidates=[])
    assert isinstance(nothing, Fault)
    assert nothing.kind is FaultKind.UNREACHABLE


def test_find_gives_each_place_its_own_deadline(supervisord: StartSupervisord) -> None:
    frozen, host = supervisord(stop_within=0), supervisord(stop_within=0)
    frozen.freeze()
    found = find({}, timeout=1.0, candidates=[str(frozen.socket), str(host.socket)])
    assert isinstance(found, Supervisor)
    assert (found.url, found.timeout) == (host.url, 1.0)


@pytest.mark.parametrize(("folder", "trusted"), [(0o1777, False), (0o755, True)])
def test_a_socket_that_anyone_could_plant_is_not_asked(
    tmp_path: Path, folder: int, trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(folder)
    path = tmp_path / "s"
    with FakeRpc(answer(["4.3.0", "fake", 4711, STATE]), path) as server:
        if os.geteuid() == 0:
            os.chown(path, 4242, -1)
        else:  # then it is not root's, and we are to be somebody else
            monkeypatch.setattr(os, "geteuid", lambda: 4243)
        found = find({}, candidates=[str(path)])
        assert isinstance(found, Supervisor) is trusted
        assert bool(server.requests) is trusted
        if isinstance(found, Fault):
            assert "name it as supervisor.url" in found.detail
        assert isinstance(find({"SUPERVISOR_SERVER_URL": server.url}, candidates=[]), Supervisor)


def test_our_own_socket_in_such_a_folder_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o1777)
    with FakeRpc(answer(["4.3.0", "ours", 4711, STATE]), tmp_path / "s"):
        if os.geteuid() == 0:
            os.chown(tmp_path / "s", 4242, -1)
            monkeypatch.setattr(os, "geteuid", lambda: 4242)
        assert isinstance(find({}, candidates=[str(tmp_path / "s")]), Supervisor)


def test_a_name_without_address() -> None:
    fault = Supervisor("http://no-such-host.invalid:9001", timeout=3.0).processes()
    assert isinstance(fault, Fault)
    assert fault.kind is FaultKind.UNREACHABLE
    assert "no-such-host.invalid" in fault.detail


def test_a_name_server_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeRpc(answer([])) as server:

        def look_up(*_: object, **__: object) -> list[object]:
            server.wait(30)
            return []

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        fault = Supervisor("http://slow-host.invalid:9001", timeout=0.1).processes()
        assert isinstance(fault, Fault)
        assert (fault.kind, "not looked up in time" in fault.detail) == (FaultKind.UNREACHABLE, True)
