"""Runs one command and, when its own stdin ends, ends every process that came of it. Run as a program; imports nothing of ours.

    python warden.py FOLDER OUTPUT COMMAND...

It prints the command's pid. Descendants that lose their parent become this process's children (PR_SET_CHILD_SUBREAPER), also
those that called setsid or cleared their environment, so none can get away; and stdin ends when the test run dies, even by SIGKILL.
Only its own children are ever signalled: until they are waited for here, their pids are theirs. At last FOLDER is removed. Exit
status 1: some did not end.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
WITHIN = 10.0


def main(folder: str, output: str, command: list[str]) -> int:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with open(output, "ab") as log:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    print(child.pid, flush=True)
    while not select.select([0], [], [], 0.05)[0]:
        reap()
    if not end_children(time.monotonic() + WITHIN):
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def reap() -> bool:
    """Wait for every child that has ended. False: there are no children at all."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def end_children(until: float) -> bool:
    while reap():
        if time.monotonic() > until:
            print("these did not end:", *children(), file=sys.stderr)
            return False
        for pid in children():
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    return True


def children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
