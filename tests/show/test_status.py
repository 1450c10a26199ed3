"""The snapshot: what it says, what it costs, how it is written and read back."""

from __future__ import annotations

import json
import os
import stat
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.show.worlds import (
    NOW,
    RULESET,
    VITALS,
    WALL,
    incident,
    info,
    line,
    looked,
    observed,
    only,
    restarting,
    taken,
    with_program,
)
from watchdog.model.world import Host, Phase, Program, World
from watchdog.show import status
from watchdog.show.problems import problems, program_problems
from watchdog.show.status import Unreadable


def test_snapshot_has_designs_keys() -> None:
    found = taken()
    assert {"at", "age_s", "metrics", "supervisor", "programs"} <= found.keys()
    assert (found["at"], found["age_s"], found["metrics"]) == (WALL, 0.0, "127.0.0.1:9877")
    assert found["supervisor"] == {"up": True, "url": "unix:///run/some.sock", "why": "", "since": WALL - 60.0}
    keys = {"program", "phase", "flags", "mode", "pid", "heartbeats"}
    keys |= {"rss", "shmem", "fds", "processes", "restarts", "rules", "incident"}
    assert all(keys <= program.keys() for program in found["programs"])
    assert [p["program"] for p in found["programs"]] == ["cpu:two", "gpu:one", "gpu:three", "other:four"]


def test_snapshot_tells_each_programs_own_values() -> None:
    one = line("gpu:one")
    assert (one["phase"], one["flags"], one["mode"], one["pid"], one["state"]) == (
        "WATCHING",
        [],
        "restart",
        101,
        "RUNNING",
    )
    assert one["heartbeats"] == {"log": {"age_s": 27.0}, "progress": {"age_s": 90.0, "count": 46, "total": 120}}
    assert (one["rss"], one["shmem"], one["fds"], one["processes"]) == (101_000, 80_800, 4, 3)
    assert (one["restarts"], one["incident"], one["since_s"]) == (6, None, 400.0)


def test_rules_tell_the_nearest_group_and_what_holds_it_back() -> None:
    (stall,) = line("gpu:one")["rules"]
    # cpu is 0.5 where 0.05 is asked: that detector of "all silent" is at 0.1, as is progress in "no batch".
    assert (stall["rule"], stall["firing"], stall["group"]) == ("stall", False, "all silent")
    assert stall["ratio"] == pytest.approx(0.1)
    assert stall["holds_back"].startswith("unchanged log for 270 s: ")
    (stall,) = line("gpu:three")["rules"]
    assert (stall["firing"], stall["group"], stall["ratio"], stall["holds_back"]) == (True, "no batch", 1.0, "")


def test_a_rule_whose_heartbeats_are_absent_has_no_distance() -> None:
    two = line("cpu:two")
    assert two["heartbeats"] == {"log": None, "progress": None}
    assert [(r["ratio"], r["group"]) for r in two["rules"]] == [(None, None)]
    assert two["flags"] == ["blind"]


def test_an_unknown_heartbeat_has_no_age_and_is_not_absent() -> None:
    look = looked(observed("gpu:one", 101), RULESET.policies[0], 27.0, 90.0)
    look = look._replace(log=look.log._replace(unknown=5.0), observation=look.observation._replace(log=None))
    one = line("gpu:one", only(Program("gpu:one", info=info("gpu:one", 101)), look))
    assert one["heartbeats"]["log"] == {"age_s": None}
    assert one["rules"][0]["group"] == "no batch"


def test_an_incident_is_told_with_what_it_waits_for() -> None:
    three = line("gpu:three")
    assert (three["incident"], three["verdict"], three["kind"]) == (
        "20261130T030557Z-gpu-three-303",
        "wedged",
        "dataloader-lost-batch",
    )
    assert three["waiting"] == "the restart slot"


def test_a_vetoed_incident_is_told_and_is_no_problem() -> None:
    vetoed = (incident("gpu:one", 101, "busy"),)
    one = line("gpu:one", only(Program("gpu:one", info=info("gpu:one", 101), vetoed=vetoed)))
    assert (one["incident"], one["verdict"]) == ("20261130T030557Z-gpu-three-303", "busy")
    assert program_problems(one) == []


@pytest.mark.parametrize(
    ("program", "flags"),
    [
        (Program("gpu:one", info=info("gpu:one", 0, "EXITED")), ["not_running"]),
        (Program("gpu:one"), ["not_running"]),
        (Program("other:four", info=info("other:four", 404)), ["unwatched"]),
        (Program("gpu:one", info=info("gpu:one", 101), paused_until_wall=WALL + 1), ["paused"]),
        (Program("gpu:one", info=info("gpu:one", 101), paused_until_wall=WALL - 1), []),
        (Program("gpu:one", Phase.GIVEN_UP, info=info("gpu:one", 101)), ["given_up"]),
        (Program("gpu:one", Phase.STARTING, info=info("gpu:one", 101), restarting=restarting("owed")), ["start_owed"]),
        (Program("gpu:one", Phase.STOPPING, info=info("gpu:one", 9), restarting=restarting("intent")), ["start_owed"]),
        (Program("gpu:one", Phase.COOLDOWN, info=info("gpu:one", 9), restarting=restarting("owed")), ["start_owed"]),
        (Program("gpu:one", Phase.VERIFYING, info=info("gpu:one", 101), restarting=restarting("started")), []),
    ],
)
def test_flags(program: Program, flags: list[str]) -> None:
    assert line(program.name, only(program))["flags"] == flags


def test_snapshot_of_a_world_that_knows_nothing_is_all_null() -> None:
    found = status.snapshot(World(), RULESET, replace(VITALS, totals={}), NOW, WALL)
    assert found["programs"] == []
    assert found["supervisor"]["up"] is None
    assert set(found["host"].values()) == {None}
    assert problems(found) == []


def test_200_programs_cost_no_more_than_a_tick() -> None:
    """In CPU seconds, the best of five: other work on the machine is not ours."""
    look = looked(observed("gpu:one", 101), RULESET.policies[0], 27.0, 90.0)
    names = [f"gpu:{n:03}" for n in range(200)]
    many = World(Host(), {n: Program(n, info=info(n, 101)) for n in names}, dict.fromkeys(names, look))
    costs = []
    for _ in range(5):
        began = time.process_time()
        taken(many)
        costs.append(time.process_time() - began)
    assert min(costs) < 0.05, f"{min(costs) * 1000:.1f} ms; the goal is 10 ms, five times that is a bug"


def test_write_replaces_at_once_with_mode_0640(tmp_path: Path) -> None:
    path = status.path_in(tmp_path)
    path.write_text("old")
    mask = os.umask(0o077)
    try:
        status.write(path, taken())
    finally:
        os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [p.name for p in tmp_path.iterdir()] == ["status.json"]
    assert json.loads(path.read_text())["at"] == WALL


def test_write_that_fails_leaves_the_old_snapshot_and_no_temporary(tmp_path: Path) -> None:
    path = status.path_in(tmp_path)
    path.mkdir()
    (path / "full").touch()
    with pytest.raises(OSError):
        status.write(path, taken())
    assert [p.name for p in tmp_path.iterdir()] == ["status.json"]


def test_read_reckons_the_age_and_never_below_zero(tmp_path: Path) -> None:
    path = status.path_in(tmp_path)
    status.write(path, taken())
    later, earlier = status.read(path, WALL + 7.5), status.read(path, WALL - 3600.0)
    assert not isinstance(later, Unreadable) and not isinstance(earlier, Unreadable)
    assert (later["age_s"], earlier["age_s"]) == (7.5, 0.0)
    assert later["programs"] == taken()["programs"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version": 999}', b"\xff\xfe", b"null", b"[" * 99_999])
def test_read_of_something_else_says_so(tmp_path: Path, content: bytes) -> None:
    path = status.path_in(tmp_path)
    path.write_bytes(content)
    found = status.read(path, WALL)
    assert isinstance(found, Unreadable)
    assert str(path) in str(found)


def test_read_of_nothing_says_what_to_do(tmp_path: Path) -> None:
    found = status.read(status.path_in(tmp_path), WALL)
    assert isinstance(found, Unreadable)
    assert "watchdog run" in found.hint


def test_a_program_replaced_does_not_change_the_others() -> None:
    before = {p["program"]: p for p in taken()["programs"]}
    after = {p["program"]: p for p in taken(with_program(Program("gpu:one", Phase.GIVEN_UP)))["programs"]}
    assert {name for name in before if before[name] != after[name]} == {"gpu:one"}
