"""The levels of a tree."""

import pytest

from watchdog.look.gauges import cpu_seconds_of, gauges_of
from watchdog.model.observation import NO_GAUGES, Gauges, ProcessSample

MAIN = ProcessSample(10, 500, 1, "main", "S", 4.0, 0.5, 1070, 1000, 20, 50, 30, 100, 7)
CHILD = ProcessSample(11, 600, 10, "child", "R", 2.0, 0.25, 2430, 2000, 30, 400, 90, 120, 3)
ZOMBIE = ProcessSample(12, 700, 10, "gone", "Z", 1.0, 0.0, None, None, None, None, None, None, 1)


def test_levels_are_summed_and_shared_memory_counts_once() -> None:
    assert gauges_of((MAIN, CHILD), 5.0) == Gauges(
        rss=1000 + 2000 + 20 + 30 + 400,
        anon=3000,
        shmem=400,
        fds=120,
        fds_ratio=0.75,
        threads=10,
        processes=2,
        cpu=0.75,
    )


def test_zombies_are_left_out_and_hide_nothing() -> None:
    assert gauges_of((MAIN, ZOMBIE), 5.0) == gauges_of((MAIN,), 5.0)
    assert gauges_of((ZOMBIE,), 5.0) == NO_GAUGES
    assert gauges_of((), 5.0) == NO_GAUGES


@pytest.mark.parametrize(
    ("field", "gauges"),
    [
        ("anon", {"rss", "anon"}),
        ("file", {"rss"}),
        ("shmem", {"rss", "shmem"}),
        ("fds", {"fds"}),
        ("threads", {"threads"}),
    ],
)
def test_an_unknown_part_makes_the_sum_unknown(field: str, gauges: set[str]) -> None:
    child = ProcessSample(**{**CHILD._asdict(), field: None})
    found = gauges_of((MAIN, child), 5.0)
    assert {name for name, value in found._asdict().items() if value is None} == gauges


def test_the_ratio_is_of_the_process_nearest_to_its_limit() -> None:
    assert gauges_of((MAIN, CHILD._replace(fd_limit=None)), 5.0).fds_ratio == 0.3
    assert gauges_of((MAIN._replace(fds=None),), 5.0).fds_ratio is None


def test_cpu_is_unknown_at_the_first_look() -> None:
    assert gauges_of((MAIN._replace(cores=None),), 5.0).cpu is None
    assert gauges_of((MAIN,), None).cpu is None
    assert gauges_of((MAIN,), 0.0).cpu is None


def test_a_process_first_seen_used_its_cpu_since_the_last_look() -> None:
    assert gauges_of((MAIN, CHILD._replace(cores=None)), 4.0).cpu == 0.5 + 2.0 / 4.0


def test_cpu_seconds_of_the_tree() -> None:
    assert cpu_seconds_of((MAIN, CHILD, ZOMBIE)) == 7.0
    assert cpu_seconds_of(()) is None
