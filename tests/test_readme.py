"""README against the code: what it promises by name is there, and what is there is in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from watchdog import config
from watchdog.cli import COMMANDS
from watchdog.configfile import ConfigFile
from watchdog.show.metrics import FAMILIES

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text()


def rows(heading: str) -> Iterator[list[str]]:
    """The cells of the table below `heading`."""
    table = TEXT.split(heading, 1)[1].lstrip().split("\n\n", 1)[0]
    for line in table.splitlines()[2:]:
        yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def example() -> str:
    found = re.search(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_metrics_are_those_of_the_code() -> None:
    told = {
        name.strip("`"): tuple(filter(None, labels.split(", "))) for name, labels, _ in rows("tests/test_readme.py -->")
    }
    assert told == {f"watchdog_{name}": labels for name, (labels, _) in FAMILIES.items()}


def test_every_metric_named_anywhere_exists() -> None:
    named = set(re.findall(r"\bwatchdog_[a-z_]+", TEXT))
    assert named <= {f"watchdog_{name}" for name in FAMILIES}


def test_every_command_is_told() -> None:
    told = {word for cells in rows("## Commands") for word in re.findall(r"[a-z]+", cells[0])}
    assert set(COMMANDS) <= told


def test_every_command_told_exists() -> None:
    told = set(re.findall(r"(?:^    (?:sudo )?|`)watchdog ([a-z]+)", TEXT, re.MULTILINE))
    assert told <= set(COMMANDS)


def test_the_example_has_every_key() -> None:
    data = yaml.safe_load(example())
    assert data.keys() == {field.name for field in fields(ConfigFile)}
    keys = {key for entry in data["programs"] for key in entry}
    assert keys == {"match", "mode", "rules", "logs", "progress", "progress.log", "idle"}


def test_the_example_is_valid_and_holds_the_defaults(tmp_path: Path) -> None:
    """What stands there as a default is the default: without the lines that have none, nothing changes."""
    (tmp_path / "password").write_text("swordfish\n")
    (tmp_path / "password").chmod(0o600)
    own = {"/etc/worker-watchdog": str(tmp_path), "/var/lib/worker-watchdog": "/s", "/run/worker-watchdog": "/r"}
    text = example()
    for there, here in own.items():
        text = text.replace(there, here)
    for name in ("rules", "signatures"):
        (tmp_path / name).mkdir()
    (tmp_path / "watchdog.yaml").write_text(text)
    found = config.load(tmp_path / "watchdog.yaml", {})
    plain = config.load(None, {"STATE_DIRECTORY": "/s", "RUNTIME_DIRECTORY": "/r"}, standard=tmp_path / "none")
    assert [p.match for p in found.ruleset.policies] == ["ami_worker:*", "render:*"]
    assert (found.archive, found.state, found.runtime, found.metrics) == (
        plain.archive, plain.state, plain.runtime, plain.metrics,
    )  # fmt: skip
    assert (found.ruleset.interval, found.ruleset.limits) == (plain.ruleset.interval, plain.ruleset.limits)
    assert found.supervisor.timeout == plain.supervisor.timeout


def test_the_kinds_are_those_of_the_signatures() -> None:
    told = {cells[0].strip("`"): cells[1] for cells in rows("and what their verdict is:")}
    assert told == {s.kind: s.verdict for s in config.load_signatures(())}


@pytest.mark.parametrize("path", sorted(set(re.findall(r"(?<![\w/])(?:systemd|rules|tests)/[\w./-]+\w", TEXT))))
def test_the_files_it_names_are_there(path: str) -> None:
    assert (ROOT / path).exists()
