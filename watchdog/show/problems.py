"""What is wrong in a snapshot, in words for an operator. Pure: decides nothing about programs."""

from __future__ import annotations

from typing import Final

from watchdog.model.world import Phase
from watchdog.show.status import DaemonLine, ProgramLine, Snapshot, SupervisorLine

STALE_INTERVALS: Final = 3
"""A daemon that has not written for so many of its own writing intervals is dead or hung."""
WRITTEN_EVERY_TICKS: Final = 2
"""The daemon writes at every tick while something goes on, else at every second one."""
STALE_LEAST: Final = 5.0
"""Seconds: a loaded host may hold up a daemon with a very short interval for so long."""


def is_stale(found: Snapshot) -> bool:
    """The daemon should have written by now; with the default interval, half a minute."""
    every = WRITTEN_EVERY_TICKS * found["daemon"]["interval_s"]
    return found["age_s"] > max(STALE_INTERVALS * every, STALE_LEAST)


def problems(found: Snapshot, gone: bool = False) -> list[str]:
    """What is wrong, one sentence each, the worst first; empty: nothing. `status` exits 1 when there is one.

    `gone`: no process has the daemon's pid any more.
    """
    host = [*_last_word(found, gone), *_supervisor_problems(found["supervisor"]), *_daemon_problems(found["daemon"])]
    return host + [f"{line['program']}: {text}" for line in found["programs"] for text in program_problems(line)]


def _last_word(found: Snapshot, gone: bool) -> list[str]:
    silent = f"has not written for {found['age_s']:.0f} s"
    if gone:
        return [
            f"The daemon (pid {found['daemon']['pid']}) is gone and {silent}: nobody watches; this is its last word."
        ]
    if is_stale(found):
        return [f"The daemon {silent}: dead or hung; what you see is its last word."]
    return []


def _supervisor_problems(line: SupervisorLine) -> list[str]:
    if line["up"] is not False:
        return []
    return [f"supervisord does not answer at {line['url'] or 'any known address'}: {line['why']}"]


def _daemon_problems(line: DaemonLine) -> list[str]:
    found = []
    if line["capture_usable"] is False:
        found.append(f"Stacks cannot be read: {line['capture_why']}")
    if line["archive"]["writable"] is False:
        archive = line["archive"]
        found.append(
            f"The archive {archive['directory']} cannot be written: {archive['why']}. Nothing is stopped then."
        )
    return found


def program_problems(line: ProgramLine) -> list[str]:
    """What is wrong with one program, in words, without its name."""
    if line["mode"] is None:
        return []
    told = {flag: text for flag, text in _FLAG_PROBLEMS.items() if flag in line["flags"]}
    if "unkillable" in told:
        told.pop("start_owed", None)
    if line["phase"] == Phase.STOPPING and "start_owed" in told:
        told["start_owed"] = "being stopped by watchdog; its start is owed then"
    ours = "start_owed" in told or line["phase"] == Phase.VERIFYING
    if line["state"] in ("FATAL", "BACKOFF") and not ours:
        told["state"] = f"supervisord says {line['state']}"
    if line["verdict"] == "wedged" and not ours:
        told["verdict"] = f"wedged ({line['kind'] or 'no known kind'}), incident {line['incident']}"
    elif line["reported"]:
        told["verdict"] = f"wedged, says {', '.join(line['reported'])}; reported, not restarted (`watchdog incidents`)"
    return list(told.values())


_FLAG_PROBLEMS: Final = {
    "unkillable": "a process could not be killed; nothing else is tried until it dies",
    "start_owed": "stopped by watchdog, and its start is owed",
    "given_up": "given up: the rule's restarts are spent; `watchdog resume` tries again",
    "blind": "blind: none of its stall groups can fire; give it a log of its own, or progress",
}
