"""`watchdog check`: tries everything that the daemon will need, prints it, and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from watchdog.cli.begin import coloured, connect, load_config
from watchdog.exitcode import FINE, PROBLEM, UNREACHABLE
from watchdog.show.words import clean, paint

if TYPE_CHECKING:
    from watchdog.cli.probes import Check
    from watchdog.config import Config


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For machines: a list of {subject, grade, what, todo}.")
@click.pass_context
def check(ctx: click.Context, as_json: bool) -> None:
    """Try everything for real: configuration, supervisord, logs, progress files, py-spy on a child and on each worker, disk, port.

    Run it as root: another user may not see what the daemon sees. Exit code 1: something failed; 3: supervisord cannot be asked.

    \b
    sudo watchdog check
    watchdog -c ./new.yaml check          before a reload
    watchdog check --json | jq '.[] | select(.grade == "fail")'
    """
    settings = load_config(ctx.obj)
    found = []
    for result in _checks(settings):
        found.append(result)
        if not as_json:
            click.echo(_text(result, coloured()))
    if as_json:
        click.echo(json.dumps([result._asdict() for result in found], indent=2))
    failed = {result.subject for result in found if result.grade == "fail"}
    ctx.exit(UNREACHABLE if "supervisord" in failed else PROBLEM if failed else FINE)


def _checks(settings: Config) -> Iterator[Check]:
    from watchdog.cli import probes

    yield from probes.of_installation()
    yield from probes.of_configuration(settings)
    yield from probes.of_pyspy()
    yield from probes.of_directories(settings)
    yield probes.of_metrics(settings)
    yield from _programs(settings)


def _programs(settings: Config) -> Iterator[Check]:
    """supervisord, then each of its programs that is watched."""
    from watchdog.cli import probes
    from watchdog.supervisor import Fault

    supervisor = connect(settings)
    processes = supervisor if isinstance(supervisor, Fault) else supervisor.processes()
    if isinstance(supervisor, Fault) or isinstance(processes, Fault):
        fault = processes if isinstance(processes, Fault) else supervisor
        assert isinstance(fault, Fault)
        yield probes.of_fault(fault)
        return
    told = supervisor.settings()
    yield from probes.of_supervisor(supervisor)
    yield from probes.of_patterns(settings.ruleset, processes)
    seen = probes.see(processes, settings.ruleset, {} if isinstance(told, Fault) else told)
    for name, info in sorted(processes.items()):
        policy = settings.ruleset.policy_for(name)
        if policy is not None:
            yield from probes.of_program(info, policy, settings.ruleset.interval, seen)


def _text(result: Check, colour: bool) -> str:
    style = {"ok": "green", "warn": "yellow", "fail": "red"}[result.grade]
    line = f"{paint(result.grade.ljust(4), style, colour)}  {clean(result.subject)}: {clean(result.what)}"
    return f"{line}\n      {clean(result.todo)}" if result.todo else line
