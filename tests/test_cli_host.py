"""`check` and `observe` on a real supervisord with real workers, good ones and bad ones."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.show.worlds import NOW, RULESET, VITALS, world
from tests.supervisord import Supervisord
from watchdog.cli import main
from watchdog.model.observation import GAUGES
from watchdog.show.status import path_in, snapshot, write

WORKER = (
    "import ctypes, multiprocessing, sys, time\n"
    "ctypes.CDLL(None).prctl(0x59616d61, -1, 0, 0, 0)\n"  # PR_SET_PTRACER, PR_SET_PTRACER_ANY: py-spy may look, also under Yama
    "print('Batch 1', flush=True)\n"
    "time.sleep(600)\n"
)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisord]:
    worker = tmp_path_factory.mktemp("workers") / "worker.py"
    worker.write_text(WORKER)
    python = f"{sys.executable} -I {worker}"
    shared = tmp_path_factory.mktemp("logs") / "shared.log"
    programs: dict[str, dict[str, object]] = {
        "good": {"command": python, "startsecs": 0},
        "late": {"command": python, "startsecs": 95, "autostart": "false"},
        "twin": {"command": python, "startsecs": 0, "numprocs": 2, "stdout_logfile": shared, "redirect_stderr": "true"},
        "shell": {"command": "/bin/sleep 600", "startsecs": 0},
    }
    with Supervisord(programs) as running:
        for name in ("good:good", "twin:twin_00", "twin:twin_01", "shell:shell"):
            running.wait_for(name, "RUNNING")
        yield running


@pytest.fixture
def config(host: Supervisord, tmp_path: Path) -> Path:
    path = tmp_path / "watchdog.yaml"
    path.write_text(
        f"supervisor: {{url: '{host.url}'}}\n"
        "programs:\n"
        "  - match: 'good:*'\n"
        "  - {match: 'late:*', rules: [stall]}\n"
        "  - match: 'twin:*'\n"
        "  - match: 'shell:*'\n"
        "  - match: 'gone:*'\n"
        f"archive: {{directory: {tmp_path}/archive}}\n"
        f"state: {{directory: {tmp_path}/state}}\n"
        f"runtime: {{directory: {tmp_path}/runtime}}\n"
    )
    return path


def invoke(*args: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args])


def checked(config: Path) -> tuple[int, list[dict[str, str]]]:
    result = invoke("-c", config, "check", "--json")
    found: list[dict[str, str]] = json.loads(result.output)
    return result.exit_code, found


def graded(found: list[dict[str, str]], subject: str) -> list[tuple[str, str]]:
    return [(r["grade"], r["what"]) for r in found if r["subject"] == subject]


def test_check_tries_every_program(config: Path, host: Supervisord) -> None:
    code, found = checked(config)
    assert code == 1, "two programs are blind"
    assert [g for g, _ in graded(found, "good:good")] == ["ok", "ok", "ok"]
    assert f"stacks of pid {host.info('good:good').pid} can be read" in str(graded(found, "good:good"))
    for twin in ("twin:twin_00", "twin:twin_01"):
        assert {g for g, what in graded(found, twin) if "blind" in what} == {"fail"}
        assert {g for g, what in graded(found, twin) if "shared" in what} == {"warn"}
    assert "not Python" in str([what for g, what in graded(found, "shell:shell") if g == "warn"])
    assert [g for g, _ in graded(found, "gone:*")] == ["warn"]
    ((grade, what),) = graded(found, "supervisord")
    assert grade == "ok" and host.url in what and str(host.pid) in what
    assert all(r["todo"] for r in found if r["grade"] != "ok")


@pytest.mark.parametrize(("progress", "blind"), [("log: 'Batch'", True), ("file: '/nowhere/{process}.json'", False)])
def test_check_calls_a_program_with_a_shared_log_blind_as_the_daemon_does(
    config: Path, progress: str, blind: bool
) -> None:
    """A progress line is looked for in the log that it shares, so only a progress file helps."""
    text = config.read_text().replace("  - match: 'twin:*'", f"  - {{match: 'twin:*', progress: {{{progress}}}}}")
    config.write_text(text)
    _, found = checked(config)
    for twin in ("twin:twin_00", "twin:twin_01"):
        assert any("blind" in what for _, what in graded(found, twin)) is blind


@pytest.mark.parametrize(
    ("entry", "grade", "says"),
    [
        ("progress: {log: 'x'}, idle: 'No jobs'", "ok", "progress.log matches"),
        ("progress: {log: 'Betch'}, idle: 'No jobs'", "warn", "progress.log matches none of the last"),
        ("progress: {log: 'x'}, idle: 'Keine'", "warn", "idle matches none of the last"),
        ("progress: {log: 'x'}", "warn", "nothing says whether it has work"),
    ],
)
def test_check_tries_the_patterns_on_what_the_program_wrote(
    config: Path, tmp_path: Path, entry: str, grade: str, says: str
) -> None:
    log = tmp_path / "good.log"
    log.write_text("Batch x 1\nBatch x 2\nNo jobs found\n")
    entry = f"{{match: 'good:*', logs: ['{log}'], {entry}}}"
    config.write_text(config.read_text().replace("  - match: 'good:*'", f"  - {entry}"))
    _, found = checked(config)
    assert grade in [g for g, what in graded(found, "good:good") if says in what]


def with_progress_file(config: Path, path: Path) -> list[tuple[str, str]]:
    """What `check` says of good:good's progress file."""
    text = config.read_text().replace("  - match: 'good:*'", f"  - {{match: 'good:*', progress: {{file: '{path}'}}}}")
    config.write_text(text)
    _, found = checked(config)
    return [(grade, what) for grade, what in graded(found, "good:good") if "progress" in what]


@pytest.mark.parametrize(
    ("content", "grade", "says"),
    [
        (b'{"count": 3, "total": 9}', "ok", "can be read"),
        (b"anything that changes", "ok", "can be read"),
        (b'{"count": 3', "fail", "torn"),
        (b"", "fail", "empty"),
        (b"\x00\x01", "fail", "binary"),
        (b" " * ((1 << 20) + 1), "fail", "larger than 1 MiB"),
        (b'{"count": "three"}', "warn", "cannot be understood"),
    ],
)
def test_check_reads_the_progress_file(config: Path, tmp_path: Path, content: bytes, grade: str, says: str) -> None:
    (tmp_path / "good.json").write_bytes(content)
    ((found, what),) = with_progress_file(config, tmp_path / "{process}.json")
    assert (found, says in what) == (grade, True)


def test_check_tells_a_progress_file_that_is_none_missing_or_older_than_the_process(
    config: Path, tmp_path: Path
) -> None:
    original = config.read_text()
    os.mkfifo(tmp_path / "fifo")
    ((grade, what),) = with_progress_file(config, tmp_path / "fifo")
    assert grade == "fail" and "is a directory, FIFO" in what
    config.write_text(original)
    ((grade, what),) = with_progress_file(config, tmp_path / "missing")
    assert grade == "warn" and "is not there" in what
    config.write_text(original)
    (tmp_path / "old").write_text('{"count": 3}')
    os.utime(tmp_path / "old", (1.0, 1.0))
    ((grade, what),) = with_progress_file(config, tmp_path / "old")
    assert grade == "warn" and "before this process began" in what


def test_check_tries_the_metrics_address(config: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config.write_text(config.read_text() + f"metrics: {{listen: '127.0.0.1:{port}'}}\n")
        code, found = checked(config)
        ((grade, what),) = graded(found, "metrics")
        assert code == 1 and grade == "fail" and f"127.0.0.1:{port}" in what
        vitals = replace(VITALS, pid=os.getpid(), metrics_listen=f"127.0.0.1:{port}")
        (tmp_path / "runtime").mkdir()
        write(path_in(tmp_path / "runtime"), snapshot(world(), RULESET, vitals, NOW, time.time()))
        ((grade, what),) = graded(checked(config)[1], "metrics")
        assert grade == "ok" and f"served by the daemon (pid {os.getpid()})" in what
        vitals = replace(vitals, metrics_listen=None)
        write(path_in(tmp_path / "runtime"), snapshot(world(), RULESET, vitals, NOW, time.time()))
        assert graded(checked(config)[1], "metrics")[0][0] == "fail", "our daemon lives, and somebody else has the port"
    ((grade, what),) = graded(checked(config)[1], "metrics")
    assert grade == "ok" and "can be listened on" in what


def test_check_of_metrics_that_are_off_or_nowhere(config: Path) -> None:
    text = config.read_text()
    config.write_text(text + "metrics: off\n")
    assert graded(checked(config)[1], "metrics") == [("ok", "off, as configured")]
    config.write_text(text + "metrics: {listen: '192.0.2.1:9877'}\n")  # TEST-NET-1: no host has it
    assert graded(checked(config)[1], "metrics")[0][0] == "fail"


def test_check_reckons_with_startsecs(config: Path) -> None:
    _, found = checked(config)
    (late,) = [what for g, what in graded(found, "late:late") if g == "warn"]
    assert "615 s" in late and "600 s" in late
    assert not [what for _, what in graded(found, "good:good") if "600 s" in what]


def test_check_says_what_it_tries_for_people(config: Path) -> None:
    result = invoke("-c", config, "check")
    assert result.exit_code == 1
    assert "\nok    good:good: log " in result.output
    assert "\nfail  twin:twin_00: blind" in result.output
    assert "\x1b" not in result.output


def test_check_names_a_log_that_is_none(config: Path, host: Supervisord, tmp_path: Path) -> None:
    fifo, missing = tmp_path / "fifo", tmp_path / "missing.log"
    os.mkfifo(fifo)
    text = config.read_text().replace("match: 'good:*'", f"{{match: 'good:*', logs: [{fifo}, {missing}, {tmp_path}]}}")
    config.write_text(text)
    _, found = checked(config)
    failed = [what for g, what in graded(found, "good:good") if g == "fail"]
    assert len(failed) == 3
    assert all(str(path) in str(failed) for path in (fifo, missing, tmp_path))


def test_check_of_an_archive_that_cannot_be_written(config: Path, tmp_path: Path) -> None:
    config.write_text(config.read_text().replace(f"{tmp_path}/archive", "/proc/archive"))
    code, found = checked(config)
    assert code == 1
    assert [g for g, _ in graded(found, "archive")] == ["fail"]


def test_check_goes_on_where_the_archive_may_not_be_entered(
    config: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Path.is_dir raises PermissionError below a directory that may not be entered; root may enter any."""
    really = os.stat

    def refuse(path: str | os.PathLike[str], *args: object, **options: object) -> os.stat_result:
        if str(path).startswith(f"{tmp_path}/archive"):
            raise PermissionError(13, "Permission denied", str(path))
        return really(path, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", refuse)
    _, found = checked(config)
    assert graded(found, "supervisord"), "the other checks are made"


def test_check_of_an_archive_that_is_a_file(config: Path, tmp_path: Path) -> None:
    (tmp_path / "archive").write_text("in the way")
    code, found = checked(config)
    assert code == 1
    assert [g for g, _ in graded(found, "archive")] == ["fail"]


def test_check_of_a_frozen_supervisord_exits_3(config: Path, host: Supervisord) -> None:
    config.write_text(config.read_text().replace(f"{{url: '{host.url}'}}", f"{{url: '{host.url}', timeout: 300ms}}"))
    host.freeze()
    try:
        code, found = checked(config)
        result = invoke("-c", config, "observe")
    finally:
        host.thaw()
    assert code == 3
    assert [g for g, _ in graded(found, "supervisord")] == ["fail"]
    assert result.exit_code == 3 and "kill -CONT" in result.stderr


def observed(*args: object) -> Any:
    result = invoke(*args, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.output)


def test_observe_lists_every_program(config: Path, host: Supervisord) -> None:
    found = {one["program"]: one for one in observed("-c", config, "observe")}
    assert sorted(found) == ["good:good", "late:late", "shell:shell", "twin:twin_00", "twin:twin_01"]
    assert {name: one["pid"] for name, one in found.items() if one["pid"]} == {
        name: host.info(name).pid for name in found if name != "late:late"
    }
    assert found["late:late"]["rss"] is None and found["late:late"]["tree"] == []
    assert found["twin:twin_00"]["log"] == "absent" and found["good:good"]["log"] == 0
    assert "shared" in str(found["twin:twin_00"]["troubles"])


def test_observe_one_program_is_one_object_with_gauges_by_name(config: Path, host: Supervisord) -> None:
    one = observed("-c", config, "observe", "good:good")
    assert set(GAUGES) <= one.keys() and set(GAUGES) <= one["tree"][0].keys()
    assert one["rss"] > 1 << 20 and one["cpu"] is not None and one["processes"] == 1


def test_observe_of_an_unknown_program_exits_2_and_names_the_nearest(config: Path) -> None:
    result = invoke("-c", config, "observe", "good:god")
    assert result.exit_code == 2 and "good:good" in result.stderr


def test_observe_any_tree_needs_no_supervisord() -> None:
    code = "import subprocess, sys; c = subprocess.Popen(['sleep', '60']); print(c.pid, flush=True); sys.stdin.read(); c.kill()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        child = int(parent.stdout.readline())
        found = observed("observe", "--pid", parent.pid)
        told = invoke("observe", "--pid", parent.pid).output
        parent.stdin.close()
    assert [p["pid"] for p in found["tree"]] == [parent.pid, child]
    assert found["processes"] == 2
    assert len(told.splitlines()) == 4 and "  sleep S" in told


def test_observe_of_no_process_exits_3() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(30)
    result = invoke("observe", "--pid", process.pid)
    assert result.exit_code == 3 and str(process.pid) in result.stderr


def test_observe_wants_one_of_both() -> None:
    assert invoke("observe", "good:good", "--pid", 1).exit_code == 2
