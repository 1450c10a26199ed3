"""Programs of others that hang, shout, or do not exist."""

from __future__ import annotations

import errno
import os
import selectors
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

from watchdog import killed, procfs
from watchdog.collect import command


def test_what_a_program_said_and_how_it_ended() -> None:
    ran = command.run(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], within=10.0, limit=100)
    assert (ran.rc, ran.out, ran.err, ran.trouble) == (3, b"out\n", b"err\n", None)


def test_a_program_that_does_not_end_is_killed() -> None:
    began = time.monotonic()
    ran = command.run(["/bin/sh", "-c", "echo begun; exec sleep 300"], within=0.3, limit=100)
    assert time.monotonic() - began < 5.0
    assert ran.rc is None and ran.out == b"begun\n"
    assert ran.trouble == "did not end within 0.3 s and was killed"


def test_a_program_that_leaves_a_child_with_its_pipes_is_not_waited_for() -> None:
    ran = command.run(["/bin/sh", "-c", "sleep 300 & echo $!"], within=0.3, limit=100)
    assert ran.trouble is not None
    pid = int(ran.out)
    deadline = time.monotonic() + 10
    while procfs.state_of(pid) not in (None, "Z"):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_trickles_in_takes_little_more_than_its_size() -> None:
    streams = command._Streams(limit=1 << 20)
    tracemalloc.start()
    try:
        for _ in range(1 << 18):
            streams.take("out", bytes(bytearray(b"{\n")))  # a new object each time, as os.read gives
        assert tracemalloc.get_traced_memory()[0] < 2 << 20
    finally:
        tracemalloc.stop()
    assert streams.text("out") == b"{\n" * (1 << 18)


def test_one_that_closes_its_pipes_and_goes_on_is_killed_too() -> None:
    ran = command.run(["/bin/sh", "-c", "exec sleep 300 >&- 2>&-"], within=0.3, limit=100)
    assert ran.rc is None and ran.trouble is not None and "did not end" in ran.trouble


def test_what_is_too_much_ends_it_at_once() -> None:
    began = time.monotonic()
    ran = command.run([sys.executable, "-c", "while True: print('x' * 999)"], within=60.0, limit=1000)
    assert time.monotonic() - began < 30.0
    assert ran.out == (b"x" * 999 + b"\n")
    assert ran.trouble == "printed more than 1000 bytes and was killed"


def test_much_on_stderr_is_cut_but_no_fault() -> None:
    ran = command.run(
        [sys.executable, "-c", "import sys; sys.stderr.write('x' * 200_000); print('out')"], within=30.0, limit=50
    )
    assert (ran.rc, ran.out, ran.err) == (0, b"out\n", b"x" * 50)


@pytest.mark.parametrize("path", ["/none/such", "/etc/passwd", "a\0b"])
def test_what_cannot_be_started_says_so(path: str) -> None:
    ran = command.run([path], within=1.0, limit=10)
    assert ran.rc is None and ran.trouble is not None and "could not be started" in ran.trouble


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOMEM])
def test_one_that_cannot_be_listened_to_is_ended_and_says_so(
    code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse() -> None:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().endswith("\n"):
            time.sleep(0.01)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(selectors, "DefaultSelector", refuse)
    before = len(os.listdir("/proc/self/fd"))
    ran = command.run(["/bin/sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 300"], within=30.0, limit=100)
    assert ran.rc is None and ran.trouble == f"could not be listened to and was killed: {os.strerror(code)}"
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 10
    while procfs.state_of(pid) is not None:
        killed.reap()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert len(os.listdir("/proc/self/fd")) == before


def test_none_is_started_while_too_many_are_stuck(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(killed, "reap", lambda: killed.MOST_LEFT)
    ran = command.run(["/bin/sh", "-c", f"touch {tmp_path}/ran"], within=10.0, limit=10)
    assert ran.rc is None and ran.trouble is not None and "stuck in the kernel" in ran.trouble
    assert not (tmp_path / "ran").exists()


def test_a_sleeper_ends_with_its_block() -> None:
    with command.sleeper(300.0) as pid:
        assert pid is not None and procfs.state_of(pid) not in (None, "Z")
    assert procfs.state_of(pid) is None
