"""Ends what is left of a stopped program's tree. May signal the processes that were recorded, and only while they are those.

A pidfd is opened first and the start time compared after: from then on the descriptor means this process, whoever gets its pid.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Literal, NamedTuple

from watchdog.model.observation import Identity
from watchdog.procfs import PROC, boot_id, identity_of, state_of, thread_states
from watchdog.procstat import DEAD

TERM_FOR: Final = 5.0
"""Seconds from TERM to KILL."""
KILL_FOR: Final = 2.0
"""Seconds after KILL in which a process that can be killed is gone: 20 ms were seen for a tree of 9."""
POLL_EVERY: Final = 0.05
"""Seconds; only where pidfds cannot be had."""
NAMED: Final = 10
"""So many of those left are described; a broken tree may have a thousand."""


class Reaping(NamedTuple):
    ended: tuple[Identity, ...]
    """Survivors when we looked; gone now, or a zombie, which waits for its parent, and that is not us."""
    left: tuple[Identity, ...]
    detail: str
    """For people: who is left, in which state, and why."""


class _Held(NamedTuple):
    """A recorded process that was found."""

    ident: Identity
    pidfd: int | None
    """None: this kernel, or a seccomp filter, has none to give, or we have no descriptor left."""


def reap(
    tree: Sequence[Identity],
    recorded_boot_id: str,
    orphans: Literal["end", "keep"],
    *,
    never: frozenset[int] = frozenset(),
    proc: Path = PROC,
    term_for: float = TERM_FOR,
    kill_for: float = KILL_FOR,
) -> Reaping:
    """TERM to every survivor of `tree`, KILL to those that live `term_for` seconds later, which get `kill_for` seconds more.

    `orphans` keep: nothing is signalled, survivors are only told. `never`: pids that are left alone, such as supervisord's; pid 1
    and this process always are. `proc` serves start times and states; signals go to the kernel's own processes.
    """
    if (refusal := _not_this_boot(tree, recorded_boot_id, boot_id(proc))) is not None:
        return refusal
    with ExitStack() as descriptors:
        held = [found for ident in tree if (found := _hold(ident, proc, descriptors)) is not None]
        living = _living(held, 0.0, proc)
        left: dict[Identity, str] = {}
        if orphans == "keep":
            left = {each.ident: "kept, as the rule says" for each in living}
        else:
            left = _end(living, never | {1, os.getpid()}, proc, term_for, kill_for)
    ended = tuple(each.ident for each in living if each.ident not in left)
    return Reaping(ended, tuple(left), _describe(left, proc))


def _not_this_boot(tree: Sequence[Identity], recorded: str, now: str) -> Reaping | None:
    if not now:
        return Reaping((), tuple(tree), "nothing was ended: the boot's id cannot be read, so these pids may be others'")
    if now != recorded:
        return Reaping((), (), "the host was booted since: none of the recorded processes can be left")
    return None


def _hold(ident: Identity, proc: Path, descriptors: ExitStack) -> _Held | None:
    """The recorded process, held by a pidfd if there are any; None: it is gone."""
    pidfd = None
    if ident.pid > 0:  # as a pid, 0 and below mean whole groups to kill(2)
        pidfd = _open(ident.pid, descriptors)
    return _Held(ident, pidfd) if identity_of(ident.pid, proc) == ident and ident.pid > 0 else None


def _open(pid: int, descriptors: ExitStack) -> int | None:
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:  # gone, or as told at `pidfd`: the start time will tell which
        return None
    descriptors.callback(os.close, pidfd)
    return pidfd


def _end(
    living: list[_Held], never: frozenset[int], proc: Path, term_for: float, kill_for: float
) -> dict[Identity, str]:
    """Those that could not be ended, and why."""
    spared = {each.ident: "never ended by us" for each in living if each.ident.pid in never}
    targets = [each for each in living if each.ident not in spared]
    refused: list[_Held] = []
    for number, seconds in ((signal.SIGTERM, term_for), (signal.SIGKILL, kill_for)):
        refused += [each for each in targets if not _signal(each, number, proc)]
        targets = _wait([each for each in targets if each not in refused], seconds, proc)
    left = spared | {each.ident: "not permitted to signal it" for each in _living(refused, 0.0, proc)}
    return left | {each.ident: "SIGKILL did not end it" for each in targets}


def _signal(target: _Held, number: signal.Signals, proc: Path) -> bool:
    """False: not permitted. A process that is gone meanwhile is as good as signalled."""
    try:
        if target.pidfd is not None:
            signal.pidfd_send_signal(target.pidfd, number)
            return True
    except ProcessLookupError:
        return True
    except OSError as error:
        if error.errno not in (
            errno.EPERM,
            errno.ENOSYS,
        ):  # the second, or the first by a seccomp filter: no such call here
            raise
    return _kill(target.ident, number, proc)


def _kill(ident: Identity, number: signal.Signals, proc: Path) -> bool:
    """Without a pidfd: between this look and the signal, some 10 us, the pid could in principle become another's."""
    if identity_of(ident.pid, proc) != ident:
        return True
    try:
        os.kill(ident.pid, number)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


def _wait(targets: list[_Held], seconds: float, proc: Path) -> list[_Held]:
    """Those of `targets` that still live after so many seconds; returns at once when none do."""
    until = time.monotonic() + seconds
    while targets:
        left = until - time.monotonic()
        targets = _living(targets, max(0.0, left), proc)
        if left <= 0:
            break
    return targets


def _living(targets: list[_Held], seconds: float, proc: Path) -> list[_Held]:
    """Those of `targets` that live; waits up to `seconds` for the first to end."""
    poller = select.poll()
    for each in targets:
        if each.pidfd is not None:
            poller.register(each.pidfd, select.POLLIN)
    if any(each.pidfd is None for each in targets):
        seconds = min(seconds, POLL_EVERY)
    done = {descriptor for descriptor, _ in poller.poll(seconds * 1000)}
    return [
        each for each in targets if (each.pidfd not in done if each.pidfd is not None else _lives(each.ident, proc))
    ]


def _lives(ident: Identity, proc: Path) -> bool:
    return identity_of(ident.pid, proc) == ident and state_of(ident.pid, proc) not in DEAD


def _describe(left: dict[Identity, str], proc: Path) -> str:
    told = [f"pid {ident.pid} ({_state(ident.pid, proc)}): {why}" for ident, why in list(left.items())[:NAMED]]
    more = [f"{len(left) - NAMED} more"] if len(left) > NAMED else []
    return "; ".join([*told, *more])


def _state(pid: int, proc: Path) -> str:
    """comm, state and wait channel of the thread that holds it up: one in D if there is one, else the main one."""
    threads = thread_states(pid, proc)
    if not threads:
        return "gone since"
    thread = next((each for each in threads if each.state == "D"), threads[0])
    return f"{thread.name}, state {thread.state}, wchan {thread.wchan or 'unknown'}"
