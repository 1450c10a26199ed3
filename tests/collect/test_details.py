"""What the kernel tells of real processes."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.collect.conftest import Spawn
from watchdog import childread, procfs
from watchdog.collect import details
from watchdog.collect.gather import Found
from watchdog.model.observation import ProcessSample

HOLDER = """
import mmap, os, socket, sys, tempfile, threading, time
kept = [os.pipe(), socket.socketpair(), open(sys.argv[1])]
gone = open(sys.argv[2])
os.unlink(sys.argv[2])
memfd = os.memfd_create("batch")
os.ftruncate(memfd, 1 << 20)
mapped = mmap.mmap(memfd, 1 << 20)
import select
poll = select.epoll()
threading.Thread(target=time.sleep, args=(300,), daemon=True).start()
ready()
time.sleep(300)
"""


def text(found: Found, ending: str) -> str:
    (content,) = [c for name, c in found.files.items() if name.endswith(ending)]
    assert isinstance(content, str)
    return content


def table(found: Found, ending: str) -> dict[str, object]:
    (content,) = [c for name, c in found.files.items() if name.endswith(ending)]
    assert isinstance(content, dict)
    json.dumps(content)
    return content


@pytest.fixture
def holder(spawn: Spawn, tmp_path: Path) -> int:
    for name in ("open.txt", "gone.txt"):
        (tmp_path / name).touch()
    env = {"WORKER_TOKEN": "tok-0123456789", "BROKER_URL": "amqp://bob:pa55word-x@mq/1", "LANG": "C.UTF-8"}
    return spawn(HOLDER, str(tmp_path / "open.txt"), str(tmp_path / "gone.txt"), "--password", "a b", env=env).pid


def test_descriptors_by_kind(holder: int, tmp_path: Path) -> None:
    found = details.descriptors(procfs.walk(holder))
    listed = table(found, f"processes/{holder}/descriptors.json")
    kinds = listed["kinds"]
    assert isinstance(kinds, dict)
    assert kinds["pipe"] >= 2 and kinds["socket"] == 2 and kinds["memfd"] >= 1 and kinds["deleted"] >= 1
    assert kinds["anon_inode:eventpoll"] == 1 and kinds["file"] >= 1
    assert listed["count"] == sum(kinds.values())
    first = listed["first"]
    assert isinstance(first, dict)
    assert any(line.endswith(f"{tmp_path}/open.txt") for line in first["file"])
    assert any(line.endswith(f"{tmp_path}/gone.txt (deleted)") for line in first["deleted"])


def test_many_descriptors_are_counted_and_few_listed(spawn: Spawn) -> None:
    child = spawn("import os, time\nkept = [os.dup(0) for _ in range(300)]\nready()\ntime.sleep(300)")
    listed = table(details.descriptors(procfs.walk(child.pid)), "descriptors.json")
    first, count = listed["first"], listed["count"]
    assert isinstance(first, dict) and isinstance(count, int)
    assert count >= 300
    assert max(len(lines) for lines in first.values()) == details.TARGETS


def test_threads_with_state_and_kernel_stack(holder: int) -> None:
    found = details.threads(procfs.walk(holder))
    listed = table(found, f"processes/{holder}/threads.json")
    rows = listed["threads"]
    assert isinstance(rows, list) and listed["count"] == len(rows) == 2
    assert rows[0]["tid"] == holder and {row["state"] for row in rows} == {"S"}
    assert all(row["wchan"] for row in rows)


def test_status_limits_and_cgroup(holder: int) -> None:
    found = details.statuses(procfs.walk(holder))
    assert f"Pid:\t{holder}\n" in text(found, "/status.txt")
    assert "Max open files" in text(found, "/limits.txt")
    assert text(found, "/cgroup.txt")


def test_command_line_and_executable(holder: int) -> None:
    found = details.commands(procfs.walk(holder), 5.0)
    command = text(found, f"processes/{holder}/command.txt")
    assert command.splitlines()[-2].endswith("--password 'a b'")
    assert "python" in command.splitlines()[-1]


def test_memory_maps_summed_up(holder: int) -> None:
    found = details.memory(procfs.walk(holder), 5.0)
    maps = table(found, f"processes/{holder}/maps.json")
    kinds, special = maps["kinds"], maps["shared_or_deleted"]
    assert isinstance(kinds, dict) and isinstance(special, list)
    assert kinds["memfd"] == {"count": 1, "bytes": 1 << 20}
    assert kinds["stack"]["count"] == 1
    assert {"path": "/memfd:batch (deleted)", "kind": "memfd", "bytes": 1 << 20} in special
    assert "Pss:" in text(found, "/smaps_rollup.txt")


def test_names_of_the_environment_and_secret_values_apart(holder: int) -> None:
    found, known = details.environments(procfs.walk(holder), 5.0)
    names = text(found, f"processes/{holder}/environ-names.txt")
    assert {"WORKER_TOKEN", "BROKER_URL", "LANG"} <= set(names.split())
    assert "tok-0123456789" not in names and "=" not in names
    assert {"tok-0123456789", "pa55word-x"} <= set(known)


def test_an_environment_that_was_written_over_gives_no_values_away(tmp_path: Path, spawn: Spawn) -> None:
    tree = procfs.walk(spawn("import time\nready()\ntime.sleep(300)").pid)
    (tmp_path / str(tree[0].pid)).mkdir()
    shutil.copy(f"/proc/{tree[0].pid}/stat", tmp_path / str(tree[0].pid))
    (tmp_path / str(tree[0].pid) / "environ").write_bytes(b"worker: job hunter2\0A=1\0ba d=hunter2\0\0\0")
    found, _ = details.environments(tree, 5.0, tmp_path)
    assert text(found, "environ-names.txt") == "A\n# 2 entries are no variables; the program has written over them\n"


def test_gone_processes_are_notes(spawn: Spawn) -> None:
    child = spawn("import time\nready()\ntime.sleep(300)")
    tree = procfs.walk(child.pid)
    child.kill()
    child.wait(10)
    for found in (
        details.statuses(tree),
        details.threads(tree),
        details.descriptors(tree),
        details.commands(tree, 5.0),
        details.memory(tree, 5.0),
        details.environments(tree, 5.0).found,
    ):
        assert found.status == "failed" and found.files == {}
        assert all(f"process {child.pid} " in note for note in found.notes)


Look = Callable[[tuple[ProcessSample, ...]], Found]
LOOKS: dict[str, Look] = {
    "statuses": details.statuses,
    "threads": details.threads,
    "descriptors": details.descriptors,
    "commands": lambda tree: details.commands(tree, 5.0),
    "memory": lambda tree: details.memory(tree, 5.0),
    "environments": lambda tree: details.environments(tree, 5.0).found,
}


@pytest.mark.parametrize("name", LOOKS)
def test_a_process_that_has_another_ones_pid_is_not_described(name: str, holder: int) -> None:
    (sample,) = procfs.walk(holder)
    assert LOOKS[name]((sample,)).files
    found = LOOKS[name]((sample._replace(starttime=sample.starttime - 1),))
    assert (found.files, found.status) == ({}, "failed")
    assert found.notes == (f"process {holder} ({sample.comm}): gone, or another process has its pid by now",)


@pytest.mark.parametrize("name", LOOKS)
def test_what_was_read_while_the_pid_was_reused_is_not_told(
    name: str, holder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sample,) = procfs.walk(holder)
    answers = iter([sample.identity, sample.identity._replace(starttime=sample.starttime + 1)])
    monkeypatch.setattr(procfs, "identity_of", lambda *_: next(answers))
    assert LOOKS[name]((sample,)).files == {}


@pytest.mark.parametrize("name", LOOKS)
@pytest.mark.parametrize("failing", ["identity_of", "thread_states"])
def test_without_descriptors_there_are_notes(
    name: str, failing: str, holder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = procfs.walk(holder)

    def refuse(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(procfs, failing, refuse)
    found = LOOKS[name](tree)
    told = f"process {holder} ({tree[0].comm}): could not be looked at: Too many open files"
    assert (found.notes == (told,)) is (failing == "identity_of" or name == "threads")


def test_a_read_that_does_not_end_costs_only_its_time(holder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = procfs.walk(holder)

    def late(path: Path, *, limit: int, within: float) -> childread.ReadFailure:
        assert within <= details.EACH
        return childread.ReadFailure("timed out", f"{path}: no answer within {within:g} s")

    monkeypatch.setattr(childread, "read_file", late)
    found = details.memory(tree, 1.0)
    assert found.status == "failed" and "no answer within" in found.notes[0]
    assert details.memory(tree, 0.0).notes == (f"process {holder} ({tree[0].comm}): no time was left",)
