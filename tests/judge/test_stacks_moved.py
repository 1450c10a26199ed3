"""Same or moved: what counts is where a thread stands beyond its plain waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.judge.shapes import process, thread
from watchdog.judge.stacks import ThreadKey, moved, moved_between
from watchdog.model.evidence import Dump, ThreadStack

MAIN = ThreadKey(7, 7, None)
POLL = (
    "_PollLikeSelector.select (selectors.py:415)",
    "wait (multiprocessing/connection.py:947)",
    "Connection._poll (multiprocessing/connection.py:440)",
    "_ConnectionBase.poll (multiprocessing/connection.py:257)",
    "Queue.get (multiprocessing/queues.py:113)",
)
WORK = ("_try_get_data (torch/utils/data/dataloader.py:1291)", "work (app/worker.py:20)", "<module> (app/worker.py:30)")


def dump(*frames: str, tid: int = 7) -> Dump:
    return Dump(0.0, (process(7, thread(tid, *frames)),))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((*POLL, *WORK), (*POLL, *WORK), False),
        # The wait wakes, and waits again: at another line, or deeper within itself.
        ((*POLL, *WORK), ("Queue.get (multiprocessing/queues.py:99)", *WORK), False),
        (
            (*POLL, *WORK),
            ("Connection._recv (billiard/connection.py:1)", "get (multiprocess/queues.py:9)", *WORK),
            False,
        ),
        (("wait (threading.py:327)", *WORK), ("wait (threading.py:331)", "get (queue.py:180)", *WORK), False),
        # Out of the wait, though its caller is the same.
        ((*POLL, *WORK), ("_try_get_data (torch/utils/data/dataloader.py:1299)", *WORK[1:]), True),
        ((*POLL, *WORK), (*POLL, "other (torch/utils/data/dataloader.py:1291)", *WORK[1:]), True),
        ((*POLL, *WORK), (*POLL, "_try_get_data (my/dataloader.py:1291)", *WORK[1:]), True),
        ((*POLL, *WORK), (*POLL, WORK[0], "work (app/worker.py:21)", WORK[2]), True),
        ((*POLL, *WORK), (*POLL, *WORK[1:]), True),
        # A wait's own name in a file of somebody else is no plain wait.
        (("get (my_queue.py:1)", *WORK), ("get (my_queue.py:2)", *WORK), True),
        # The two spellings of py-spy.
        (("Loop.step (a.py:3)", *WORK), ("step (a.py:3)", *WORK), False),
        # Nothing but waits.
        (POLL, POLL[4:], False),
        # What a forked child inherited does not count.
        (
            (*WORK, "_bootstrap (multiprocessing/process.py:314)", "a (b.py:1)"),
            (*WORK, "_bootstrap (multiprocessing/process.py:314)"),
            False,
        ),
        ((), WORK, None),
        (WORK, (), None),
    ],
)
def test_moved(a: tuple[str, ...], b: tuple[str, ...], expected: bool | None) -> None:
    assert moved(dump(*a), dump(*b), [MAIN]) is expected
    assert moved(dump(*b), dump(*a), [MAIN]) is expected


def test_only_the_threads_that_were_asked_for() -> None:
    helper = thread(8, "beat (app/beat.py:1)")
    a = Dump(0.0, (process(7, thread(7, *WORK), helper),))
    b = Dump(1.0, (process(7, thread(7, *WORK), replace(helper, frames=thread(8, "beat (app/beat.py:2)").frames)),))
    assert moved(a, b, [MAIN]) is False
    assert moved(a, b, [MAIN, ThreadKey(7, 8, None)]) is True


def test_what_cannot_be_compared_is_unknown_but_never_hides_a_movement() -> None:
    a, b = dump(*WORK), dump(*WORK, tid=9)
    assert moved(a, b, [MAIN]) is None  # missing there
    assert moved(a, Dump(1.0, ()), [MAIN]) is None
    assert moved(a, a, [MAIN, ThreadKey(5, 5, None)]) is None
    assert moved(a, a, []) is None
    unread = Dump(1.0, (process(7, thread(7, *WORK), error="Permission denied"),))
    assert moved(a, unread, [MAIN]) is None
    assert moved(a, dump(*WORK[1:]), [ThreadKey(5, 5, None), MAIN]) is True


def test_a_thread_without_kernel_id_is_known_by_its_name() -> None:
    def named(name: str, line: int) -> ThreadStack:
        return replace(thread(7, f"f (a.py:{line})"), tid=None, name=name)

    a = Dump(0.0, (process(7, named("one", 1), named("two", 1)),))
    b = Dump(1.0, (process(7, named("one", 1), named("two", 2)),))
    assert moved(a, b, [ThreadKey(7, None, "one")]) is False
    assert moved(a, b, [ThreadKey(7, None, "two")]) is True


def test_over_several_dumps() -> None:
    still, gone, empty = dump(*POLL, *WORK), dump(*WORK), dump()
    assert moved_between((still,), [MAIN]) is None
    assert moved_between((still, still, still), iter([MAIN])) is False
    assert moved_between((still, dump(*WORK[1:]), still), [MAIN]) is True
    assert moved_between((still, still, empty), [MAIN]) is None
    assert moved_between((still, gone), [MAIN]) is False
