"""Survivors are ended, and nobody else: on real processes of the test's own."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from watchdog.act.reap import TERM_FOR, reap
from watchdog.model.observation import Identity
from watchdog.procfs import boot_id, identity_of, state_of

BOOT = boot_id()
PLAIN = ["sleep", "600"]
STUBBORN = ["sh", "-c", 'trap "" TERM; echo ready; while :; do sleep 0.05; done']
GENTLE = ["sh", "-c", 'trap "sleep 0.3; exit 7" TERM; echo ready; while :; do sleep 0.05; done']
LEADERLESS = """
import ctypes, threading, time
threading.Thread(target=lambda: (time.sleep(0.2), print("ready", flush=True), time.sleep(600))).start()
libc = ctypes.CDLL(None)
libc.syscall(60 if __import__("os").uname().machine == "x86_64" else 93, 0)  # exit of this thread only
"""

Spawn = Callable[[list[str]], subprocess.Popen[str]]


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Starts a process in a session of its own; ends it, and its children, after the test."""
    started: list[subprocess.Popen[str]] = []

    def start(command: list[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        started.append(process)
        if command != PLAIN:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        with process, contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def ident_of(process: subprocess.Popen[str]) -> Identity:
    found = identity_of(process.pid)
    assert found is not None
    return found


@pytest.fixture(params=["pidfd", "no pidfd_open", "no pidfd_send_signal"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With pidfds; as on a kernel, or under a seccomp filter, that has none; as where they cannot be signalled."""
    if request.param == "no pidfd_open":
        monkeypatch.setattr(os, "pidfd_open", refuse(errno.ENOSYS))
    if request.param == "no pidfd_send_signal":
        monkeypatch.setattr(signal, "pidfd_send_signal", refuse(errno.EPERM))


def refuse(number: int) -> Callable[..., None]:
    def call(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return call


@pytest.mark.usefixtures("kernel")
def test_survivors_are_ended_first_gently(spawn: Spawn) -> None:
    plain, gentle, stubborn, bystander = spawn(PLAIN), spawn(GENTLE), spawn(STUBBORN), spawn(PLAIN)
    tree = [ident_of(process) for process in (plain, gentle, stubborn)]
    began = time.monotonic()
    reaping = reap(tree, BOOT, "end", term_for=1.5, kill_for=60.0)
    assert 1.5 <= time.monotonic() - began < 30.0, "it waited although all were gone"
    assert (reaping.ended, reaping.left, reaping.detail) == (tuple(tree), (), "")
    assert [process.wait(5) for process in (plain, gentle, stubborn)] == [-signal.SIGTERM, 7, -signal.SIGKILL]
    assert bystander.poll() is None


@pytest.mark.usefixtures("kernel")
def test_it_does_not_wait_longer_than_needed(spawn: Spawn) -> None:
    tree = [ident_of(spawn(PLAIN)) for _ in range(5)]
    began = time.monotonic()
    assert reap(tree, BOOT, "end").left == ()
    assert time.monotonic() - began < TERM_FOR


@pytest.mark.usefixtures("kernel")
def test_a_reused_pid_is_left_alone(spawn: Spawn) -> None:
    other = spawn(PLAIN)
    recorded = Identity(other.pid, ident_of(other).starttime - 1)
    assert reap([recorded], BOOT, "end", term_for=0.1) == ((), (), "")
    assert other.poll() is None


@pytest.mark.usefixtures("kernel")
def test_what_is_gone_or_a_zombie_is_no_survivor(spawn: Spawn) -> None:
    gone, zombie = spawn(PLAIN), spawn(PLAIN)
    tree = (ident_of(gone), ident_of(zombie))
    gone.kill()
    gone.wait()
    zombie.kill()
    while state_of(zombie.pid) != "Z":
        time.sleep(0.01)
    began = time.monotonic()
    assert reap(tree, BOOT, "end") == ((), (), "")
    assert time.monotonic() - began < TERM_FOR
    assert reap((), BOOT, "end") == ((), (), "")


def test_pids_of_another_boot_are_nobody(spawn: Spawn) -> None:
    process = spawn(PLAIN)
    reaping = reap([ident_of(process)], "another-boot", "end", term_for=0.1)
    assert (reaping.ended, reaping.left) == ((), ())
    assert "booted" in reaping.detail
    assert process.poll() is None


def test_nothing_is_ended_when_the_boot_is_unknown(spawn: Spawn, tmp_path: Path) -> None:
    process = spawn(PLAIN)
    for recorded in (BOOT, ""):
        reaping = reap([ident_of(process)], recorded, "end", proc=tmp_path, term_for=0.1)
        assert (reaping.ended, reaping.left) == ((), (ident_of(process),))
        assert "boot" in reaping.detail
    assert process.poll() is None


def test_keep_tells_and_ends_nobody(spawn: Spawn) -> None:
    kept, gone = spawn(PLAIN), spawn(PLAIN)
    tree = (ident_of(gone), ident_of(kept))
    gone.kill()
    gone.wait()
    reaping = reap(tree, BOOT, "keep")
    assert (reaping.ended, reaping.left) == ((), (tree[1],))
    assert f"pid {kept.pid} (sleep, state S" in reaping.detail
    assert "kept" in reaping.detail
    assert kept.poll() is None


def test_some_are_never_ended(spawn: Spawn) -> None:
    supervisord, plain = spawn(PLAIN), spawn(PLAIN)
    ourselves, init = identity_of(os.getpid()), identity_of(1)
    assert ourselves is not None
    assert init is not None
    spared = (ident_of(supervisord), ourselves, init)
    reaping = reap([*spared, ident_of(plain)], BOOT, "end", never=frozenset({supervisord.pid}), term_for=5)
    assert (reaping.ended, reaping.left) == ((ident_of(plain),), spared)
    assert reaping.detail.count("never ended by us") == 3
    assert supervisord.poll() is None


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("pid", [0, -1])
def test_a_pid_that_means_a_group_is_nobody(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    signalled: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _: signalled.append(pid))
    assert reap([Identity(pid, 7)], BOOT, "end", term_for=0.1).left == ()
    assert signalled == []


def test_a_process_whose_main_thread_ended_still_lives(spawn: Spawn) -> None:
    process = spawn([sys.executable, "-c", LEADERLESS])
    assert state_of(process.pid) == "Z"  # as /proc tells it; the rest of the process goes on
    reaping = reap([ident_of(process)], BOOT, "end")
    assert reaping.ended == (ident_of(process),)
    assert process.wait(5) == -signal.SIGTERM


def test_not_permitted_is_left_and_said(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    process = spawn(PLAIN)
    began = time.monotonic()
    if os.geteuid() == 0:
        os.setresuid(65534, 65534, 0)  # seteuid would not do: the real uid alone permits a signal
        try:
            reaping = reap([ident_of(process)], BOOT, "end")
        finally:
            os.setresuid(0, 0, 0)
    else:
        monkeypatch.setattr(signal, "pidfd_send_signal", refuse(errno.EPERM))
        monkeypatch.setattr(os, "kill", refuse(errno.EPERM))
        reaping = reap([ident_of(process)], BOOT, "end")
    assert time.monotonic() - began < TERM_FOR  # no use in waiting for it
    assert (reaping.ended, reaping.left) == ((), (ident_of(process),))
    assert "not permitted" in reaping.detail


def test_what_cannot_be_killed_is_named(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    process = spawn(PLAIN)
    sent: list[int] = []
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda _, number: sent.append(number))
    began = time.monotonic()
    reaping = reap([ident_of(process)], BOOT, "end", term_for=0.2, kill_for=0.1)
    assert 0.3 <= time.monotonic() - began < TERM_FOR, "its own times were not used"
    assert sent == [signal.SIGTERM, signal.SIGKILL]
    assert (reaping.ended, reaping.left) == ((), (ident_of(process),))
    assert f"pid {process.pid} (sleep, state S, wchan " in reaping.detail
    assert "SIGKILL did not end it" in reaping.detail


def test_a_process_that_ends_just_before_its_signal(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    process = spawn(PLAIN)
    tree = (ident_of(process),)
    really = signal.pidfd_send_signal

    def late(pidfd: int, number: int) -> None:
        process.kill()
        process.wait()
        really(pidfd, number)

    monkeypatch.setattr(signal, "pidfd_send_signal", late)
    assert reap(tree, BOOT, "end") == (tree, (), "")


def test_many_are_described_briefly_and_no_descriptor_is_kept(spawn: Spawn) -> None:
    tree = [ident_of(spawn(PLAIN)) for _ in range(12)]
    before = len(os.listdir("/proc/self/fd"))
    reaping = reap(tree, BOOT, "keep")
    assert len(os.listdir("/proc/self/fd")) == before
    assert len(reaping.left) == 12
    assert reaping.detail.endswith("; 2 more")
    assert reap(tree, BOOT, "end").left == ()
