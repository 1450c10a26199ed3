"""The command as a user meets it: help, exit codes, plain output, and errors that say what to do."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
from click.testing import CliRunner, Result

from tests.show.worlds import NOW, RULESET, VITALS, info, only, restarting, world
from watchdog import __version__, resources
from watchdog.cli import COMMANDS, main
from watchdog.cli.begin import table_width
from watchdog.cli.demo import _socket_folder
from watchdog.journal import Journal
from watchdog.model.record import IncidentRecord
from watchdog.model.world import Host, Phase, Program, World
from watchdog.show import status as snapshots

DUMP = """\
Process 101: /usr/bin/python3 worker.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 101 (idle): "MainThread"
    accept (socket.py:294)
    serve (worker.py:12)
"""

OLDER = IncidentRecord(
    id="20261129T000000Z-cpu-two-202",
    program="cpu:two",
    opened_at=1_790_000_000.0,
    rule="stall",
    group="g",
    outcome="vetoed",
)
NEWER = IncidentRecord(
    id="20261130T030557Z-gpu-one-101",
    program="gpu:one",
    opened_at=1_790_090_000.0,
    rule="stall",
    group="all silent",
    verdict="wedged",
    kind="dataloader-lost-batch",
    action="restart",
    outcome="recovered",
    seconds={"detected": 270.0},
    bundle="/archive/20261130T030557Z-gpu-one-101.tar.gz",
    detail="as it should",
)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration whose directories are this test's own, and no supervisord where it says."""
    path = tmp_path / "watchdog.yaml"
    path.write_text(
        f"supervisor: {{url: 'unix://{tmp_path}/nobody.sock', timeout: 1s}}\n"
        f"archive: {{directory: {tmp_path}/archive}}\n"
        f"state: {{directory: {tmp_path}/state}}\n"
        f"runtime: {{directory: {tmp_path}/runtime}}\n"
    )
    (tmp_path / "runtime").mkdir()
    return path


def invoke(*args: str | Path, stdin: bytes | None = None, **env: str) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args], input=stdin, env=env)


def run(*args: str | Path, env: Mapping[str, str] = MappingProxyType({})) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "watchdog", *map(str, args)]
    return subprocess.run(command, capture_output=True, timeout=60, env={**os.environ, **env}, check=False)


def write_snapshot(config: Path, of: World | None = None, age_s: float = 0.0, pid: int | None = None) -> None:
    told = snapshots.snapshot(of if of is not None else world(), RULESET, VITALS, NOW, time.time() - age_s)
    told["daemon"]["pid"] = os.getpid() if pid is None else pid
    snapshots.write(snapshots.path_in(config.parent / "runtime"), told)


def write_journal(config: Path) -> None:
    Journal(config.parent / "state").append([OLDER, NEWER])


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_has_an_example(command: str) -> None:
    result = invoke(command, "--help")
    assert result.exit_code == 0
    usage, _, rest = result.output.partition("\n")
    assert usage.startswith("Usage: ") and f"watchdog {command}" in rest


def test_the_list_names_every_command_and_the_exit_codes() -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    assert all(f"\n  {name} " in result.output for name in COMMANDS)
    assert "3 cannot reach or not permitted" in result.output


def test_version_is_the_distributions() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout.decode().split()[-1], done.stderr) == (0, __version__, b"")


@pytest.mark.parametrize(("columns", "width"), [(None, 10_000), ("60", 60)])
def test_a_table_is_cut_for_a_terminal_only(columns: str | None, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    assert table_width() == width


def test_the_list_and_status_import_nothing_heavy(config: Path) -> None:
    write_snapshot(config)
    heavy = {
        "psutil",
        "rich",
        "prometheus_client",
        "xmlrpc.client",
        "watchdog.daemon",
        "watchdog.journal",
    }
    code = f"""
import sys
from watchdog.cli import main
from watchdog.cli.begin import table_width
for args in (["--help"], ["-c", {str(config)!r}, "status"]):
    try:
        main(args)
    except SystemExit:
        pass
print(sorted({heavy!r} & sys.modules.keys()), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)
    assert done.stderr.decode().strip() == "[]"


@pytest.mark.parametrize(
    "words",
    [
        "nonsense",
        "status --nonsense",
        "pause gpu:one",
        "pause gpu:one --for 20",
        "pause gpu:one --for 90d",
        "diagnose",
        "incidents show",
    ],
)
def test_usage_errors_exit_2(words: str) -> None:
    assert invoke(*words.split()).exit_code == 2


@pytest.mark.parametrize("args", [["status"], ["incidents"], ["check"], ["collect", "gpu:one"], ["diagnose", "-"]])
def test_a_broken_configuration_exits_2_with_every_error(tmp_path: Path, args: list[str]) -> None:
    broken = tmp_path / "watchdog.yaml"
    broken.write_text("interval: 5\nmodee: report\n")
    result = invoke("-c", broken, *args)
    assert result.exit_code == 2
    assert "interval" in result.stderr and "modee" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("args", [["status"], ["incidents"], ["check"], ["diagnose", "-"]])
def test_an_incomplete_installation_exits_2_and_says_what_to_do(
    config: Path, args: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "rules_directory", lambda: resources.find_directory("rules", config.parent))
    result = invoke("-c", config, *args)
    assert result.exit_code == 2
    assert "Install it again" in result.stderr and result.stdout == ""


def test_the_demo_in_an_incomplete_installation_exits_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "rules_directory", lambda: resources.find_directory("rules", tmp_path))
    result = invoke("demo", "--keep", tmp_path / "kept")
    assert result.exit_code == 3
    assert "Install it again" in result.stderr


@pytest.mark.parametrize("length", [60, 74, 75, 90, 107])
def test_the_demos_socket_has_a_path_that_supervisord_can_bind(
    length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the longest pid, which supervisord appends while it binds."""
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        folder = Path(short, "x" * (length - len(short) - 1))
        folder.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        with _socket_folder() as near, socket.socket(socket.AF_UNIX) as bound:
            bound.bind(f"{near}/s.sock.4194304")
            assert near.is_relative_to(folder) is (length < 75)


def test_the_configuration_can_come_from_the_environment(config: Path) -> None:
    write_journal(config)
    assert json.loads(invoke("incidents", "--json", WATCHDOG_CONFIG=str(config)).output)[0]["id"] == NEWER.id


def test_status_without_a_daemon_exits_3_and_says_what_to_do(config: Path) -> None:
    done = run("-c", config, "status")
    assert done.returncode == 3
    assert b"watchdog run" in done.stderr and b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("phase", "step", "code"),
    [(Phase.VERIFYING, "started", 0), (Phase.STARTING, "owed", 1), (Phase.STOPPING, "intent", 1)],
)
def test_status_of_a_restarted_program_that_runs_again_is_no_problem(
    config: Path, phase: Phase, step: str, code: int
) -> None:
    there = Program("gpu:one", phase, info=info("gpu:one", 101), restarting=restarting(step))
    write_snapshot(config, only(there))
    result = invoke("-c", config, "status")
    assert result.exit_code == code
    assert ("its start is owed" in result.output) is bool(code)


def test_status_exits_0_when_all_is_well_and_1_when_it_is_not(config: Path) -> None:
    write_snapshot(config, World(Host(supervisor_up=True)))
    assert run("-c", config, "status").returncode == 0
    write_snapshot(config)
    done = run("-c", config, "status")
    assert done.returncode == 1
    assert b"gpu:three: wedged" in done.stdout


def test_status_says_at_once_that_the_daemon_is_gone(config: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(30)
    write_snapshot(config, World(Host(supervisor_up=True)), pid=ended.pid)
    result = invoke("-c", config, "status")
    assert result.exit_code == 1
    assert f"The daemon (pid {ended.pid}) is gone" in result.output


def test_status_of_a_hung_daemon_is_its_last_word(config: Path) -> None:
    write_snapshot(config, World(Host(supervisor_up=True)), age_s=45.0)
    result = invoke("-c", config, "status")
    assert result.exit_code == 1
    assert "has not written for 45 s: dead or hung; what you see is its last word" in result.output


def test_status_json_is_the_snapshot_with_its_age(config: Path) -> None:
    write_snapshot(config, age_s=7.0)
    result = invoke("-c", config, "status", "--json")
    found = json.loads(result.output)
    assert result.exit_code == 1
    assert 7.0 <= found["age_s"] < 60.0
    assert [p["program"] for p in found["programs"]] == ["cpu:two", "gpu:one", "gpu:three", "other:four"]
    assert len(found["problems"]) == 2


def test_status_needs_no_configuration_when_told_where(config: Path) -> None:
    write_snapshot(config)
    broken = config.parent / "broken.yaml"
    broken.write_text("{")
    assert invoke("-c", broken, "status", "--runtime", config.parent / "runtime").exit_code == 1


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {}])
def test_output_that_is_no_terminal_is_plain(config: Path, env: dict[str, str]) -> None:
    write_snapshot(config)
    assert b"\x1b" not in run("-c", config, "status", env=env).stdout


def test_a_reader_that_goes_away_is_no_news(config: Path) -> None:
    write_snapshot(config)
    process = subprocess.Popen(
        [sys.executable, "-m", "watchdog", "-c", str(config), "status", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    with process:
        said = process.stderr.read()
        process.wait(60)
    assert said == b""


def test_incidents_for_machines_are_newest_first(config: Path) -> None:
    write_journal(config)
    found = json.loads(invoke("-c", config, "incidents", "--json").output)
    assert [r["id"] for r in found] == [NEWER.id, OLDER.id]
    assert found[0] == {
        "id": NEWER.id,
        "program": "gpu:one",
        "opened_at": 1_790_090_000.0,
        "rule": "stall",
        "group": "all silent",
        "verdict": "wedged",
        "kind": "dataloader-lost-batch",
        "action": "restart",
        "outcome": "recovered",
        "seconds": {"detected": 270.0},
        "bundle": "/archive/20261130T030557Z-gpu-one-101.tar.gz",
    }


def test_incidents_for_people(config: Path) -> None:
    assert invoke("-c", config, "incidents").output == "No incidents.\n"
    write_journal(config)
    lines = invoke("-c", config, "incidents").output.splitlines()
    assert [line.split()[0] for line in lines] == ["ID", NEWER.id, OLDER.id]


def test_one_incident_by_the_beginning_of_its_id(config: Path) -> None:
    write_journal(config)
    assert "as it should" in invoke("-c", config, "incidents", "show", "20261130").output
    sealed = replace(NEWER, bundle=str(config.parent / "x.tar.gz"))
    Journal(config.parent / "state").append([sealed])
    (config.parent / "x.json").write_text('{"summary": "One batch was lost."}')
    assert "One batch was lost." in invoke("-c", config, "incidents", "show", "20261130").output
    assert json.loads(invoke("-c", config, "incidents", "show", NEWER.id, "--json").output)["detail"] == "as it should"


def test_an_incident_that_had_to_be_kept_in_the_runtime_directory_says_where(config: Path) -> None:
    copy = config.parent / "runtime" / "fallback" / "x.json"
    copy.parent.mkdir()
    copy.write_text('{"manifest": {"summary": "One batch was lost.", "error": "the archive is full"}, "evidence": {}}')
    Journal(config.parent / "state").append([replace(NEWER, bundle=str(copy))])
    told = " ".join(invoke("-c", config, "incidents", "show", NEWER.id).output.split())
    assert f"the essential part of it is in {copy}" in told
    assert "One batch was lost." in told and "the archive is full" in told


@pytest.mark.parametrize(("wanted", "says"), [("2026", "2 incidents begin with"), ("2027", "no incident '2027'")])
def test_an_incident_that_is_not_one_exits_2(config: Path, wanted: str, says: str) -> None:
    write_journal(config)
    result = invoke("-c", config, "incidents", "show", wanted)
    assert result.exit_code == 2 and says in result.stderr


def test_diagnose_reads_standard_input_and_files(config: Path, tmp_path: Path) -> None:
    dump = tmp_path / "dump.txt"
    dump.write_text(DUMP)
    one = json.loads(invoke("-c", config, "diagnose", "-", "--json", stdin=DUMP.encode()).output)
    assert one["verdict"] == "unknown" and set(one) >= {"kind", "cause", "summary", "advice", "matched", "why"}
    several = json.loads(invoke("-c", config, "diagnose", "--json", dump, dump).output)
    assert several == [one, one]
    told = invoke("-c", config, "diagnose", dump)
    assert told.exit_code == 0 and told.output.startswith(f"{dump}: unknown\n")


EVIDENCE = {
    "version": 1,
    "program": "gpu:one",
    "working": False,
    "dumps": [
        {
            "at_s": 0.0,
            "processes": [{"pid": 101, "ppid": 1, "comm": "ami", "state": "S", "role": "main", "error": "gone"}],
        }
    ],
}


def bundle(evidence: object, name: str = "evidence.json") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo(f"20261130T030557Z-gpu-one-101/{name}")
        data = json.dumps(evidence).encode()
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def test_diagnose_reads_every_form_of_evidence_alike(config: Path, tmp_path: Path) -> None:
    forms = {
        "x.tar.gz": bundle(EVIDENCE),
        "evidence.json": json.dumps(EVIDENCE).encode(),
        "fallback.json": json.dumps({"evidence": EVIDENCE}).encode(),
    }
    for name, data in forms.items():
        (tmp_path / name).write_bytes(data)
    answers = json.loads(invoke("-c", config, "diagnose", "--json", *(tmp_path / name for name in forms)).output)
    answers.append(json.loads(invoke("-c", config, "diagnose", "--json", "-", stdin=bundle(EVIDENCE)).output))
    assert [a["verdict"] for a in answers] == ["idle"] * 4
    assert all(a == answers[0] for a in answers)


@pytest.mark.parametrize(
    "content", [b"", b"nothing of the kind", b"{", b"[1]", b"\x1f\x8bno", b"\xff" * 100, b"{}", bundle([])]
)
def test_diagnose_of_something_else_exits_2_and_names_it(config: Path, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "what.bin"
    file.write_bytes(content)
    result = invoke("-c", config, "diagnose", file)
    assert (result.exit_code, result.stdout) == (2, "")
    assert str(file) in result.stderr


def test_diagnose_of_a_file_that_is_not_there_exits_2(config: Path, tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        result = invoke("-c", config, "diagnose", path)
        assert result.exit_code == 2 and str(path) in result.stderr


def test_check_without_supervisord_tries_the_rest_and_exits_3(config: Path) -> None:
    result = invoke("-c", config, "check", "--json")
    found = {r["subject"]: r["grade"] for r in json.loads(result.output)}
    assert result.exit_code == 3
    assert found["supervisord"] == "fail" and found["archive"] == found["state"] == found["runtime"] == "ok"
