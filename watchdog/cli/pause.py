"""`watchdog pause`: leaves a request. Does nothing to a program itself."""

from __future__ import annotations

from typing import Final

import click

from watchdog.cli.begin import load_config
from watchdog.cli.request import leave, living_daemon, matching, patience, wait_until_taken
from watchdog.show.words import duration

LONGEST: Final = 7 * 86400.0
"""Seconds: a pause that nobody remembers is a program that nobody watches."""


def _seconds(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """A time with its unit, as the configuration writes it; above 0 and at most LONGEST."""
    from watchdog import units
    from watchdog.problems import Invalid

    try:
        seconds = units.duration(value)
    except Invalid as error:
        raise click.BadParameter(f"found {error.found}, allowed: {error.allowed}.", ctx, param) from error
    if seconds > LONGEST:
        raise click.BadParameter(f"at most {duration(LONGEST)}; a pause can be renewed.", ctx, param)
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
@click.option("--reason", "why", default="", help="Said in status and in the log.")
@click.pass_context
def pause(ctx: click.Context, program: str, for_s: float, why: str) -> None:
    """Leave PROGRAM (group:name, or a shell pattern) alone for a while.

    While it is paused nothing is dumped or restarted; what it does is still measured. A restart that has already
    stopped the program is finished. A pause always ends by itself.

    \b
    watchdog pause ami_worker:prod_00 --for 20m --reason 'profiling'
    watchdog pause 'ami_worker:*' --for 2h
    """
    settings = load_config(ctx.obj)
    daemon = living_daemon(settings.runtime)
    names = matching(daemon, program)
    left = [leave(settings.runtime, "pause", name, for_s=for_s, why=why) for name in names]
    for name, path in zip(names, left, strict=True):
        wait_until_taken(path, patience(daemon))
        click.echo(f"{name}: paused for {duration(for_s)}")
