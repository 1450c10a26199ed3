"""`watchdog resume`: leaves a request. Does nothing to a program itself."""

from __future__ import annotations

import click

from watchdog.cli.begin import Failure, load_config
from watchdog.cli.request import SEE_LOG, Asked, ask, leave, living_daemon, matching
from watchdog.exitcode import PROBLEM
from watchdog.show.status import ProgramLine


@click.command()
@click.argument("program")
@click.pass_context
def resume(ctx: click.Context, program: str) -> None:
    """End the pause of PROGRAM (group:name, or a shell pattern), or watch it again after it was given up.

    Exit code 1: the daemon did not do so for all of them.

    \b
    watchdog resume ami_worker:prod_00
    watchdog resume 'ami_worker:*'
    """
    settings = load_config(ctx.obj)
    daemon = living_daemon(settings.runtime)
    names = matching(daemon, program)
    asked = [Asked(name, leave(settings.runtime, "resume", name)) for name in names]
    told = ask(settings.runtime, daemon, asked, _is_watched)
    refused = [name for name, line in told.items() if line is None or not _is_watched(line)]
    for name in (name for name in told if name not in refused):
        click.echo(f"{name}: watched again")
    if refused:
        raise Failure(f"not resumed, the daemon refused: {', '.join(refused)}. {SEE_LOG}", PROBLEM)


def _is_watched(line: ProgramLine) -> bool:
    return "paused" not in line["flags"] and "given_up" not in line["flags"]
