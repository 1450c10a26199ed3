"""A sample worker that costs next to nothing: a parent that prints a batch now and then, and children that only wait.

Run with `python -S -E`, so that a thousand of them fit on a small host: the children share their parent's pages.
"""

import ctypes
import os
import signal
import sys
import time

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Arguments: how many children, seconds between two batches."""
    children, every = int(sys.argv[1]), float(sys.argv[2])
    for _ in range(children):
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            while True:
                signal.pause()
    time.sleep(every * (os.getpid() % 100) / 100)  # not all in the same second
    batch = 0
    while True:
        batch += 1
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        print(f"{stamp} [info     ] Batch {batch}: 0.13s/image, Classification time: 0.10s", flush=True)
        time.sleep(every)


main()
