"""Python stacks of running processes, by py-spy.

May start py-spy and children of its own, and may send SIGCONT to a target that a dump left stopped; may change nothing
else. py-spy never runs without a deadline, never twice on one target at a time (two dumps of one target fail), and
never with a pause of the target except for `native_dump`: default mode on a thread in state D never returns and keeps
the other threads stopped until py-spy is killed. All measured with py-spy 0.4.3.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from watchdog import killed, procfs
from watchdog.collect import command, executable
from watchdog.collect.gather import NO_THREAD, started
from watchdog.judge import stacks
from watchdog.model.evidence import Dump, ProcessStacks, ThreadStack
from watchdog.model.observation import Identity, ProcessSample

EACH = 5.0
"""Seconds for one process: a dump takes 18-80 ms, so this is a hundred times what it needs, and one that hangs cannot
eat the time of the whole tree."""

LIMIT = 8 << 20
"""Bytes of one dump: 200 threads with 50 frames each are 3 MB."""

SETTLE = 0.3
"""Seconds that the kernel gets to let a target go after its tracer was killed."""

MISSING = (
    "py-spy was found neither beside {python} nor on PATH, so no stacks can be read and no stall can be confirmed: "
    "install it with '{python} -m pip install py-spy'"
)
NOT_PERMITTED = (
    "py-spy may not read process {pid}: it needs CAP_SYS_PTRACE, or the same user and no hidepid or Yama restriction "
    "(kernel.yama.ptrace_scope): run the watchdog as root, or give its unit CAP_SYS_PTRACE"
)

Tell = Callable[[str], None]
"""Takes one trouble, in words for an operator."""


class _Condition(NamedTuple):
    """What a dump must leave as it was."""

    identity: Identity
    state: str | None
    tracer: int | None


class _Turns:
    """At most one dump of each target at a time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._busy: set[int] = set()

    @contextlib.contextmanager
    def of(self, pid: int, within: float) -> Iterator[bool]:
        """Yield True once it is our turn, False when it was not within `within` seconds."""
        with self._changed:
            ours = self._changed.wait_for(lambda: pid not in self._busy, max(0.0, within))
            if ours:
                self._busy.add(pid)
        try:
            yield ours
        finally:
            if ours:
                with self._changed:
                    self._busy.discard(pid)
                    self._changed.notify_all()


_turns = _Turns()
"""Module-level, since every caller in this process shares the targets."""


def _untold(trouble: str) -> None:
    """For callers that do not ask about troubles."""


def find_pyspy() -> Path | None:
    """The py-spy beside our own Python, which is the version that we were installed with; else the first on PATH."""
    if sys.executable:
        beside = Path(sys.executable).parent / "py-spy"
        if beside.is_file() and os.access(beside, os.X_OK):
            return beside
    found = shutil.which("py-spy")
    return Path(found) if found else None


def dump_tree(
    tree: Sequence[ProcessSample],
    main_pid: int,
    *,
    at_s: float,
    within: float,
    at_once: int = 2,
    tell: Tell = _untold,
) -> Dump:
    """Dump every process of `tree`, the main one first, `at_once` at a time, in at most `within` seconds.

    A process whose stacks could not be read is there with its `error`. `at_s` is told on in the Dump: seconds since
    the first dump. What a dump did to its target, if anything, goes to `tell`. Raises nothing that the world can cause: where
    there are no descriptors, threads or processes left, that is the error of each process it concerns.
    """
    deadline = time.monotonic() + within
    waiting = deque(sorted(tree, key=lambda sample: sample.pid != main_pid))
    order = [sample.pid for sample in waiting]
    found = {
        s.pid: _empty(s, main_pid, f"there was no time left within {within:.3g} s to read its stacks") for s in tree
    }

    def work() -> None:
        while True:
            try:
                sample = waiting.popleft()
            except IndexError:
                return
            left = min(EACH, deadline - time.monotonic())
            if left > 0:
                found[sample.pid] = _dump_one(sample, main_pid, left, tell)

    # Daemon threads: a pool's would be joined when the interpreter ends.
    named = (threading.Thread(target=work, name=f"dump-{n}", daemon=True) for n in range(max(1, at_once)))
    threads = [thread for thread in named if started(thread)]
    if not threads:
        found = {s.pid: _empty(s, main_pid, NO_THREAD) for s in tree}
    for thread in threads:
        thread.join(max(0.0, deadline + SETTLE + killed.GRACE - time.monotonic()))
    return Dump(at_s, tuple(found[pid] for pid in order))


def try_target(pid: int, within: float = EACH) -> str | None:
    """Why the stacks of process `pid` cannot be read now; None when they can. For `check`."""
    try:
        identity = procfs.identity_of(pid)
        if identity is None:
            return _gone(pid)
        threads, error, _ = _read(identity, within, _untold)
    except OSError as problem:
        return _untellable(pid, problem)
    return error if error or threads else f"py-spy found no Python thread in process {pid}"


def self_test(within: float = 10.0) -> str | None:
    """Why py-spy cannot read even a child of our own; None when it can."""
    program = find_pyspy()
    if program is None:
        return MISSING.format(python=sys.executable or "python3")
    with command.sleeper(within + 5.0) as pid:
        deadline = time.monotonic() + within
        why = f"no Python child could be started within {within:.3g} s to try py-spy on"
        while pid is not None and time.monotonic() < deadline:
            why_not = try_target(pid, deadline - time.monotonic())
            if why_not is None:
                return None
            why = f"py-spy ({program}) could not read a child of our own: {why_not}"
            time.sleep(0.05)  # the child may not have begun its Python code yet
        return why


class Native(NamedTuple):
    """A dump with C frames, as py-spy prints it; or why there is none."""

    text: str | None
    why: str | None


def native_dump(target: int | Identity, within: float = EACH) -> Native:
    """Python and C frames of a process (by pid, or of the very process of an Identity) as text.

    It pauses the target for 100-150 ms, so it comes last, and only when no thread of it is in D (it would never return)
    or stopped or traced (it would fail).
    """
    pid = target.pid if isinstance(target, Identity) else target
    try:
        return _native(target, pid, within)
    except OSError as problem:
        return Native(None, _untellable(pid, problem))


def _native(target: int | Identity, pid: int, within: float) -> Native:
    """Raises OSError where it cannot be told who the process is, or what its threads do."""
    program, identity = find_pyspy(), procfs.identity_of(pid)
    if program is None:
        return Native(None, MISSING.format(python=sys.executable or "python3"))
    if identity is None or (isinstance(target, Identity) and identity != target):
        return Native(None, _gone(pid))
    states = procfs.thread_states(pid)
    if not states:
        return Native(None, _gone(pid))
    held = [f"{t.tid} is in {t.state}" for t in states if (t.state or "D") in "DTt"]
    if held:
        return Native(None, f"not tried: thread {', thread '.join(held[:5])}, and a pausing dump would hang or fail")
    with _turns.of(pid, within) as ours, _left_as_it_was(identity, _untold):
        if not ours:
            return Native(None, _taken(pid))
        ran = command.run([str(program), "dump", "--native", "--pid", str(pid)], within=within, limit=LIMIT, env=_env())
    text = ran.out.decode(errors="replace")
    return Native(text, None) if text.strip() else Native(None, _said(pid, ran))


def _dump_one(sample: ProcessSample, main_pid: int, within: float, tell: Tell) -> ProcessStacks:
    deadline = time.monotonic() + within
    try:
        threads, error, state = _read(sample.identity, within, tell)
    except OSError as problem:
        return _empty(sample, main_pid, _untellable(sample.pid, problem))
    python: bool | None = True if threads else None
    if error is not None and state not in ("Z", "X", None):
        python = executable.is_python(sample.pid, within=max(0.2, deadline - time.monotonic()))
        if python is False:
            error = f"process {sample.pid} ({sample.comm}) is no Python process, told by its executable"
    stacks_of = _empty(sample, main_pid, error)
    return replace(
        stacks_of, threads=_with_states(sample.identity, threads), state=state or sample.state, python=python
    )


def _read(identity: Identity, within: float, tell: Tell) -> tuple[tuple[ThreadStack, ...], str | None, str | None]:
    """The threads of one process, or why not, and the state that it was in before.

    Raises OSError where that cannot be told, before anything was done to it.
    """
    pid, deadline = identity.pid, time.monotonic() + within
    program = find_pyspy()
    if program is None:
        return (), MISSING.format(python=sys.executable or "python3"), procfs.state_of(pid)
    with _turns.of(pid, within) as ours:
        before = _condition(pid)
        if before is None or before.identity != identity:
            return (), _gone(pid), None
        if before.state in ("Z", "X"):
            return (), f"process {pid} is a zombie: it has ended, and its parent has not collected it", before.state
        if not ours:
            return (), _taken(pid), before.state
        argv = [str(program), "dump", "--json", "--nonblocking", "--pid", str(pid)]
        with _left_as_it_was(identity, tell):
            ran = command.run(argv, within=max(0.05, deadline - time.monotonic()), limit=LIMIT, env=_env())
    if _identity(pid) != identity:
        return (), f"process {pid} ended, or could not be looked at, while its stacks were being read", None
    threads = _threads(ran.out) if ran.trouble is None else None
    return (threads, None, before.state) if threads is not None else ((), _said(pid, ran), before.state)


def _threads(out: bytes) -> tuple[ThreadStack, ...] | None:
    """None: this is no whole dump. A dump counts whatever the exit status: with rc 1 it may still be whole."""
    if not out.strip():
        return None
    try:
        return stacks.threads_from_json(json.loads(out.decode(errors="replace")))
    except (ValueError, RecursionError):  # cut short, or no JSON, or nested by somebody who means harm
        return None


def _with_states(identity: Identity, threads: tuple[ThreadStack, ...]) -> tuple[ThreadStack, ...]:
    """Add what the kernel says of each thread; without stacks, the kernel's threads alone, with no frames."""
    try:
        known = {t.tid: t for t in procfs.thread_states(identity.pid)}
    except OSError:
        return threads
    if _identity(identity.pid) != identity:  # asked after they were read: they may be another process's
        return threads
    if not threads:
        return tuple(ThreadStack(t.tid, t.name, (), t.state, t.wchan) for t in known.values())
    return tuple(
        replace(thread, state=known[thread.tid].state, wchan=known[thread.tid].wchan) if thread.tid in known else thread
        for thread in threads
    )


def _empty(sample: ProcessSample, main_pid: int, error: str | None) -> ProcessStacks:
    return ProcessStacks(
        pid=sample.pid,
        ppid=sample.ppid,
        comm=sample.comm,
        state=sample.state,
        role="main" if sample.pid == main_pid else "child",
        cpu_cores=sample.cores,
        error=error,
    )


def _identity(pid: int) -> Identity | None:
    """Who has this pid; None: nobody, or it cannot be told, which is no reason to end (out of descriptors, for example)."""
    try:
        return procfs.identity_of(pid)
    except OSError:
        return None


def _condition(pid: int) -> _Condition | None:
    """None: gone. Raises OSError where it cannot be told."""
    identity = procfs.identity_of(pid)
    return None if identity is None else _Condition(identity, procfs.state_of(pid), procfs.tracer_pid(pid))


@contextlib.contextmanager
def _left_as_it_was(identity: Identity, tell: Tell) -> Iterator[None]:
    """After the block, see that the target is in the state that it was in before, and put right what a dump left."""
    before = _condition(identity.pid)
    yield
    after = _settled(identity.pid, before)
    if before is None or after is None or not before.identity == after.identity == identity:
        return
    if after.tracer and after.tracer != before.tracer:
        tell(
            f"process {identity.pid} is still traced by process {after.tracer} after its dump; end that process to free it"
        )
    if after.state == "T" and before.state != "T":
        done = "it was sent SIGCONT" if _continue(identity) else f"send it SIGCONT: kill -CONT {identity.pid}"
        tell(f"process {identity.pid} was running before its dump and stopped after it; {done}")


def _settled(pid: int, before: _Condition | None) -> _Condition | None:
    """The target's condition, once a killed tracer has let go or SETTLE has passed; None: gone, or not to be told."""
    deadline = time.monotonic() + SETTLE
    while True:
        try:
            after = _condition(pid)
        except OSError:
            after = None
        held = after is not None and before is not None and bool(after.tracer) and after.tracer != before.tracer
        if not held or time.monotonic() >= deadline:
            return after
        time.sleep(0.01)


def _continue(identity: Identity) -> bool:
    """SIGCONT to this very process, never to another that has its number by now."""
    try:
        pidfd = os.pidfd_open(identity.pid)
    except OSError:
        return False
    try:
        if _identity(identity.pid) != identity:
            return False
        signal.pidfd_send_signal(pidfd, signal.SIGCONT)
    except OSError:
        return False
    finally:
        os.close(pidfd)
    return True


def _env() -> dict[str, str]:
    """Ours, but for short errors without colour: with RUST_BACKTRACE set, py-spy prints its own stack."""
    return {**os.environ, "RUST_BACKTRACE": "0", "NO_COLOR": "1"}


def _gone(pid: int) -> str:
    return f"there is no process {pid} any more"


def _untellable(pid: int, problem: OSError) -> str:
    return f"process {pid} could not be looked at: {problem.strerror or problem}"


def _taken(pid: int) -> str:
    return f"another dump of process {pid} was still under way, and two at once fail"


def _said(pid: int, ran: command.Ran) -> str:
    """Why py-spy gave no dump, in words for an operator."""
    if ran.trouble is not None:
        return f"py-spy {ran.trouble} (process {pid})"
    text = ran.err.decode(errors="replace").strip()
    if "ermission denied" in text.lower() or "not permitted" in text.lower():
        return NOT_PERMITTED.format(pid=pid)
    if "Failed to find python version" in text:
        return f"py-spy found no Python that it knows in process {pid}: not Python, or a version newer than py-spy"
    first = text.splitlines()[0] if text else "it said nothing"
    whole = "" if not ran.out.strip() else ", and what it printed is no whole dump"
    return f"py-spy could not read process {pid} (exit status {ran.rc}): {first[:300]}{whole}"
