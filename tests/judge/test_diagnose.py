"""How a diagnosis is made, on signatures and stacks that are as small as they can be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.judge.shapes import process, thread
from watchdog.judge.diagnose import as_json, diagnose
from watchdog.model.evidence import Diagnosis, Dump, Evidence, LogLines, Matched, ProcessStacks
from watchdog.model.signature import Advice, FramePattern, Needs, Signature, ThreadPattern, Verdict

WAIT = ("select (selectors.py:415)", "take (app/queues.py:3)", "step (app/loop.py:5)", "<module> (app/main.py:9)")
LOOP = ("take (app/queues.py:3)", "child_loop (app/child.py:7)", "_bootstrap (multiprocessing/process.py:314)", *WAIT)


def pattern(*path: str, thread: str = "main", leaf: str = "", **more: Any) -> ThreadPattern:
    def read(text: str) -> FramePattern:
        functions, _, file = text.partition("@")
        return FramePattern(tuple(functions.split("|")), file)

    more["without"] = tuple(read(text) for text in more.get("without", ()))
    return ThreadPattern(thread, tuple(read(p) for p in path), tuple(read(p) for p in leaf.split()), **more)


TAKES = pattern("take@app/queues.py", "step@loop.py")
CHILD = pattern("take@app/queues.py", "child_loop@child.py", direct=True)


def signature(kind: str = "stuck", verdict: Verdict = "wedged", main: ThreadPattern = TAKES, **more: Any) -> Signature:
    advice = Advice(f"now {kind}", f"for good {kind}")
    return Signature(kind, verdict, f"about {kind}", (main,), "inside", advice, **more)


def parent(**facts: object) -> ProcessStacks:
    return process(10, thread(10, *WAIT, name="MainThread"), ppid=1, role="main", **facts)


def child(pid: int, *frames: str, ppid: int = 10, **facts: object) -> ProcessStacks:
    return process(pid, thread(pid, *(frames or LOOP), name=f"main of {pid}"), ppid=ppid, role="child", **facts)


def evidence(*processes: ProcessStacks, **facts: object) -> Evidence:
    dumps = (Dump(0.0, processes), Dump(15.0, processes))
    return replace(Evidence("g:p_00", dumps, 300.0, None, 0.01), **facts)  # type: ignore[arg-type]


def verdict(one: Signature | tuple[Signature, ...], what: Evidence) -> tuple[str, str | None]:
    found = diagnose(one if isinstance(one, tuple) else (one,), what)
    return found.verdict, found.kind


MATCHED = ("wedged", "stuck")
UNKNOWN = ("unknown", None)


def test_a_match_carries_its_signature_and_what_was_found() -> None:
    found = diagnose([signature(every=(CHILD,))], evidence(parent(), child(11)))
    assert found == Diagnosis(
        verdict="wedged",
        kind="stuck",
        cause="inside",
        summary="about stuck",
        advice=Advice("now stuck", "for good stuck"),
        matched=(
            Matched("stuck", 10, "MainThread", ("take (app/queues.py:3)", "step (app/loop.py:5)")),
            Matched("stuck", 11, "main of 11", ("take (app/queues.py:3)", "child_loop (app/child.py:7)")),
        ),
        why=(
            "stuck: process 10, thread MainThread, is in take@app/queues.py < step@app/loop.py.",
            "stuck: process 11, thread main of 11, is in take@app/queues.py < child_loop@app/child.py.",
        ),
        moved=False,
    )
    assert as_json(found) == {
        "verdict": "wedged",
        "kind": "stuck",
        "cause": "inside",
        "summary": "about stuck",
        "advice": {"now": "now stuck", "for_good": "for good stuck"},
        "matched": [
            {
                "signature": "stuck",
                "pid": 10,
                "thread": "MainThread",
                "frames": ["take (app/queues.py:3)", "step (app/loop.py:5)"],
            },
            {
                "signature": "stuck",
                "pid": 11,
                "thread": "main of 11",
                "frames": ["take (app/queues.py:3)", "child_loop (app/child.py:7)"],
            },
        ],
        "why": list(found.why),
    }


@pytest.mark.parametrize(
    ("main", "matches"),
    [
        (pattern("select@selectors.py", "step@loop.py"), True),  # with gaps
        (pattern("select@selectors.py", "step@loop.py", direct=True), False),
        (pattern("take@queues.py", "step@app/loop.py", direct=True), True),
        (pattern("step@loop.py", "take@queues.py"), False),  # in this order
        (pattern("put|take@queues.py"), True),
        (pattern("take@other.py"), False),
        (pattern("take@es.py"), False),  # not on a boundary
        (pattern(leaf="get@queue.py select@selectors.py"), True),
        (pattern(leaf="take@queues.py"), False),
        (pattern("take@queues.py", leaf="select@selectors.py"), True),
        (pattern("take@queues.py", without=["step@other.py"]), True),
        (pattern("take@queues.py", without=["x@y.py", "step@loop.py"]), False),
        (pattern("take@queues.py", state="SD"), True),
        (pattern("take@queues.py", state="DT"), False),
        (pattern("take@queues.py", wchan=("pipe*", "futex_*")), True),
        (pattern("take@queues.py", wchan=("pipe*",)), False),
        (pattern("take@queues.py", thread="any"), True),
        (pattern("take@queues.py", thread="Main*"), True),
        (pattern("take@queues.py", thread="pool-*"), False),
        (pattern("beat@app/beat.py", thread="pool-?"), True),
        (pattern("beat@app/beat.py", thread="any"), True),
        (pattern("beat@app/beat.py"), False),
    ],
)
def test_threads_and_frames(main: ThreadPattern, matches: bool) -> None:
    main_thread = replace(thread(10, *WAIT, name="MainThread"), wchan="futex_wait_queue")
    helper = replace(thread(12, "beat (app/beat.py:1)", name="pool-1"), wchan=None, state=None)
    one = process(10, helper, thread(13), main_thread, ppid=1)
    assert verdict(signature(main=main), evidence(one)) == (MATCHED if matches else UNKNOWN)


def test_unknown_state_and_wait_channel_match_nothing() -> None:
    bare = process(10, replace(thread(10, *WAIT), state=None, wchan=None))
    assert verdict(signature(main=replace(TAKES, state="S")), evidence(bare)) == UNKNOWN
    assert verdict(signature(main=replace(TAKES, wchan=("futex*",))), evidence(bare)) == UNKNOWN


def test_the_main_thread_without_kernel_ids() -> None:
    named = process(
        10, replace(thread(1, "beat (b.py:1)"), tid=None), replace(thread(2, *WAIT, name="MainThread"), tid=None)
    )
    alone = process(10, replace(thread(1, *WAIT), tid=None))
    neither = process(10, replace(thread(1, *WAIT), tid=None), replace(thread(2, *WAIT), tid=None))
    assert verdict(signature(), evidence(named)) == MATCHED
    assert verdict(signature(), evidence(alone)) == MATCHED
    assert verdict(signature(), evidence(neither)) == UNKNOWN
    assert diagnose([], evidence(neither)).why == ("Process 10 shows no Python frame in a main thread.",)


def test_all_threads_of_main_must_be_there() -> None:
    both = replace(signature(), main=(TAKES, pattern("beat@beat.py", thread="any")))
    assert verdict(both, evidence(parent())) == UNKNOWN
    beating = replace(parent(), threads=(*parent().threads, thread(12, "beat (app/beat.py:1)")))
    assert verdict(both, evidence(beating)) == MATCHED


def test_main_no_forbids_a_thread_of_the_same_process() -> None:
    one = signature(main_no=(pattern("beat@beat.py", thread="any"),))
    beating = replace(parent(), threads=(*parent().threads, thread(12, "beat (app/beat.py:1)")))
    assert verdict(one, evidence(parent(), child(11, "beat (app/beat.py:1)"))) == MATCHED
    assert verdict(one, evidence(beating)) == UNKNOWN


UNREAD: dict[str, Any] = {"error": "Operation not permitted", "threads": ()}


@pytest.mark.parametrize(
    ("others", "every", "some", "none"),
    [
        ((), False, False, True),
        ((child(11),), True, True, False),
        ((child(11), child(12, ppid=11)), True, True, False),
        ((child(11), child(12, *WAIT[2:])), False, True, False),
        ((child(11, *WAIT[2:]),), False, False, True),
        ((child(11), replace(child(12), **UNREAD)), False, True, False),
        ((replace(child(11), **UNREAD),), False, False, False),
        ((child(11), replace(child(12), **UNREAD, python=False)), True, True, False),
        ((replace(child(11), **UNREAD, python=False),), False, False, True),
        ((child(11), replace(child(12), **UNREAD, state="Z")), True, True, False),
        (
            (child(11), child(12, "main (multiprocessing/resource_tracker.py:3)", "<module> (<string>:1)")),
            True,
            True,
            False,
        ),
        ((child(11), child(12, "select (selectors.py:4)", "main (billiard/forkserver.py:3)")), True, True, False),
        # A child of the forkserver, and a process without frames, are no helpers.
        (
            (
                child(
                    11,
                    *LOOP[:3],
                    "_serve_one (multiprocessing/forkserver.py:1)",
                    "main (multiprocessing/forkserver.py:1)",
                ),
            ),
            True,
            True,
            False,
        ),
        ((child(11), process(12)), False, True, False),
        ((child(11), process(1, thread(1, "x (launch.py:1)"), role=None)), True, True, False),  # above main
    ],
)
def test_other_processes(others: tuple[ProcessStacks, ...], every: bool, some: bool, none: bool) -> None:
    what = evidence(parent(), *others)
    assert verdict(signature(every=(CHILD,)), what) == (MATCHED if every else UNKNOWN)
    assert verdict(signature(any=(CHILD,)), what) == (MATCHED if some else UNKNOWN)
    assert verdict(signature(no=(CHILD,)), what) == (MATCHED if none else UNKNOWN)


def test_each_pattern_of_no_stands_for_itself() -> None:
    one = signature(no=(CHILD, pattern("beat@beat.py", thread="any")))
    assert verdict(one, evidence(parent(), child(11))) == UNKNOWN
    assert verdict(one, evidence(parent(), child(11, "beat (app/beat.py:1)"))) == UNKNOWN
    assert verdict(one, evidence(parent(), child(11, "rest (app/beat.py:1)"))) == MATCHED


def test_main_is_tried_from_the_root_down() -> None:
    """Both match `main`: the one nearer to the root is it, whatever their pids and their order."""
    upper, lower = child(90, *WAIT, ppid=1), child(20, *WAIT, ppid=90)
    found = diagnose([signature()], evidence(lower, upper))
    assert [one.pid for one in found.matched] == [90]
    # The upper one does not fit as a whole; the lower one does.
    found = diagnose([signature(no=(TAKES,))], evidence(lower, upper))
    assert [one.pid for one in found.matched] == [20]


def test_parents_in_a_circle_end() -> None:
    assert verdict(signature(), evidence(replace(parent(), ppid=11), child(11))) == MATCHED
    assert verdict(signature(), evidence(replace(parent(), ppid=10))) == MATCHED


def test_what_was_inherited_by_a_fork_is_not_seen() -> None:
    forked = child(11, "work (app/child.py:1)", "_bootstrap (multiprocessing/process.py:3)", *WAIT)
    launched = child(12, "work (app/child.py:1)", "_launch (multiprocessing/popen_fork.py:3)", *WAIT)
    launching = child(13, "_launch (multiprocessing/popen_fork.py:3)", *WAIT)
    assert verdict(signature(), evidence(forked, launched)) == UNKNOWN
    assert verdict(signature(), evidence(launching)) == MATCHED


@pytest.mark.parametrize(
    ("needs", "facts", "met"),
    [
        (Needs(working=(True, None)), {"working": None}, True),
        (Needs(working=(True,)), {"working": None}, False),
        (Needs(working=(False,)), {"working": False}, True),
        (Needs(quiet=150.0), {"quiet_s": 150.0}, True),
        (Needs(quiet=150.0), {"quiet_s": 149.9}, False),
        (Needs(quiet=150.0), {"quiet_s": None}, False),
        (Needs(cpu_below=0.05), {"cpu_cores": 0.049}, True),
        (Needs(cpu_below=0.05), {"cpu_cores": 0.05}, False),
        (Needs(cpu_below=0.05), {"cpu_cores": None}, False),
        (Needs(cpu_above=0.9), {"cpu_cores": 0.91}, True),
        (Needs(cpu_above=0.9), {"cpu_cores": 0.9}, False),
        (Needs(cpu_above=0.9), {"cpu_cores": None}, False),
        (Needs(same_stacks=True), {}, True),
        (Needs(same_stacks=False), {}, False),
        (Needs(same_stacks=True), {"dumps": (Dump(0.0, (parent(),)),)}, False),
        (Needs(same_stacks=False), {"dumps": (Dump(0.0, (parent(),)),)}, False),
    ],
)
def test_needs(needs: Needs, facts: dict[str, object], met: bool) -> None:
    found = diagnose([signature(needs=needs)], evidence(parent(), **facts))
    assert (found.verdict, found.kind) == (MATCHED if met else UNKNOWN)
    assert len(found.why) == 2
    assert found.why[0].startswith("stuck: process 10") == met
    assert ("needed: " in found.why[0]) != met
    assert ("the facts around them do not bear it out" in found.summary) != met


def moving(what: Evidence, pid: int) -> Evidence:
    """The main thread of this process stands elsewhere in the second dump, at a frame that no pattern names."""
    first, last = what.dumps
    elsewhere = thread(pid, *WAIT[:3], "<module> (app/main.py:10)", name="MainThread")
    changed = tuple(replace(p, threads=(elsewhere,)) if p.pid == pid else p for p in last.processes)
    return replace(what, dumps=(first, replace(last, processes=changed)))


@pytest.mark.parametrize("same", [None, True])
@pytest.mark.parametrize("kind", ["wedged", "idle"])
def test_a_shape_that_moves_is_busy(kind: Verdict, same: bool | None) -> None:
    found = diagnose([signature(verdict=kind, needs=Needs(same_stacks=same))], moving(evidence(parent()), 10))
    assert (found.verdict, found.kind, found.moved) == ("busy", None, True)
    assert "its threads moved between the dumps" in found.why[1]


def test_a_signature_may_ask_for_movement_and_busy_does_not_mind_it() -> None:
    what = moving(evidence(parent()), 10)
    assert verdict(signature(needs=Needs(same_stacks=False)), what) == MATCHED
    assert verdict(signature(verdict="busy"), what) == ("busy", "stuck")


def test_movement_counts_in_the_threads_that_matched() -> None:
    other = child(11, *WAIT)
    assert verdict(signature(), moving(evidence(parent(), other), 11)) == MATCHED
    assert diagnose([signature(any=(TAKES,))], moving(evidence(parent(), other), 11)).verdict == "busy"


def test_without_a_match_it_counts_in_every_main_thread() -> None:
    other = child(11, *WAIT)
    assert diagnose([], moving(evidence(parent(), other), 11)).verdict == "busy"
    still = diagnose([], evidence(parent(), other))
    assert (still.verdict, still.moved) == ("unknown", False)
    unread = diagnose([], evidence(parent(), replace(other, **UNREAD)))
    assert (unread.verdict, unread.moved) == ("unknown", None)
    helper = replace(parent(), threads=(*parent().threads, thread(12, "beat (b.py:1)")))
    first, _ = evidence(helper).dumps
    beaten = replace(helper, threads=(*parent().threads, thread(12, "beat (b.py:2)")))
    assert diagnose([], replace(evidence(), dumps=(first, Dump(1.0, (beaten,))))).moved is False


def test_quiet_by_right_is_idle_and_a_match_comes_first() -> None:
    found = diagnose([signature(needs=Needs(working=(True, None)))], evidence(parent(), working=False))
    assert (found.verdict, found.kind, found.cause) == ("idle", None, None)
    assert "it has no work (needed: it has work or it is not known whether it has work)" in found.why[1]
    assert verdict(signature(verdict="busy"), evidence(parent(), working=False)) == ("busy", "stuck")


@pytest.mark.parametrize("swap", [False, True])
def test_the_most_specific_wins(swap: bool) -> None:
    def best(a: Signature, b: Signature) -> tuple[str, str | None]:
        return verdict((b, a) if swap else (a, b), evidence(parent(), child(11)))

    plain = signature("plain", "idle", main=pattern("take@queues.py"))
    assert best(signature(), plain) == MATCHED  # more frames of main
    assert best(signature(main=plain.main[0], any=(CHILD,)), plain) == MATCHED
    assert best(signature(main=replace(plain.main[0], leaf=pattern(leaf="select@selectors.py").leaf)), plain) == MATCHED
    assert best(signature(main=plain.main[0], needs=Needs(quiet=1.0)), plain) == MATCHED
    assert best(signature(main=replace(plain.main[0], state="S")), plain) == MATCHED
    # A frame more says more than facts.
    assert best(signature(), replace(plain, needs=Needs((None,), 1.0, 0.5))) == MATCHED


def test_a_tie_of_different_verdicts_is_unknown_with_both_named() -> None:
    found = diagnose([signature("b", "idle"), signature("a")], evidence(parent()))
    assert (found.verdict, found.kind, found.cause, found.moved) == ("unknown", None, None, False)
    assert found.summary == "The stacks fit a (wedged) and b (idle) equally well."
    assert [one.signature for one in found.matched] == ["a", "b"]


def test_a_tie_with_one_that_moves_is_what_is_left() -> None:
    busy = signature("b", "busy")
    assert verdict((busy, signature("a")), moving(evidence(parent()), 10)) == ("busy", "b")
    unsure = diagnose([busy, signature("a")], evidence(parent(), dumps=(Dump(0.0, (parent(),)),)))
    assert (unsure.verdict, unsure.moved) == ("unknown", None)
    both = diagnose(
        [busy, signature("a", needs=Needs(same_stacks=False)), replace(busy, needs=Needs(same_stacks=False))],
        moving(evidence(parent()), 10),
    )
    assert (both.verdict, both.moved) == ("unknown", True)


def test_a_tie_of_one_verdict_is_told() -> None:
    found = diagnose([signature("b"), signature("a")], evidence(parent()))
    assert (found.verdict, found.kind) == ("wedged", "a")
    assert "b fits as well (wedged)." in found.why


def test_nothing_could_be_read() -> None:
    unread = replace(parent(), **UNREAD)
    found = diagnose([signature()], evidence(unread))
    assert (found.verdict, found.kind, found.unreadable, found.moved) == ("unknown", None, True, None)
    assert found.why == ("Process 10 could not be read: Operation not permitted.",)
    tracker = child(12, "main (multiprocessing/resource_tracker.py:3)")
    assert diagnose([signature()], evidence(unread, tracker)).unreadable
    assert diagnose([signature()], evidence(dumps=())).why == ("There is no dump of any process.",)
    assert diagnose([signature()], evidence(dumps=())).unreadable
    assert diagnose([signature()], evidence()).unreadable


def test_nothing_could_be_read_of_one_that_says_that_it_is_idle() -> None:
    found = diagnose([signature()], evidence(replace(parent(), **UNREAD), working=False))
    assert (found.verdict, found.unreadable) == ("idle", True)


def test_a_program_without_python_is_unknown_and_not_unreadable() -> None:
    found = diagnose([signature()], evidence(replace(parent(), **UNREAD, python=False)))
    assert (found.verdict, found.unreadable) == ("unknown", False)


def test_the_latest_dump_that_was_read_is_judged() -> None:
    good, bad, other = Dump(0.0, (parent(),)), Dump(15.0, (replace(parent(), **UNREAD),)), Dump(9.0, (child(11),))
    assert verdict(signature(), evidence(dumps=(good, bad))) == MATCHED
    assert verdict(signature(needs=Needs(same_stacks=True)), evidence(dumps=(good, bad))) == UNKNOWN
    assert verdict(signature(), evidence(dumps=(good, other))) == UNKNOWN


def test_why_tells_facts_and_the_last_line_of_the_log() -> None:
    needs = Needs((True,), 150.0, 0.05, None, True)
    log = LogLines(("lost 1", "x"), ("no", "  lost 2 " + "z" * 300, "lost 3 \n"))
    found = diagnose([signature(needs=needs, log=("^ *lost",))], evidence(parent(), working=True, log=log))
    assert found.why[1:] == (
        "It has work.",
        "It has been quiet for 300 s.",
        "It uses 0.01 cores.",
        "Its threads did not move between the dumps.",
        "A line of stdout says the same: lost 1",
        "A line of stderr says the same: lost 3",
    )
    long = diagnose([signature(log=("lost 2",))], evidence(parent(), log=log)).why[-1]
    assert len(long) < 250
    above = diagnose([signature(needs=Needs(cpu_above=0.001))], evidence(parent()))
    assert "It uses 0.01 cores." in above.why


def test_why_tells_what_came_near_and_where_everything_stands() -> None:
    ended = replace(child(12), **UNREAD)
    nameless = replace(child(13, *WAIT[2:]), threads=(replace(thread(13, *WAIT[2:]), name=None),))
    found = diagnose([signature(every=(CHILD,), any=(TAKES,))], evidence(parent(), child(11), ended, nameless))
    assert found.why == (
        "stuck (wedged) came near, some of its stacks fit, but: process 12 could not be read (Operation not permitted); process 13 "
        "lacks the stack that every other process must have; no other process that could be read has the stack that one must have.",
        "Process 10 is in select (selectors.py:415) < take (app/queues.py:3) < step (app/loop.py:5) < <module> (app/main.py:9).",
        "Process 11 is in take (app/queues.py:3) < child_loop (app/child.py:7) < _bootstrap (multiprocessing/process.py:314) "
        "< select (selectors.py:415).",
        "Process 12 could not be read: Operation not permitted.",
        "Process 13 is in step (app/loop.py:5) < <module> (app/main.py:9).",
    )


def test_a_thread_without_name_is_told_by_its_id() -> None:
    one = process(10, thread(10, *WAIT))
    assert "thread 10, is in" in diagnose([signature()], evidence(one)).why[0]


def test_the_kernel_id_tells_the_main_thread_before_its_name() -> None:
    """A child that was forked from a helper thread: its main thread keeps that thread's name."""
    forked = process(10, thread(12, "beat (b.py:1)", name="MainThread"), thread(10, *WAIT, name="Thread-4"))
    assert verdict(signature(), evidence(forked)) == MATCHED


def test_the_leaf_is_told_as_well() -> None:
    found = diagnose([signature(main=pattern("step@loop.py", leaf="select@selectors.py"))], evidence(parent()))
    assert found.matched[0].frames == ("select (selectors.py:415)", "step (app/loop.py:5)")


def test_of_several_that_came_near_the_one_at_the_root_is_told() -> None:
    below = child(11, *WAIT)
    other = process(12, thread(12, "x (y.py:1)"), ppid=11)
    found = diagnose([signature(every=(CHILD,))], evidence(parent(), below, other))
    assert "process 11 lacks" in found.why[0]  # said of the parent's others; the child's own have no process 11
