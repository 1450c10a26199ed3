"""The sample configuration: harmless as it stands, right when its examples are taken, and true about the defaults."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from watchdog import resources
from watchdog.config import STANDARD_PATH, load
from watchdog.configfile import ConfigFile
from watchdog.model.rule import Idle, Level, Progress

SAMPLE = resources.systemd_directory() / "watchdog.yaml"


def test_as_it_stands_it_says_what_no_configuration_says() -> None:
    sample, nothing = load(SAMPLE, {}, uid=0), load(None, {}, standard=Path("/none/watchdog.yaml"), uid=0)
    assert sample.ruleset == nothing.ruleset
    assert sample.ruleset.policies[0].mode == Level.REPORT
    for name in ("supervisor", "archive", "state", "runtime", "metrics"):
        assert getattr(sample, name) == getattr(nothing, name)


def test_its_examples_may_be_taken(tmp_path: Path) -> None:
    file = tmp_path / "watchdog.yaml"
    # As its head says: `#` with no space behind it, and what is indented below such a line.
    file.write_text(re.sub(r"^#(?=[a-z]|  )", "", SAMPLE.read_text(), flags=re.MULTILINE))
    taken, plain = load(file, {}, uid=0), load(SAMPLE, {}, uid=0)
    (policy,) = taken.ruleset.policies
    assert (policy.match, policy.mode, [rule.name for rule in policy.rules]) == (
        "ami_worker:*",
        Level.RESTART,
        ["stall"],
    )
    assert policy.progress == Progress(r"\] Batch (?P<count>\d+): [\d.]+s/image", "/run/ami/{process}.json")
    assert policy.idle == Idle("No jobs found, sleeping", 1800.0)
    assert taken.supervisor.url == "unix:///run/supervisor.sock"
    # It calls these the defaults.
    assert (taken.archive, taken.state, taken.runtime) == (plain.archive, plain.state, plain.runtime)


def test_it_names_the_place_where_it_is_looked_for() -> None:
    assert str(STANDARD_PATH) in SAMPLE.read_text()


def test_every_key_of_the_schema_is_shown() -> None:
    for field in fields(ConfigFile):
        assert re.search(rf"^#?{field.name}:", SAMPLE.read_text(), re.MULTILINE), field.name
