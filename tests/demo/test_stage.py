from __future__ import annotations

import configparser
from dataclasses import fields
from pathlib import Path

from watchdog import config, resources
from watchdog.demo import stage
from watchdog.model.rule import Level, Rule


def place(tmp_path: Path) -> stage.Stage:
    built = stage.Stage(tmp_path / "it's mine", tmp_path / "s.sock")
    built.folder.mkdir()
    stage.build(built, stage.demo_programs(built), resources.rules_directory() / "signatures")
    return built


def numbers(rule: Rule) -> list[float]:
    """The durations of all detectors, in order."""
    found = []
    for group in rule.when:
        for detector in group.all:
            found += [getattr(detector, f.name) for f in fields(detector) if f.name in ("for_", "within")]
    return found


def test_the_shortened_rule_has_the_shape_of_the_built_in_one() -> None:
    built_in = config.load_rules([resources.rules_directory()])["stall"]
    shortened = config.load_rules([Path(stage.__file__).parent])["stall"]
    for ours, theirs in zip(shortened.when, built_in.when, strict=True):
        assert ours.name == theirs.name
        assert [type(d) for d in ours.all] == [type(d) for d in theirs.all]
    assert all(short < long for short, long in zip(numbers(shortened), numbers(built_in), strict=True))
    assert shortened.then is built_in.then is Level.RESTART


def test_the_configuration_is_valid_and_has_the_shortened_rule(tmp_path: Path) -> None:
    built = place(tmp_path)
    loaded = config.load(built.config, {})
    policy = loaded.ruleset.policy_for("demo:wedged")
    assert policy is not None
    assert policy.mode is Level.RESTART
    assert [rule.verify_within for rule in policy.rules] == [20.0]
    assert policy.progress is not None
    assert policy.progress.log == stage.BATCH
    assert (loaded.archive.directory, loaded.state, loaded.runtime) == (built.archive, built.state, built.runtime)
    assert loaded.supervisor.url == f"unix://{built.socket}"


def test_the_signatures_differ_in_their_silence_only(tmp_path: Path) -> None:
    built = place(tmp_path)
    ours = {s.kind: s for s in config.load(built.config, {}).ruleset.signatures}
    theirs = {s.kind: s for s in config.load_signatures([resources.rules_directory() / "signatures"])}
    assert ours.keys() == theirs.keys()
    shortened = [kind for kind in ours if ours[kind].needs != theirs[kind].needs]
    assert shortened
    for kind in ours:
        assert (ours[kind].main, ours[kind].every, ours[kind].verdict) == (
            theirs[kind].main,
            theirs[kind].every,
            theirs[kind].verdict,
        )
        assert ours[kind].needs.quiet in ({4.0} if kind in shortened else {None})


def test_every_path_reaches_supervisord_as_it_is(tmp_path: Path) -> None:
    built = place(tmp_path)
    read = configparser.RawConfigParser()
    read.read(built.supervisord)
    assert read["group:demo"]["programs"] == "healthy,idle,slow,wedged"
    assert read["program:wedged"]["stdout_logfile"] == f"{tmp_path}/it's mine/logs/wedged.log"
    assert read["program:wedged"]["command"].endswith(
        """--lose-when '""" + str(built.fault("wedged")).replace("'", "'\"'\"'") + "'"
    )
