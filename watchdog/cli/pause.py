"""`watchdog pause`: leaves a request. Does nothing to a program itself."""

from __future__ import annotations

import time
from typing import Final

import click

from watchdog.cli.begin import Failure, load_config
from watchdog.cli.request import SEE_LOG, Asked, ask, leave, living_daemon, matching
from watchdog.exitcode import PROBLEM
from watchdog.model.event import LONGEST_PAUSE
from watchdog.show.status import ProgramLine
from watchdog.show.words import duration

SLACK: Final = 2.0
"""Seconds by which two readings of the wall clock, ours and the daemon's, may be apart."""

_RESTARTING: Final = ("STOPPING", "STARTING", "VERIFYING")


def _seconds(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """A time with its unit, as the configuration writes it; above 0 and at most LONGEST_PAUSE."""
    from watchdog import units
    from watchdog.problems import Invalid

    try:
        seconds = units.duration(value)
    except Invalid as error:
        raise click.BadParameter(f"found {error.found}, allowed: {error.allowed}.", ctx, param) from error
    if seconds > LONGEST_PAUSE:
        raise click.BadParameter(f"at most {duration(LONGEST_PAUSE)}; a pause can be renewed.", ctx, param)
    return seconds


@click.command()
@click.argument("program")
@click.option(
    "--for",
    "for_s",
    metavar="DURATION",
    callback=_seconds,
    required=True,
    help="How long, with a unit: 90s, 20m, 2h. It ends by itself.",
)
@click.option("--reason", "why", default="", help="Said in the log.")
@click.pass_context
def pause(ctx: click.Context, program: str, for_s: float, why: str) -> None:
    """Leave PROGRAM (group:name, or a shell pattern) alone for a while.

    While it is paused nothing is dumped or restarted; what it does is still measured. A restart that has already
    stopped the program is finished. A pause always ends by itself. Exit code 1: the daemon did not pause all of them.

    \b
    watchdog pause ami_worker:prod_00 --for 20m --reason 'profiling'
    watchdog pause 'ami_worker:*' --for 2h
    """
    settings = load_config(ctx.obj)
    daemon = living_daemon(settings.runtime)
    names = matching(daemon, program)
    since = time.time()
    asked = [Asked(name, leave(settings.runtime, "pause", name, for_s=for_s, why=why)) for name in names]

    def done(line: ProgramLine) -> bool:
        return _is_paused(line, since + for_s, time.time() + for_s)

    told = ask(settings.runtime, daemon, asked, done)
    refused = [name for name, line in told.items() if line is None or not done(line)]
    for name, line in told.items():
        if name not in refused and line is not None:
            first = "; its restart, which has begun, is finished first" if line["phase"] in _RESTARTING else ""
            click.echo(f"{name}: paused for {duration(for_s)}{first}")
    if refused:
        raise Failure(f"not paused, the daemon refused: {', '.join(refused)}. {SEE_LOG}", PROBLEM)


def _is_paused(line: ProgramLine, earliest: float, latest: float) -> bool:
    """By this request: an earlier pause ends at another time."""
    until = line["paused_until"]
    return until is not None and earliest - SLACK <= until <= latest + SLACK
