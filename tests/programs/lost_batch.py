"""A parent and its loader children on multiprocessing queues, which lose one batch. May start processes; prints `Batch N`.

    python -m tests.programs.lost_batch fork|forkserver|spawn [CHILDREN]

The third batch cannot be pickled: the child's QueueFeederThread prints the traceback to stderr and drops it, after `put` has
returned. The parent waits for it for ever, and the children wait for a task.
"""

from __future__ import annotations

import multiprocessing
import sys
from typing import Any, NoReturn

from tests.programs.ptraced import allow_any_tracer

LOST = 3


class Unsendable:
    """Breaks in the feeder thread, as a tensor does whose shared memory file is gone."""

    def __reduce__(self) -> NoReturn:
        raise RuntimeError("could not unlink the shared memory file /torch_1_2_3 : No such file or directory (2)")


def loader_loop(tasks: Any, batches: Any) -> None:
    allow_any_tracer()
    while True:
        number = tasks.get()
        batches.put(Unsendable() if number == LOST else number)


def main(method: str, children: int) -> None:
    allow_any_tracer()
    context: Any = multiprocessing.get_context(method)
    tasks, batches = context.Queue(), context.Queue()
    for _ in range(children):
        context.Process(target=loader_loop, args=(tasks, batches), daemon=True).start()
    for number in range(1, 6):
        tasks.put(number)
        print(f"Batch {batches.get()}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1)
