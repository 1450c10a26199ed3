"""`watchdog incidents`: reads the journal, and of one incident its manifest. Writes nothing; needs no daemon."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import click

from watchdog.cli.begin import Failure, coloured, load_config, table_width
from watchdog.exitcode import UNREACHABLE, USAGE
from watchdog.model.record import IncidentRecord
from watchdog.show.report import (
    ManifestFacts,
    incident_line,
    incident_text,
    incidents_text,
    manifest_facts,
    newest_first,
)


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="For machines: a list, newest first.")
@click.pass_context
def incidents(ctx: click.Context, as_json: bool) -> None:
    """What happened: list the incidents, newest first, or show one.

    \b
    watchdog incidents
    watchdog incidents --json | jq '.[0].bundle'
    watchdog incidents show ID            the beginning of an ID is enough
    """
    if ctx.invoked_subcommand is not None:
        return
    found = newest_first(_records(ctx.obj).values())
    if as_json:
        click.echo(json.dumps([incident_line(record) for record in found], indent=2))
    else:
        click.echo(incidents_text(found, table_width(), coloured()))


@incidents.command()
@click.argument("incident")
@click.option("--json", "as_json", is_flag=True, help="For machines: one object.")
@click.pass_context
def show(ctx: click.Context, incident: str, as_json: bool) -> None:
    """One INCIDENT, by its ID or the beginning of it.

    \b
    watchdog incidents show 20261130T0305
    """
    record = _one(_records(ctx.obj), incident)
    if as_json:
        click.echo(json.dumps({**incident_line(record), "detail": record.detail}, indent=2))
    else:
        click.echo(incident_text(record, _sealed(record), shutil.get_terminal_size().columns, coloured()))


def _records(path: Path | None) -> Mapping[str, IncidentRecord]:
    from watchdog import journal

    settings = load_config(path)
    try:
        return journal.read(settings.state).incidents
    except OSError as error:
        raise Failure(
            f"cannot read the journal in {settings.state}: {error.strerror}.\nTry again as root, or as the daemon's user.",
            UNREACHABLE,
        ) from error


def _sealed(record: IncidentRecord) -> ManifestFacts | None:
    """What the manifest beside its bundle adds; None where there is none any more, or it cannot be read."""
    from watchdog.collect.reading import BundleError, read_manifest

    if record.bundle is None:
        return None
    try:
        return manifest_facts(read_manifest(Path(record.bundle)))
    except (OSError, BundleError):
        return None


def _one(records: Mapping[str, IncidentRecord], wanted: str) -> IncidentRecord:
    """The incident of that id, or the only one whose id begins so. Raises Failure (2)."""
    if wanted in records:
        return records[wanted]
    near = sorted(record for record in records if record.startswith(wanted))
    if len(near) == 1:
        return records[near[0]]
    if near:
        raise Failure(f"{len(near)} incidents begin with {wanted!r}: {', '.join(near[:5])}", USAGE)
    raise Failure(f"no incident {wanted!r}. `watchdog incidents` lists them.", USAGE)
