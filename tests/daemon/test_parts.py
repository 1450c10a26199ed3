"""The daemon's small parts: locks, requests, systemd's protocol, and what is known before the configuration is."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdog.config import SupervisorSettings, load
from watchdog.daemon import known
from watchdog.daemon.locks import Taken, lock_state, lock_supervisor
from watchdog.daemon.requests import Malformed, Request, take
from watchdog.daemon.sdnotify import Notifier
from watchdog.daemon.watch import too_slow

WALL = 1_800_000_000.0


# Locks


def let_go(lock: socket.socket) -> None:
    """As the end of the process does: a thread that waits for callers holds the socket, too."""
    lock.shutdown(socket.SHUT_RDWR)
    lock.close()


def test_a_state_directory_has_one_holder_whose_pid_is_told(tmp_path: Path) -> None:
    first = lock_state(tmp_path / "state")
    assert isinstance(first, int)
    second = lock_state(tmp_path / "state")
    assert isinstance(second, Taken)
    assert second.pid == os.getpid()
    assert str(tmp_path / "state") in str(second)
    os.close(first)
    third = lock_state(tmp_path / "state")
    assert isinstance(third, int)
    os.close(third)


def test_a_supervisord_has_one_holder_whose_pid_is_told() -> None:
    key = f"unix:///nowhere/{os.urandom(8).hex()}"
    first = lock_supervisor(key)
    assert isinstance(first, socket.socket)
    second = lock_supervisor(key)
    assert isinstance(second, Taken)
    assert second.pid == os.getpid()
    let_go(first)
    third = lock_supervisor(key)
    assert isinstance(third, socket.socket)
    let_go(third)


def test_a_lock_ends_with_its_process_however_that_ends(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from watchdog.daemon.locks import *;"
        "a = lock_state(Path(sys.argv[1])); b = lock_supervisor(sys.argv[1]); print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        taken = lock_state(tmp_path)
        assert isinstance(taken, Taken)
        assert taken.pid == holder.pid
        other = lock_supervisor(str(tmp_path))
        assert isinstance(other, Taken)
        assert other.pid == holder.pid
        holder.kill()
    mine = lock_state(tmp_path)
    assert isinstance(mine, int)
    os.close(mine)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be another user")  # CI is root
def test_a_squatter_does_not_keep_the_watchdog_from_starting() -> None:
    key = f"unix:///nowhere/{os.urandom(8).hex()}"
    name = "worker-watchdog-" + hashlib.sha256(key.encode()).hexdigest()[:32]
    code = (
        "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.bind('\\0' + sys.argv[1]); s.listen();"
        "print('held', flush=True); time.sleep(60)"
    )
    python = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
    with subprocess.Popen([python, "-c", code, name], stdout=subprocess.PIPE, user=65534) as squatter:
        assert squatter.stdout is not None
        assert squatter.stdout.readline()
        lock = lock_supervisor(key)
        squatter.kill()
    assert isinstance(lock, socket.socket)
    lock.close()


def test_the_holder_is_told_to_each_of_many_who_ask() -> None:
    key = f"unix:///nowhere/{os.urandom(8).hex()}"
    first = lock_supervisor(key)
    assert isinstance(first, socket.socket)
    for _ in range(300):
        taken = lock_supervisor(key)
        assert isinstance(taken, Taken)
        assert taken.pid == os.getpid()
    let_go(first)


def test_a_name_that_is_bound_and_never_listened_on_is_no_watchdog() -> None:
    key = f"unix:///nowhere/{os.urandom(8).hex()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as squatter:
        squatter.bind("\0worker-watchdog-" + hashlib.sha256(key.encode()).hexdigest()[:32])
        lock = lock_supervisor(key)
    assert isinstance(lock, socket.socket)
    lock.close()


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC])
def test_a_disk_that_takes_nothing_more_is_still_locked(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = lock_state(tmp_path)
    assert isinstance(first, int)
    os.close(first)
    really = os.open

    def refuse(path: os.PathLike[str], flags: int, mode: int = 0o777) -> int:
        if flags & os.O_RDWR:
            raise OSError(number, os.strerror(number))
        return really(path, flags, mode)

    monkeypatch.setattr(os, "open", refuse)
    held = lock_state(tmp_path)
    assert isinstance(held, int)
    assert isinstance(lock_state(tmp_path), Taken)
    os.close(held)


# Requests


def leave(runtime: Path, name: str = "1.json", /, **fields: object) -> Path:
    directory = runtime / "requests"
    directory.mkdir(exist_ok=True)
    data = {"verb": "collect", "program": "ami:w0", "for_s": 0, "why": "", "at": WALL, **fields}
    path = directory / name
    path.write_text(json.dumps(data))
    return path


def test_a_request_is_taken_once_and_its_file_is_gone(tmp_path: Path) -> None:
    path = leave(tmp_path, verb="pause", for_s=90, why="a disk")
    assert list(take(tmp_path, WALL)) == [Request("pause", "ami:w0", 90.0, "a disk")]
    assert not path.exists()
    assert list(take(tmp_path, WALL)) == []


def test_requests_come_in_the_order_in_which_they_were_left(tmp_path: Path) -> None:
    leave(tmp_path, "2.json", program="b:b")
    leave(tmp_path, "1.json", program="a:a")
    assert [r.program for r in take(tmp_path, WALL) if isinstance(r, Request)] == ["a:a", "b:b"]


def test_half_written_requests_and_other_files_are_left_alone(tmp_path: Path) -> None:
    hidden = leave(tmp_path, ".3.json")
    other = leave(tmp_path, "notes.txt")
    assert list(take(tmp_path, WALL)) == []
    assert hidden.exists()
    assert other.exists()


@pytest.mark.parametrize(
    "fields",
    [
        {"verb": "restart-all"},
        {"verb": ["pause"]},
        {"program": 3},
        {"why": 3},
        {"verb": "pause", "for_s": 0},
        {"verb": "pause", "for_s": -5},
        {"verb": "pause", "for_s": 1e9},
        {"verb": "pause", "for_s": "nan"},
        {"verb": "pause", "for_s": "soon"},
        {"at": None},
        {"at": WALL - 3600},
    ],
)
def test_a_request_that_is_none_means_nothing_and_is_removed(fields: dict[str, object], tmp_path: Path) -> None:
    path = leave(tmp_path, "1.json", **fields)
    (found,) = take(tmp_path, WALL)
    assert isinstance(found, Malformed)
    assert not path.exists()


@given(data=st.binary(max_size=200))
def test_any_bytes_are_a_malformed_request_at_worst(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    runtime = tmp_path_factory.mktemp("run")
    (runtime / "requests").mkdir()
    (runtime / "requests" / "1.json").write_bytes(data)
    (found,) = take(runtime, WALL)
    assert isinstance(found, Malformed)


def test_a_fifo_or_link_among_the_requests_blocks_nobody(tmp_path: Path) -> None:
    (tmp_path / "requests").mkdir()
    os.mkfifo(tmp_path / "requests" / "1.json")
    (tmp_path / "requests" / "2.json").symlink_to("/etc/passwd")
    began = time.monotonic()
    found = list(take(tmp_path, WALL))
    assert all(isinstance(f, Malformed) for f in found)
    assert len(found) == 2
    assert time.monotonic() - began < 5.0
    assert Path("/etc/passwd").exists()


def test_no_request_directory_is_no_request(tmp_path: Path) -> None:
    assert list(take(tmp_path, WALL)) == []


# systemd


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_is_told_in_one_datagram(abstract: bool, tmp_path: Path) -> None:
    name = f"@wd-{os.urandom(6).hex()}" if abstract else str(tmp_path / "n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind("\0" + name[1:] if abstract else name)
        server.settimeout(5.0)
        environ = {"NOTIFY_SOCKET": name, "HOME": "/"}
        notifier = Notifier(environ)
        assert environ == {"HOME": "/"}
        notifier.tell("READY=1", "STATUS=watching")
        assert server.recv(200) == b"READY=1\nSTATUS=watching"
        notifier.close()


def test_without_systemd_nothing_is_told_and_a_dead_socket_is_no_error(tmp_path: Path) -> None:
    Notifier({}).tell("READY=1")
    path = tmp_path / "n"
    notifier = Notifier({"NOTIFY_SOCKET": str(path)})
    notifier.tell("WATCHDOG=1")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(path))
        server.settimeout(5.0)
        notifier.tell("READY=1")
        assert server.recv(200) == b"READY=1"  # the lost one is not sent later
    notifier.close()


# Known before the configuration is


@pytest.mark.parametrize(
    "text",
    [
        "state: {directory: /srv/wd}\n",
        "state:\n  directory: /srv/wd\nprograms: [\n",
        'interval: soon\nstate: { "directory": "/srv/wd" }\nfoo: [}\n',
        "a: &a [1]\nb: *a\nstate: {directory: '/srv/wd'}\n",
        "state: {directory: /srv/wd}   # where it is\n\t\n",
        "state: {directory: /srv/wd}\nx: !!bool maybe\n",
        'state: {directory: /srv/wd}\nx: !!int ""\n',
        "state: {directory: /srv/wd}\nx: !!timestamp foo\n",
        "state: {directory: /srv/wd}\nstate: {directory: /srv/other}\n",
    ],
)
def test_the_state_directory_is_found_in_a_broken_configuration(text: str, tmp_path: Path) -> None:
    path = tmp_path / "watchdog.yaml"
    path.write_text(text)
    assert known.state_directory(path, {}) == Path("/srv/wd")


@pytest.mark.parametrize("text", ["", "[]", "state: 3\n", "state: {directory: relative/x}\n", "\x00\xff"])
def test_a_configuration_that_names_none_means_the_default(text: str, tmp_path: Path) -> None:
    path = tmp_path / "watchdog.yaml"
    path.write_text(text)
    assert known.state_directory(path, {"STATE_DIRECTORY": "/srv/default"}) == Path("/srv/default")
    assert known.state_directory(tmp_path, {"STATE_DIRECTORY": "/srv/default"}) == Path("/srv/default")


def test_the_way_to_supervisord_is_remembered_for_us_alone(tmp_path: Path) -> None:
    settings = SupervisorSettings("http://127.0.0.1:9", "operator", "hunter2", 3.0)
    known.remember(tmp_path, settings, "http://127.0.0.1:9")
    assert known.recall(tmp_path) == settings
    assert (tmp_path / known.FILE).stat().st_mode & 0o177 == 0


@pytest.mark.parametrize(
    ("interval", "usec", "refused"),
    [
        (5.0, "60000000", False),
        (20.0, "60000000", False),
        (21.0, "60000000", True),
        (60.0, "", False),
        (60.0, "x", False),
    ],
)
def test_an_interval_that_systemds_watchdog_would_not_survive_is_refused(
    interval: float, usec: str, refused: bool
) -> None:
    config = load(None, {}, standard=Path("/nonexistent/x.yaml"))
    config = replace(config, ruleset=replace(config.ruleset, interval=interval))
    why = too_slow(config, {"WATCHDOG_USEC": usec})
    assert bool(why) is refused
    assert not refused or "at most 20 s" in why


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"url": "unix://no", "timeout": 1}',
        '{"url": 3, "timeout": 1}',
        '{"url": "u", "timeout": "x"}',
        "\xff",
    ],
)
def test_a_way_that_cannot_be_read_means_the_usual_places(text: str, tmp_path: Path) -> None:
    (tmp_path / known.FILE).write_text(text, encoding="latin-1")
    assert known.recall(tmp_path) == SupervisorSettings()
