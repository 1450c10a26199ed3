"""The daemon's last word on everything, as `watchdog status --json` prints it: made, written, read back.

May read and write the one file it is told. Decides nothing; problems.py says what is wrong in it, screen.py draws it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final, NamedTuple, TypedDict, cast

from watchdog import __version__
from watchdog.judge.verify import owes_start
from watchdog.model.observation import ABSENT
from watchdog.model.rule import Ruleset
from watchdog.model.vitals import Vitals
from watchdog.model.world import Clock, Host, Look, Phase, Program, World
from watchdog.show.distance import rule_states

FORMAT: Final = 1


class HeartbeatAge(TypedDict):
    age_s: float | None
    """Looked-at seconds since it changed; None: unknown."""


class ProgressAge(HeartbeatAge):
    count: int | None
    total: int | None


class Heartbeats(TypedDict):
    """None: the program does not have this heartbeat."""

    log: HeartbeatAge | None
    progress: ProgressAge | None


class RuleLine(TypedDict):
    rule: str
    firing: bool
    group: str | None
    ratio: float | None
    holds_back: str


class ProgramLine(TypedDict):
    """Bytes, counts, cores, seconds; None is "not known"."""

    program: str
    phase: str
    since_s: float
    flags: list[str]
    mode: str | None
    """None: unwatched."""
    state: str | None
    """supervisord's word; None: it does not know the program."""
    pid: int | None
    heartbeats: Heartbeats
    rss: int | None
    shmem: int | None
    fds: int | None
    fds_ratio: float | None
    processes: int | None
    cpu: float | None
    restarts: int
    """That ended, since the journal began."""
    rules: list[RuleLine]
    incident: str | None
    verdict: str | None
    kind: str | None
    waiting: str
    reported: list[str]
    """Rules whose stall was reported as wedged in this process, and nothing was done about it."""
    paused_until: float | None
    troubles: list[str]


class SupervisorLine(TypedDict):
    up: bool | None
    url: str | None
    why: str
    since: float
    """Wall-clock seconds since the epoch."""


class ArchiveLine(TypedDict):
    directory: str
    bytes: int | None
    writable: bool | None
    why: str


class DaemonLine(TypedDict):
    pid: int
    version: str
    started_at: float
    ticks: int
    last_tick_at: float | None
    tick_s: float | None
    interval_s: float
    rpc_s: float | None
    capture_usable: bool | None
    capture_why: str
    archive: ArchiveLine


class HostLine(TypedDict):
    mem_total: int | None
    mem_available: int | None
    shm_total: int | None
    shm_used: int | None


class Snapshot(TypedDict):
    version: int
    at: float
    """Wall-clock seconds since the epoch."""
    age_s: float
    metrics: str | None
    """host:port; None: off."""
    supervisor: SupervisorLine
    daemon: DaemonLine
    host: HostLine
    programs: list[ProgramLine]


class Unreadable(NamedTuple):
    """No snapshot could be had: what happened, and what to do."""

    what: str
    hint: str

    def __str__(self) -> str:
        return f"{self.what}\n{self.hint}"


def path_in(runtime: Path) -> Path:
    """Where the snapshot lies in the runtime directory."""
    return runtime / "status.json"


def snapshot(world: World, ruleset: Ruleset, vitals: Vitals, now: float, wall: float) -> Snapshot:
    """Everything an operator asks for, at monotonic time `now` and wall-clock time `wall`. About 30 us a program."""
    restarts = _restarts(vitals)
    return {
        "version": FORMAT,
        "at": wall,
        "age_s": 0.0,
        "metrics": vitals.metrics_listen,
        "supervisor": {
            "up": world.host.supervisor_up,
            "url": vitals.supervisor_url,
            "why": world.host.supervisor_why,
            "since": wall - (now - world.host.supervisor_since),
        },
        "daemon": _daemon(vitals, ruleset),
        "host": _host(world.host),
        "programs": [
            _program(program, world.looks.get(name), ruleset, restarts.get(name, 0), now, wall)
            for name, program in sorted(world.programs.items())
        ],
    }


def _restarts(vitals: Vitals) -> dict[str, int]:
    total: dict[str, int] = {}
    for tally, counts in vitals.totals.items():
        total[tally.program] = total.get(tally.program, 0) + counts.restarts
    return total


def _daemon(vitals: Vitals, ruleset: Ruleset) -> DaemonLine:
    return {
        "pid": vitals.pid,
        "version": __version__,
        "started_at": vitals.started_wall,
        "ticks": vitals.ticks,
        "last_tick_at": vitals.last_tick_wall,
        "tick_s": vitals.tick_seconds,
        "interval_s": ruleset.interval,
        "rpc_s": vitals.rpc_seconds,
        "capture_usable": vitals.capture_usable,
        "capture_why": vitals.capture_why,
        "archive": {
            "directory": vitals.archive_directory,
            "bytes": vitals.archive_bytes,
            "writable": vitals.archive_writable,
            "why": vitals.archive_why,
        },
    }


def _host(host: Host) -> HostLine:
    sample = host.sample
    if sample is None:
        return {"mem_total": None, "mem_available": None, "shm_total": None, "shm_used": None}
    return {
        "mem_total": sample.mem_total,
        "mem_available": sample.mem_available,
        "shm_total": sample.shm_total,
        "shm_used": sample.shm_used,
    }


def _program(
    program: Program, look: Look | None, ruleset: Ruleset, restarts: int, now: float, wall: float
) -> ProgramLine:
    policy = ruleset.policy_for(program.name)
    incident = program.incident or next(reversed(program.vetoed), None)
    diagnosis = incident.diagnosis if incident else None
    gauges = look.observation.gauges if look else None
    return {
        "program": program.name,
        "phase": program.phase.value,
        "since_s": max(0.0, now - program.since),
        "flags": flags(program, look, policy is not None, wall),
        "mode": str(policy.mode) if policy else None,
        "state": program.info.state if program.info else None,
        "pid": (program.info.pid or None) if program.info else None,
        "heartbeats": _heartbeats(look),
        "rss": gauges.rss if gauges else None,
        "shmem": gauges.shmem if gauges else None,
        "fds": gauges.fds if gauges else None,
        "fds_ratio": gauges.fds_ratio if gauges else None,
        "processes": gauges.processes if gauges else None,
        "cpu": gauges.cpu if gauges else None,
        "restarts": restarts,
        "rules": [cast(RuleLine, state._asdict()) for state in rule_states(policy, look)] if policy and look else [],
        "incident": incident.id if incident else None,
        "verdict": diagnosis.verdict if diagnosis else None,
        "kind": diagnosis.kind if diagnosis else None,
        "waiting": incident.waiting if incident else "",
        "reported": list(program.reported),
        "paused_until": program.paused_until_wall,
        "troubles": list(program.troubles),
    }


def flags(program: Program, look: Look | None, watched: bool, wall: float) -> list[str]:
    """What is true of a program beside its phase."""
    restarting = program.restarting
    told = {
        "unwatched": not watched,
        "paused": program.paused_until_wall is not None and program.paused_until_wall > wall,
        "not_running": program.info is None or program.info.state != "RUNNING",
        "blind": look is not None and look.blind,
        "start_owed": owes_start(program),  # not in VERIFYING: there it runs again
        "unkillable": restarting is not None and restarting.outcome == "unkillable",
        "given_up": program.phase is Phase.GIVEN_UP,
    }
    return [flag for flag, true in told.items() if true]


def _heartbeats(look: Look | None) -> Heartbeats:
    if look is None:
        return {"log": None, "progress": None}
    seen = look.observation
    progress = None
    if look.progress.value is not ABSENT:
        progress = ProgressAge(age_s=age(look.progress), count=seen.progress_count, total=seen.progress_total)
    return {"log": None if look.log.value is ABSENT else {"age_s": age(look.log)}, "progress": progress}


def age(clock: Clock) -> float | None:
    """Looked-at seconds since the heartbeat changed; None: absent, or unknown now."""
    if clock.value is None or clock.value is ABSENT or clock.unknown > 0:
        return None
    return clock.age


def write(path: Path, snapshot: Snapshot) -> None:
    """Replace `path` at once, mode 0640. It is news, not evidence: no fsync. Raises OSError, and then leaves no temporary file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    text = json.dumps(
        snapshot, separators=(",", ":"), allow_nan=False
    )  # json.dump encodes in Python, four times as slow
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, 0o640)  # whatever the umask: `status` is for the file's group, too
            file.write(text)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def read(path: Path, wall: float) -> Snapshot | Unreadable:
    """The snapshot at `path`, its age reckoned at wall-clock time `wall`, and never negative when the clock was set back."""
    try:
        loaded = json.loads(path.read_bytes())
    except FileNotFoundError:
        return Unreadable(f"No status at {path}: no daemon has written there.", _NOT_RUNNING)
    except PermissionError:
        return Unreadable(f"Not permitted to read {path}.", "Try again as root, or as a member of the file's group.")
    except OSError as error:
        return Unreadable(f"Cannot read {path}: {error.strerror}.", _NOT_RUNNING)
    except (ValueError, RecursionError):
        return Unreadable(f"{path} is not a status: it is no JSON.", _NOT_OURS)
    if not isinstance(loaded, dict) or loaded.get("version") != FORMAT:
        return Unreadable(f"{path} is not a status that this version understands.", _NOT_OURS)
    found = cast(Snapshot, loaded)
    found["age_s"] = max(0.0, wall - found["at"])
    return found


_NOT_RUNNING: Final = (
    "Is `watchdog run` up, and with the same configuration (-c)? See `systemctl status worker-watchdog`."
)
_NOT_OURS: Final = "Start the daemon with this version of watchdog: it will be written anew."
