"""`watchdog resume`: leaves a request. Does nothing to a program itself."""

from __future__ import annotations

import click

from watchdog.cli.begin import load_config
from watchdog.cli.request import leave, living_daemon, matching, patience, wait_until_taken


@click.command()
@click.argument("program")
@click.pass_context
def resume(ctx: click.Context, program: str) -> None:
    """End the pause of PROGRAM (group:name, or a shell pattern), or watch it again after it was given up.

    \b
    watchdog resume ami_worker:prod_00
    watchdog resume 'ami_worker:*'
    """
    settings = load_config(ctx.obj)
    daemon = living_daemon(settings.runtime)
    names = matching(daemon, program)
    left = [leave(settings.runtime, "resume", name) for name in names]
    for name, path in zip(names, left, strict=True):
        wait_until_taken(path, patience(daemon))
        click.echo(f"{name}: watched again")
