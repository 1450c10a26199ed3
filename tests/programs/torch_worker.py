"""A torch worker whose loader child can lose a batch as RolnickLab/ami-data-companion#140 did. Reads no file, writes only its log.

The batches are lists of ordinary tensors (`collate_fn=list`), so the child allocates their shared memory in its QueueFeederThread.
If another process (torch_thief.py) removes a name of it in the window between shm_open and shm_unlink, that thread prints
`could not unlink the shared memory file` to stderr, and drops the batch: the parent waits for it for ever.

    torch_worker.py [--context fork|forkserver] [--slow | --own-queue]
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import threading
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

FLOATS = 7_500_000
"""Of one tensor: 30 MB. The window in which a name can be stolen grows with the tensor (5 ms at 9 MB)."""

SOURCE_SECONDS = 0.25
"""A source that takes so long for a tensor, under a parent that is quicker: nothing is prefetched, the marker comes last."""

CONSUMER_SECONDS = 0.5
"""--slow: a parent that takes so long for a batch, over a quicker source: four batches follow the marker."""

OWN_QUEUE_SECONDS = 14.0
"""--own-queue: from one batch to the next. Longer than the shortened stall thresholds of the tests."""

_PR_SET_PTRACER = 0x59616D61
_PR_SET_PTRACER_ANY = ctypes.c_ulong(-1)


def allow_any_tracer(_worker: int = 0) -> None:
    """Let py-spy look into this process under Yama. Not inherited, so each process of the tree calls it."""
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _PR_SET_PTRACER_ANY, 0, 0, 0)


def say(text: str) -> None:
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} [info     ] {text}", flush=True)


class Pictures(IterableDataset):
    """Tensors without end, each after `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __iter__(self) -> Iterator[torch.Tensor]:
        while True:
            time.sleep(self.seconds)
            yield torch.zeros(FLOATS)


class Requested(IterableDataset):
    """Tensors as they are asked for through a queue of the dataset's own: a healthy child that sits in `Queue.get`."""

    def __init__(self, requests: Any) -> None:
        self.requests = requests

    def __iter__(self) -> Iterator[torch.Tensor]:
        while True:
            size = self.requests.get()
            yield torch.zeros(size)


def request_for_ever(requests: Any) -> None:
    while True:
        requests.put(FLOATS)
        time.sleep(OWN_QUEUE_SECONDS)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--context", choices=("fork", "forkserver"), default="fork")
    parser.add_argument("--slow", action="store_true", help="consume more slowly than the child prefetches")
    parser.add_argument("--own-queue", action="store_true", help="a dataset that waits on a queue of its own")
    args = parser.parse_args()
    allow_any_tracer()
    torch.set_num_threads(1)
    context = multiprocessing.get_context(args.context)
    requests = context.Queue() if args.own_queue else None
    dataset = Requested(requests) if args.own_queue else Pictures(0.0 if args.slow else SOURCE_SECONDS)
    say("No jobs found, sleeping for 5 seconds")
    say("Processing job 1 with pipeline 1")
    batches = iter(load(dataset, args.context))
    if args.own_queue:
        threading.Thread(target=request_for_ever, args=(requests,), daemon=True).start()
    classify(batches, CONSUMER_SECONDS if args.slow else 0.0)


def load(dataset: IterableDataset, context: str) -> DataLoader:
    return DataLoader(
        dataset,
        batch_size=1,
        num_workers=1,
        collate_fn=list,
        persistent_workers=True,
        prefetch_factor=4,
        multiprocessing_context=context,
        worker_init_fn=allow_any_tracer,
    )


def classify(batches: Iterator[Any], seconds: float) -> None:
    began = time.monotonic()
    for number, _images in enumerate(batches, 1):
        time.sleep(seconds)
        spent, began = time.monotonic() - began, time.monotonic()
        say(f"Batch {number}: {spent:.2f}s/image, Classification time: {seconds:.2f}s")


if __name__ == "__main__":
    main()
