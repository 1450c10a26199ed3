"""The last hour of observations."""

import json
import math

import pytest

from watchdog.look.history import HOUR, History, to_observation
from watchdog.model.observation import ABSENT, Gauges, Identity, MatchKey, Observation, ProcessSample

STDERR, ANY, OUT = MatchKey("stderr", "lost"), MatchKey("any", "x"), MatchKey("stdout", "y")


def sample(pid: int, state: str) -> ProcessSample:
    return ProcessSample(pid, pid * 7, 3, f"worker-{pid}", state, 1.5, 0.25, 900, 800, 70, 30, 11, 1024, 5)


FULL = Observation(
    "grp:a",
    Identity(10, 70),
    log=1 << 40,
    progress=17,
    progress_count=5_000_000_000,
    progress_total=6_000_000_000,
    says="working",
    in_flight=3,
    idle_line=False,
    progress_after_idle=True,
    matches={STDERR: 4, ANY: None, OUT: ABSENT},
    gauges=Gauges(1 << 37, 2, 3, 4, 0.1, 6, 7, 0.049999),
    cpu_seconds=123.456,
    tree=(sample(10, "S"), sample(11, "D"), sample(12, "S")),
    troubles=("said once",),
    phase="upload",
)
EMPTY = Observation("grp:a", None, log=None, progress=ABSENT)
CASES = [
    FULL,
    EMPTY,
    FULL._replace(
        log=ABSENT, progress=None, says="idle", idle_line=None, progress_after_idle=None, in_flight=0, matches={}
    ),
    FULL._replace(says=None, idle_line=True, progress_after_idle=False, gauges=Gauges(), cpu_seconds=None, tree=()),
    FULL._replace(log=0, progress=0, progress_count=0, progress_total=None, gauges=Gauges(0, 0, 0, 0, 0.0, 0, 0, 0.0)),
]


@pytest.mark.parametrize("seen", CASES)
def test_a_row_gives_back_all_that_decide_uses(seen: Observation) -> None:
    history = History()
    history.append(77.125, seen)
    (row,) = history.rows("grp:a")
    back = to_observation(json.loads(json.dumps(row)))
    assert row["at"] == 77.125
    assert back._replace(tree=()) == seen._replace(tree=(), troubles=(), phase=None)
    assert {s.state for s in back.tree} == {s.state for s in seen.tree}
    assert {s.identity for s in back.tree} <= {seen.ident}


def test_rows_come_in_order_across_blocks() -> None:
    history = History()
    for number in range(100):
        history.append(number * 5.0, FULL._replace(log=number))
    assert [row["log"] for row in history.rows("grp:a")] == list(range(100))
    assert [row["log"] for row in history.rows("grp:a", since=480.0)] == [96, 97, 98, 99]
    assert list(history.rows("grp:other")) == []


def test_an_hour_is_kept_and_no_more() -> None:
    history = History(5.0)
    for number in range(2000):
        history.append(number * 5.0, FULL._replace(log=number))
    kept = [row["log"] for row in history.rows("grp:a")]
    assert kept == list(range(2000 - 721, 2000))
    assert len(history._looks["grp:a"]._blocks) == math.ceil(HOUR / 5.0 / 30)


def test_rows_can_be_read_while_others_are_written() -> None:
    history = History()
    for number in range(40):
        history.append(float(number), FULL._replace(log=number))
    rows = history.rows("grp:a")
    first = next(rows)
    for number in range(40, 2000):
        history.append(float(number), FULL._replace(log=number))
    assert [first["log"], *(row["log"] for row in rows)] == list(range(40))


def test_patterns_may_change() -> None:
    history = History()
    for number in range(40):
        history.append(float(number), FULL._replace(log=number))
    for number in range(40, 50):
        history.append(float(number), FULL._replace(log=number, matches={OUT: number}))
    rows = list(history.rows("grp:a"))
    assert [row["log"] for row in rows] == list(range(50))
    assert to_observation(rows[39]).matches == FULL.matches
    assert to_observation(rows[40]).matches == {OUT: 40}


def test_each_process_has_a_row_a_minute() -> None:
    history = History()
    for number in range(25):
        history.append(number * 5.0, FULL)
    rows = list(history.processes("grp:a"))
    assert [(row["at"], row["pid"]) for row in rows] == [(at, pid) for at in (0.0, 60.0, 120.0) for pid in (10, 11, 12)]
    assert rows[1] == {
        "at": 0.0,
        "pid": 11,
        "starttime": 77,
        "ppid": 3,
        "comm": "worker-11",
        "state": "D",
        "rss": 900,
        "anon": 800,
        "shmem": 30,
        "fds": 11,
        "fd_limit": 1024,
        "threads": 5,
        "cpu_s": 1.5,
        "cores": 0.25,
    }


def test_a_process_of_which_nothing_is_known_has_a_row() -> None:
    history = History()
    unknown = ProcessSample(10, 70, 1, "\ufffd" * 15, "Z", 0.0, *(None,) * 8)
    history.append(0.0, FULL._replace(tree=(unknown,)))
    (row,) = history.processes("grp:a")
    assert [row[name] for name in ("rss", "fds", "cores")] == [None] * 3
    assert row["comm"].startswith("\ufffd" * 5)


def test_forgotten_programs_are_gone() -> None:
    history = History()
    history.append(1.0, FULL)
    history.append(1.0, FULL._replace(program="grp:b"))
    history.keep({"grp:b"})
    assert list(history.rows("grp:a")) == list(history.processes("grp:a")) == []
    assert len(list(history.rows("grp:b"))) == 1


def test_an_hour_takes_little_memory() -> None:
    """A busy program: what moves, moves at every look."""
    history = History()
    for number in range(720):
        gauges = FULL.gauges._replace(rss=(number * 7919 % 1000) << 20, cpu=number * 0.37 % 1)
        history.append(
            number * 5.0, FULL._replace(log=number * 131, progress=number, gauges=gauges, cpu_seconds=number * 1.7)
        )
    rows = history._looks["grp:a"]
    assert len(rows._buffer) + sum(len(block.packed) for block in rows._blocks) < 29_000
