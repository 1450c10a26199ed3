"""`watchdog observe`: two looks, without a daemon. Reads processes and logs; changes nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import click

from watchdog.cli.begin import Failure, coloured, find_supervisor, load_config, unknown_program, unreachable
from watchdog.exitcode import UNREACHABLE, USAGE
from watchdog.show.observation import observation_json, observations_text

if TYPE_CHECKING:
    from pathlib import Path

    from watchdog.look.observe import Looker
    from watchdog.model.observation import Observation

T = TypeVar("T")

APART: Final = 0.2
"""Seconds between the two looks that tell the CPU: twenty of the kernel's 10 ms ticks."""


@click.command()
@click.argument("program", required=False)
@click.option("--pid", type=click.IntRange(min=1), help="Any process tree, without a supervisord or configuration.")
@click.option("--json", "as_json", is_flag=True, help="For machines: an object for one, a list for all programs.")
@click.pass_context
def observe(ctx: click.Context, program: str | None, pid: int | None, as_json: bool) -> None:
    """Look once at every program, at PROGRAM (group:name), or at any process tree: memory, descriptors, CPU, heartbeats.

    The values have the names that rules use: rss, anon, shmem (of a tree, the most that one process has) in bytes, fds, fds_ratio
    (of the soft limit), threads, processes, and cpu in cores, of the whole tree and of each process.

    \b
    watchdog observe
    watchdog observe ami_worker:prod_00
    watchdog observe --pid 4711 --json | jq .rss
    """
    if pid is not None and program is not None:
        raise Failure("name a PROGRAM or a --pid, not both.", USAGE)
    seen = [_one(pid)] if pid is not None else _programs(ctx.obj, program)
    one = pid is not None or program is not None
    if as_json:
        found = [observation_json(observation) for observation in seen]
        click.echo(json.dumps(found[0] if one else found, indent=2))
    else:
        click.echo(
            observations_text(seen, trees=one, colour=coloured()) if seen else "No programs: supervisord has none."
        )


@contextmanager
def _looker() -> Iterator[Looker]:
    from watchdog.look.observe import Looker
    from watchdog.procfs import Procfs

    looker = Looker(Procfs())
    try:
        yield looker
    finally:
        looker.close()


def _one(pid: int) -> Observation:
    """Raises Failure (3) when there is no such process."""
    with _looker() as looker:
        seen = _twice(lambda: looker.look_at_process(pid, time.monotonic()))
    if seen is None:
        raise Failure(f"there is no process {pid}. `ps -e` lists them.", UNREACHABLE)
    return seen


def _programs(path: Path | None, program: str | None) -> list[Observation]:
    from watchdog.supervisor import Fault

    settings = load_config(path)
    infos = find_supervisor(settings).processes()
    if isinstance(infos, Fault):
        raise unreachable(infos)
    if program is not None and program not in infos:
        unknown_program(program, list(infos))
    names = sorted(infos) if program is None else [program]
    policies = {name: settings.ruleset.policy_for(name) for name in names}
    with _looker() as looker:
        looker.set_programs(infos, settings.ruleset)
        return _twice(lambda: [looker.look(policies[n], infos[n], time.monotonic()) for n in names])


def _twice(look: Callable[[], T]) -> T:
    look()
    time.sleep(APART)
    return look()
