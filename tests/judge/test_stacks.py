"""py-spy's output to threads: recorded from the real thing, then cut, coloured and spoilt."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.judge.shapes import FIXTURES
from watchdog.judge import stacks
from watchdog.judge.stacks import StacksError
from watchdog.model.evidence import Frame, ProcessStacks, ThreadStack

OLD = (FIXTURES / "py-spy-0.4.1.txt").read_text()
NEW = (FIXTURES / "py-spy-0.4.3.txt").read_text()
JSON = (FIXTURES / "py-spy-0.4.3.json").read_text()

HEAD = "Process 7: python -c x\nPython v3.11.7 (/usr/bin/python3.11)\n\n"


def main_thread(process: ProcessStacks) -> ThreadStack:
    return next(thread for thread in process.threads if thread.tid == process.pid)


@pytest.mark.parametrize(("text", "get"), [(OLD, "get"), (NEW, "Queue.get"), (JSON, "Queue.get")])
def test_each_form_of_one_recorded_program(text: str, get: str) -> None:
    parsed = stacks.parse(text)
    assert [process.pid for process in parsed] == [1074, 1114, 1119, 1136]
    frames = main_thread(parsed[0]).frames
    assert frames[3] == Frame(get, "multiprocessing/queues.py", 103)
    assert frames[-1].function == "<module>"
    assert [frame.name for frame in main_thread(parsed[3]).frames][-3:] == ["_serve_one", "main", "<module>"]
    assert all(process.python for process in parsed)


def test_the_three_forms_say_the_same_of_places() -> None:
    def places(text: str) -> list[tuple[int, int | None, list[tuple[str, int | None]]]]:
        threads = [(p.pid, t) for p in stacks.parse(text) for t in sorted(p.threads, key=lambda t: t.tid or 0)]
        return [(pid, t.tid, [(f.name, f.line) for f in t.frames]) for pid, t in threads]

    assert places(OLD) == places(NEW) == places(JSON)


def test_the_parent_is_known_where_it_is_printed() -> None:
    assert [process.ppid for process in stacks.parse(NEW)] == [None, 1074, 1074, 1119]
    assert [process.ppid for process in stacks.parse(OLD)] == [None] * 4


def test_status_colour_hexadecimal_ids_and_line_ends() -> None:
    text = (
        "\x1b[1mProcess 7\x1b[0m: python\r\n"
        'Thread \x1b[33m7\x1b[0m (active+gil): "MainThread"\r\n    \x1b[32mf\x1b[0m (a.py:\x1b[2m3\x1b[0m)\r\n'
        'Thread 0x7F5C (active)\r\nThread 9 (idle): ""\r\n'
    )
    assert stacks.parse(text)[0].threads == (
        ThreadStack(7, "MainThread", (Frame("f", "a.py", 3),), active=True, gil=True),
        ThreadStack(None, None, (), active=True, gil=False),
        ThreadStack(9, "", (), active=False, gil=False),
    )


def test_a_command_of_several_lines_is_not_read_as_threads() -> None:
    text = 'Process 7: python -c \nfor x in y:\n    f (x)\n    broken\nPython v3.11.7 (/x)\n\nThread 7 (idle): "M"\n'
    assert stacks.parse(text)[0].threads == (ThreadStack(7, "M", (), active=False, gil=False),)


def test_names_hold_quotes_and_line_ends() -> None:
    text = HEAD + 'Thread 8 (idle): "odd "na\nme""\n    run (threading.py:982)\nThread 7 (idle): "\n\n"\n'
    assert [thread.name for thread in stacks.parse(text)[0].threads] == ['odd "na\nme"', "\n\n"]


def test_arguments_and_locals_are_passed_over() -> None:
    text = (
        HEAD
        + 'Thread 7 (idle): "M"\n    f (a.py:1)\n        Arguments:\n            x: "g (b.py:2)"\n    <module> (a.py:9)\n'
    )
    assert [frame.function for frame in stacks.parse(text)[0].threads[0].frames] == ["f", "<module>"]


def test_native_frames_have_no_line() -> None:
    text = (
        HEAD + 'Thread 7 (idle): "M"\n    at::foo(int, char*) (libtorch.so)\n    poll (libc.so.6)\n\t f (/a b/c.py:1)\n'
    )
    frames = stacks.parse(text)[0].threads[0].frames
    assert frames == (
        Frame("at::foo(int, char*)", "libtorch.so"),
        Frame("poll", "libc.so.6"),
        Frame("f", "/a b/c.py", 1),
    )


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", None, "Process PID"),
        ("[]", None, "Process PID"),
        ("Error: Failed to find python version from target process\n", None, "Process PID"),
        ('Thread 7 (idle): "M"\n', 1, "of which process"),
        (HEAD + "Thread 7", 4, "cut off"),
        (HEAD + "Thread 7 (asleep)\n", 4, "cut off"),
        (HEAD + 'Thread 7 (idle): "Ma', 4, "no end"),
        (HEAD + 'Thread 7 (idle): "Ma\n    f (a.py:1)\n', 4, "no end"),
        (HEAD + 'Thread 7 (idle): "M"\n    f (a.py:1)\n    g (a.py', 6, "cut off"),
        (JSON[:-20], 392, "cut off"),
        ('[{"pid": 1, "frames": []}]\n[{"frames": []}]', 2, "of which process"),
        ('[{"pid": true, "frames": []}]', 1, "of which process"),
        ("[] 5", 1, "list of threads"),
        ("[1]", None, "[0]: expected a thread"),
        ('[{"pid": 1}]', None, "[0]: expected a thread"),
        ('[{"pid": 1, "frames": [{"name": "f"}, 3]}]', None, "[0].frames[1]: expected a frame"),
        ('[{"pid": 1, "frames": [{"name": 3}]}]', None, "[0].frames[0]: expected a frame"),
        ("[" * 100_000, None, "no JSON of py-spy"),
        ("[" + "1" * 5000 + "]", None, "no JSON of py-spy"),
    ],
)
def test_what_cannot_be_read_says_where(text: str, line: int | None, says: str) -> None:
    with pytest.raises(StacksError) as caught:
        stacks.parse(text)
    assert caught.value.line == line
    assert says in str(caught.value)
    assert line is None or str(caught.value).startswith(f"line {line}: ")


@given(
    st.text() | st.lists(st.sampled_from([*NEW.splitlines(keepends=True), "Thread 1", '"', "    x", "["])).map("".join)
)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert stacks.parse(text)
    except StacksError as error:
        assert str(error)


def test_json_keeps_what_signatures_need_of_a_path() -> None:
    def file(filename: object, short: object) -> str:
        frame = {"name": "f", "filename": filename, "short_filename": short, "line": 0, "unheard_of": {}}
        (thread,) = stacks.threads_from_json([{"pid": 1, "frames": [frame]}])
        assert thread.frames[0].line is None
        return thread.frames[0].file

    assert file("/usr/lib/python3.11/multiprocessing/queues.py", "queues.py") == "multiprocessing/queues.py"
    assert (
        file("/v/lib/python3.12/site-packages/torch/utils/data/dataloader.py", "x") == "torch/utils/data/dataloader.py"
    )
    assert file("/usr/lib/python3/dist-packages/billiard/pool.py", None) == "billiard/pool.py"
    assert file("/srv/app/worker.py", "worker.py") == "/srv/app/worker.py"
    assert file(None, "worker.py") == "worker.py"
    assert file(None, 3) == ""


def test_json_of_wrong_types_is_unknown_not_wrong() -> None:
    (thread,) = stacks.threads_from_json(
        [{"os_thread_id": "9", "thread_name": 4, "active": 1, "owns_gil": None, "frames": []}]
    )
    assert thread == ThreadStack(None, None, ())
    (thread,) = stacks.threads_from_json(
        [{"os_thread_id": 9, "thread_name": 'a"\n', "active": True, "owns_gil": True, "frames": []}]
    )
    assert thread == ThreadStack(9, 'a"\n', (), active=True, gil=True)
    with pytest.raises(StacksError):
        stacks.threads_from_json({})


def test_a_pid_that_comes_again_begins_the_next_dump() -> None:
    evidence = stacks.read(OLD + OLD.replace(":103)", ":99)"))
    assert [len(dump.processes) for dump in evidence.dumps] == [4, 4]
    assert [dump.at_s for dump in evidence.dumps] == [0.0, 1.0]
    assert evidence.quiet_s is evidence.working is evidence.cpu_cores is None


def test_read_tells_the_forms_apart() -> None:
    assert stacks.read(' {"dumps": []} ').dumps == ()
    assert stacks.read(json.dumps(json.loads(JSON[: JSON.index("\n]") + 2]))).dumps[0].processes[0].pid == 1074
    with pytest.raises(StacksError, match="cut off"):
        stacks.read('{"dumps": [')
