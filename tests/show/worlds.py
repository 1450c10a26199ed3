"""A small world whose every number is different, so that a mix-up shows."""

from __future__ import annotations

from dataclasses import replace

from watchdog.judge import clocks, detectors
from watchdog.model.evidence import Diagnosis
from watchdog.model.observation import ABSENT, Gauges, HostSample, Identity, Observation, ProcessInfo, ProcessSample
from watchdog.model.rule import CpuBelow, Group, Level, Policy, Rule, Ruleset, Unchanged
from watchdog.model.signature import Advice
from watchdog.model.vitals import Counts, Tally, Vitals
from watchdog.model.world import Host, Incident, Look, Phase, Program, Restarting, Transaction, World
from watchdog.show.status import ProgramLine, Snapshot, snapshot

NOW, WALL = 5000.0, 1_790_000_000.0

STALL = Rule(
    name="stall",
    summary="silent",
    when=(
        Group("all silent", (Unchanged("log", 270.0), Unchanged("progress", 240.0), CpuBelow(0.05, 60.0))),
        Group("no batch", (Unchanged("progress", 900.0),)),
    ),
)
RULESET = Ruleset(
    interval=5.0, policies=(Policy("gpu:*", Level.RESTART, (STALL,)), Policy("cpu:*", Level.REPORT, (STALL,)))
)

VITALS = Vitals(
    pid=4242,
    started_wall=WALL - 7200.0,
    ticks=1440,
    last_tick_wall=WALL - 1.5,
    tick_seconds=0.021,
    supervisor_url="unix:///run/some.sock",
    rpc_seconds=0.003,
    capture_usable=True,
    archive_directory="/var/lib/some/incidents",
    archive_bytes=777_777,
    archive_writable=True,
    metrics_listen="127.0.0.1:9877",
    totals={
        Tally("gpu:one", "stall", "recovered"): Counts(5, 4),
        Tally("gpu:one", "stall", "no_progress"): Counts(2, 2),
        Tally("cpu:two", "stall", "vetoed"): Counts(9, 0),
    },
)


def process(pid: int, ppid: int, cpu_s: float) -> ProcessSample:
    return ProcessSample(
        pid, pid + 90_000, ppid, f"comm{pid}", "S", cpu_s, 0.01, pid * 7, pid * 5, pid * 3, pid * 2, 8, 1024, 4
    )


def observed(program: str, pid: int, *, log: int | None = 100, progress: int | None = 7) -> Observation:
    return Observation(
        program=program,
        ident=Identity(pid, pid + 90_000),
        log=log,
        progress=progress,
        progress_count=46,
        progress_total=120,
        gauges=Gauges(pid * 1000, pid * 900, pid * 800, pid % 97, 0.25, 11, 3, 0.5),
        cpu_seconds=12.5,
        tree=(process(pid, 2, 10.0), process(pid + 1, pid, 2.5)),
    )


def looked(seen: Observation, policy: Policy | None, log_age: float, progress_age: float) -> Look:
    """A look whose heartbeats have these ages, run through the real detectors."""
    look = clocks.first_look(policy, seen, NOW - 1.0)
    look = look._replace(
        log=look.log._replace(age=log_age), progress=look.progress._replace(age=progress_age), looks=60, looked=300.0
    )
    return detectors.evaluate(policy, look)


def info(program: str, pid: int, state: str = "RUNNING") -> ProcessInfo:
    group, _, name = program.partition(":")
    return ProcessInfo(program, group, name, state, pid, 1_789_000_000 + pid, 0, f"/log/{name}.out", f"/log/{name}.err")


def incident(program: str, pid: int, verdict: str = "wedged") -> Incident:
    diagnosis = Diagnosis(
        verdict=verdict,  # type: ignore[arg-type]
        kind="dataloader-lost-batch",
        cause="inside",
        summary="One batch was lost.",
        advice=Advice("Restart it.", "Set a timeout."),
    )
    return Incident(
        id="20261130T030557Z-gpu-three-303",
        program=program,
        rule="stall",
        group="all silent",
        ident=Identity(pid, pid + 90_000),
        opened=NOW - 33.0,
        opened_wall=WALL - 33.0,
        diagnosis=diagnosis,
        waiting="the restart slot",
    )


def world() -> World:
    """gpu:one is well, cpu:two is blind, gpu:three is wedged and being judged, other:four is unwatched and stopped."""
    gpu, cpu = RULESET.policies
    programs = {
        "gpu:one": Program("gpu:one", since=NOW - 400.0, info=info("gpu:one", 101)),
        "cpu:two": Program("cpu:two", since=NOW - 500.0, info=info("cpu:two", 202)),
        "gpu:three": Program(
            "gpu:three", Phase.COLLECTING, NOW - 11.0, info=info("gpu:three", 303), incident=incident("gpu:three", 303)
        ),
        "other:four": Program("other:four", info=info("other:four", 0, "STOPPED")),
    }
    blind = observed("cpu:two", 202)._replace(log=ABSENT, progress=ABSENT, progress_count=None, progress_total=None)
    looks = {
        "gpu:one": looked(observed("gpu:one", 101), gpu, 27.0, 90.0),
        "cpu:two": looked(blind, cpu, 0.0, 0.0),
        "gpu:three": looked(observed("gpu:three", 303), gpu, 280.0, 920.0),
    }
    host = Host(
        boot_id="b",
        supervisor_up=True,
        supervisor_since=NOW - 60.0,
        sample=HostSample(64 << 30, 12 << 30, 32 << 30, 3 << 30),
    )
    return World(host, programs, looks)


def only(program: Program, look: Look | None = None) -> World:
    """A world of one program, beside a supervisord that answers."""
    return World(Host(supervisor_up=True), {program.name: program}, {program.name: look} if look else {})


def with_program(program: Program) -> World:
    """`world()` with one program replaced."""
    there = world()
    return replace(there, programs={**there.programs, program.name: program})


def taken(of: World | None = None) -> Snapshot:
    return snapshot(of if of is not None else world(), RULESET, VITALS, NOW, WALL)


def line(name: str, of: World | None = None) -> ProgramLine:
    return next(p for p in taken(of)["programs"] if p["program"] == name)


def restarting(step: str, outcome: str | None = None) -> Restarting:
    transaction = Transaction(
        incident="20261130T030557Z-gpu-three-303",
        program="gpu:one",
        rule="stall",
        group="all silent",
        ident=Identity(101, 90_101),
        boot_id="b",
        tree=(),
        step=step,  # type: ignore[arg-type]
        opened_wall=WALL - 40.0,
        started_at=1,
        stop_within=20.0,
        start_within=15.0,
        verify_within=150.0,
        cooldown=330.0,
    )
    return Restarting(transaction, began=NOW - 20.0, outcome=outcome)  # type: ignore[arg-type]
