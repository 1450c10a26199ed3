"""Real programs in the states that signatures name, dumped by the real py-spy: what its output says must go on being understood."""

from __future__ import annotations

import json

import pytest

from tests.integration import stackdumps
from tests.judge.shapes import judged
from watchdog.judge import stacks
from watchdog.model.evidence import ThreadStack


@pytest.mark.parametrize(
    ("program", "args", "working", "verdict", "kind"),
    [
        ("lost_batch", ("fork",), True, "wedged", "queue-lost-item"),
        ("lost_batch", ("forkserver", "2"), True, "wedged", "queue-lost-item"),
        ("idle_queue", ("alone",), None, "idle", "idle-queue-worker"),
        ("slow_loader", ("own-queue",), True, "unknown", None),
    ],
)
def test_a_real_program(
    program: str, args: tuple[str, ...], working: bool | None, verdict: str, kind: str | None
) -> None:
    with stackdumps.running(program, *args) as process:
        diagnosis = judged(stackdumps.evidence(process, working=working))
    assert (diagnosis.verdict, diagnosis.kind) == (verdict, kind), diagnosis.why


def test_the_printed_form_says_what_the_json_says() -> None:
    """Thread names with quotes and line ends included; only what is above a file's name may differ."""
    with stackdumps.running("odd_names") as process:
        (printed,) = stacks.parse(stackdumps.py_spy(process.pid, "--locals").stdout)
        listed = stacks.threads_from_json(json.loads(stackdumps.py_spy(process.pid, "--json").stdout))
    assert printed.pid == process.pid
    assert {thread.name for thread in listed} == {"MainThread", 'odd "na\nme"', "plain"}

    def told(threads: tuple[ThreadStack, ...]) -> list[object]:
        ordered = sorted(threads, key=lambda thread: thread.tid or 0)
        return [(t.tid, t.name, t.active, t.gil, [(f.function, f.line) for f in t.frames]) for t in ordered]

    assert told(printed.threads) == told(listed)


def test_a_process_that_is_gone_gives_no_dump() -> None:
    with stackdumps.running("odd_names") as process:
        pid = process.pid
    with pytest.raises(stacks.StacksError, match="no process in it"):
        stacks.parse(stackdumps.py_spy(pid).stdout)
