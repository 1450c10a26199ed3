"""`watchdog status`: the daemon's last snapshot. Reads one file; needs neither supervisord, py-spy nor a daemon."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from watchdog.cli.begin import Failure, coloured, daemon_lives, load_config, table_width
from watchdog.exitcode import FINE, PROBLEM, UNREACHABLE
from watchdog.show.problems import problems
from watchdog.show.screen import render
from watchdog.show.status import Unreadable, path_in, read


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For machines: the snapshot, its age and its problems.")
@click.option(
    "--runtime",
    type=click.Path(path_type=Path),
    help="The daemon's runtime directory; then no configuration is read.",
)
@click.pass_context
def status(ctx: click.Context, as_json: bool, runtime: Path | None) -> None:
    """What the daemon sees, also when it is dead or hung.

    It reads the daemon's last snapshot and says how old that is. Exit code 1: something is wrong, and listed under
    Problems (a program wedged, blind, given up or owed a start, supervisord down, a snapshot older than three intervals).

    \b
    watchdog status
    watchdog status --json | jq '.programs[] | select(.phase != "WATCHING")'
    """
    directory = runtime if runtime is not None else load_config(ctx.obj).runtime
    found = read(path_in(directory), time.time())
    if isinstance(found, Unreadable):
        raise Failure(str(found), UNREACHABLE)
    gone = not daemon_lives(found)
    wrong = problems(found, gone)
    if as_json:
        click.echo(json.dumps({**found, "problems": wrong}, indent=2))
    else:
        click.echo(render(found, table_width(), coloured(), gone))
    ctx.exit(PROBLEM if wrong else FINE)
