"""The screen: what it shows, that it fits, and that strangers' text cannot rewrite a terminal."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.show.worlds import NOW, RULESET, VITALS, WALL, info, looked, observed, only, world
from watchdog.model.world import Host, Phase, Program, World
from watchdog.show import status, words
from watchdog.show.screen import render


def drawn(of: World | None = None, width: int = 80, colour: bool = False, age_s: float = 4.0) -> str:
    found = status.snapshot(of if of is not None else world(), RULESET, VITALS, NOW, WALL)
    found["age_s"] = age_s
    return render(found, width, colour)


def row(text: str, program: str) -> list[str]:
    return re.split(r" {2,}", next(line for line in text.splitlines() if line.startswith(program)))


def test_a_row_says_phase_ages_memory_descriptors_and_distance() -> None:
    assert row(drawn(), "gpu:one") == ["gpu:one", "WATCHING", "27 s", "1 min 30 s", "98.6 KiB", "4", "stall 10%"]
    assert row(drawn(), "cpu:two")[1:4] == ["WATCHING", "absent", "absent"]
    assert row(drawn(), "gpu:three")[-1] == "stall FIRING"
    assert row(drawn(), "other:four") == ["other:four", "unwatched", "-", "-", "-", "-", "STOPPED"]


def test_the_head_says_who_wrote_it_and_when() -> None:
    head = drawn().split("\n\n")[0]
    for said in (
        "pid 4242",
        "written 4 s ago",
        "up, unix:///run/some.sock",
        "12.0 GiB of 64.0 GiB",
        "http://127.0.0.1:9877/metrics",
    ):
        assert said in head


def test_incident_and_problems_are_told_below() -> None:
    text = drawn()
    assert "  incident 20261130T030557Z-gpu-three-303: wedged dataloader-lost-batch; waits for the restart slot" in text
    assert "Problems:\n  cpu:two: blind" in text


def test_an_old_snapshot_is_said_loudly() -> None:
    assert "has not written for 45 s: dead or hung; what you see is its last word" in drawn(age_s=45.0)
    assert "dead or hung" not in drawn(age_s=15.0)


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_the_terminal(width: int) -> None:
    name = "a-group-with-a-long-name:a-process-with-a-name-that-is-even-longer_07"
    look = looked(observed(name, 101), RULESET.policies[0], 27.0, 90.0)
    ruleset = replace(RULESET, policies=(replace(RULESET.policies[0], match="*"),))
    of = World(Host(supervisor_up=True), {name: Program(name, info=info(name, 101))}, {name: look})
    found = status.snapshot(of, ruleset, VITALS, NOW, WALL)
    table = render(found, width).split("\n\n")[1]
    assert max(map(len, table.splitlines())) <= width
    assert "_07 " in table, "both ends of the name are kept"


def test_no_colour_unless_it_is_asked_for() -> None:
    assert "\x1b" not in drawn()
    coloured = drawn(colour=True)
    assert "\x1b[31m" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == drawn()


def test_a_name_cannot_rewrite_the_terminal() -> None:
    name = "gpu:\x1b[2J\nevil\x9b"
    text = drawn(only(Program(name, Phase.GIVEN_UP, info=info(name, 101))))
    assert "\x1b" not in text and "\x9b" not in text
    assert "gpu:?[2J evil?" in text


def test_paused_and_empty_worlds() -> None:
    paused = Program("gpu:one", info=info("gpu:one", 101), paused_until_wall=WALL + 60, paused_why="profiling")
    assert "  paused until " in drawn(only(paused))
    assert "No programs" in drawn(World())


DURATIONS = {
    None: "-",
    -1.0: "0 s",
    0.0: "0 s",
    0.25: "0.2 s",
    4.0: "4 s",
    9.97: "10 s",
    59.4: "59 s",
    59.6: "1 min",
    125: "2 min 5 s",
    3600: "1 h",
    11_520: "3 h 12 min",
    90_000: "1 d 1 h",
}

SIZES = {
    None: "-",
    0: "0 B",
    1023: "1023 B",
    1024: "1.0 KiB",
    (1 << 20) - 1: "1.0 MiB",
    150 << 30: "150 GiB",
    5 << 40: "5.0 TiB",
    5000 << 40: "5000 TiB",
}


@pytest.mark.parametrize(("seconds", "said"), DURATIONS.items())
def test_durations(seconds: float | None, said: str) -> None:
    assert words.duration(seconds) == said


@pytest.mark.parametrize(("count", "said"), SIZES.items())
def test_sizes(count: int | None, said: str) -> None:
    assert words.size(count) == said
