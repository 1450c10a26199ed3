"""Dumps by the real py-spy of real processes, and by stand-ins for py-spy that misbehave."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.collect.conftest import Spawn, stop, wait_for
from watchdog import killed, procfs
from watchdog.collect import pyspy
from watchdog.collect.gather import NO_THREAD
from watchdog.model.evidence import ProcessStacks
from watchdog.model.observation import Identity, ProcessSample

Fake = Callable[[str], Path]

SLEEPER = """
import time
def inner():
    ready()
    time.sleep(300)
inner()
"""

FAMILY = """
import os, subprocess, sys, threading, time
subprocess.Popen(["sleep", "300"])
if os.fork() == 0:
    os._exit(0)  # never waited for: a zombie
inner = 'import time\\ndef deep():\\n    time.sleep(300)\\ndeep()'
subprocess.Popen([sys.executable, "-c", inner])
threading.Thread(target=time.sleep, args=(300,), name='odd "name"\\n', daemon=True).start()
time.sleep(0.5)
def outer():
    ready()
    time.sleep(300)
outer()
"""


def by_comm(tree: tuple[ProcessSample, ...]) -> dict[str, ProcessSample]:
    return {
        f"{sample.comm.rstrip('0123456789.')}:{sample.state == 'Z'}:{sample.pid == tree[0].pid}": sample
        for sample in tree
    }


def dump(pid: int, within: float = 10.0, at_once: int = 2) -> tuple[dict[int, ProcessStacks], list[str]]:
    said: list[str] = []
    taken = pyspy.dump_tree(procfs.walk(pid), pid, at_s=1.5, within=within, at_once=at_once, tell=said.append)
    assert taken.at_s == 1.5
    return {process.pid: process for process in taken.processes}, said


def test_dumps_every_process_of_a_tree(spawn: Spawn) -> None:
    main = spawn(FAMILY)
    tree = procfs.walk(main.pid)
    assert len(tree) == 4
    backwards = tuple(reversed(tree))
    taken = pyspy.dump_tree(backwards, main.pid, at_s=0.0, within=10.0)
    assert taken.processes[0].pid == main.pid
    found = {p.pid: p for p in taken.processes}
    assert {p.pid: p.role for p in taken.processes} == {s.pid: "main" if s.pid == main.pid else "child" for s in tree}
    assert all(found[s.pid].ppid == s.ppid and found[s.pid].comm == s.comm for s in tree)

    parent = found[main.pid]
    assert parent.error is None and parent.python is True and parent.state == "S"
    threads = {thread.name: thread for thread in parent.threads}
    assert set(threads) == {"MainThread", 'odd "name"\n'}
    leaf = threads["MainThread"]
    assert leaf.tid == main.pid and leaf.state == "S" and leaf.wchan and leaf.frames[0].name == "outer"
    aside = threads['odd "name"\n']
    assert aside.tid != main.pid and aside.state == "S" and aside.frames[0].file.endswith("threading.py")

    others = [found[s.pid] for s in tree if s.pid != main.pid]
    (sleep,) = [p for p in others if p.comm == "sleep"]
    assert (
        sleep.python is False and sleep.error is not None and "no Python process, told by its executable" in sleep.error
    )
    assert [(t.tid, t.frames) for t in sleep.threads] == [(sleep.pid, ())]
    (zombie,) = [p for p in others if p.state == "Z"]
    assert zombie.error is not None and "zombie" in zombie.error and zombie.python is None
    (child,) = [p for p in others if p.error is None]
    assert child.threads[0].frames[0].name == "deep"


def test_a_vanished_process_says_so_and_never_shows_another(spawn: Spawn) -> None:
    main = spawn(SLEEPER)
    (sample,) = procfs.walk(main.pid)
    earlier = sample._replace(starttime=sample.starttime - 1)  # the number was another process's
    missing = sample._replace(pid=2**22 - 3)
    taken = pyspy.dump_tree((earlier, missing), earlier.pid, at_s=0.0, within=10.0)
    assert [p.error for p in taken.processes] == [
        f"there is no process {earlier.pid} any more",
        f"there is no process {missing.pid} any more",
    ]
    assert all(p.python is None and p.threads == () for p in taken.processes)


def test_a_stopped_process_is_read_and_left_stopped(spawn: Spawn) -> None:
    main = spawn(SLEEPER)
    stop(main.pid)
    found, said = dump(main.pid)
    assert found[main.pid].error is None
    assert found[main.pid].state == "T" and found[main.pid].threads[0].frames[0].name == "inner"
    assert said == []
    assert procfs.state_of(main.pid) == "T"


def test_a_pyspy_that_hangs_is_killed_with_its_children(spawn: Spawn, fake_pyspy: Fake, tmp_path: Path) -> None:
    main = spawn(SLEEPER)
    fake_pyspy(f"sleep 300 & echo $$ $! > {tmp_path}/pids; wait")
    began = time.monotonic()
    found, _ = dump(main.pid, within=0.5)
    assert time.monotonic() - began < 5.0
    error = found[main.pid].error
    assert error is not None and "did not end within" in error and "was killed" in error
    assert found[main.pid].threads[0].state == "S"  # the kernel's word is there all the same
    for pid in (tmp_path / "pids").read_text().split():
        wait_for(lambda pid=int(pid): procfs.state_of(pid) in (None, "Z"))  # type: ignore[misc]
    assert killed.reap() == 0


def test_a_pyspy_that_prints_100_mb_does_not_fill_memory(spawn: Spawn, fake_pyspy: Fake) -> None:
    main = spawn(SLEEPER)
    fake_pyspy("exec head -c 100000000 /dev/zero")
    tracemalloc.start()
    try:
        found, _ = dump(main.pid)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    error = found[main.pid].error
    assert error is not None and f"printed more than {pyspy.LIMIT} bytes" in error
    assert peak < 5 * pyspy.LIMIT


def test_a_whole_dump_counts_whatever_the_exit_status(spawn: Spawn, fake_pyspy: Fake) -> None:
    main = spawn(SLEEPER)
    fake_pyspy('$PYSPY "$@"; echo "Error: something else" >&2; exit 1')
    found, said = dump(main.pid)
    assert found[main.pid].error is None and said == []
    assert found[main.pid].threads[0].frames[0].name == "inner"


def test_a_dump_that_was_cut_short_is_none(spawn: Spawn, fake_pyspy: Fake) -> None:
    main = spawn(SLEEPER)
    fake_pyspy('$PYSPY "$@" > $0.out; head -c 200 $0.out; echo "Error: broken" >&2; exit 1')
    found, _ = dump(main.pid)
    error = found[main.pid].error
    assert error is not None and "exit status 1" in error and "Error: broken" in error and "no whole dump" in error
    assert found[main.pid].python is True  # told by its executable


def test_what_pyspy_says_of_a_process_that_is_not_ours_to_read(spawn: Spawn, fake_pyspy: Fake) -> None:
    main = spawn(SLEEPER)
    fake_pyspy("echo 'Permission Denied: Try running again with elevated permissions' >&2; exit 1")
    found, _ = dump(main.pid)
    error = found[main.pid].error
    assert error is not None and "CAP_SYS_PTRACE" in error and f"process {main.pid}" in error


def test_a_target_that_a_dump_left_stopped_is_continued_and_told(spawn: Spawn, fake_pyspy: Fake) -> None:
    main = spawn(SLEEPER)
    fake_pyspy('$PYSPY "$@"; kill -STOP $PID; while ! grep -q "^State:.T" /proc/$PID/status; do :; done')
    found, said = dump(main.pid)
    assert found[main.pid].error is None
    assert said == [f"process {main.pid} was running before its dump and stopped after it; it was sent SIGCONT"]
    wait_for(lambda: procfs.state_of(main.pid) == "S")


def test_a_target_that_somebody_else_traces_afterwards_is_told(spawn: Spawn, fake_pyspy: Fake, tmp_path: Path) -> None:
    main = spawn(SLEEPER)
    # PTRACE_SEIZE (0x4206), by a process that outlives the stand-in and its session.
    tracer = f"""
        import ctypes, os, time
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.ptrace(0x4206, {main.pid}, None, None) == 0
        open({str(tmp_path / "tracer")!r}, "w").write(str(os.getpid()))
        ready()
        time.sleep(300)
    """
    fake_pyspy(f'$PYSPY "$@"; touch {tmp_path}/go; while [ ! -s {tmp_path}/tracer ]; do :; done')

    def trace() -> None:
        wait_for((tmp_path / "go").exists)
        spawn(tracer)

    helper = threading.Thread(target=trace)
    helper.start()
    _, said = dump(main.pid)
    helper.join(10)
    pid = (tmp_path / "tracer").read_text()
    assert said == [f"process {main.pid} is still traced by process {pid} after its dump; end that process to free it"]


def test_two_dumps_of_one_target_take_turns(spawn: Spawn, fake_pyspy: Fake, tmp_path: Path) -> None:
    main = spawn(SLEEPER)
    fake_pyspy(f'mkdir {tmp_path}/turn || exit 1; sleep 0.2; $PYSPY "$@"; rmdir {tmp_path}/turn')
    errors: list[str | None] = []
    threads = [threading.Thread(target=lambda: errors.append(dump(main.pid)[0][main.pid].error)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [None, None]


def test_a_turn_that_does_not_come_is_an_error(spawn: Spawn, fake_pyspy: Fake) -> None:
    main = spawn(SLEEPER)
    with pyspy._turns.of(main.pid, 1.0) as ours:
        assert ours
        found, _ = dump(main.pid, within=0.2)
    error = found[main.pid].error
    assert error is not None and "another dump of process" in error


def test_processes_are_dumped_main_first_and_those_without_time_say_so(
    spawn: Spawn, fake_pyspy: Fake, tmp_path: Path
) -> None:
    main = spawn(FAMILY)
    fake_pyspy(f"echo $PID >> {tmp_path}/order; sleep 300")
    tree = procfs.walk(main.pid)
    taken = pyspy.dump_tree(tuple(reversed(tree)), main.pid, at_s=0.0, within=0.5, at_once=1)
    assert (tmp_path / "order").read_text().split() == [str(main.pid)]
    assert ["no time left" in str(p.error) for p in taken.processes] == [False, True, True, True]


def test_without_pyspy_every_process_says_what_to_install(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    main = spawn(SLEEPER)
    monkeypatch.setattr(pyspy, "find_pyspy", lambda: None)
    found, _ = dump(main.pid)
    assert "pip install py-spy" in str(found[main.pid].error)
    assert "pip install py-spy" in str(pyspy.self_test())
    assert "pip install py-spy" in str(pyspy.native_dump(main.pid).why)


def test_finds_pyspy_beside_our_python_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    beside, on_path = tmp_path / "venv", tmp_path / "bin"
    for folder in (beside, on_path):
        folder.mkdir()
        (folder / "py-spy").write_text("#!/bin/sh\n")
        (folder / "py-spy").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(beside / "python"))
    monkeypatch.setenv("PATH", str(on_path))
    assert pyspy.find_pyspy() == beside / "py-spy"
    (beside / "py-spy").unlink()
    assert pyspy.find_pyspy() == on_path / "py-spy"
    (on_path / "py-spy").unlink()
    assert pyspy.find_pyspy() is None


def test_self_test_reads_a_child_of_our_own() -> None:
    assert pyspy.self_test() is None


def test_self_test_says_what_is_wrong(fake_pyspy: Fake) -> None:
    path = fake_pyspy("echo 'Error: no such thing' >&2; exit 2")
    why = pyspy.self_test(within=0.5)
    assert why is not None and str(path) in why and "Error: no such thing" in why


def test_a_target_can_be_tried(spawn: Spawn) -> None:
    main = spawn(SLEEPER)
    assert pyspy.try_target(main.pid) is None
    assert pyspy.try_target(2**22 - 3) == f"there is no process {2**22 - 3} any more"


def test_a_native_dump_has_c_frames_and_is_of_this_very_process(spawn: Spawn) -> None:
    main = spawn(SLEEPER)
    native = pyspy.native_dump(main.pid)
    assert native.why is None and native.text is not None
    assert "inner (" in native.text and "libc" in native.text
    identity = procfs.identity_of(main.pid)
    assert identity is not None
    other = identity._replace(starttime=identity.starttime + 1)
    assert pyspy.native_dump(other).text is None
    wait_for(lambda: procfs.state_of(main.pid) == "S")
    assert procfs.tracer_pid(main.pid) == 0


def test_a_stopped_process_gets_no_native_dump(spawn: Spawn, fake_pyspy: Fake, tmp_path: Path) -> None:
    main = spawn(SLEEPER)
    stop(main.pid)
    fake_pyspy(f"touch {tmp_path}/ran")
    native = pyspy.native_dump(main.pid)
    assert native.text is None and native.why is not None and "not tried" in native.why and "is in T" in native.why
    assert not (tmp_path / "ran").exists()


def test_a_thread_in_d_gets_no_native_dump_but_its_python_stack_is_read(spawn: Spawn) -> None:
    # As vfork does, this keeps the calling thread in D until the child execs or ends; the child runs libc's pause().
    main = spawn(
        """
        import ctypes, threading, time
        libc = ctypes.CDLL(None)
        # CLONE_VM | CLONE_VFORK | SIGCHLD with the child's own stack, running libc's pause()
        stack = ctypes.create_string_buffer(1 << 16)
        top = ctypes.addressof(stack) + (1 << 16) - 64
        def hold():
            libc.clone(ctypes.cast(libc.pause, ctypes.c_void_p), ctypes.c_void_p(top), 0x100 | 0x4000 | 17, None)
        threading.Thread(target=hold, daemon=True, name="held").start()
        time.sleep(0.3)
        ready()
        time.sleep(300)
        """
    )
    wait_for(lambda: "D" in {t.state for t in procfs.thread_states(main.pid)})
    native = pyspy.native_dump(main.pid)
    assert native.text is None and native.why is not None and "is in D" in native.why
    found, said = dump(main.pid)
    assert found[main.pid].error is None and said == []
    assert {t.name: t.state for t in found[main.pid].threads} == {"MainThread": "S", "held": "D"}
    for child in procfs.walk(main.pid)[1:]:
        os.kill(child.pid, signal.SIGKILL)


def refusing(code: int) -> Callable[..., None]:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    return refuse


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOMEM])
@pytest.mark.parametrize("failing", ["identity_of", "state_of"])
def test_a_process_that_cannot_be_looked_at_is_an_error_in_the_dump(
    failing: str, code: int, spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = spawn(SLEEPER)
    tree = procfs.walk(main.pid)
    monkeypatch.setattr(procfs, failing, refusing(code))
    taken = pyspy.dump_tree(tree, main.pid, at_s=0.0, within=10.0)
    told = f"process {main.pid} could not be looked at: {os.strerror(code)}"
    assert [(p.error, p.threads) for p in taken.processes] == [(told, ())]
    native = pyspy.native_dump(tree[0].identity)
    assert native.text is None and native.why == told
    assert pyspy.try_target(main.pid) == told


def test_stacks_count_where_the_kernel_does_not_tell_of_threads(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    main = spawn(SLEEPER)
    tree = procfs.walk(main.pid)
    monkeypatch.setattr(procfs, "thread_states", refusing(errno.EMFILE))
    (process,) = pyspy.dump_tree(tree, main.pid, at_s=0.0, within=10.0).processes
    assert process.error is None
    assert [(t.frames[0].name, t.state) for t in process.threads] == [("inner", None)]
    native = pyspy.native_dump(main.pid)
    assert native.text is None and native.why is not None and "Too many open files" in native.why


def test_what_cannot_be_looked_at_after_its_dump_is_no_dump_of_this_process(
    spawn: Spawn, fake_pyspy: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = spawn(SLEEPER)
    fake_pyspy(f'$PYSPY "$@"; touch {tmp_path}/done')
    tree, told = procfs.walk(main.pid), procfs.identity_of

    def identity_of(pid: int) -> Identity | None:
        if (tmp_path / "done").exists():
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return told(pid)

    monkeypatch.setattr(procfs, "identity_of", identity_of)
    (process,) = pyspy.dump_tree(tree, main.pid, at_s=0.0, within=10.0).processes
    assert process.error == f"process {main.pid} ended, or could not be looked at, while its stacks were being read"


def test_without_threads_every_process_says_so(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    main = spawn(FAMILY)
    tree = procfs.walk(main.pid)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    taken = pyspy.dump_tree(tree, main.pid, at_s=0.0, within=10.0)
    assert [p.error for p in taken.processes] == [NO_THREAD] * 4


EXHAUSTED = """
import os, resource, sys, threading
from watchdog import procfs
from watchdog.collect import pyspy
threading.excepthook = lambda args: os._exit(70)  # as the daemon does
pid = int(sys.argv[1])
tree = procfs.walk(pid)
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
for most in range(3, 24):
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    (process,) = pyspy.dump_tree(tree, pid, at_s=0.0, within=10.0).processes
    native = pyspy.native_dump(tree[0].identity, 10.0)
    print(most, process.error or "read", native.why or "read", sep=" | ", flush=True)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
(process,) = pyspy.dump_tree(tree, pid, at_s=0.0, within=10.0).processes
print("all", process.error or "read", flush=True)
"""


def test_out_of_descriptors_for_real_no_thread_dies(spawn: Spawn) -> None:
    """At every limit from none left to enough for all, by the kernel's own refusal."""
    main = spawn(SLEEPER)
    argv = [sys.executable, "-c", EXHAUSTED, str(main.pid)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert "Too many open files" in lines[0]
    assert lines[-1] == "all read"
    assert len(lines) == 22
