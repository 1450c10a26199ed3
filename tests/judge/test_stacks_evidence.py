"""evidence.json to Evidence and back, and what is wrong with one that cannot be read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.judge.shapes import FIXTURES, recorded
from watchdog.judge.stacks import StacksError, evidence_from, evidence_to
from watchdog.model.evidence import Dump, Evidence, Frame, LogLines, ProcessStacks, ThreadStack

numbers = st.integers(0, 2**22)
floats = st.none() | st.floats(0, 1e6)
flags = st.none() | st.booleans()
words = st.none() | st.text(max_size=8)
frames = st.builds(Frame, st.text(max_size=8), st.text(max_size=8), st.none() | numbers)
threads = st.builds(
    ThreadStack, st.none() | numbers, words, st.lists(frames, max_size=2).map(tuple), words, words, flags, flags
)
processes = st.builds(
    ProcessStacks,
    numbers,
    st.none() | numbers,
    words,
    st.lists(threads, max_size=2).map(tuple),
    words,
    st.sampled_from([None, "main", "child"]),
    floats,
    words,
    flags,
)
dumps = st.builds(Dump, st.floats(0, 1e6), st.lists(processes, max_size=2).map(tuple))
lines = st.lists(st.text(max_size=8), max_size=2).map(tuple)
evidences = st.builds(
    Evidence, words, st.lists(dumps, max_size=2).map(tuple), floats, flags, floats, st.builds(LogLines, lines, lines)
)


@given(evidences)
def test_what_is_written_is_read_back(evidence: Evidence) -> None:
    assert evidence_from(json.loads(json.dumps(evidence_to(evidence)))) == evidence


def test_the_form_is_the_documented_one() -> None:
    thread = ThreadStack(
        102, "MainThread", (Frame("Queue.get", "multiprocessing/queues.py", 113),), "S", "futex", False, True
    )
    process = ProcessStacks(101, 1, "ami", (thread,), "R", "main", 0.25)
    evidence = Evidence("g:p_00", (Dump(15.0, (process,)),), 412.0, True, 0.5, LogLines(("out",), ("err",)))
    assert evidence_to(evidence) == {
        "version": 1,
        "program": "g:p_00",
        "quiet_s": 412.0,
        "working": True,
        "cpu_cores": 0.5,
        "dumps": [
            {
                "at_s": 15.0,
                "processes": [
                    {
                        "pid": 101,
                        "ppid": 1,
                        "comm": "ami",
                        "state": "R",
                        "role": "main",
                        "cpu_cores": 0.25,
                        "error": None,
                        "threads": [
                            {
                                "tid": 102,
                                "name": "MainThread",
                                "state": "S",
                                "wchan": "futex",
                                "active": False,
                                "gil": True,
                                "frames": [{"function": "Queue.get", "file": "multiprocessing/queues.py", "line": 113}],
                            }
                        ],
                    }
                ],
            }
        ],
        "log": {"stdout": ["out"], "stderr": ["err"]},
    }


def test_what_is_left_out_could_not_be_read() -> None:
    evidence = evidence_from({"dumps": [{"processes": [{"pid": 4, "new key": 1, "threads": [{}]}]}], "log": None})
    assert evidence == Evidence(None, (Dump(0.0, (ProcessStacks(4, None, None, (ThreadStack(None, None, ()),)),)),))


@pytest.mark.parametrize(
    ("where", "value", "says"),
    [
        ([], [], "the whole: expected an object, found []"),
        (["version"], 2, "version: this is version 2; only version 1 can be read"),
        (["version"], None, "version: expected an integer, found None"),
        (["program"], 3, "program: expected a text, found 3"),
        (["quiet_s"], float("nan"), "quiet_s: expected a number, found nan"),
        (["quiet_s"], 10**400, "quiet_s: expected a number, found 10"),
        (["cpu_cores"], True, "cpu_cores: expected a number, found True"),
        (["working"], "yes", "working: expected true, false or null, found 'yes'"),
        (["dumps"], None, "dumps: expected a list, found None"),
        (["dumps", 0], 7, "dumps[0]: expected an object, found 7"),
        (["dumps", 1, "at_s"], "x" * 50, "dumps[1].at_s: expected a number, found 'xxx"),
        (["dumps", 0, "processes", 1, "pid"], True, "dumps[0].processes[1].pid: expected an integer, found True"),
        (
            ["dumps", 0, "processes", 0, "role"],
            "boss",
            "dumps[0].processes[0].role: expected main or child, found 'boss'",
        ),
        (
            ["dumps", 0, "processes", 0, "threads", 1, "frames", 0, "line"],
            "1",
            ".threads[1].frames[0].line: expected an integer",
        ),
        (
            ["dumps", 0, "processes", 0, "threads", 0, "frames", 2, "file"],
            None,
            ".frames[2].file: expected a text, found None",
        ),
        (["log", "stdout"], ["a", 1], "log.stdout[1]: expected a text, found 1"),
    ],
)
def test_a_wrong_value_is_named_by_its_path(where: list[str | int], value: object, says: str) -> None:
    whole: Any = json.loads((FIXTURES / "lost_batch_fork.json").read_text())
    if not where:
        whole = value
    else:
        inner = whole
        for step in where[:-1]:
            inner = inner[step]
        inner[where[-1]] = value
    with pytest.raises(StacksError) as caught:
        evidence_from(whole)
    assert says in str(caught.value)
    assert caught.value.path and caught.value.line is None
    assert len(str(caught.value)) < 140


def test_an_object_without_dumps_is_something_else() -> None:
    with pytest.raises(StacksError, match=r"no evidence\.json"):
        evidence_from({"incident": "x"})


def test_every_recorded_file_comes_back_the_same() -> None:
    names = sorted(path.stem for path in FIXTURES.glob("*.json") if not path.stem.startswith("py-spy"))
    assert len(names) >= 17
    for name in names:
        assert evidence_from(evidence_to(recorded(name))) == recorded(name)
