"""Steal one shared-memory name of one worker's loader child, as a wipe of /dev/shm by logind does to every worker of a user.

    torch_thief.py PID [--within SECONDS]

May unlink one `/dev/shm/torch_<pid>_*` whose <pid> is a descendant of PID, and nothing else. Prints the name; exit 1: none.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

SHM = Path("/dev/shm")


def descendants(pid: int) -> set[int]:
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found |= {int(child)} | descendants(int(child))
    return found


def steal(pids: set[int], until: float) -> str | None:
    """The window is a few milliseconds, so this looks as often as it can."""
    prefixes = tuple(f"torch_{pid}_" for pid in pids)
    while time.monotonic() < until:
        for name in os.listdir(SHM):
            if name.startswith(prefixes):
                try:
                    os.unlink(SHM / name)
                except FileNotFoundError:
                    continue
                return name
    return None


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("pid", type=int)
    parser.add_argument("--within", type=float, default=30.0)
    args = parser.parse_args()
    name = steal(descendants(args.pid), time.monotonic() + args.within)
    print(name)
    return 0 if name else 1


if __name__ == "__main__":
    sys.exit(main())
