"""`watchdog diagnose`: judges evidence that somebody has already. Reads the files it is given; touches no process."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from watchdog.cli.begin import Failure, coloured, load_config
from watchdog.exitcode import USAGE
from watchdog.show.report import diagnosis_text

if TYPE_CHECKING:
    from watchdog.model.evidence import Evidence

STDIN: Final = "-"

LARGEST: Final = 64 << 20
"""Bytes of one FILE: dumps of 20 processes with 200 threads each are 60 MB, and a bundle is far smaller."""

_GZIP: Final = b"\x1f\x8b"


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="For machines: an object for one FILE, a list for several.")
@click.pass_context
def diagnose(ctx: click.Context, files: tuple[str, ...], as_json: bool) -> None:
    """What hangs on what, which known fault it is, how that is known, and what to do.

    FILE is a bundle (.tar.gz), an evidence.json, or what py-spy dump printed, as text or --json, several processes one
    after another; - is standard input. Exit code 0 whatever the verdict, 2 when a FILE cannot be read.

    \b
    watchdog diagnose /var/lib/worker-watchdog/incidents/20261130T030557Z-ami_worker-prod_00-101.tar.gz
    for pid in 101 102; do py-spy dump --pid $pid; done | watchdog diagnose -
    watchdog diagnose --json evidence.json | jq -r .kind
    """
    from watchdog.judge import diagnose as judge

    signatures = load_config(ctx.obj).ruleset.signatures
    answers = []
    for name in files:
        found = judge.diagnose(signatures, _evidence(name))
        answers.append(judge.as_json(found))
        if not as_json:
            click.echo(("\n" if len(answers) > 1 else "") + diagnosis_text(found, _title(name), _width(), coloured()))
    if as_json:
        click.echo(json.dumps(answers if len(answers) > 1 else answers[0], indent=2))


def _title(name: str) -> str:
    return "standard input" if name == STDIN else name


def _width() -> int:
    return shutil.get_terminal_size().columns


def _evidence(name: str) -> Evidence:
    """The evidence in one FILE, whichever form it has. Raises Failure (2) that names it."""
    from watchdog.collect.reading import BundleError
    from watchdog.judge.stacks import StacksError, evidence_from, read

    data = _read(name)
    try:
        if data.startswith(_GZIP) or _is_fallback(name, data):
            return evidence_from(_in_bundle(name, data))
        return read(data.decode("utf-8", errors="replace"))
    except StacksError as error:
        raise Failure(f"{_title(name)}: {error}", USAGE) from error
    except BundleError as error:
        raise Failure(str(error), USAGE) from error


def _is_fallback(name: str, data: bytes) -> bool:
    """The essential part that was kept where the archive could not be written: an object with the evidence in it."""
    if not name.endswith(".json") or not data.lstrip().startswith(b"{"):
        return False
    try:
        return "dumps" not in json.loads(data)
    except (ValueError, RecursionError):
        return False


def _in_bundle(name: str, data: bytes) -> object:
    """The evidence.json of a bundle, also of one that comes through a pipe. Raises BundleError."""
    from watchdog.collect.reading import open_bundle_evidence

    if name != STDIN:
        return open_bundle_evidence(Path(name))
    with tempfile.NamedTemporaryFile(suffix=".tar.gz") as file:
        file.write(data)
        file.flush()
        return open_bundle_evidence(Path(file.name))


def _read(name: str) -> bytes:
    try:
        if name == STDIN:
            data = sys.stdin.buffer.read(LARGEST + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(LARGEST + 1)
    except OSError as error:
        raise Failure(f"{_title(name)}: {error.strerror}.", USAGE) from error
    if len(data) > LARGEST:
        raise Failure(f"{_title(name)}: larger than {LARGEST >> 20} MiB; no dump or bundle is.", USAGE)
    return data
