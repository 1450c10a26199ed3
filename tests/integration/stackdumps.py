"""Real sample programs, dumped by the real py-spy. May start processes, and ends each that it started.

`python -m tests.integration.stackdumps DIRECTORY` records the dumps that tests/judge reads again from tests/fixtures/stacks.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from watchdog.judge.stacks import ThreadKey, evidence_to, moved, threads_from_json
from watchdog.model.evidence import Dump, Evidence, ProcessStacks, ThreadStack

CHECKOUT = Path(__file__).parent.parent.parent
PY_SPY = Path(sys.executable).with_name("py-spy")
PATIENCE = 20.0
"""Seconds for a program to start, on a busy machine; it takes one."""


@contextmanager
def running(program: str, *args: str) -> Iterator[psutil.Process]:
    """A sample program, once its stacks stand still; ended with all of its tree."""
    with subprocess.Popen(
        [sys.executable, "-m", f"tests.programs.{program}", *args],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=CHECKOUT,
    ) as started:
        process = psutil.Process(started.pid)
        tree = [process]
        try:
            tree = _settled_tree(process)
            yield process
        finally:
            with suppress(psutil.NoSuchProcess):
                tree += process.children(recursive=True)
            for one in tree:
                with suppress(psutil.NoSuchProcess):
                    one.kill()


def _settled_tree(process: psutil.Process) -> list[psutil.Process]:
    """The tree, when no main thread has moved for a second."""
    until = time.monotonic() + PATIENCE
    before, since = dump(process), time.monotonic()
    while time.monotonic() < until:
        time.sleep(0.2)
        now = dump(process)
        if moved(before, now, _main_keys(now)) is not False or len(before.processes) != len(now.processes):
            before, since = now, time.monotonic()
        elif time.monotonic() - since > 1.0:
            return [process, *process.children(recursive=True)]
    raise AssertionError(f"the stacks of {process.cmdline()} never stood still")


def _main_keys(dumped: Dump) -> list[ThreadKey]:
    """Of every process, the helpers too."""
    return [ThreadKey(process.pid, process.pid, None) for process in dumped.processes]


def dump(process: psutil.Process, at_s: float = 0.0) -> Dump:
    """Every process of the tree, each by a py-spy of its own."""
    tree = [process, *process.children(recursive=True)]
    return Dump(at_s, tuple(_stacks(one, process.pid) for one in tree))


def _stacks(process: psutil.Process, main: int) -> ProcessStacks:
    threads, error = tuple[ThreadStack, ...](), None
    printed = py_spy(process.pid, "--json")
    if printed.returncode == 0:
        threads = threads_from_json(json.loads(printed.stdout))
    else:
        error = printed.stderr.strip()
    return ProcessStacks(
        process.pid,
        process.ppid(),
        process.name(),
        threads,
        "S",
        "main" if process.pid == main else "child",
        error=error,
    )


def py_spy(pid: int, *options: str, command: Path = PY_SPY) -> subprocess.CompletedProcess[str]:
    """`py-spy dump` of one process."""
    line = [str(command), "dump", "--nonblocking", "--pid", str(pid), *options]
    return subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE, check=False)


def evidence(process: psutil.Process, *, apart: float = 0.3, working: bool | None = None) -> Evidence:
    """Two dumps, and the facts of a program that has been silent for long."""
    first = dump(process)
    time.sleep(apart)
    return Evidence("sample:sample_00", (first, dump(process, apart)), quiet_s=412.0, working=working, cpu_cores=0.0007)


def scrubbed(text: str) -> str:
    """Without the paths of the machine on which it was recorded."""
    text = re.sub(r"/[^\s\"]*/lib/python3\.\d+/", "/usr/lib/python3.11/", text)
    text = text.replace(f"{CHECKOUT}/tests/programs", "/srv/worker")
    return re.sub(r"/[^\s\"():]*/bin/", "/usr/bin/", text)


RECORDED = {
    "lost_batch_fork": ("lost_batch", "fork"),
    "lost_batch_forkserver": ("lost_batch", "forkserver", "2"),
    "lost_batch_spawn": ("lost_batch", "spawn"),
    "idle_alone": ("idle_queue", "alone"),
    "idle_process": ("idle_queue", "process"),
    "idle_pool": ("idle_queue", "pool"),
    "idle_executor": ("idle_queue", "executor"),
    "idle_loaders": ("idle_queue", "loaders"),
    "slow_sleep": ("slow_loader", "sleep"),
    "slow_own_queue": ("slow_loader", "own-queue"),
    "slow_uploads": ("slow_loader", "uploads"),
}


def record(directory: Path) -> None:
    """Write each sample's evidence.json anew."""
    for name, (program, *args) in RECORDED.items():
        with running(program, *args) as process:
            found = evidence_to(evidence(process))
        path = directory / f"{name}.json"
        path.write_text(scrubbed(json.dumps(found, indent=1)) + "\n")
        print(path)


if __name__ == "__main__":
    record(Path(sys.argv[1]))
