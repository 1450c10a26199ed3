"""Rule and signature files: the whole schema, and each mistake at its place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from watchdog import rulefiles
from watchdog.config import ConfigError, load_rules, load_signatures
from watchdog.judge.budget import DEADLINE, slot_wait, time_to_recover
from watchdog.model.observation import GAUGES, GaugeName, Gauges
from watchdog.model.rule import (
    Above,
    Below,
    Confirm,
    CpuAbove,
    CpuBelow,
    Group,
    InState,
    Level,
    Matches,
    Rule,
    RuleLimits,
    Stop,
    Unchanged,
    Working,
)
from watchdog.model.signature import Advice, FramePattern, Needs, Signature, ThreadPattern
from watchdog.problems import Problem

EVERY_DETECTOR = """
name: everything
summary: Every detector there is.
when:
  - group: levels
    all:
      - above: {gauge: rss, value: 3GiB, for: 61s}
      - below: {gauge: fds, value: 7}
      - above: {gauge: fds_ratio, value: 0.8}
      - above: {gauge: cpu, value: 1.5}
      - cpu_below: {cores: 0.05, for: 62s}
      - cpu_above: {cores: 2, for: 0s}
      - state: {state: DT, for: 63s}
  - group: beats
    all:
      - unchanged: {heartbeat: progress, for: 64s}
      - matches: {log: any, pattern: 'Errno 24', within: 65s}
      - working: false
confirm: {dumps: 3, every: 11s, unknown: observe, unreadable: restart}
collect: {within: 12s}
stop: {within: 13s, orphans: keep}
start: {within: 14s}
then: observe
verify: {within: 15s}
limits: {cooldown: 16s, restarts: 17, per: 18m}
"""

SHORT = "name: short\nsummary: s\nwhen:\n- group: g\n  all:\n  - {detector}\n"

SIGNATURE = """
kind: dataloader-lost-batch
verdict: wedged
cause: inside
summary: The loader child lost one batch.
advice:
  now: >
    Restart
    it.
  for_good: Do not share memory.
sources: [RolnickLab/ami-data-companion#140, measured]
needs: {working: [true, null], quiet: 150s, cpu_below: 0.05, cpu_above: 0.01, same_stacks: true}
main:
  - thread: main
    path: ['_try_get_data@torch/utils/data/dataloader.py']
    leaf: ['select@selectors.py', 'wait@threading.py']
  - thread: '_pin*'
    leaf: get@queue.py
    wchan: futex_*
    state: S
every:
  - thread: main
    path: ['get@multiprocessing/queues.py', '_worker_loop|_base_worker_loop@torch/utils/data/_utils/worker.py']
    direct: true
any: [{thread: any, leaf: ['<lambda>@x.py']}]
no: [{wchan: [pipe_read, pipe_write]}]
log: ['could not unlink']
"""


def rule_of(tmp_path: Path, text: str) -> Rule:
    (tmp_path / "rule.yaml").write_text(text)
    return load_rules([tmp_path])[re.findall("name: (.*)", text)[0]]


def signature_of(tmp_path: Path, text: str) -> Signature:
    (tmp_path / "signature.yaml").write_text(text)
    return load_signatures([tmp_path])[-1]


def test_every_key_of_a_rule_arrives(tmp_path: Path) -> None:
    assert rule_of(tmp_path, EVERY_DETECTOR) == Rule(
        name="everything",
        summary="Every detector there is.",
        when=(
            Group(
                "levels",
                (
                    Above("rss", 3 * 2**30, 61.0),
                    Below("fds", 7, 0.0),
                    Above("fds_ratio", 0.8, 0.0),
                    Above("cpu", 1.5, 0.0),
                    CpuBelow(0.05, 62.0),
                    CpuAbove(2.0, 0.0),
                    InState("DT", 63.0),
                ),
            ),
            Group("beats", (Unchanged("progress", 64.0), Matches("any", "Errno 24", 65.0), Working(False))),
        ),
        confirm=Confirm(3, 11.0, Level.OBSERVE, Level.RESTART),
        collect_within=12.0,
        stop=Stop(13.0, "keep"),
        start_within=14.0,
        then=Level.OBSERVE,
        verify_within=15.0,
        limits=RuleLimits(16.0, 17, 1080.0),
        source=str(tmp_path / "rule.yaml"),
    )


def test_what_a_rule_leaves_out_has_the_models_defaults(tmp_path: Path) -> None:
    rule = rule_of(tmp_path, SHORT.replace("{detector}", "working: true"))
    assert rule == Rule("short", "s", (Group("g", (Working(True),)),), source=str(tmp_path / "rule.yaml"))


def test_a_rule_about_gauges_needs_no_stacks(tmp_path: Path) -> None:
    assert rule_of(tmp_path, SHORT.replace("{detector}", "working: true") + "confirm: none").confirm is None


def test_the_built_in_stall_is_the_one_that_is_promised() -> None:
    assert load_rules([])["stall"] == Rule(
        name="stall",
        summary="The program is up, but neither its log nor its progress has moved.",
        when=(
            Group(
                "everything is silent", (Unchanged("log", 270.0), Unchanged("progress", 270.0), CpuBelow(0.05, 60.0))
            ),
            Group(
                "a batch was lost, says stderr",
                (Matches("stderr", "could not unlink the shared memory file", 600.0), Unchanged("progress", 150.0)),
            ),
            Group("the log goes on but no batch is done", (Unchanged("progress", 900.0), Working(True))),
        ),
        confirm=Confirm(2, 15.0, Level.REPORT, Level.REPORT),
        collect_within=30.0,
        stop=Stop(20.0, "end"),
        start_within=15.0,
        then=Level.RESTART,
        verify_within=150.0,
        limits=RuleLimits(330.0, 3, 3600.0),
    )


def test_the_built_in_numbers_leave_the_server_no_time_to_fail_the_job() -> None:
    """A program whose startsecs is 0; the second one wedged in the same second waits for the restart slot besides."""
    stall = load_rules([])["stall"]
    first = time_to_recover(stall, 5.0, 0.0)
    assert first == 520.0
    assert first + slot_wait(stall, 0.0) == 560.0
    assert first + slot_wait(stall, 0.0) < DEADLINE == 600.0


def test_every_gauge_of_a_look_can_be_asked_for_and_no_other() -> None:
    assert set(GAUGES) == set(get_args(GaugeName)) == set(Gauges._fields) == set(rulefiles._GAUGE_VALUES)


def test_every_key_of_a_signature_arrives(tmp_path: Path) -> None:
    worker = FramePattern(("_worker_loop", "_base_worker_loop"), "torch/utils/data/_utils/worker.py")
    assert signature_of(tmp_path, SIGNATURE) == Signature(
        kind="dataloader-lost-batch",
        verdict="wedged",
        summary="The loader child lost one batch.",
        main=(
            ThreadPattern(
                path=(FramePattern(("_try_get_data",), "torch/utils/data/dataloader.py"),),
                leaf=(FramePattern(("select",), "selectors.py"), FramePattern(("wait",), "threading.py")),
            ),
            ThreadPattern("_pin*", leaf=(FramePattern(("get",), "queue.py"),), wchan=("futex_*",), state="S"),
        ),
        cause="inside",
        advice=Advice("Restart it.", "Do not share memory."),
        sources=("RolnickLab/ami-data-companion#140", "measured"),
        needs=Needs((True, None), 150.0, 0.05, 0.01, True),
        every=(ThreadPattern(path=(FramePattern(("get",), "multiprocessing/queues.py"), worker), direct=True),),
        any=(ThreadPattern("any", leaf=(FramePattern(("<lambda>",), "x.py"),)),),
        no=(ThreadPattern(wchan=("pipe_read", "pipe_write")),),
        log=("could not unlink",),
        source=str(tmp_path / "signature.yaml"),
    )


def test_what_a_signature_leaves_out_has_the_models_defaults(tmp_path: Path) -> None:
    text = "kind: k\nverdict: idle\nsummary: s\nmain: [{leaf: f@x.py}]"
    main = (ThreadPattern(leaf=(FramePattern(("f",), "x.py"),)),)
    assert signature_of(tmp_path, text) == Signature("k", "idle", "s", main, source=str(tmp_path / "signature.yaml"))


def only(tmp_path: Path, text: str) -> Problem:
    (tmp_path / "one.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        (load_signatures if text.startswith("kind") else load_rules)([tmp_path])
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize(
    ("detector", "place", "words"),
    [
        ("unchanged: {heartbeat: logs, for: 1s}", ".unchanged.heartbeat", "log, progress .did you mean 'log'"),
        ("unchanged: {heartbeat: log}", ".unchanged.for", "this key is required"),
        ("unchanged: {heartbeat: log, for: 0s}", ".unchanged.for", "more than 0"),
        ("unchanged: log", ".unchanged", "a mapping with heartbeat, for"),
        ("unchangd: {heartbeat: log, for: 1s}", ".unchangd", "did you mean 'unchanged'"),
        ("above: {gauge: rsss, value: 1GiB}", ".above.gauge", "rss, anon, shmem, fds, .*did you mean 'rss'"),
        ("above: {gauge: rss, value: 1000000}", ".above.value", "for rss, a size with its unit"),
        ("below: {gauge: fds, value: 1GiB}", ".below.value", "for fds, a whole number"),
        ("above: {gauge: fds, value: 0.8}", ".above.value", "for fds, a whole number"),
        ("above: {gauge: fds_ratio, value: 80}", ".above.value", "for fds_ratio, a number above 0, at most 1"),
        ("below: {gauge: cpu, value: 0}", ".below.value", "for cpu, a number above 0"),
        ("cpu_below: {cores: -1, for: 1s}", ".cpu_below.cores", "a number above 0"),
        ("cpu_below: {cores: 0.05, for: -1s}", ".cpu_below.for", "not negative"),
        ("working: yes", ".working", "found 'yes', allowed: true, false"),
        ("matches: {log: stdin, pattern: x, within: 1s}", ".matches.log", "stdout, stderr, any"),
        ("matches: {log: any, pattern: '[', within: 1s}", ".matches.pattern", "unterminated character set"),
        ("matches: {log: any, pattern: 'x*', within: 1s}", ".matches.pattern", "does not match an empty line"),
        ("matches: {log: any, pattern: '(?P<count>x)', within: 1s}", ".matches.pattern", "no named groups"),
        ("state: {state: Q}", ".state.state", "letters of RSDTtZXxKWPI, each once"),
        ("state: {state: DD}", ".state.state", "each once"),
        ("{working: true, state: {state: D}}", "", "found 2 detectors in one item"),
        ("{}", "", "found an empty mapping, allowed: one detector"),
        ("working", "", "a mapping with unchanged, above"),
    ],
)
def test_a_wrong_detector_is_told_where_it_stands(tmp_path: Path, detector: str, place: str, words: str) -> None:
    problem = only(tmp_path, SHORT.replace("{detector}", detector))
    assert (problem.path, problem.line) == (f"when[0].all[0]{place}", 6)
    assert re.search(words, str(problem)), problem


@pytest.mark.parametrize(
    ("line", "place", "words"),
    [
        ("confirm: nothing", "confirm", "a mapping with dumps"),
        ("confirm: {dumps: 1}", "confirm.dumps", "from 2 to 20"),
        ("confirm: {unknown: kill}", "confirm.unknown", "observe, report, restart"),
        ("collect: 30s", "collect", "a mapping with within"),
        ("collect: {}", "collect.within", "this key is required"),
        ("stop: {orphans: kill}", "stop.orphans", "end, keep"),
        ("then: restarts", "then", "did you mean 'restart'"),
        ("limits: {restarts: 0}", "limits.restarts", "at least 1"),
        ("limits: {cooldown: 0s}", "limits.cooldown", "more than 0"),
        ("source: built-in", "source", "unknown key"),
        ("collect_within: 5s", "collect_within", "unknown key"),
    ],
)
def test_a_wrong_key_of_a_rule_is_told(tmp_path: Path, line: str, place: str, words: str) -> None:
    problem = only(tmp_path, SHORT.replace("{detector}", "working: true") + line)
    assert (problem.path, problem.line) == (place, 7)
    assert re.search(words, str(problem)), problem


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("name: a b\nsummary: s\nwhen: [{group: g, all: [{working: true}]}]", "name", "at most 64 letters"),
        ('name: a\nsummary: "s\\n\\nt"\nwhen: [{group: g, all: [{working: true}]}]', "summary", "one line"),
        ("name: a\nsummary: s\nwhen: []", "when", "found an empty list, allowed: a list of one or more"),
        ("name: a\nsummary: s\nwhen: [{group: g, all: []}]", "when[0].all", "a list of one or more"),
        (
            "name: a\nsummary: s\nwhen: [{group: g, all: [{working: true}]}, {group: g, all: [{working: true}]}]",
            "when[1].group",
            "each group's name once",
        ),
    ],
)
def test_a_wrong_frame_of_a_rule_is_told(tmp_path: Path, text: str, place: str, words: str) -> None:
    problem = only(tmp_path, text)
    assert problem.path == place
    assert re.search(words, str(problem)), problem


def test_every_mistake_of_a_rule_comes_at_once(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(
        EVERY_DETECTOR.replace("s}", "}").replace("observe", "look").replace("any,", "all,")
    )
    with pytest.raises(ConfigError) as caught:
        load_rules([tmp_path])
    assert [(problem.path, problem.line) for problem in caught.value.problems] == [
        ("when[0].all[0].above.for", 7),
        ("when[0].all[4].cpu_below.for", 11),
        ("when[0].all[5].cpu_above.for", 12),
        ("when[0].all[6].state.for", 13),
        ("when[1].all[0].unchanged.for", 16),
        ("when[1].all[1].matches.log", 17),
        ("when[1].all[1].matches.within", 17),
        ("confirm.unknown", 19),
        ("collect.within", 20),
        ("start.within", 22),
        ("then", 23),
        ("verify.within", 24),
    ]


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        ("wedged", "unknown", "verdict", "wedged, idle, busy"),
        ("inside", "within", "cause", "inside, outside"),
        ("quiet: 150s", "quiet: 150", "needs.quiet", "if s is meant, write 150s"),
        ("[true, null]", "[maybe]", "needs.working[0]", "true, false, null"),
        ("[true, null]", "[]", "needs.working", "a list of one or more"),
        ("same_stacks", "same_stack", "needs.same_stack", "did you mean 'same_stacks'"),
        ("select@selectors.py", "select", "main[0].leaf[0]", "function@file-suffix"),
        ("select@selectors.py", "Sel.select@selectors.py", "main[0].leaf[0]", "only the last part of a dotted name"),
        ("select@selectors.py", "a|@selectors.py", "main[0].leaf[0]", "function|other@file-suffix"),
        ("get@queue.py", "get", "main[1].leaf", "function@file-suffix"),
        ("state: S", "state: sleeping", "main[1].state", "letters of"),
        ("direct: true", "direct: 1", "every[0].direct", "true, false"),
        ("'get@multiprocessing/queues.py', ", "", "every[0].direct", "two frames or more"),
        ("thread: any", "threads: any", "any[0].threads", "did you mean 'thread'"),
        ("could not unlink", "(", "log[0]", "a regular expression"),
        ("for_good", "forgood", "advice.forgood", "did you mean 'for_good'"),
    ],
)
def test_a_wrong_signature_is_told_where(tmp_path: Path, old: str, new: str, place: str, words: str) -> None:
    assert old in SIGNATURE
    problem = only(tmp_path, SIGNATURE.lstrip().replace(old, new))
    assert problem.path == place
    assert re.search(words, str(problem)), problem


def test_a_signature_without_a_frame_would_match_anything(tmp_path: Path) -> None:
    problem = only(tmp_path, "kind: k\nverdict: busy\nsummary: s\nmain: [{thread: main}]")
    assert (problem.path, problem.found) == ("main", "no frame")
