"""Commands that ask the daemon: what they write, how long they wait, and what they say when nobody is there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from click.testing import CliRunner, Result

from tests.show.worlds import NOW, RULESET, VITALS, info, restarting, world
from watchdog.cli import main, request
from watchdog.cli.begin import Failure
from watchdog.daemon import requests
from watchdog.journal import Journal
from watchdog.model.event import LONGEST_PAUSE, Verb
from watchdog.model.record import IncidentRecord
from watchdog.model.world import Phase, Program, World
from watchdog.show import status as snapshots


class Taker:
    """Takes requests as the daemon does: reads a file that is whole, unlinks it, obeys, and writes snapshots.

    May add an incident for each request, and may refuse those about some programs.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.taken: list[dict[str, Any]] = []
        self.record: IncidentRecord | None = None
        self.on_request: Callable[[], object] = bool
        self.refuses: tuple[str, ...] = ()
        self.writes = True
        self.world = world()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Taker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._end.wait(0.01):
            if self.taken and self.writes:
                write_snapshot(self.root, self.world)
            for path in sorted((self.root / "runtime" / "requests").glob("[!.]*.json")):
                request = json.loads(path.read_text())
                self.taken.append(request)
                path.unlink()
                if self.writes:  # the first snapshot after that may not know of it yet
                    time.sleep(0.1)
                    write_snapshot(self.root, self.world)
                    time.sleep(0.1)
                self._obey(request)
                self.on_request()
                if self.record is not None:
                    Journal(self.root / "state").append([replace(self.record, bundle=None, outcome=None), self.record])

    def _obey(self, request: dict[str, Any]) -> None:
        name = request["program"]
        if name in self.refuses or request["verb"] == "collect":
            return
        until = time.time() + request["for_s"] if request["verb"] == "pause" else None
        there = self.world.programs[name]
        phase = Phase.WATCHING if there.phase is Phase.GIVEN_UP else there.phase
        changed = replace(there, phase=phase, paused_until_wall=until)
        self.world = replace(self.world, programs={**self.world.programs, name: changed})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "watchdog.yaml").write_text(
        f"state: {{directory: {tmp_path}/state}}\nruntime: {{directory: {tmp_path}/runtime}}\n"
    )
    (tmp_path / "runtime").mkdir()
    return tmp_path


@pytest.fixture
def taker(root: Path) -> Iterator[Taker]:
    with Taker(root) as running:
        write_snapshot(root, running.world)
        yield running


def write_snapshot(root: Path, of: World | None = None, age_s: float = 0.0, pid: int | None = None) -> None:
    told = snapshots.snapshot(of if of is not None else world(), RULESET, VITALS, NOW, time.time() - age_s)
    told["daemon"]["pid"] = os.getpid() if pid is None else pid
    snapshots.write(snapshots.path_in(root / "runtime"), told)


def invoke(root: Path, *args: str) -> Result:
    return CliRunner().invoke(main, ["-c", str(root / "watchdog.yaml"), *args])


def a_pid_that_is_gone() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(30)
    return process.pid


def test_pause_leaves_one_whole_request(root: Path, taker: Taker) -> None:
    result = invoke(root, "pause", "gpu:one", "--for", "20m", "--reason", "profiling")
    assert (result.exit_code, result.output) == (0, "gpu:one: paused for 20 min\n")
    (taken,) = taker.taken
    assert isinstance(taken.pop("at"), float)
    assert taken == {"verb": "pause", "program": "gpu:one", "for_s": 1200.0, "why": "profiling"}
    assert list((root / "runtime" / "requests").iterdir()) == []


@pytest.mark.parametrize("verb", get_args(Verb))
def test_the_daemon_takes_what_a_command_leaves(root: Path, verb: Verb) -> None:
    request.leave(root / "runtime", verb, "gpu:one", for_s=LONGEST_PAUSE, why="profiling")
    (taken,) = requests.take(root / "runtime", time.time())
    assert taken == requests.Request(verb, "gpu:one", LONGEST_PAUSE, "profiling")


def test_a_pause_that_is_too_long_is_refused_here_and_there(root: Path, taker: Taker) -> None:
    result = invoke(root, "pause", "gpu:one", "--for", f"{LONGEST_PAUSE + 1:.0f}s")
    assert result.exit_code == 2 and "at most 7 d" in result.stderr
    assert taker.taken == []
    (root / "other").mkdir()
    path = request.leave(root / "other", "pause", "gpu:one", for_s=LONGEST_PAUSE + 1)
    (refused,) = requests.take(root / "other", time.time())
    assert isinstance(refused, requests.Malformed) and refused.path == str(path)


def test_a_pause_that_the_daemon_refused_exits_1_and_points_to_its_log(root: Path, taker: Taker) -> None:
    taker.refuses = ("gpu:three",)
    result = invoke(root, "pause", "gpu:*", "--for", "1m")
    assert (result.exit_code, result.stdout) == (1, "gpu:one: paused for 1 min\n")
    assert "refused: gpu:three." in result.stderr and "journalctl -u worker-watchdog" in result.stderr


def test_an_earlier_pause_is_not_taken_for_this_one(root: Path, taker: Taker) -> None:
    earlier = replace(world().programs["gpu:one"], paused_until_wall=time.time() + 3600.0)
    taker.world = replace(taker.world, programs={**taker.world.programs, "gpu:one": earlier})
    taker.refuses = ("gpu:one",)
    result = invoke(root, "pause", "gpu:one", "--for", "1m")
    assert (result.exit_code, result.stdout) == (1, "")


def test_a_pause_says_that_a_begun_restart_is_finished_first(root: Path, taker: Taker) -> None:
    there = replace(world().programs["gpu:one"], phase=Phase.STARTING, restarting=restarting("owed"))
    taker.world = replace(taker.world, programs={**taker.world.programs, "gpu:one": there})
    result = invoke(root, "pause", "gpu:one", "--for", "1m")
    assert (result.exit_code, result.stdout) == (
        0,
        "gpu:one: paused for 1 min; its restart, which has begun, is finished first\n",
    )


@pytest.mark.parametrize("changes", [{"paused_until_wall": 9e9}, {"phase": Phase.GIVEN_UP}], ids=["paused", "given up"])
def test_resume_says_what_came_of_it(root: Path, taker: Taker, changes: dict[str, Any]) -> None:
    there = replace(world().programs["gpu:one"], **changes)
    taker.world = replace(taker.world, programs={**taker.world.programs, "gpu:one": there})
    taker.refuses = ("gpu:one",)
    result = invoke(root, "resume", "gpu:one")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "not resumed, the daemon refused: gpu:one." in result.stderr and "log" in result.stderr
    taker.refuses = ()
    result = invoke(root, "resume", "gpu:one")
    assert (result.exit_code, result.stdout) == (0, "gpu:one: watched again\n")


def test_a_program_that_is_gone_by_now_is_not_paused(root: Path, taker: Taker) -> None:
    taker.refuses = ("gpu:one",)
    left = {name: program for name, program in taker.world.programs.items() if name != "gpu:one"}
    taker.on_request = lambda: setattr(taker, "world", replace(taker.world, programs=left))
    result = invoke(root, "pause", "gpu:one", "--for", "1m")
    assert (result.exit_code, result.stdout) == (1, "")


def test_a_daemon_that_takes_the_request_and_writes_nothing_exits_3(
    root: Path, taker: Taker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request, "TAKEN_WITHIN", 0.5)
    monkeypatch.setattr(request, "TOLD_INTERVALS", 0.0)
    taker.writes = False
    result = invoke(root, "pause", "gpu:one", "--for", "1m")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "what came of it is not known" in result.stderr


def test_a_pattern_means_every_watched_program_it_matches(root: Path, taker: Taker) -> None:
    result = invoke(root, "resume", "gpu:*")
    assert result.exit_code == 0
    assert sorted((str(t["verb"]), str(t["program"])) for t in taker.taken) == [
        ("resume", "gpu:one"),
        ("resume", "gpu:three"),
    ]


@pytest.mark.parametrize("args", [("pause", "gpu:onw", "--for", "1m"), ("resume", "gpu:onw"), ("collect", "gpu:onw")])
def test_an_unknown_program_exits_2_and_the_nearest_is_named(root: Path, taker: Taker, args: tuple[str, ...]) -> None:
    result = invoke(root, *args)
    assert result.exit_code == 2 and "gpu:one" in result.stderr
    assert taker.taken == []


def test_an_unwatched_program_is_not_asked_for(root: Path, taker: Taker) -> None:
    assert invoke(root, "pause", "other:four", "--for", "1m").exit_code == 2
    assert taker.taken == []


@pytest.mark.parametrize("args", [("pause", "gpu:one", "--for", "1m"), ("resume", "gpu:one"), ("collect", "gpu:one")])
def test_without_a_daemon_nothing_is_left_and_3_is_the_answer(root: Path, args: tuple[str, ...]) -> None:
    said = []
    for _ in ("never ran", "gone", "hung"):
        result = invoke(root, *args)
        assert result.exit_code == 3
        said.append(result.stderr)
        if len(said) == 1:
            write_snapshot(root, pid=a_pid_that_is_gone())
        else:
            write_snapshot(root, age_s=45.0)
    assert "no daemon has written there" in said[0]
    assert "is gone" in said[1] and "watchdog run" in said[1]
    assert "has not written for 45 s" in said[2]
    assert not (root / "runtime" / "requests").exists()


def test_a_request_that_nobody_takes_is_taken_back(root: Path) -> None:
    path = request.leave(root / "runtime", "resume", "gpu:one")
    with pytest.raises(Failure, match="taken back") as failed:
        request.wait_until_taken(path, within=0.1)
    assert failed.value.exit_code == 3
    assert list((root / "runtime" / "requests").iterdir()) == []


def test_a_request_that_cannot_be_written_exits_3(root: Path) -> None:
    (root / "runtime" / "requests").write_text("a file where the directory should be")
    write_snapshot(root)
    result = invoke(root, "resume", "gpu:one")
    assert result.exit_code == 3 and "cannot leave a request" in result.stderr


def test_collect_asks_and_does_not_wait(root: Path, taker: Taker) -> None:
    result = invoke(root, "collect", "gpu:one")
    assert result.exit_code == 0
    assert [(t["verb"], t["program"]) for t in taker.taken] == [("collect", "gpu:one")]


def test_collect_waits_for_the_new_bundle_of_this_program(root: Path, taker: Taker) -> None:
    old = IncidentRecord(
        id="20261129T000000Z-gpu-one-101",
        program="gpu:one",
        opened_at=1.0,
        rule="stall",
        group="g",
        bundle="/archive/old.tar.gz",
    )
    other = replace(old, id="20261130T000000Z-cpu-two-202", program="cpu:two", bundle="/archive/other.tar.gz")
    Journal(root / "state").append([old, other])
    taker.record = replace(old, id="20261130T030557Z-gpu-one-101", rule="operator", bundle="/archive/new.tar.gz")
    result = invoke(root, "collect", "gpu:one", "--wait")
    assert (result.exit_code, result.output) == (0, "/archive/new.tar.gz\n")


def test_collect_that_ends_without_a_bundle_says_why(root: Path, taker: Taker) -> None:
    taker.record = IncidentRecord(
        id="x",
        program="gpu:one",
        opened_at=1.0,
        rule="operator",
        group="g",
        outcome="vetoed",
        detail="the disk is full",
    )
    result = invoke(root, "collect", "gpu:one", "--wait")
    assert result.exit_code == 1 and "the disk is full" in result.stderr


def test_collect_gives_up_waiting(root: Path, taker: Taker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watchdog.cli.collect.WITHIN", 0.3)
    result = invoke(root, "collect", "gpu:one", "--wait")
    assert result.exit_code == 1 and "no bundle within" in result.stderr


def test_collect_notices_that_the_daemon_ended(root: Path, taker: Taker) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as daemon:
        write_snapshot(root, pid=daemon.pid)
        taker.on_request = daemon.kill
        result = invoke(root, "collect", "gpu:one", "--wait")
    assert result.exit_code == 3 and f"the daemon (pid {daemon.pid}) ended" in result.stderr


def test_collect_of_a_program_that_is_busy_or_down_is_refused(root: Path, taker: Taker) -> None:
    result = invoke(root, "collect", "gpu:three")
    assert result.exit_code == 1 and "COLLECTING" in result.stderr and "gpu-three-303" in result.stderr
    down = Program("gpu:one", info=info("gpu:one", 0, "STOPPED"))
    write_snapshot(root, replace(world(), programs={"gpu:one": down}))
    result = invoke(root, "collect", "gpu:one")
    assert result.exit_code == 1 and "not running" in result.stderr
    assert taker.taken == []
