"""Workers that wait for their next job, as they should. May start processes; prints `ready` when it waits.

idle_queue.py alone      its main thread waits in a queue.Queue that another thread feeds
idle_queue.py process    its main thread waits in a multiprocessing.Queue
idle_queue.py pool       the same as alone, with an idle multiprocessing.Pool
idle_queue.py executor   the same as alone, with an idle ProcessPoolExecutor
idle_queue.py loaders    a parent in a multiprocessing.Queue, over children that wait for tasks: nothing was lost, no job is there
"""

from __future__ import annotations

import multiprocessing
import queue
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from tests.programs.ptraced import allow_any_tracer


def take_jobs(jobs: Any) -> None:
    print("ready", flush=True)
    while True:
        jobs.get()


def answer(tasks: Any, results: Any) -> None:
    allow_any_tracer()
    while True:
        results.put(tasks.get())


def alone() -> None:
    jobs: queue.Queue[int] = queue.Queue()
    threading.Thread(target=threading.Event().wait, name="poller", daemon=True).start()
    take_jobs(jobs)


def loaders() -> None:
    tasks: Any = multiprocessing.Queue()
    results: Any = multiprocessing.Queue()
    for _ in range(2):
        multiprocessing.Process(target=answer, args=(tasks, results), daemon=True).start()
    tasks.put(1)
    results.get()
    take_jobs(results)


def main(kind: str) -> None:
    allow_any_tracer()
    if kind == "process":
        take_jobs(multiprocessing.Queue())
    elif kind == "loaders":
        loaders()
    elif kind == "pool":
        with multiprocessing.Pool(2, allow_any_tracer) as pool:
            pool.map(abs, range(4))
            alone()
    elif kind == "executor":
        with ProcessPoolExecutor(2, initializer=allow_any_tracer) as executor:
            list(executor.map(abs, range(4)))
            alone()
    else:
        alone()


if __name__ == "__main__":
    main(sys.argv[1])
