"""What a right configuration becomes: the whole schema, defaults, directories, rules of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from watchdog import resources
from watchdog.config import Config, Keep, MetricsSettings, SupervisorSettings, load, load_rules, load_signatures
from watchdog.model.rule import CommonCause, HostLimits, Idle, Level, Progress

ROOT = {"uid": 0}

WHOLE = r"""
supervisor: {url: "unix:///run/supervisor.sock", timeout: 1500ms, user: bob, password: hunter2}
interval: 2s
mode: observe
programs:
  - match: "ami_worker:*"
    mode: restart
    rules: [stall]
    logs: [/var/log/ami.log]
    progress:
      log: '\] Batch (?P<count>\d+): [\d.]+s/image'
      file: /run/ami/{process}.json
    idle: {line: 'No jobs found, sleeping', for: 30m}
  - match: "*"
    rules: []
archive: {directory: /srv/incidents, keep: {count: 7, size: 5GiB, age: 90d, free: 12.5%, least: 3}}
state: {directory: /srv/state}
runtime: {directory: /srv/run}
rules: [/etc/worker-watchdog/rules]
signatures: [/etc/worker-watchdog/signatures]
metrics: {listen: "[::1]:0"}
limits: {restarts_at_once: 2, restarts: 8, per: 2h, retry: 7h, common_cause: {share: 0.25, within: 61s}}
"""


def load_text(tmp_path: Path, text: str, environ: Mapping[str, str] | None = None, uid: int = 0) -> Config:
    file = tmp_path / "watchdog.yaml"
    file.write_text(text)
    return load(file, environ or {}, uid=uid)


def test_every_key_arrives(tmp_path: Path) -> None:
    config = load_text(tmp_path, WHOLE)
    assert config.supervisor == SupervisorSettings("unix:///run/supervisor.sock", "bob", "hunter2", 1.5)
    assert config.archive.directory == Path("/srv/incidents")
    assert config.archive.keep == Keep(count=7, size=5 * 2**30, age=90 * 86400.0, free=0.125, least=3)
    assert (config.state, config.runtime) == (Path("/srv/state"), Path("/srv/run"))
    assert config.metrics == MetricsSettings("::1", 0)
    assert config.ruleset.interval == 2.0
    assert config.ruleset.limits == HostLimits(2, 8, 7200.0, 25200.0, CommonCause(0.25, 61.0))
    assert config.path == tmp_path / "watchdog.yaml"
    first, second = config.ruleset.policies
    assert (first.match, first.mode, first.logs) == ("ami_worker:*", Level.RESTART, ("/var/log/ami.log",))
    assert [rule.name for rule in first.rules] == ["stall"]
    assert first.progress == Progress(r"\] Batch (?P<count>\d+): [\d.]+s/image", "/run/ami/{process}.json")
    assert first.idle == Idle("No jobs found, sleeping", 1800.0)
    # What an entry does not say: mode from the top, no rules where it lists none.
    assert (second.match, second.mode, second.rules) == ("*", Level.OBSERVE, ())
    assert (second.logs, second.progress, second.idle) == ((), None, None)


def test_no_file_at_all_watches_everything_and_restarts_nothing(tmp_path: Path) -> None:
    config = load(None, {}, standard=tmp_path / "absent" / "watchdog.yaml", uid=0)
    (policy,) = config.ruleset.policies
    assert (policy.match, policy.mode) == ("*", Level.REPORT)
    assert "stall" in {rule.name for rule in policy.rules}
    assert config.supervisor == SupervisorSettings(None, None, None, 5.0)
    assert config.metrics == MetricsSettings("127.0.0.1", 9877)
    assert config.ruleset.limits == HostLimits(1, 6, 3600.0, 21600.0, CommonCause(0.5, 60.0))
    assert config.archive.keep == Keep(200, 5 * 2**30, 90 * 86400.0, 0.1, 20)
    assert config.path is None
    assert all(file.is_relative_to(resources.rules_directory()) for file in config.files)


def test_the_standard_file_is_read_when_none_is_named(tmp_path: Path) -> None:
    standard = tmp_path / "watchdog.yaml"
    standard.write_text("interval: 7s")
    config = load(None, {}, standard=standard, uid=0)
    assert (config.path, config.ruleset.interval) == (standard, 7.0)
    assert config.files[0] == standard


def test_a_file_of_comments_is_no_configuration(tmp_path: Path) -> None:
    assert load_text(tmp_path, "# nothing yet\n").ruleset.policies[0].match == "*"


def test_an_empty_list_of_programs_watches_none(tmp_path: Path) -> None:
    assert load_text(tmp_path, "programs: []").ruleset.policies == ()


def test_the_mode_at_the_top_holds_without_programs(tmp_path: Path) -> None:
    assert load_text(tmp_path, "mode: restart").ruleset.policies[0].mode == Level.RESTART


@pytest.mark.parametrize("entry", ["idle: 'No jobs'", "idle: {line: 'No jobs'}"])
def test_idle_has_a_short_form(tmp_path: Path, entry: str) -> None:
    (policy,) = load_text(tmp_path, f"programs:\n- match: '*'\n  {entry}").ruleset.policies
    assert policy.idle == Idle("No jobs", 1800.0)


@pytest.mark.parametrize("entry", ["progress.log: 'Batch'", "progress: {log: 'Batch'}"])
def test_progress_has_a_short_form(tmp_path: Path, entry: str) -> None:
    (policy,) = load_text(tmp_path, f"programs:\n- match: '*'\n  {entry}").ruleset.policies
    assert policy.progress == Progress("Batch", None)


def test_both_short_forms_of_progress_go_together(tmp_path: Path) -> None:
    text = "programs:\n- match: '*'\n  progress.log: 'Batch'\n  progress.file: /run/{group}-{pid}"
    assert load_text(tmp_path, text).ruleset.policies[0].progress == Progress("Batch", "/run/{group}-{pid}")


@pytest.mark.parametrize("text", ["metrics: off", "metrics: {listen: off}"])
def test_metrics_can_be_off(tmp_path: Path, text: str) -> None:
    assert load_text(tmp_path, text).metrics is None


def test_a_cooldown_shorter_than_verify_is_legal(tmp_path: Path) -> None:
    rule = rule_text("quick").replace("{cooldown: 330s}", "{cooldown: 1s}")
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "quick.yaml").write_text(rule)
    assert load_rules([tmp_path / "rules"])["quick"].limits.cooldown == 1.0


def test_fewer_bundles_than_least_lower_least(tmp_path: Path) -> None:
    assert load_text(tmp_path, "archive: {keep: {count: 5}}").archive.keep.least == 5


def test_an_alias_repeats_a_value(tmp_path: Path) -> None:
    text = "programs:\n- match: 'a:*'\n  idle: &idle {line: 'x', for: 3s}\n- match: 'b:*'\n  idle: *idle"
    assert [policy.idle for policy in load_text(tmp_path, text).ruleset.policies] == [Idle("x", 3.0)] * 2


def test_a_share_may_be_in_percent(tmp_path: Path) -> None:
    for text, share in (("25%", 0.25), ("100%", 1.0), ("1", 1.0)):
        config = load_text(tmp_path, f"limits: {{common_cause: {{share: {text}}}}}")
        assert config.ruleset.limits.common_cause.share == share


def test_the_password_is_never_printed(tmp_path: Path) -> None:
    assert "hunter2" not in repr(load_text(tmp_path, WHOLE))


def test_the_password_may_stand_in_a_file_of_its_own(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("pass word\n")
    config = load_text(tmp_path, f"supervisor: {{user: bob, password_file: {secret}}}")
    assert config.supervisor.password == "pass word"
    assert secret in config.files


# Directories


def test_root_has_the_usual_directories(tmp_path: Path) -> None:
    config = load_text(tmp_path, "", {"HOME": "/root", "XDG_RUNTIME_DIR": "/run/user/0"}, uid=0)
    assert config.state == Path("/var/lib/worker-watchdog")
    assert config.runtime == Path("/run/worker-watchdog")
    assert config.archive.directory == Path("/var/lib/worker-watchdog/incidents")


def test_systemd_has_the_first_word(tmp_path: Path) -> None:
    environ = {"STATE_DIRECTORY": "/s/one:/s/two", "RUNTIME_DIRECTORY": "/r/one", "HOME": "/home/bob"}
    config = load_text(tmp_path, "", environ, uid=1001)
    assert (config.state, config.runtime) == (Path("/s/one"), Path("/r/one"))


@pytest.mark.parametrize(
    ("environ", "state", "runtime"),
    [
        ({"HOME": "/h"}, "/h/.local/state/worker-watchdog", "/h/.local/state/worker-watchdog/run"),
        ({"HOME": "/h", "XDG_STATE_HOME": "/x"}, "/x/worker-watchdog", "/x/worker-watchdog/run"),
        ({"HOME": "/h", "XDG_RUNTIME_DIR": "/r"}, "/h/.local/state/worker-watchdog", "/r/worker-watchdog"),
        (
            {"HOME": "/h", "XDG_STATE_HOME": "rel"},
            "/h/.local/state/worker-watchdog",
            "/h/.local/state/worker-watchdog/run",
        ),
        ({}, "/var/lib/worker-watchdog", "/var/lib/worker-watchdog/run"),
    ],
)
def test_another_user_has_directories_of_their_own(
    tmp_path: Path, environ: dict[str, str], state: str, runtime: str
) -> None:
    config = load_text(tmp_path, "", environ, uid=1001)
    assert (config.state, config.runtime) == (Path(state), Path(runtime))
    assert config.archive.directory == Path(state) / "incidents"


def test_the_configuration_has_the_last_word_and_the_archive_follows_the_state(tmp_path: Path) -> None:
    config = load_text(tmp_path, "state: {directory: /mine}", {"STATE_DIRECTORY": "/s"}, uid=1001)
    assert (config.state, config.archive.directory) == (Path("/mine"), Path("/mine/incidents"))


def test_loading_makes_no_directory(tmp_path: Path) -> None:
    load_text(tmp_path, f"state: {{directory: {tmp_path}/state}}\nruntime: {{directory: {tmp_path}/run}}")
    assert [entry.name for entry in tmp_path.iterdir()] == ["watchdog.yaml"]


# Rules and signatures of one's own


def rule_text(name: str, summary: str = "A test's own.") -> str:
    return (
        f"name: {name}\nsummary: {summary}\n"
        "when:\n- group: g\n  all:\n  - unchanged: {heartbeat: log, for: 1s}\n"
        "limits: {cooldown: 330s}\n"
    )


def signature_text(kind: str, summary: str = "A test's own.") -> str:
    return f"kind: {kind}\nverdict: busy\nsummary: {summary}\nmain:\n- leaf: [f@x.py]\n"


def test_a_rule_of_ones_own_replaces_the_built_in_one(tmp_path: Path) -> None:
    (tmp_path / "stall.yaml").write_text(rule_text("stall"))
    (tmp_path / "notes.txt").write_text("no rule: {")
    (tmp_path / ".#other.yaml").write_text("an editor's lock: {")
    rules = load_rules([tmp_path])
    assert (rules["stall"].summary, rules["stall"].source) == ("A test's own.", str(tmp_path / "stall.yaml"))
    assert load_rules([])["stall"].source == "built-in"


def test_a_later_directory_replaces_an_earlier_one(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.yaml").write_text(rule_text("mine", summary=name))
    assert load_rules([tmp_path / "first", tmp_path / "second"])["mine"].summary == "second"


def test_naming_the_built_in_directory_reads_it_once() -> None:
    built_in = resources.rules_directory()
    assert load_rules([built_in]) == load_rules([])
    assert load_signatures([built_in / "signatures"]) == load_signatures([])


def test_signatures_replace_those_of_their_kind(tmp_path: Path) -> None:
    kind = load_signatures([])[0].kind
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(signature_text(kind, summary=name))
    mine = [(s.summary, s.source) for s in load_signatures([tmp_path]) if s.kind == kind]
    assert mine == [("a", str(tmp_path / "a.yaml")), ("b", str(tmp_path / "b.yaml"))]


def test_the_configuration_names_directories_of_rules_and_signatures(tmp_path: Path) -> None:
    for name, text in (("r", rule_text("mine")), ("s", signature_text("own-kind"))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.yaml").write_text(text)
    config = load_text(tmp_path, f"rules: [{tmp_path}/r]\nsignatures: [{tmp_path}/s]")
    assert {"stall", "mine"} <= {rule.name for rule in config.ruleset.policies[0].rules}
    assert "own-kind" in {signature.kind for signature in config.ruleset.signatures}
    assert {tmp_path / "r/one.yaml", tmp_path / "s/one.yaml", tmp_path / "watchdog.yaml"} <= set(config.files)


def test_rules_beside_the_configuration_are_found(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules/mine.yaml").write_text(rule_text("mine"))
    text = "programs: [{match: '*', rules: [mine]}]"
    assert load_text(tmp_path, text).ruleset.policies[0].rules[0].source == str(tmp_path / "rules/mine.yaml")
    # Also by a relative path to the configuration, and where there is no configuration at all.
    (tmp_path / "watchdog.yaml").unlink()
    config = load(None, {}, standard=tmp_path / "watchdog.yaml", uid=0)
    assert "mine" in {rule.name for rule in config.ruleset.policies[0].rules}


def test_the_usual_directories_may_be_named_before_they_exist(tmp_path: Path) -> None:
    assert load_text(tmp_path, f"rules: [{tmp_path}/rules]\nsignatures: [{tmp_path}/signatures]").path is not None
