"""What commands begin with, and how they fail: the configuration, supervisord, and errors with an exit code. May print nothing."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

from watchdog.exitcode import UNREACHABLE, USAGE
from watchdog.resources import MissingResources

if TYPE_CHECKING:
    from watchdog.config import Config
    from watchdog.show.status import Snapshot
    from watchdog.supervisor import Fault, Supervisor


class Failure(click.ClickException):
    """An expected error: one message for the operator, and the exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click's main() reads it of the instance, whatever its stubs say


def load_config(path: Path | None) -> Config:
    """The configuration. Raises Failure (2) with every error of every file, or when the installation lacks files."""
    from watchdog import config

    try:
        return config.load(path)
    except config.ConfigError as error:
        raise Failure(f"the configuration is not valid.\n{error}", USAGE) from error
    except MissingResources as error:
        raise Failure(str(error), USAGE) from error


def find_supervisor(settings: Config) -> Supervisor:
    """The supervisord that is configured, or found. Raises Failure (3) when none answers; it is asked before it is returned."""
    from watchdog.supervisor import Fault

    found = connect(settings)
    if isinstance(found, Fault):
        raise unreachable(found)
    return found


def connect(settings: Config) -> Supervisor | Fault:
    """As `find_supervisor`, with the fault as a value. A configured supervisord is not asked yet."""
    from watchdog import supervisor

    told = settings.supervisor
    if told.url is None:
        return supervisor.find(os.environ, told.timeout)
    return supervisor.Supervisor(told.url, told.user, told.password, told.timeout)


def unreachable(fault: Fault) -> Failure:
    """What to say when supervisord cannot be asked."""
    return Failure(f"supervisord: {fault.hint()}", UNREACHABLE)


def unknown_program(program: str, known: list[str]) -> NoReturn:
    """Raises Failure (2) that names the nearest programs."""
    from difflib import get_close_matches

    near = get_close_matches(program, known, n=3, cutoff=0.4) or known[:3]
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    raise Failure(f"no program {program!r}: names are group:name, as `supervisorctl status` shows them.{meant}", USAGE)


def daemon_lives(found: Snapshot) -> bool:
    """Some process, and no zombie, has the pid of the daemon that wrote the snapshot."""
    from watchdog import procfs

    return procfs.state_of(found["daemon"]["pid"]) not in (None, "Z", "X")


UNCUT: Final = 10_000
"""Columns where there is no terminal."""


def coloured() -> bool:
    """Colour only on a terminal, and never against NO_COLOR (any value that is not empty)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def table_width() -> int:
    """Columns that a table may take: those of the terminal; elsewhere nothing is cut, since a program reads it, or grep does."""
    told = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return shutil.get_terminal_size().columns if told else UNCUT
