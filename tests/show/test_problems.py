"""What counts as wrong in a snapshot, and what does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.show.worlds import NOW, RULESET, VITALS, WALL, incident, info, only, restarting, taken, world
from watchdog.model.world import Phase, Program, World
from watchdog.show import status
from watchdog.show.problems import is_stale, problems


def test_problems_name_what_is_wrong() -> None:
    assert problems(taken()) == [
        "cpu:two: blind: none of its stall groups can fire; give it a log of its own, or progress",
        "gpu:three: wedged (dataloader-lost-batch), incident 20261130T030557Z-gpu-three-303",
    ]


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (Program("gpu:one", Phase.GIVEN_UP, info=info("gpu:one", 101)), "given up"),
        (Program("gpu:one", Phase.STARTING, info=info("gpu:one", 0, "STOPPED"), restarting=restarting("owed")), "owed"),
        (
            Program("gpu:one", Phase.STOPPING, info=info("gpu:one", 101), restarting=restarting("intent")),
            "being stopped",
        ),
        (Program("gpu:one", Phase.COOLDOWN, restarting=restarting("owed", "start_failed")), "its start is owed"),
        (Program("gpu:one", Phase.COOLDOWN, restarting=restarting("owed", "unkillable")), "could not be killed"),
        (Program("gpu:one", info=info("gpu:one", 0, "FATAL")), "FATAL"),
        (Program("gpu:one", info=info("gpu:one", 101), reported=("stall",)), "reported, not restarted"),
    ],
)
def test_one_problem_of_a_program(program: Program, says: str) -> None:
    (problem,) = problems(taken(only(program)))
    assert problem.startswith("gpu:one: ") and says in problem


@pytest.mark.parametrize(
    "program",
    [
        Program("gpu:one", info=info("gpu:one", 0, "STOPPED")),
        Program("other:four", info=info("other:four", 0, "FATAL")),
        Program("gpu:one", info=info("gpu:one", 101), paused_until_wall=WALL + 60),
        Program(
            "gpu:one",
            Phase.VERIFYING,
            info=info("gpu:one", 101),
            incident=incident("gpu:one", 101),
            restarting=restarting("started"),
        ),  # wedged it was: it runs again, and whether it works is being verified
    ],
)
def test_what_is_no_problem(program: Program) -> None:
    assert problems(taken(only(program))) == []


def test_problems_of_the_host() -> None:
    down = replace(world().host, supervisor_up=False, supervisor_why="timed out")
    vitals = replace(
        VITALS, capture_usable=False, capture_why="py-spy is missing", archive_writable=False, archive_why="full"
    )
    found = status.snapshot(World(down), RULESET, vitals, NOW, WALL)
    found["age_s"] = 45.0
    assert problems(found) == [
        "The daemon has not written for 45 s: dead or hung; what you see is its last word.",
        "supervisord does not answer at unix:///run/some.sock: timed out",
        "Stacks cannot be read: py-spy is missing",
        "The archive /var/lib/some/incidents cannot be written: full. Nothing is stopped then.",
    ]


@pytest.mark.parametrize(
    ("interval", "age_s", "stale"), [(5.0, 29.9, False), (5.0, 30.1, True), (0.2, 4.9, False), (0.2, 5.1, True)]
)
def test_a_snapshot_is_stale_after_three_of_the_daemons_own_intervals(
    interval: float, age_s: float, stale: bool
) -> None:
    found = status.snapshot(world(), replace(RULESET, interval=interval), VITALS, NOW, WALL)
    found["age_s"] = age_s
    assert is_stale(found) is stale


def test_a_daemon_that_is_gone_is_said_at_once() -> None:
    found = taken(World())
    assert problems(found, gone=True) == [
        "The daemon (pid 4242) is gone and has not written for 0 s: nobody watches; this is its last word."
    ]
