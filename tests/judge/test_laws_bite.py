"""Each law bites: a small wrong change in judge/ is caught, on the machine's own host, by the story that the change spoils.

Every story is also told to the core as it is, and breaks no law.
"""

from __future__ import annotations

import inspect
import itertools
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.judge.fakehost import Mood
from tests.judge.test_laws import LawMachine
from watchdog.judge import budget, clocks, collecting, confirm, decide, detectors, incident, restart, resume, verify
from watchdog.model.rule import Level
from watchdog.model.world import Phase

COUNT = itertools.count()


@dataclass(frozen=True)
class Edit:
    """One function, and the text in it that is changed."""

    function: Callable[..., Any]
    old: str
    new: str


@dataclass(frozen=True)
class Bite:
    """A wrong change, and the words of the law that catches it."""

    law: str
    because: str
    story: Callable[[LawMachine], object]
    edits: tuple[Edit, ...]


W0, W1 = "ami:w0", "ami:w1"


def begun() -> LawMachine:
    """Three programs that work."""
    machine = LawMachine()
    machine.begins(
        unknown=Level.REPORT, at_once=1, first=("works", "works", "works"), start="good", term="quick", stop=""
    )
    return machine


def is_now(machine: LawMachine, mood: Mood, name: str = W0) -> None:
    proc = machine.host.progs[name].proc
    assert proc is not None
    proc.mood = mood


def gets_to(machine: LawMachine, phase: Phase, mood: Mood = "batch_lost") -> None:
    is_now(machine, mood)
    assert machine.until(W0, phase), f"it never came to {phase}"


# The stories


def the_archive_is_full(machine: LawMachine) -> None:
    machine.host.archive = "none"
    is_now(machine, "batch_lost")
    machine.pass_time(70.0)


def it_recovers_just_before_the_stop(machine: LawMachine) -> None:
    gets_to(machine, Phase.COLLECTING)
    is_now(machine, "works")
    machine.pass_time(30.0)


def supervisord_comes_back(machine: LawMachine) -> None:
    gets_to(machine, Phase.COLLECTING, "leaks")
    machine.host.freeze(True)
    machine.pass_time(30.0)
    machine.host.freeze(False)
    machine.pass_time(20.0)


def it_goes_blind_while_it_waits(machine: LawMachine) -> None:
    machine.driver.rules = replace(machine.configured, limits=replace(machine.configured.limits, restarts=0))
    gets_to(machine, Phase.COLLECTING)
    machine.pass_time(10.0)
    machine.host.progs[W0].log = machine.host.progs[W0].progress = "absent"
    machine.pass_time(5.0)
    machine.driver.rules = machine.configured
    machine.pass_time(300.0)


def no_restart_helps(machine: LawMachine) -> None:
    machine.host.progs[W0].start = "hangs"
    is_now(machine, "batch_lost")
    machine.pass_time(390.0)


def it_fails_again_at_once(machine: LawMachine) -> None:
    slow = tuple(replace(r, limits=replace(r.limits, cooldown=200.0)) for r in machine.configured.policies[0].rules)
    machine.driver.laws.rules = machine.driver.with_level(rules=slow)
    machine.driver.reload(machine.driver.laws.rules)
    gets_to(machine, Phase.COOLDOWN)
    machine.driver.reload(machine.driver.laws.rules)
    is_now(machine, "leaks")
    machine.pass_time(100.0)


def it_recovers_and_cools_down(machine: LawMachine) -> None:
    gets_to(machine, Phase.COOLDOWN)
    machine.pass_time(70.0)


def its_start_fails(machine: LawMachine) -> None:
    machine.host.progs[W0].start = "fatal"
    gets_to(machine, Phase.COOLDOWN)
    machine.pass_time(5.0)


def the_watchdog_dies_between_stop_and_start(machine: LawMachine) -> None:
    gets_to(machine, Phase.STOPPING)
    machine.pass_time(0.5)
    machine.driver.crashed_for(7.0)
    machine.pass_time(60.0)
    machine.driver.laws.calm()


def nothing_can_be_read(machine: LawMachine) -> None:
    machine.host.progs[W0].log = machine.host.progs[W0].progress = "unknown"
    machine.pass_time(100.0)


def it_stalls(machine: LawMachine) -> None:
    gets_to(machine, Phase.CONFIRMING)


def it_waits_for_its_next_job(machine: LawMachine) -> None:
    is_now(machine, "waits")
    machine.pass_time(70.0)


def two_wedge_together(machine: LawMachine) -> None:
    for name in (W0, W1):
        is_now(machine, "batch_lost", name)
        machine.host.progs[name].term = "slow"
    machine.pass_time(90.0)


def an_operator_stops_it_just_before_us(machine: LawMachine) -> None:
    gets_to(machine, Phase.COLLECTING)
    while not any(p.restarting for p in machine.driver.world.programs.values()):
        machine.host.run(0.05)
    machine.host.stop_by_hand(machine.host.progs[W0])
    machine.pass_time(30.0)


def an_operator_stops_the_new_process(machine: LawMachine) -> None:
    machine.host.progs[W0].start = "slow"
    gets_to(machine, Phase.STARTING)
    machine.pass_time(3.0)
    machine.host.stop_by_hand(machine.host.progs[W0])
    machine.pass_time(30.0)


def an_operator_pauses_it(machine: LawMachine) -> None:
    gets_to(machine, Phase.COLLECTING)
    machine.driver.ask(W0, "pause", 200.0)
    machine.pass_time(30.0)


def it_waits_and_then_wedges_without_a_heartbeat(machine: LawMachine) -> None:
    is_now(machine, "waits")
    machine.pass_time(130.0)  # until every group about silence has fired and was vetoed
    is_now(machine, "batch_lost")
    machine.every_stall_is_seen_to()


BITES = (
    Bite(
        "L1", "no evidence is evidence enough", the_archive_is_full,
        (Edit(collecting.bundle_sealed, "if not event.sealed.exists:", "if False:"),),
    ),
    Bite(
        "L2", "nobody has a last look", it_recovers_just_before_the_stop,
        (
            Edit(collecting.collecting, "if status in (Status.CLEAR, Status.ABSENT):", "if False:"),
            Edit(restart._still_holds, "turn.status(incident.rule, blind=False) is Status.HOLDS", "True"),
        ),
    ),
    Bite(
        "L2", "the idle CPU of a blind program stands in for silence", it_goes_blind_while_it_waits,
        (
            Edit(collecting.collecting, "blind=incident.level is not Level.RESTART", "blind=True"),
            Edit(restart._still_holds, "blind=False", "blind=True"),
        ),
    ),
    Bite(
        "two looks", "at once after supervisord's return", supervisord_comes_back,
        (Edit(collecting.may_stop, "turn.look.looks >= LOOKS_AFTER_RETURN", "True"),),
    ),
    Bite(
        "L3", "one restart more than allowed", no_restart_helps,
        (Edit(budget._free_at, "if len(recent) < most:", "if len(recent) <= most:"),),
    ),
    Bite("L3", "no cooldown", it_fails_again_at_once, (Edit(budget.cooled_at, "r.at + rule.limits.cooldown", "r.at"),)),
    Bite(
        "L4", "behind the table's back", it_recovers_and_cools_down,
        (Edit(verify.cooldown, "turn.go(Phase.WATCHING, over)", "turn.set(phase=Phase.WATCHING)"),),
    ),
    Bite(
        "L5", "a start that failed ends the debt", its_start_fails,
        (Edit(restart.start_failed, "tries = ", 'return finish(turn, Phase.COOLDOWN, "start_failed", why)\n    tries = '),),
    ),
    Bite(
        "L5", "a fresh daemon forgets", the_watchdog_dies_between_stop_and_start,
        (Edit(resume.resume, "for p, t in transactions.items()", "for p, t in ()"),),
    ),
    Bite(
        "L6", "unknown is unchanged", nothing_can_be_read,
        (
            Edit(clocks.advance, "Clock(clock.value, clock.age, clock.changes, clock.unknown + dt)",
                 "Clock(clock.value, clock.age + dt, clock.changes, 0.0)"),
            Edit(detectors._unchanged, "if value is None:", "if False:"),
            Edit(detectors._unchanged, "policy.idle is not None and seen.log is None", "False"),
        ),
    ),
    Bite("L7", "not a function of its inputs", it_stalls, (Edit(incident.incident_id, "-{pid}", "-{next(COUNT)}"),)),
    Bite(
        "L8", "an idle verdict is no veto", it_waits_for_its_next_job,
        (Edit(confirm._allowed, 'diagnosis.verdict in ("idle", "busy") or diagnosis.moved is True', "False"),),
    ),
    Bite("L9", "no slot", two_wedge_together, (Edit(budget.slots_taken, "sum(_holds_slot(p) for p in programs)", "0"),)),
    Bite(
        "L10", "what another hand stopped counts as stopped by us", an_operator_stops_it_just_before_us,
        (Edit(restart.stop_sent, 'in ("sent", "unsure")', 'in ("sent", "unsure", "not_running")'),),
    ),
    Bite(
        "L10", "a new process that was stopped looks like the old one", an_operator_stops_the_new_process,
        (Edit(restart.came_up, "restarting.new_seen or info.started_at > restarting.transaction.started_at", "False"),),
    ),
    Bite(
        "is paused, and is stopped", "a pause is not heard", an_operator_pauses_it,
        (
            Edit(decide._step_back, "if turn.program.restarting is None:", "if False:"),
            Edit(restart._still_holds, "not turn.paused", "True"),
        ),
    ),
    Bite(
        "neither acted on nor reported", "a veto is for ever", it_waits_and_then_wedges_without_a_heartbeat,
        (Edit(incident.veto, "wait = min(", "wait = 1e9 + min("),),
    ),
)  # fmt: skip


def apply(monkeypatch: pytest.MonkeyPatch, bite: Bite) -> None:
    """Give each function the code of its changed source, wherever it was imported to."""
    sources: dict[Callable[..., Any], str] = {}
    for edit in bite.edits:
        source = sources.get(edit.function) or textwrap.dedent(inspect.getsource(edit.function))
        assert edit.old in source, f"{edit.function.__name__} has no {edit.old!r} any more"
        sources[edit.function] = source.replace(edit.old, edit.new)
    for function, source in sources.items():
        made = {**function.__globals__}
        exec(f"from __future__ import annotations\n{source}", made)
        monkeypatch.setitem(function.__globals__, "COUNT", COUNT)
        monkeypatch.setattr(function, "__code__", made[function.__name__].__code__)


IDS = [f"{b.law}: {b.because}" for b in BITES]


@pytest.mark.parametrize("bite", BITES, ids=IDS)
def test_a_wrong_change_is_caught(monkeypatch: pytest.MonkeyPatch, bite: Bite) -> None:
    apply(monkeypatch, bite)
    with pytest.raises(AssertionError) as caught:
        bite.story(begun())
    assert bite.law in str(caught.value)


@pytest.mark.parametrize("bite", BITES, ids=IDS)
def test_the_core_as_it_is_breaks_no_law_in_the_same_story(bite: Bite) -> None:
    bite.story(begun())
