"""A sealed incident, end to end on real processes; and everything that may go wrong on the way to the disk."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.collect.conftest import Spawn, case_of
from tests.collect.test_archive import Keep
from watchdog.collect import bundle, pyspy, reading, retention
from watchdog.collect.bundle import Places, Sources, seal
from watchdog.collect.collectors import Collecting
from watchdog.collect.gather import Collector, Found
from watchdog.judge.stacks import evidence_from
from watchdog.model.evidence import Dump, Evidence, LogLines
from watchdog.model.world import Sealed

TOKEN = "Qx7-worker-token-0123456789-abcdefghijklmn"
WORKER = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time\\ndef child():\\n    time.sleep(300)\\nchild()"])
time.sleep(0.5)
ready()
def parent():
    time.sleep(300)
parent()
"""


@pytest.fixture
def worker(spawn: Spawn) -> int:
    return spawn(WORKER, "--password", "hunter2-on-the-command-line", env={"API_TOKEN": TOKEN}).pid


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "incidents", Keep(), tmp_path / "run")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """One collector instead of all, for tests about writing."""
    monkeypatch.setattr(
        Collecting, "collectors", lambda self: [Collector("one", 1.0, lambda _: Found({"one.txt": "1"}))]
    )


@pytest.fixture
def sleeper(spawn: Spawn) -> int:
    return spawn("import time\nready()\ntime.sleep(300)").pid


def seal_one(pid: int, places: Places, incident: str) -> Sealed:
    return seal(case_of(pid, incident=incident), Sources(), places, within=5.0)


def members(path: str | None) -> dict[str, bytes]:
    assert path is not None
    with tarfile.open(path) as archive:
        return {m.name: archive.extractfile(m).read() for m in archive.getmembers()}  # type: ignore[union-attr]


def test_a_bundle_holds_what_is_known_of_an_incident(worker: int, places: Places, tmp_path: Path) -> None:
    (tmp_path / "ami.log").write_text(
        f"\x1b[31mtoken\x1b[0m = '{TOKEN[:36]}'\nBatch 46\n│ x = {TOKEN[:20]} │\n│ {TOKEN[20:]} │\n"
    )
    sources = Sources(
        history=lambda: [{"at": 1, "rss": 5}, {"at": 2, "note": f"x {TOKEN}"}],
        supervisor_view=lambda: {"statename": "RUNNING", "password": "hunter2-in-json"},
        supervisor_log=lambda: "INFO spawned: 'prod_00'\n",
        logs=(str(tmp_path / "ami.log"), str(tmp_path / "none.log")),
        config="supervisor:\n  url: http://bob:hunter2-in-url@localhost:9001\n  password: hunter2-in-yaml\n",
        versions=lambda: {"supervisord": "4.3.0"},
        process_history=lambda: iter([{"at": 3, "pid": 7, "comm": "ami"}, {"at": 63, "pid": 7, "comm": f"x {TOKEN}"}]),
    )
    case = case_of(worker)
    sealed = seal(case, sources, places, within=30.0)
    assert sealed.error is None and sealed.fallback is None
    assert sealed.bundle == str(places.archive / f"{case.incident}.tar.gz")
    files = members(sealed.bundle)
    assert {name.partition("/")[0] for name in files} == {case.incident}
    found = {name.partition("/")[2]: data for name, data in files.items()}
    child = case.tree[1].pid
    assert set(found) >= {
        *("evidence.json", "diagnosis.json", "findings.json", "trace.txt", "stacks.txt", "tree.json", "manifest.json"),
        *("supervisor.json", "supervisord.log", "observations.jsonl", "config.yaml", "logs/0-ami.log.txt"),
        *("host/meminfo.txt", "host/shared-memory.json", "host/logind.txt", "host/versions.json"),
        *(f"processes/{worker}/{name}" for name in ("status.txt", "limits.txt", "threads.json", "descriptors.json")),
        *(
            f"processes/{child}/{name}"
            for name in ("environ-names.txt", "command.txt", "maps.json", "smaps_rollup.txt")
        ),
        f"processes/{worker}/native-stacks.txt",
    }
    everything = b"\n".join(files.values()) + Path(sealed.bundle.replace(".tar.gz", ".json")).read_bytes()
    assert b"hunter2" not in everything
    assert TOKEN[:8].encode() not in everything and TOKEN[-8:].encode() not in everything
    assert b"API_TOKEN" in found[f"processes/{worker}/environ-names.txt"]

    evidence = evidence_from(json.loads(found["evidence.json"]))
    assert len(evidence.dumps) == 2 and evidence.dumps[1].at_s > evidence.dumps[0].at_s == 0.0
    for dump in evidence.dumps:
        assert [p.threads[0].frames[0].name for p in dump.processes] == ["parent", "child"]
    assert b"parent (" in found["stacks.txt"] and b"03:06:02 wedged" in found["trace.txt"]
    assert [json.loads(row)["at"] for row in found["observations.jsonl"].splitlines()] == [1, 2]
    assert [json.loads(row)["at"] for row in found["processes.jsonl"].splitlines()] == [3, 63]
    assert json.loads(found["findings.json"])[0]["value"] == 300.5
    assert json.loads(found["host/versions.json"])["supervisord"] == "4.3.0"


def test_the_manifest_can_be_read_without_unpacking_and_is_true(worker: int, places: Places) -> None:
    case = case_of(worker)
    sealed = seal(case, Sources(), places, within=30.0)
    assert sealed.bundle is not None
    manifest = bundle.read_manifest(Path(sealed.bundle))
    assert manifest == bundle.read_manifest(places.archive / f"{case.incident}.json")
    told = {
        key: manifest[key] for key in ("version", "incident", "program", "rule", "group", "verdict", "kind", "action")
    }
    assert told == {
        "version": 1,
        "incident": case.incident,
        "program": "ami_worker:prod_00",
        "rule": "stall",
        "group": "everything is silent",
        "verdict": "wedged",
        "kind": "dataloader-lost-batch",
        "action": {"level": "report", "would": "restart"},
    }
    assert manifest["opened_at"] == 1_796_000_757.25 and manifest["opened_at_iso"] == "2026-11-30T01:05:57.250+00:00"
    assert manifest["summary"] == "One batch was lost." and manifest["advice"] == {
        "now": "restart",
        "for_good": "timeout=",
    }
    data = Path(sealed.bundle).read_bytes()
    assert manifest["bundle"] == {
        "name": f"{case.incident}.tar.gz",
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    inside = {name.partition("/")[2]: data for name, data in members(sealed.bundle).items()}
    listed = manifest["files"]
    assert isinstance(listed, list)
    assert {f["name"] for f in listed} == set(inside) - {"manifest.json"}
    assert all(f["sha256"] == hashlib.sha256(inside[f["name"]]).hexdigest() for f in listed)
    lines = manifest["collectors"]
    assert isinstance(lines, list)
    by_name = {line["name"]: line for line in lines}
    assert len(by_name) == len(lines) > 15
    assert by_name["threads"]["status"] == "ok" and by_name["threads"]["bytes"] > 100
    assert by_name["supervisor"]["status"] == "skipped" and by_name["supervisor"]["why"]
    assert lines[-1]["name"] == "native stacks"


def test_dumps_that_the_case_has_are_not_taken_again(
    worker: int, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []

    def dump(*_: object, at_s: float, within: float, tell: object) -> Dump:
        asked.append(at_s)
        return Dump(at_s, ())

    monkeypatch.setattr(pyspy, "dump_tree", dump)
    log = LogLines(("out",), ("err",))
    for dumps, again in ((2, 0), (1, 1)):
        evidence = Evidence("ami_worker:prod_00", tuple(Dump(15.0 * n, ()) for n in range(dumps)), log=log)
        asked.clear()
        sealed = seal(case_of(worker, evidence=evidence), Sources(), places, within=30.0)
        assert sealed.bundle is not None and len(asked) == again
        assert all(at_s >= evidence.dumps[-1].at_s for at_s in asked)
        kept = evidence_from(bundle.open_bundle_evidence(Path(sealed.bundle)))
        assert len(kept.dumps) == 2 and kept.log == log


def test_collectors_that_hang_fail_or_are_late_cost_only_themselves(
    worker: int, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    usual = Collecting.collectors
    shorter = lambda self: [c._replace(within=1.0) if c.name == "supervisor" else c for c in usual(self)]  # noqa: E731
    monkeypatch.setattr(Collecting, "collectors", shorter)

    def hang() -> object:
        release.wait(60)
        return {}

    def refuse() -> str:
        raise ConnectionRefusedError(111, "Connection refused")

    began = time.monotonic()
    sealed = seal(case_of(worker), Sources(supervisor_view=hang, supervisor_log=refuse), places, within=12.0)
    assert time.monotonic() - began < 20.0
    release.set()
    assert sealed.bundle is not None
    lines = bundle.read_manifest(Path(sealed.bundle))["collectors"]
    assert isinstance(lines, list)
    by_name = {line["name"]: line for line in lines}
    assert by_name["supervisor"]["status"] == "timed out" and 1.0 <= by_name["supervisor"]["seconds"] < 12.0
    assert by_name["supervisor log"]["status"] == "failed" and "Connection refused" in by_name["supervisor log"]["why"]
    assert by_name["host"]["status"] == "ok"


def test_a_supervisord_that_hangs_does_not_cost_the_other_versions(
    sleeper: int, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    usual = Collecting.collectors
    asked = ("supervisor version", "versions", "observations")
    few = lambda self: [c._replace(within=1.0) for c in usual(self) if c.name in asked]  # noqa: E731
    monkeypatch.setattr(Collecting, "collectors", few)
    sources = Sources(versions=lambda: {"supervisord": str(release.wait(60))}, process_history=({"at": 1},))
    sealed = seal(case_of(sleeper), sources, places, within=20.0)
    release.set()
    assert sealed.bundle is not None
    lines = bundle.read_manifest(Path(sealed.bundle))["collectors"]
    assert isinstance(lines, list)
    assert [(line["name"], line["status"]) for line in lines] == [
        ("observations", "ok"),
        ("supervisor version", "timed out"),
        ("versions", "ok"),
    ]
    found = {name.partition("/")[2]: data for name, data in members(sealed.bundle).items()}
    assert "supervisord" not in json.loads(found["host/versions.json"])
    assert "processes.jsonl" in found and "observations.jsonl" not in found


def test_with_no_time_at_all_the_judgement_is_still_sealed(worker: int, places: Places) -> None:
    sealed = seal(case_of(worker), Sources(), places, within=0.0)
    assert sealed.bundle is not None
    manifest = bundle.read_manifest(Path(sealed.bundle))
    lines = manifest["collectors"]
    assert isinstance(lines, list)
    assert {(line["status"], line["why"]) for line in lines} == {("skipped", "no time was left for it")}
    assert bundle.open_bundle_evidence(Path(sealed.bundle))["program"] == "ami_worker:prod_00"


def test_a_program_that_is_gone_is_sealed_with_what_is_left(spawn: Spawn, places: Places) -> None:
    child = spawn("import time\nready()\ntime.sleep(300)")
    case = case_of(child.pid)
    child.kill()
    child.wait(10)
    sealed = seal(case, Sources(), places, within=30.0)
    assert sealed.error is None
    evidence = evidence_from(bundle.open_bundle_evidence(Path(str(sealed.bundle))))
    assert evidence.dumps[0].processes[0].error == f"there is no process {child.pid} any more"


@pytest.mark.usefixtures("quick")
def test_a_hostile_incident_stays_in_the_archive(sleeper: int, places: Places, tmp_path: Path) -> None:
    sealed = seal(case_of(sleeper, incident="../../etc/cron.d/x\n" + "y" * 500), Sources(), places, within=5.0)
    assert sealed.bundle is not None and Path(sealed.bundle).parent == places.archive
    assert {path.name for path in tmp_path.iterdir()} == {"incidents"}
    assert all(not name.startswith(("/", ".")) and ".." not in name.split("/") for name in members(sealed.bundle))


@pytest.mark.usefixtures("quick")
def test_an_incident_that_is_sealed_twice_keeps_both(sleeper: int, places: Places) -> None:
    case = case_of(sleeper)
    paths = [seal(case, Sources(), places, within=5.0).bundle for _ in range(2)]
    assert paths == [str(places.archive / f"{case.incident}{number}.tar.gz") for number in ("", "-2")]
    assert all(Path(str(path)).exists() for path in paths)


@pytest.mark.usefixtures("quick")
def test_retention_counts_the_new_one_and_never_takes_it(sleeper: int, places: Places) -> None:
    places = replace(places, keep=Keep(count=2, least=2))
    for number in range(4):
        sealed = seal_one(sleeper, places, f"incident-{number}")
        assert sealed.bundle is not None and Path(sealed.bundle).exists()
        # The wall clock was an hour ahead until now: whatever comes next looks older than all that is there.
        os.utime(sealed.bundle, (time.time() + 3600, time.time() + 3600))
    assert len(list(places.archive.iterdir())) == 4


def fallback_of(sealed: Sealed) -> dict[str, object]:
    assert sealed.bundle is None and sealed.fallback is not None and sealed.exists
    data = Path(sealed.fallback).read_bytes()
    assert len(data) < 1 << 20
    found = json.loads(data)
    assert isinstance(found, dict)
    return found


def long_evidence() -> Evidence:
    lines = tuple(f"line {n} {'x' * 3000} token={TOKEN}" for n in range(300))
    return Evidence("ami_worker:prod_00", (Dump(0.0, ()), Dump(15.0, ())), log=LogLines(lines, lines))


@pytest.mark.usefixtures("quick")
def test_an_archive_that_is_a_file_gets_a_fallback(sleeper: int, places: Places) -> None:
    places.archive.write_text("not a directory")
    sealed = seal(case_of(sleeper, evidence=long_evidence()), Sources(), places, within=5.0)
    found = fallback_of(sealed)
    assert Path(str(sealed.fallback)).parent == places.runtime / "fallback"
    assert sealed.error is not None and str(places.archive) in sealed.error and str(sealed.fallback) in sealed.error
    manifest = found["manifest"]
    assert (
        isinstance(manifest, dict)
        and "could not be written" in manifest["error"]
        and manifest["kind"] == "dataloader-lost-batch"
    )
    evidence = evidence_from(bundle.open_bundle_evidence(Path(str(sealed.fallback))))
    assert len(evidence.dumps) == 2 and evidence.log.stderr[-1].startswith("line 299 ")
    assert TOKEN[:8] not in json.dumps(found)
    assert places.archive.read_text() == "not a directory"


@pytest.mark.usefixtures("quick")
def test_a_disk_that_fills_up_gets_a_fallback_and_no_half_bundle(
    sleeper: int, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write

    def full(descriptor: int, data: memoryview) -> int:
        if str(places.archive) in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", full)
    sealed = seal(case_of(sleeper), Sources(), places, within=5.0)
    assert "No space left on device" in str(sealed.error)
    fallback_of(sealed)
    assert list(places.archive.iterdir()) == []


def _mount(directory: Path, options: str) -> bool:
    """A tmpfs, or the one that is there with other options; False where mounting is not permitted."""
    argv = ["mount", "-t", "tmpfs", "-o", options, "none", str(directory)]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


def _refuse_below(directory: Path, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands in for a mount where none is permitted: whatever is opened below the directory for writing fails."""
    real = os.open

    def refuse(path: str | Path, flags: int, *args: int) -> int:
        if Path(path).parent == directory and flags & os.O_WRONLY:
            raise OSError(code, os.strerror(code), str(path))
        return real(path, flags, *args)

    monkeypatch.setattr(os, "open", refuse)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A mount point; whatever a test mounts there goes with it."""
    directory = tmp_path / "disk"
    directory.mkdir()
    yield directory
    if os.path.ismount(directory):
        subprocess.run(["umount", str(directory)], check=True)


@pytest.mark.usefixtures("quick")
def test_a_really_full_disk(sleeper: int, places: Places, disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not _mount(disk, "size=64k"):
        _refuse_below(disk, errno.ENOSPC, monkeypatch)
    (disk / "others").write_bytes(b"x" * (60 << 10))
    case = case_of(sleeper, evidence=long_evidence())
    sealed = seal(case, Sources(), replace(places, archive=disk), within=5.0)
    assert "No space left on device" in str(sealed.error)
    fallback_of(sealed)
    assert {path.name for path in disk.iterdir()} == {"others"}


@pytest.mark.usefixtures("quick")
def test_a_read_only_disk(sleeper: int, places: Places, disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not _mount(disk, "size=64k,ro"):
        _refuse_below(disk, errno.EROFS, monkeypatch)
    sealed = seal(case_of(sleeper), Sources(), replace(places, archive=disk), within=5.0)
    assert "Read-only file system" in str(sealed.error)
    fallback_of(sealed)
    status = bundle.archive_status(disk)
    assert not status.writable and "Read-only file system" in status.why


@pytest.mark.usefixtures("quick")
def test_when_nothing_can_be_written_both_reasons_are_told(sleeper: int, places: Places) -> None:
    places.archive.write_text("")
    places.runtime.write_text("")
    sealed = seal(case_of(sleeper), Sources(), places, within=5.0)
    assert not sealed.exists
    assert sealed.error is not None and str(places.archive) in sealed.error and str(places.runtime) in sealed.error


@pytest.mark.usefixtures("quick")
def test_an_archive_that_does_not_answer_gets_a_fallback(
    sleeper: int, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    monkeypatch.setattr(bundle, "WRITING_LEAST", 0.3)
    monkeypatch.setattr(retention, "make_room", lambda *_, **__: release.wait(60))
    sealed = seal(case_of(sleeper), Sources(), places, within=0.5)
    release.set()
    assert "no answer within" in str(sealed.error)
    fallback_of(sealed)


@pytest.mark.usefixtures("quick")
def test_only_so_many_fallbacks_are_kept(sleeper: int, places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "FALLBACKS", 2)
    places.archive.write_text("")
    for number in range(4):
        sealed = seal(case_of(sleeper, incident=f"incident-{number}"), Sources(), places, within=5.0)
        os.utime(str(sealed.fallback), (2e9 + number, 2e9 + number))
    assert {path.name for path in (places.runtime / "fallback").iterdir()} == {"incident-2.json", "incident-3.json"}


def packed(*files: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for member, data in files:
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def link() -> bytes:
    member = tarfile.TarInfo("x/evidence.json")
    member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return packed((member, b""))


GOOD = packed((tarfile.TarInfo("x/evidence.json"), b'{"version": 1}'))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not a whole bundle"),
        (b"plain text", "not a whole bundle"),
        (gzip.compress(b"no tar"), "not a whole bundle"),
        (GOOD[: len(GOOD) // 2], "not a whole bundle"),
        (packed((tarfile.TarInfo("../evidence.json/x"), b"{}")), "no evidence.json in it"),
        (link(), "no evidence.json in it"),
        (packed((tarfile.TarInfo("x/evidence.json"), b"[1]")), "expected an object"),
        (packed((tarfile.TarInfo("x/evidence.json"), b"{")), "not whole JSON"),
        (packed((tarfile.TarInfo("x/evidence.json"), b"[" * 100_000)), "not whole JSON"),
    ],
)
def test_what_is_no_bundle_says_what_is_wrong(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(data)
    with pytest.raises(bundle.BundleError, match=says) as caught:
        bundle.open_bundle_evidence(path)
    assert str(path) in str(caught.value)


def test_a_bundle_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_OF_BUNDLE", 1 << 20)
    path = tmp_path / "x.tar.gz"
    path.write_bytes(
        packed((tarfile.TarInfo("x/bomb"), b"\0" * (4 << 20)), (tarfile.TarInfo("x/evidence.json"), b"{}"))
    )
    assert path.stat().st_size < 10_000
    with pytest.raises(bundle.BundleError, match="more than 1048576 bytes"):
        bundle.open_bundle_evidence(path)


def test_a_manifest_is_no_evidence(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"incident": "x"}')
    with pytest.raises(bundle.BundleError, match="no evidence in it"):
        bundle.open_bundle_evidence(tmp_path / "x.json")
    with pytest.raises(FileNotFoundError):
        bundle.open_bundle_evidence(tmp_path / "none.tar.gz")
