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
from watchdog.daemon import known
from watchdog.judge.budget import slot_wait, time_to_recover
from watchdog.look.gauges import gauges_of
from watchdog.model.observation import ProcessSample
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


def test_memory_and_cpu_are_told_in_one_way_and_as_they_are_reckoned() -> None:
    told = {cells[0].strip("`").removeprefix("watchdog_"): cells[2] for cells in rows("tests/test_readme.py -->")}
    for name in ("program_resident_bytes", "program_shared_memory_bytes", "program_cpu_seconds_total"):
        assert told[name] == FAMILIES[name][1].replace("process tree", "tree").rstrip(".").replace("R", "r", 1), name
    one = ProcessSample(10, 1, 1, "main", "S", 1.0, None, 130, 50, 20, 60, 8, 1024, 1)
    other = ProcessSample(11, 2, 10, "child", "S", 1.0, None, 100, 40, 10, 50, 8, 1024, 1)
    seen = gauges_of((one, other))
    assert seen.shmem == 60, "of the process that has most of it"
    assert seen.rss == 50 + 20 + 40 + 10 + 60


def test_where_the_way_to_supervisord_is_kept_is_told(tmp_path: Path) -> None:
    known.remember(tmp_path, config.SupervisorSettings(None, "dog", "swordfish"), "unix:///run/s")
    (kept,) = tmp_path.iterdir()
    (line,) = [item for item in re.split(r"\n- ", TEXT) if f"`{kept.name}`" in item and "state directory" in item]
    assert "password" in line and f"mode 0{kept.stat().st_mode & 0o777:o}" in line
    assert "swordfish" in kept.read_text()


def test_the_times_are_those_of_the_built_in_rule() -> None:
    stall = config.load_rules(())["stall"]
    first = time_to_recover(stall, 5.0)
    assert f"add up to {first:.0f} s at most, {first + slot_wait(stall):.0f} s for a second worker" in TEXT


def test_the_changelog_names_every_command() -> None:
    named = {
        word for words in re.findall(r"`([a-z -]+)`", (ROOT / "CHANGELOG.md").read_text()) for word in words.split()
    }
    assert set(COMMANDS) <= named
