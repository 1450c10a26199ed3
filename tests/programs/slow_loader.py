"""A parent that waits for a batch from a child that gets one slowly. May start a process; prints `Batch N`, then `ready`.

slow_loader.py sleep      the child sleeps over the batch
slow_loader.py own-queue  the child's source waits in a queue of its own, which a thread of the parent feeds slowly
slow_loader.py uploads    both wait in queues, while a thread of the parent still loads what the next task needs
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from typing import Any

from tests.programs.ptraced import allow_any_tracer

FOR_EVER = 3600.0


def fetch(kind: str, source: Any, number: int) -> int:
    if number == 1:
        return number
    if kind == "sleep":
        time.sleep(FOR_EVER)
    return int(source.get())


def loader_loop(kind: str, tasks: Any, batches: Any, source: Any) -> None:
    allow_any_tracer()
    while True:
        batches.put(fetch(kind, source, tasks.get()))


def feed_slowly(somebody: Any) -> None:
    time.sleep(FOR_EVER)
    somebody.put(2)


def main(kind: str) -> None:
    allow_any_tracer()
    tasks: Any = multiprocessing.Queue()
    batches: Any = multiprocessing.Queue()
    source: Any = multiprocessing.Queue()
    multiprocessing.Process(target=loader_loop, args=(kind, tasks, batches, source), daemon=True).start()
    tasks.put(1)
    print(f"Batch {batches.get()}", flush=True)
    if kind != "sleep":
        threading.Thread(target=feed_slowly, args=(source if kind == "own-queue" else tasks,), daemon=True).start()
    if kind != "uploads":
        tasks.put(2)
    print("ready", flush=True)
    batches.get()


if __name__ == "__main__":
    main(sys.argv[1])
