"""`watchdog collect`: asks the daemon for one program's evidence, and waits for it. Collects nothing itself: one writer."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import click

from watchdog.cli.begin import Failure, daemon_lives, load_config, unknown_program
from watchdog.cli.request import leave, living_daemon, patience, wait_until_taken
from watchdog.exitcode import PROBLEM, UNREACHABLE
from watchdog.model.record import IncidentRecord
from watchdog.show.status import ProgramLine, Snapshot

WITHIN: Final = 120.0
"""Seconds: two dumps 15 s apart and 30 s for the rest, with the defaults, and as much again."""

_POLL: Final = 0.2


@click.command()
@click.argument("program")
@click.option("--wait", is_flag=True, help=f"Wait for the bundle, at most {WITHIN:.0f} s, and print its path.")
@click.pass_context
def collect(ctx: click.Context, program: str, wait: bool) -> None:
    """Have the daemon seal a bundle of PROGRAM's (group:name) evidence. The program is not stopped.

    \b
    watchdog collect ami_worker:prod_00
    tar tzf "$(watchdog collect ami_worker:prod_00 --wait)"
    """
    settings = load_config(ctx.obj)
    daemon = living_daemon(settings.runtime)
    _must_be_free(_line(daemon, program))
    known = frozenset(_incidents(settings.state)) if wait else frozenset[str]()
    wait_until_taken(leave(settings.runtime, "collect", program, why="watchdog collect"), patience(daemon))
    if not wait:
        click.echo(f"{program}: asked for; `watchdog incidents` lists it when it is sealed")
        return
    record = _wait_for_bundle(settings.state, daemon, program, known)
    if record.bundle is None:
        raise Failure(f"{program}: no bundle could be made: {record.detail or record.outcome}", PROBLEM)
    click.echo(record.bundle)


def _line(found: Snapshot, program: str) -> ProgramLine:
    watched = {line["program"]: line for line in found["programs"] if line["mode"] is not None}
    if program not in watched:
        unknown_program(program, list(watched))
    return watched[program]


def _must_be_free(line: ProgramLine) -> None:
    """Raises Failure (1) when the daemon would refuse."""
    if line["pid"] is None:
        raise Failure(f"{line['program']} is not running (supervisord says {line['state']}).", PROBLEM)
    if line["phase"] != "WATCHING":
        raise Failure(
            f"{line['program']} is in {line['phase']}: the daemon is busy with incident {line['incident'] or 'none'}.\n"
            "Its evidence is sealed in any case; see `watchdog incidents`.",
            PROBLEM,
        )


def _incidents(state: Path) -> dict[str, IncidentRecord]:
    from watchdog import journal

    try:
        return dict(journal.read(state).incidents)
    except OSError as error:
        raise Failure(
            f"cannot read the journal in {state}: {error.strerror}.\nTry again as root, or as the daemon's user.",
            UNREACHABLE,
        ) from error


def _wait_for_bundle(state: Path, daemon: Snapshot, program: str, known: frozenset[str]) -> IncidentRecord:
    """The first incident of the program that is not `known`, once it has a bundle or an outcome. Raises Failure."""
    deadline = time.monotonic() + WITHIN
    while time.monotonic() < deadline:
        lives = daemon_lives(daemon)  # asked first: what it wrote before it ended still counts
        for record in _incidents(state).values():
            if record.program == program and record.id not in known and (record.bundle or record.outcome):
                return record
        if not lives:
            raise Failure(f"the daemon (pid {daemon['daemon']['pid']}) ended meanwhile. See its log.", UNREACHABLE)
        time.sleep(_POLL)
    raise Failure(f"{program}: no bundle within {WITHIN:.0f} s. See `watchdog status` and the daemon's log.", PROBLEM)
