"""The deciding thread on its own."""

from __future__ import annotations

import queue
import time
from typing import Any, cast

from watchdog.daemon.loop import Item, Loop
from watchdog.daemon.sdnotify import Notifier
from watchdog.model.rule import Ruleset
from watchdog.model.vitals import Vitals
from watchdog.model.world import Host, World


def test_it_sleeps_while_a_begun_restart_is_finished_and_nothing_happens() -> None:
    """Without ticks no tick's deadline ever moves on, and one that has passed must not keep it awake."""
    items: queue.SimpleQueue[Item] = queue.SimpleQueue()
    nobody = cast("Any", None)
    loop = Loop(
        items,
        Ruleset(interval=0.001),
        World(Host(), {}, {}),
        Vitals(pid=1, started_wall=0.0),
        nobody,
        nobody,
        Notifier({}),
    )
    time.sleep(0.01)
    asked = 0
    until = time.monotonic() + 0.5

    def done(_: World) -> bool:
        nonlocal asked
        asked += 1
        return time.monotonic() > until

    loop.run(done)
    assert asked < 10
