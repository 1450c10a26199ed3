"""Processes and trees: real ones where the kernel's behaviour matters, a recorded /proc for what cannot be provoked."""

import errno
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.recorded import record, stat_line, status_text
from watchdog import procfile, procfs
from watchdog.model.observation import Identity, ProcessSample
from watchdog.procfs import (
    Procfs,
    boot_id,
    identity_of,
    raise_descriptor_limit,
    seconds_since_start,
    state_of,
    thread_states,
    tracer_pid,
    walk,
)
from watchdog.procstat import parse_fd_limit, parse_memory, parse_stat

SLEEPER = "import time; print('ready', flush=True); time.sleep(600)"

FAMILY = """
import os, time
if os.fork() == 0:
    if os.fork() == 0:
        time.sleep(600)
    time.sleep(600)
print('ready', flush=True)
time.sleep(600)
"""

THREAD_FORKS = """
import os, threading, sys, time
def fork():
    sys.stdin.readline()
    if os.fork() == 0:
        time.sleep(600)
    print('forked', flush=True)
    time.sleep(600)
threading.Thread(target=fork, daemon=True).start()
print('ready', flush=True)
time.sleep(600)
"""

Spawn = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Starts Python code that prints `ready`; its whole tree is killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def start(code: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        for sample in reversed(walk(process.pid)):
            os.kill(sample.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture
def proc() -> Iterator[Procfs]:
    proc = Procfs()
    yield proc
    proc.close()


def main_of(pid: int) -> Identity:
    found = identity_of(pid)
    assert found is not None
    return found


def sample_of(found: ProcessSample | None) -> ProcessSample:
    assert found is not None
    return found


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# What the texts say


@pytest.mark.parametrize("comm", [b"a b", b"a) S 9 (b", b"line\nbreak", b"))((", b""])
def test_a_comm_may_hold_anything(comm: bytes) -> None:
    stat = parse_stat(stat_line(7, comm=comm, state="D", ppid=4, cpu=250, start=77, pages=12))
    assert stat == (comm.decode(), "D", 4, 2.5, 2, 77, 12)


def test_a_comm_that_is_not_utf8_is_replaced() -> None:
    assert parse_stat(stat_line(7, comm=b"\xff\xfeworker")).comm == "\ufffd\ufffdworker"


@pytest.mark.parametrize("text", [b"", b"garbage", b"7 (x) S 1 2", b"7 x S " + b"1 " * 40])
def test_what_is_no_stat_is_an_error(text: bytes) -> None:
    with pytest.raises(ValueError, match="not the content"):
        parse_stat(text)


def test_memory_is_in_bytes_and_unknown_where_there_is_none() -> None:
    assert parse_memory(status_text(rss=10, anon=7, file=2, shmem=1).encode()) == (10240, 7168, 2048, 1024)
    assert parse_memory(b"Name:\tkthreadd\nState:\tS\nThreads:\t1\n") == (None, None, None, None)


def test_a_soft_limit_may_be_unlimited() -> None:
    assert parse_fd_limit(b"Max open files            1024                 4096                 files\n") == 1024
    assert parse_fd_limit(b"Max open files            unlimited            unlimited            files\n") is None


# Real processes


def test_a_sample_of_this_process(proc: Procfs) -> None:
    seen = sample_of(proc.sample(os.getpid()))
    assert seen.identity == identity_of(os.getpid())
    assert seen.ppid == os.getppid()
    assert seen.state == "R"
    assert seen.cores is None
    assert seen.threads is not None
    assert seen.threads >= 1
    assert seen.fd_limit == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert None not in (seen.rss, seen.anon, seen.file, seen.shmem)
    assert seen.rss == (seen.anon or 0) + (seen.file or 0) + (seen.shmem or 0)


def test_the_descriptor_count_follows(proc: Procfs, tmp_path: Path) -> None:
    before = sample_of(proc.sample(os.getpid())).fds
    files = [os.open(tmp_path, os.O_RDONLY) for _ in range(10)]
    after = sample_of(proc.sample(os.getpid())).fds
    for file in files:
        os.close(file)
    assert before is not None
    assert after == before + 10


def test_memory_follows(proc: Procfs) -> None:
    before = sample_of(proc.sample(os.getpid())).anon
    block = bytearray(os.urandom(1)) * (32 << 20)
    after = sample_of(proc.sample(os.getpid())).anon
    del block
    assert before is not None
    assert after is not None
    assert after - before > 30 << 20


def test_cores_are_cpu_over_time(proc: Procfs) -> None:
    proc.sample(os.getpid(), at=100.0)
    first = sample_of(proc.sample(os.getpid(), at=101.0))
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    second = sample_of(proc.sample(os.getpid(), at=103.0))
    assert second.cores == pytest.approx((second.cpu_s - first.cpu_s) / 2.0)
    assert second.cores is not None
    assert second.cores > 0.1


def test_a_second_look_at_the_same_instant_keeps_the_cores(proc: Procfs) -> None:
    for at in (1.0, 2.0):
        proc.sample(os.getpid(), at)
    first = sample_of(proc.sample(os.getpid(), 3.0))
    assert sample_of(proc.sample(os.getpid(), 3.0)).cores == first.cores


def test_a_tree_holds_all_descendants_the_main_process_first(proc: Procfs, spawn: Spawn) -> None:
    main = main_of(spawn(FAMILY).pid)
    wait_for(lambda: len(proc.tree(main)) == 3)
    tree = proc.tree(main)
    assert tree[0].identity == main
    assert tree[1].ppid == main.pid
    assert tree[2].ppid == tree[1].pid
    assert [s.identity for s in walk(main.pid)] == [s.identity for s in tree]


def test_a_process_that_ends_leaves_the_tree_and_is_let_go(proc: Procfs, spawn: Spawn) -> None:
    main = main_of(spawn(FAMILY).pid)
    wait_for(lambda: len(proc.tree(main)) == 3)
    grandchild = proc.tree(main)[2].pid
    os.kill(proc.tree(main)[1].pid, signal.SIGKILL)
    try:
        wait_for(lambda: [s.state for s in proc.tree(main)][1:] == ["Z"])
        assert grandchild not in proc._kept, "an orphan is no longer of this tree"
        zombie = proc.tree(main)[1]
        assert (zombie.rss, zombie.anon, zombie.shmem, zombie.fds, zombie.fd_limit) == (None,) * 5
    finally:
        os.kill(grandchild, signal.SIGKILL)


def test_a_child_of_a_thread_is_found(proc: Procfs, spawn: Spawn) -> None:
    """It stands in that thread's `children`, not in the main thread's."""
    process = spawn(THREAD_FORKS)
    main = main_of(process.pid)
    at = time.monotonic()
    assert len(proc.tree(main, at)) == 1
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    assert process.stdout.readline() == "forked\n"
    assert len(proc.tree(main, at + procfs.THREADS_FOR)) == 2
    assert len(proc.tree(main, at + procfs.THREADS_FOR + 1)) == 2
    assert len(walk(process.pid)) == 2


def test_a_process_that_ended_is_gone(proc: Procfs, spawn: Spawn) -> None:
    process = spawn(SLEEPER)
    main = main_of(process.pid)
    assert len(proc.tree(main)) == 1
    process.kill()
    process.wait()
    assert proc.sample(main.pid) is None
    assert proc.tree(main) == ()
    assert main.pid not in proc._kept
    assert identity_of(main.pid) is None
    assert walk(main.pid) == ()
    assert state_of(main.pid) is None
    assert tracer_pid(main.pid) is None
    assert thread_states(main.pid) == ()


def test_a_pid_with_another_start_is_another_process(proc: Procfs) -> None:
    mine = main_of(os.getpid())
    assert proc.tree(Identity(mine.pid, mine.starttime - 1)) == ()
    assert proc.tree(mine)[0].identity == mine


def test_close_and_forget_leave_no_descriptor_open(spawn: Spawn) -> None:
    main = main_of(spawn(FAMILY).pid)
    wait_for(lambda: len(walk(main.pid)) == 3)
    before = len(os.listdir("/proc/self/fd"))
    proc = Procfs()
    proc.tree(main)
    assert len(os.listdir("/proc/self/fd")) == before + 9
    proc.forget(main)
    assert len(os.listdir("/proc/self/fd")) == before
    proc.tree(main)
    proc.close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert proc._allowance.kept == 0


def test_without_descriptors_files_are_opened_for_each_read(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    main = main_of(spawn(FAMILY).pid)
    wait_for(lambda: len(walk(main.pid)) == 3)
    monkeypatch.setattr(procfile, "RESERVED", 1 << 40)
    before = len(os.listdir("/proc/self/fd"))
    proc = Procfs()
    tree = proc.tree(main)
    assert len(os.listdir("/proc/self/fd")) == before
    assert [sample.rss is not None for sample in tree] == [True] * 3
    proc.close()


def test_an_exhausted_descriptor_table_does_not_mean_gone(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    main = main_of(spawn(SLEEPER).pid)
    monkeypatch.setattr(procfile, "RESERVED", -100)  # keep as many as there are
    proc = Procfs()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    ballast = []
    try:
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                ballast.append(os.dup(0))
        with pytest.raises(OSError, match="Too many open files"):
            proc.tree(main)
        with pytest.raises(OSError, match="Too many open files"):
            identity_of(main.pid)
        os.close(ballast.pop())  # one is left: kept for stat, so nothing is left for the others
        with pytest.raises(OSError, match="Too many open files"):
            proc.tree(main)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in ballast:
            os.close(descriptor)
    assert [sample.identity for sample in proc.tree(main)] == [main]
    proc.close()


def test_what_was_kept_when_a_walk_failed_is_let_go_of(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    main = main_of(spawn(FAMILY).pid)
    wait_for(lambda: len(walk(main.pid)) == 3)
    last = walk(main.pid)[2].pid
    before = len(os.listdir("/proc/self/fd"))
    proc = Procfs()
    look = Procfs._look

    def refuse(self: Procfs, pid: int, *args: object) -> ProcessSample | None:
        if pid == last:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return look(self, pid, *args)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(Procfs, "_look", refuse)
        with pytest.raises(OSError, match="Too many open files"):
            proc.tree(main)
    assert len(os.listdir("/proc/self/fd")) > before
    proc.forget(main)
    assert len(os.listdir("/proc/self/fd")) == before
    proc.close()


def test_a_process_that_proves_another_ones_is_not_kept(tmp_path: Path) -> None:
    record(tmp_path, 9, children=(10,))
    record(tmp_path, 10, ppid=1)
    before = len(os.listdir("/proc/self/fd"))
    proc = Procfs(tmp_path)
    main = Identity(9, 500)
    assert [sample.pid for sample in proc.tree(main)] == [9]
    assert proc.tree(Identity(9, 499)) == ()
    proc.forget(main)
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_descriptor_limit_is_raised_to_the_hard_one() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, hard), hard))
        assert raise_descriptor_limit() == (min(512, hard), hard)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_threads_are_told_with_the_main_one_first(spawn: Spawn) -> None:
    pid = spawn(THREAD_FORKS).pid
    wait_for(lambda: [thread.state for thread in thread_states(pid)] == ["S", "S"])
    main, other = thread_states(pid)
    assert main.tid == pid
    assert other.tid != pid
    assert main.wchan is None or "nanosleep" in main.wchan
    assert other.wchan is None or "read" in other.wchan


def test_a_process_is_stopped_and_not_traced(spawn: Spawn) -> None:
    pid = spawn(SLEEPER).pid
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: state_of(pid) == "T")
    assert tracer_pid(pid) == 0


def test_this_boot_has_an_id() -> None:
    assert len(boot_id()) == 36


def test_how_old_a_process_is(spawn: Spawn) -> None:
    main = main_of(spawn(SLEEPER).pid)
    age = seconds_since_start(main.starttime)
    assert age is not None
    assert 0 <= age < 60


# A recorded /proc


def test_a_recorded_tree(tmp_path: Path) -> None:
    record(tmp_path, 9, children=(12, 10), fds=5, cpu=300, soft="64")
    record(tmp_path, 10, ppid=9, shmem=8)
    record(tmp_path, 12, ppid=9, comm=b"pt_data_worker", state="D")
    proc = Procfs(tmp_path)
    main, second, first = sorted(proc.tree(Identity(9, 500)), key=lambda s: s.pid)
    proc.close()
    assert (main.pid, main.fds, main.fd_limit, main.cpu_s, main.rss) == (9, 5, 64, 3.0, 124 << 10)
    assert (second.pid, second.shmem, second.fds, second.fd_limit) == (10, 8 << 10, 3, 1024)
    assert (first.pid, first.comm, first.state) == (12, "pt_data_worker", "D")


def test_a_child_whose_pid_was_reused_is_not_of_the_tree(tmp_path: Path) -> None:
    record(tmp_path, 9, children=(10,))
    record(tmp_path, 10, ppid=1)
    proc = Procfs(tmp_path)
    assert [sample.pid for sample in proc.tree(Identity(9, 500))] == [9]
    proc.close()


def test_what_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    directory = record(tmp_path, 9, soft="unlimited")
    (directory / "status").write_text("Name:\tx\n")
    (directory / "fd").rename(directory / "elsewhere")
    proc = Procfs(tmp_path)
    seen = sample_of(proc.sample(9))
    proc.close()
    assert (seen.rss, seen.anon, seen.file, seen.shmem, seen.fds, seen.fd_limit) == (None,) * 6
    assert seen.threads == 2


@pytest.mark.parametrize("state", ["Z", "X"])
def test_zeros_of_a_dead_process_are_unknown(tmp_path: Path, state: str) -> None:
    record(tmp_path, 9, state=state, fds=0)
    proc = Procfs(tmp_path)
    seen = sample_of(proc.sample(9))
    proc.close()
    assert (seen.rss, seen.anon, seen.file, seen.shmem, seen.fds, seen.fd_limit) == (None,) * 6


def test_status_is_read_again_when_the_pages_change_or_in_time(tmp_path: Path) -> None:
    directory = record(tmp_path, 9, shmem=4, pages=31)
    proc = Procfs(tmp_path)
    assert sample_of(proc.sample(9, 0.0)).shmem == 4 << 10
    (directory / "status").write_text(status_text(rss=124, anon=60, file=20, shmem=44))
    assert sample_of(proc.sample(9, 5.0)).shmem == 4 << 10, "as many pages as before: not read"
    (directory / "stat").write_bytes(stat_line(9, pages=32))
    assert sample_of(proc.sample(9, 10.0)).shmem == 44 << 10
    (directory / "status").write_text(status_text(rss=128, anon=20, file=20, shmem=88))
    assert sample_of(proc.sample(9, 10.0 + procfs.MEMORY_FOR)).shmem == 88 << 10
    proc.close()


def test_the_soft_limit_is_read_again_in_time(tmp_path: Path) -> None:
    directory = record(tmp_path, 9, soft="1024")
    proc = Procfs(tmp_path)
    proc.sample(9, 0.0)
    (directory / "limits").write_text("Max open files            2048                 4096                 files\n")
    assert sample_of(proc.sample(9, 30.0)).fd_limit == 1024
    assert sample_of(proc.sample(9, procfs.LIMIT_FOR)).fd_limit == 2048
    proc.close()


def test_a_reused_pid_is_noticed_without_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procfile, "RESERVED", 1 << 40)
    directory = record(tmp_path, 9, start=500)
    proc = Procfs(tmp_path)
    assert len(proc.tree(Identity(9, 500))) == 1
    (directory / "stat").write_bytes(stat_line(9, start=900))
    assert proc.tree(Identity(9, 500)) == ()
    assert len(proc.tree(Identity(9, 900))) == 1
    proc.close()


def test_what_was_kept_of_a_child_is_not_used_for_its_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(procfile, "RESERVED", 1 << 40)
    record(tmp_path, 9, children=(10,))
    directory = record(tmp_path, 10, ppid=9, start=600, cpu=500)
    proc = Procfs(tmp_path)
    proc.tree(Identity(9, 500), 1.0)
    (directory / "stat").write_bytes(stat_line(10, ppid=9, start=900, cpu=700))
    assert [sample.pid for sample in proc.tree(Identity(9, 500), 2.0)] == [9]
    fresh = proc.tree(Identity(9, 500), 3.0)[1]
    assert (fresh.identity, fresh.cores) == (Identity(10, 900), None)
    proc.close()


def test_a_process_that_is_none_is_gone(tmp_path: Path) -> None:
    (tmp_path / "9").mkdir()
    (tmp_path / "9" / "stat").write_text("nonsense")
    (tmp_path / "9" / "status").write_text("")
    proc = Procfs(tmp_path)
    assert proc.sample(9) is None
    assert proc.sample(10) is None
    proc.close()
    assert identity_of(9, tmp_path) is None
    assert boot_id(tmp_path) == ""
    assert seconds_since_start(500, tmp_path) is None
    assert tracer_pid(9, tmp_path) is None
