"""One Observation of one program: real processes, real files; a recorded /proc for reuse of pids."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.recorded import record, stat_line
from watchdog.look.observe import Looker
from watchdog.model.observation import ABSENT, NO_GAUGES, Identity, MatchKey, ProcessInfo
from watchdog.model.rule import Group, Idle, Matches, Policy, Progress, Rule, Ruleset
from watchdog.procfs import Procfs, identity_of, walk

LOST = MatchKey("stderr", "lost")
RULE = Rule("stall", "", (Group("marked", (Matches("stderr", "lost", 600.0),)),))
WORKER = """
import os, sys, time
if os.fork() == 0:
    time.sleep(600)
print('ready', flush=True)
time.sleep(600)
"""


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", WORKER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    for sample in reversed(walk(process.pid)):
        os.kill(sample.pid, signal.SIGKILL)
    process.communicate()


@pytest.fixture
def looker() -> Iterator[Looker]:
    looker = Looker(Procfs())
    yield looker
    looker.close()


def program(directory: Path, pid: int, *, process: str = "prc", started_at: int = 1_000) -> ProcessInfo:
    out, err = str(directory / f"{process}.out"), str(directory / f"{process}.err")
    for path in (out, err):
        Path(path).touch()
    return ProcessInfo(f"grp:{process}", "grp", process, "RUNNING", pid, started_at, 0, out, err)


def policy(directory: Path) -> Policy:
    progress = Progress(log=r"Batch (?P<count>\d+)", file=str(directory / "{process}.json"))
    return Policy("grp:*", rules=(RULE,), progress=progress, idle=Idle("No jobs"))


def watch(looker: Looker, *infos: ProcessInfo, policy: Policy) -> None:
    looker.set_programs({info.program: info for info in infos}, Ruleset(policies=(policy,)))


def add(path: str, text: str) -> None:
    with open(path, "a") as file:
        file.write(text)


def test_an_observation_of_a_working_program(looker: Looker, worker: subprocess.Popen[str], tmp_path: Path) -> None:
    info, rules = program(tmp_path, worker.pid), policy(tmp_path)
    watch(looker, info, policy=rules)
    first = looker.look(rules, info, 100.0)
    assert (first.program, first.ident) == ("grp:prc", identity_of(worker.pid))
    assert (first.log, first.progress, first.matches) == (0, 0, {LOST: 0})
    assert (first.gauges.processes, first.gauges.cpu, first.tree[0].pid) == (2, None, worker.pid)
    add(info.stdout_logfile, "Batch 7\nNo jobs\n")
    add(info.stderr_logfile, "lost\n")
    (tmp_path / "prc.json").write_text(json.dumps({"total": 9, "state": "working", "in_flight": 2, "phase": "load"}))
    second = looker.look(rules, info, 105.0)
    assert (second.log, second.progress, second.matches) == (21, 2, {LOST: 1})
    assert (second.progress_count, second.progress_total, second.in_flight) == (7, 9, 2)
    assert (second.says, second.phase, second.idle_line, second.progress_after_idle) == ("working", "load", True, False)
    assert second.gauges.cpu is not None
    assert second.cpu_seconds is not None
    assert second.troubles == ()
    assert looker.main_gone() is False


def test_an_unwatched_program_has_gauges_only(looker: Looker, worker: subprocess.Popen[str], tmp_path: Path) -> None:
    info = program(tmp_path, worker.pid)
    watch(looker, info, policy=Policy("other"))
    seen = looker.look(None, info, 1.0)
    assert (seen.log, seen.progress, seen.matches) == (ABSENT, ABSENT, {})
    assert seen.gauges.processes == 2


def test_a_main_process_that_ends_is_gone_at_the_next_look(
    looker: Looker, worker: subprocess.Popen[str], tmp_path: Path
) -> None:
    info, rules = program(tmp_path, worker.pid), policy(tmp_path)
    child = walk(worker.pid)[1].pid
    looker.look(rules, info, 1.0)
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    try:
        seen = looker.look(rules, info, 2.0)
        assert (seen.ident, seen.tree, seen.gauges, seen.cpu_seconds) == (None, (), NO_GAUGES, None)
        assert looker.main_gone() is True
        assert looker.main_gone() is False
        looker.look(rules, info, 3.0)
        assert looker.main_gone() is False, "said once"
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_program_that_does_not_run(looker: Looker, tmp_path: Path) -> None:
    info, rules = program(tmp_path, 0)._replace(state="STOPPED"), policy(tmp_path)
    watch(looker, info, policy=rules)
    seen = looker.look(rules, info, 1.0)
    assert (seen.ident, seen.tree, seen.progress) == (None, (), None)
    assert looker.main_gone() is False


def test_nothing_learnt_of_a_process_survives_it(tmp_path: Path) -> None:
    proc = tmp_path / "proc"
    record(proc, 9, start=500)
    record(proc, 13, start=800)
    looker = Looker(Procfs(proc))
    info, rules = program(tmp_path, 9), policy(tmp_path)
    watch(looker, info, policy=rules)
    looker.look(rules, info, 1.0)
    add(info.stdout_logfile, "Batch 7\n")
    add(info.stderr_logfile, "lost\n")
    (tmp_path / "prc.json").write_text("7")
    assert looker.look(rules, info, 6.0).progress == 2
    restarted = info._replace(pid=13, started_at=1_010)
    fresh = looker.look(rules, restarted, 11.0)
    assert fresh.ident == Identity(13, 800)
    assert (fresh.progress, fresh.progress_count, fresh.matches) == (0, None, {LOST: 0})
    assert fresh.gauges.cpu is None
    looker.close()


def test_a_reused_pid_is_not_the_process_that_was_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there were no descriptors to keep, only the start time tells."""
    monkeypatch.setattr("watchdog.procfile.RESERVED", 1 << 40)
    proc = tmp_path / "proc"
    directory = record(proc, 9, start=500)
    looker = Looker(Procfs(proc))
    info = program(tmp_path, 9)
    assert looker.look(None, info, 1.0).ident == Identity(9, 500)
    (directory / "stat").write_bytes(stat_line(9, start=900))
    assert looker.look(None, info, 2.0).ident is None
    assert looker.main_gone() is True
    assert looker.look(None, info, 3.0).ident is None, "supervisord has named no other process"
    assert looker.look(None, info._replace(started_at=1_020), 4.0).ident == Identity(9, 900)
    looker.close()


def test_a_shared_log_is_absent_for_both_but_a_progress_file_counts(
    looker: Looker, worker: subprocess.Popen[str], tmp_path: Path
) -> None:
    info, rules = program(tmp_path, worker.pid), policy(tmp_path)
    other = program(tmp_path, 0, process="second")._replace(stdout_logfile=info.stdout_logfile)
    watch(looker, info, other, policy=rules)
    looker.look(rules, info, 1.0)
    add(info.stdout_logfile, "Batch 1\n")
    (tmp_path / "prc.json").write_text("1")
    seen = looker.look(rules, info, 2.0)
    assert (seen.log, seen.progress, seen.progress_count, seen.idle_line) == (ABSENT, 1, None, None)
    assert seen.matches == {LOST: ABSENT}
    assert "grp:second" in seen.troubles[0]
    assert looker.look(rules, other, 2.0).log is ABSENT


def test_a_log_that_is_no_longer_shared_is_a_heartbeat_again(
    looker: Looker, worker: subprocess.Popen[str], tmp_path: Path
) -> None:
    info, rules = program(tmp_path, worker.pid), policy(tmp_path)
    other = program(tmp_path, 0, process="second")._replace(stdout_logfile=info.stdout_logfile)
    watch(looker, info, other, policy=rules)
    assert looker.look(rules, info, 1.0).log is ABSENT
    watch(looker, info, policy=rules)
    assert looker.look(rules, info, 2.0).log == 0


def test_progress_is_unknown_while_its_file_is(looker: Looker, worker: subprocess.Popen[str], tmp_path: Path) -> None:
    info, rules = program(tmp_path, worker.pid), policy(tmp_path)
    (tmp_path / "prc.json").write_text("{")
    watch(looker, info, policy=rules)
    seen = looker.look(rules, info, 1.0)
    assert (seen.log, seen.progress) == (0, None)
    assert len(seen.troubles) == 1


def test_a_reload_takes_effect_at_the_next_look(looker: Looker, worker: subprocess.Popen[str], tmp_path: Path) -> None:
    info, rules = program(tmp_path, worker.pid), policy(tmp_path)
    watch(looker, info, policy=rules)
    looker.look(rules, info, 1.0)
    other = Policy("grp:*", progress=Progress(log="Step"))
    watch(looker, info, policy=other)
    looker.look(other, info, 2.0)
    add(info.stdout_logfile, "Batch 1\nStep 1\n")
    seen = looker.look(other, info, 3.0)
    assert (seen.progress, seen.matches, seen.log) == (1, {}, 15)


def test_processes_that_cannot_be_read_are_unknown_not_gone(
    looker: Looker, worker: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = program(tmp_path, worker.pid)

    def no_descriptors(*_: object) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr("watchdog.look.observe.identity_of", no_descriptors)
        assert "Too many open files" in looker.look(None, info, 1.0).troubles[0]
    ident = looker.look(None, info, 2.0).ident
    assert ident is not None
    with monkeypatch.context() as patched:
        patched.setattr(Procfs, "tree", no_descriptors)
        seen = looker.look(None, info, 3.0)
    assert (seen.ident, seen.tree, seen.gauges) == (ident, (), NO_GAUGES)
    assert looker.main_gone() is False
    assert looker.look(None, info, 4.0).gauges.processes == 2


def test_programs_that_vanish_are_forgotten(looker: Looker, worker: subprocess.Popen[str], tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    info, rules = program(tmp_path, worker.pid), policy(tmp_path)
    watch(looker, info, policy=rules)
    looker.look(rules, info, 1.0)
    assert len(os.listdir("/proc/self/fd")) == before + 8, "three for each process, one for each log"
    looker.set_programs({}, Ruleset())
    assert len(os.listdir("/proc/self/fd")) == before
    looker.forget("grp:never")


def test_any_process_tree_without_a_supervisor(looker: Looker, worker: subprocess.Popen[str]) -> None:
    first = looker.look_at_process(worker.pid, time.monotonic())
    second = looker.look_at_process(worker.pid, time.monotonic() + 1)
    assert first is not None
    assert second is not None
    assert (first.gauges.cpu, second.gauges.processes) == (None, 2)
    assert second.gauges.cpu is not None
    assert looker.look_at_process(2**22 + 1, 1.0) is None


def test_a_tick_starts_no_process(
    looker: Looker, worker: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info, rules = program(tmp_path, worker.pid), policy(tmp_path)
    watch(looker, info, policy=rules)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a process was started in a tick")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    for at in (1.0, 2.0):
        add(info.stdout_logfile, "Batch\n")
        assert looker.look(rules, info, at).gauges.processes == 2
