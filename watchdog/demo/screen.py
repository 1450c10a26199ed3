"""Shows a demo while it runs: a table that is redrawn on a terminal, lines elsewhere. Decides nothing; rich for the table only."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from watchdog.demo.facts import Facts
from watchdog.demo.run import Watcher
from watchdog.demo.story import HEALTHY, IDLE, SLOW, WEDGED, Seen, Step, Story

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

_ROWS = (HEALTHY, IDLE, SLOW, WEDGED)


def line(step: Step) -> str:
    """One step as a line of text."""
    return f"{step.at_s:6.1f} s  {step.program or '-':<13}  {step.name:<16}  {step.text}"


@contextmanager
def silent() -> Iterator[Watcher]:
    """For --json, which prints at the end."""
    yield lambda story, seen: None


@contextmanager
def lines() -> Iterator[Watcher]:
    """A line for each step, as it happens."""
    told = 0

    def tell(story: Story, seen: Seen) -> None:
        nonlocal told
        for step in story.steps[told:]:
            print(line(step), flush=True)
        told = len(story.steps)

    yield tell


@contextmanager
def live() -> Iterator[Watcher]:
    """A table that updates itself, with the steps below."""
    from rich.console import Console
    from rich.live import Live

    display = Live(console=Console(), auto_refresh=False)
    display.start()
    try:
        yield lambda story, seen: display.update(_drawn(story, seen), refresh=True)
    finally:
        with suppress(OSError):  # the terminal may be gone
            display.stop()


def _drawn(story: Story, seen: Seen) -> Group:
    from rich.console import Group

    return Group(_programs(story, seen), _steps(story))


def _programs(story: Story, seen: Seen) -> Table:
    from rich.table import Table

    table = Table(title=f"watchdog demo, {seen.at_s:.0f} s", title_justify="left")
    for heading in ("program", "pid", "phase", "batches", "no batch for"):
        table.add_column(heading, justify="left" if heading in ("program", "phase") else "right")
    for name in _ROWS:
        table.add_row(name, *_cells(story, seen, name))
    return table


def _cells(story: Story, seen: Seen, name: str) -> tuple[str, ...]:
    program = seen.programs.get(name)
    if program is None:
        return ("-", "not seen yet", "", "")
    progress = program["heartbeats"]["progress"]
    age = progress["age_s"] if progress and name != IDLE else None
    return (
        str(program["pid"] or "-"),
        program["phase"],
        str(seen.logs[name].batches) if name != IDLE else "no jobs",
        f"{age:.0f} s" if age is not None else "",
    )


def _steps(story: Story) -> Table:
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    for step in story.steps:
        table.add_row(f"{step.at_s:.1f} s", step.program, step.name, step.text)
    return table


def ending(facts: Facts) -> str:
    """The last words: each condition, and where things are."""
    after = f"after {facts['seconds']:.0f} s"
    if facts["interrupted"]:
        return "\n".join([f"It was {facts['problem']}, {after}; every process is ended.", *_places(facts)])
    head = f"Everything went as promised, {after}." if facts["ok"] else f"Not everything went as promised, {after}."
    problem = [f"It ended early: {facts['problem']}."] if facts["problem"] else []
    return "\n".join([head, *problem, *_conditions(facts), *_silence(facts), *_places(facts)])


def _conditions(facts: Facts) -> Iterator[str]:
    for condition in facts["conditions"]:
        yield f"  {'ok' if condition['holds'] else 'FAILED':<6}  {condition['condition']} ({condition['found']})"


def _silence(facts: Facts) -> Iterator[str]:
    """The seconds of the restart, as the journal has them."""
    for incident in facts["incidents"]:
        if incident["program"] == WEDGED and incident["seconds"]:
            steps = ", ".join(f"{name} {seconds:.1f}" for name, seconds in incident["seconds"].items())
            yield f"Seconds since the last batch: {steps}."


def _places(facts: Facts) -> Iterator[str]:
    if facts["kept"] is None:
        yield "Its folder was removed; `watchdog demo --keep DIR` leaves the bundle and the logs in DIR."
        return
    yield f"Logs, configuration and incidents: {facts['kept']}"
    if facts["bundle"]:
        config = str(Path(facts["kept"]) / "watchdog.yaml")
        yield f"The evidence, told: {shlex.join(['watchdog', '-c', config, 'diagnose', facts['bundle']])}"
