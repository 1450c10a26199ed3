"""`watchdog run`: hands over to the daemon."""

from __future__ import annotations

import click


@click.command()
@click.option(
    "--finish", is_flag=True, help="Only finish restarts that a dead daemon left open, from its journal; then end."
)
@click.pass_context
def run(ctx: click.Context, finish: bool) -> None:
    """Watch the programs, as a daemon in the foreground.

    Log lines go to stderr. SIGHUP reads the configuration anew, SIGTERM ends it (a restart under way is finished first).
    A restart that was open when the last daemon died is finished before anything else.

    \b
    watchdog run
    watchdog -c /etc/worker-watchdog/watchdog.yaml run
    watchdog run --finish                 what ExecStopPost= of the unit does
    """
    from watchdog import daemon

    ctx.exit(daemon.run(ctx.obj, finish=finish))
