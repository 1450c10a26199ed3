"""`watchdog demo`: makes a folder, runs the demo in it, says how it went. Touches nothing outside of that folder."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from watchdog import sunpath
from watchdog.cli.begin import Failure
from watchdog.exitcode import FINE, PROBLEM, UNREACHABLE, USAGE
from watchdog.resources import MissingResources

if TYPE_CHECKING:
    from watchdog.demo.facts import Facts
    from watchdog.demo.run import Ending, Watcher
    from watchdog.demo.stage import Stage

_PREFIX: Final = "watchdog-"
_SOCKET: Final = "s.sock"

LONGEST_FOLDER: Final = sunpath.LONGEST - len(f"/{_PREFIX}12345678/{_SOCKET}.4194304")
"""Bytes of the folder for temporary ones: tempfile adds eight, and supervisord first binds the name with its pid appended."""


@click.command()
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Leave everything in DIR, a new or empty one.",
)
@click.option("--json", "as_json", is_flag=True, help="For machines: the facts, at the end.")
def demo(keep: Path | None, as_json: bool) -> None:
    """See it work, in half a minute: a private supervisord, four workers, one of them really wedged.

    The wedged one is diagnosed and restarted with its evidence sealed; the healthy, the idle and the slow one are left
    alone. It needs no root, no configuration and no network, and ends every process that it began.

    \b
    watchdog demo
    watchdog demo --keep ./demo           leaves the bundle and the logs there
    watchdog demo --json | jq .conditions

    \b
    Exit codes: 0 all of that was seen, 1 it was not, 2 usage, 3 something is missing here.
    """
    _need_supervisor()
    folder = _folder(keep)
    with _socket_folder() as near:
        facts, ending = _run(folder, near / _SOCKET, as_json, kept=keep is not None)
    click.echo(json.dumps(facts, indent=2) if as_json else _last_words(facts))
    if ending.signal is not None:
        sys.exit(128 + ending.signal)
    sys.exit(FINE if facts["ok"] else PROBLEM)


def _need_supervisor() -> None:
    missing = [name for name in ("supervisor", "psutil") if importlib.util.find_spec(name) is None]
    if missing:
        raise Failure(
            f"the demo starts a supervisord of its own, and {' and '.join(missing)} cannot be imported here.\n"
            "Install it beside watchdog: pip install 'worker-watchdog[demo]', or '.[demo]' in a checkout",
            UNREACHABLE,
        )


def _folder(keep: Path | None) -> Path:
    """A new folder, or the empty one that was asked for. Raises Failure."""
    if keep is None:
        return _writable_name(Path(tempfile.mkdtemp(prefix="watchdog-demo-")))
    _writable_name(keep.resolve())
    try:
        keep.mkdir(parents=True, exist_ok=True)
        if any(keep.iterdir()):
            raise Failure(f"--keep {keep}: this directory is not empty; name a new one.", USAGE)
    except OSError as error:
        raise Failure(f"--keep {keep}: {error.strerror}; name a directory that you can write.", USAGE) from error
    return keep.resolve()


def _writable_name(folder: Path) -> Path:
    """The folder. Raises Failure (2) when supervisord's configuration cannot name it."""
    from watchdog.demo.stage import UNWRITABLE

    if any(letter in str(folder) for letter in UNWRITABLE):
        raise Failure(
            f"{folder}: supervisord takes no path with a % or ; in it; name another directory with --keep.", USAGE
        )
    return folder


@contextmanager
def _socket_folder() -> Iterator[Path]:
    near = tempfile.gettempdir()
    if len(os.fsencode(near)) > LONGEST_FOLDER:
        near = "/tmp"
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=near) as path:
        yield Path(path)


def _run(folder: Path, socket: Path, as_json: bool, kept: bool) -> tuple[Facts, Ending]:
    """Raises Failure (3) when the demo cannot show anything here. The folder is left when asked for, or when it failed."""
    from watchdog.demo import facts, run, stage

    place = stage.Stage(folder, socket)
    try:
        _build(place)
        with _watcher(as_json) as tell:
            ending = run.run(place, tell)
    except (run.Unusable, MissingResources, OSError) as error:
        raise Failure(f"the demo cannot run here: {error}\nIts logs are in {place.logs}", UNREACHABLE) from error
    told = facts.gather(ending.story, ending.seconds, ending.problem, ending.signal is not None, folder)
    if not kept and (told["ok"] or ending.signal is not None):
        shutil.rmtree(folder)
        told = facts.without_folder(told)
    return told, ending


def _build(place: Stage) -> None:
    from watchdog import resources
    from watchdog.demo import stage

    stage.build(place, stage.demo_programs(place), resources.rules_directory() / "signatures")


def _watcher(as_json: bool) -> AbstractContextManager[Watcher]:
    from watchdog.demo import screen

    if as_json:
        return screen.silent()
    terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return screen.live() if terminal else screen.lines()


def _last_words(facts: Facts) -> str:
    from watchdog.demo import screen

    return screen.ending(facts)
