"""The command `watchdog`: reads options, wires rooms together, prints. Decides nothing about programs.

Each command is imported only when it is asked for: `watchdog status` answers without py-spy or the daemon's modules.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Final

import click

from watchdog import __version__

COMMANDS: Final = {
    "run": "Watch the programs, as a daemon in the foreground.",
    "check": "Try everything for real: configuration, supervisord, logs, py-spy, disk.",
    "status": "What the daemon sees, also when it is dead or hung.",
    "observe": "Look once, without a daemon: memory, descriptors, CPU, heartbeats.",
    "collect": "Have the daemon seal a bundle of one program's evidence.",
    "diagnose": "What hangs on what, from a bundle, evidence.json or py-spy dumps.",
    "incidents": "What happened: list the incidents, or show one.",
    "pause": "Leave a program alone for a while.",
    "resume": "End a pause, or try a program again that was given up.",
    "demo": "See it work: a private supervisord, four workers, one really wedged.",
}
"""Each command `NAME` is the function of that name in watchdog/cli/NAME.py; the text is its line in the list."""

_EXIT_CODES: Final = """\b
Exit codes: 0 fine, 1 a problem was found, 2 usage or configuration,
3 cannot reach or not permitted."""


class Commands(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order an operator meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now; None: there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"{__name__}.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in `watchdog --help`, without importing a command."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, epilog=_EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-c",
    "--config",
    type=click.Path(path_type=Path),
    envvar="WATCHDOG_CONFIG",
    show_envvar=True,
    help="The configuration; without it /etc/worker-watchdog/watchdog.yaml, if it is there.",
)
@click.version_option(__version__, prog_name="watchdog")
@click.pass_context
def main(ctx: click.Context, config: Path | None) -> None:
    """Notices that a supervisord program no longer works, says why, and restarts that one program.

    \b
    watchdog demo                         see it work, without root or configuration
    watchdog check                        is everything here that it needs?
    watchdog status                       what the daemon sees
    watchdog -c ./watchdog.yaml run       watch, with this configuration
    """
    ctx.obj = config
