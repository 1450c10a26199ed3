"""What a wrong configuration gets: every mistake of every file at once, with its line, and no way around the message."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from watchdog.config import ConfigError, Problem, load, load_rules, load_signatures
from watchdog.yamlfile import MAX_BYTES


def problems_of(tmp_path: Path, text: str) -> tuple[Problem, ...]:
    file = tmp_path / "watchdog.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file, {}, standard=tmp_path / "etc/watchdog.yaml", uid=0)
    return caught.value.problems


def only(tmp_path: Path, text: str) -> Problem:
    (problem,) = problems_of(tmp_path, text)
    return problem


def test_one_line_says_it_all(tmp_path: Path) -> None:
    problem = only(tmp_path, "programs:\n  - match: '*'\n    mode: restrat\n")
    assert str(problem) == (
        f"{tmp_path}/watchdog.yaml:3: programs[0].mode: found 'restrat', "
        "allowed: observe, report, restart (did you mean 'restart'?)"
    )


def test_all_errors_of_all_files_come_at_once(tmp_path: Path) -> None:
    for name, text in (("rules", "name: 5\nsummary: x\nwhen: []"), ("signatures", "kind: k\nverdict: maybe")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "bad.yaml").write_text(text)
    (tmp_path / "rules/worse.yaml").write_text("a: {")
    found = [(Path(p.file).name, p.line, p.path) for p in problems_of(tmp_path, "interval: 5\nmode: x\nfoo: 1")]
    assert found == [
        ("watchdog.yaml", 1, "interval"),
        ("watchdog.yaml", 2, "mode"),
        ("watchdog.yaml", 3, "foo"),
        ("bad.yaml", 1, "name"),
        ("bad.yaml", 3, "when"),
        ("worse.yaml", 1, ""),
        ("bad.yaml", 1, "summary"),
        ("bad.yaml", 1, "main"),
        ("bad.yaml", 2, "verdict"),
    ]


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        # unknown, repeated and missing keys
        ("intervall: 5s", "intervall", "unknown key, allowed: supervisor, interval, .*did you mean 'interval'"),
        ("archive: {keep: {cuont: 5}}", "archive.keep.cuont", "did you mean 'count'"),
        ("mode: report\nmode: restart", "mode", "'mode' again, allowed: each key once .first in line 1"),
        ("programs: [{mode: report}]", "programs[0].match", "found nothing, allowed: a value .this key is required"),
        ("programs:", "programs", "found nothing, .*remove the key, or give it a value"),
        ("programs: [{match: '*', idle: }]", "programs[0].idle", "found nothing"),
        ("- mode: report", "", "found a list, allowed: a mapping with supervisor, interval"),
        ("report", "", "found 'report', allowed: a mapping with"),
        ("mode: null", "mode", "found nothing, allowed: observe, report, restart"),
        # units
        ("interval: 5", "interval", "the number 5, allowed: a duration with its unit.*if s is meant, write 5s"),
        ("interval: '5'", "interval", "found '5', allowed: a duration .*a bare number has no unit"),
        ("interval: 1:30", "interval", "found '1:30', allowed: a duration"),
        ("interval: -5s", "interval", "not negative"),
        ("interval: 0s", "interval", "more than 0"),
        ("interval: 50ms", "interval", "from 100ms to 5m"),
        ("interval: [5s]", "interval", "found a list, allowed: a duration"),
        ("archive: {keep: {size: 5G}}", "archive.keep.size", "found '5G', allowed: a size with its unit"),
        ("archive: {keep: {size: 0B}}", "archive.keep.size", "at least one byte"),
        ("archive: {keep: {free: 0.1}}", "archive.keep.free", "if a share is meant, write 10%"),
        ("archive: {keep: {free: 10}}", "archive.keep.free", "if a share is meant, write 10%"),
        ("archive: {keep: {free: 100%}}", "archive.keep.free", "less than 100%"),
        ("archive: {keep: {count: 0}}", "archive.keep.count", "a whole number, at least 1"),
        ("archive: {keep: {count: true}}", "archive.keep.count", "found true, allowed: a whole number"),
        ("archive: {keep: {count: 5, least: 6}}", "archive.keep.least", "found 6, allowed: at most count, 5"),
        ("limits: {common_cause: {share: 0}}", "limits.common_cause.share", "a number above 0, at most 1"),
        ("limits: {restarts_at_once: 1.0}", "limits.restarts_at_once", "a whole number"),
        # supervisor and metrics
        ("supervisor: {url: /run/s.sock}", "supervisor.url", "did you mean 'unix:///run/s.sock'"),
        ("supervisor: {url: 'unix:///" + "x" * 120 + "'}", "supervisor.url", "at most 107 bytes"),
        ("supervisor: {url: 'http://h\u00e4st:1'}", "supervisor.url", "unix:///PATH, http://HOST:PORT"),
        ("supervisor: {url: 'https://h:1'}", "supervisor.url", "unix:///PATH, http://HOST:PORT"),
        ("supervisor: {url: 'http://h:99999'}", "supervisor.url", "unix:///PATH, http://HOST:PORT"),
        ("supervisor: {user: bob}", "supervisor.password", "user and password belong together"),
        ("supervisor: {password: x}", "supervisor.user", "user and password belong together"),
        ("supervisor: {user: b, password: x, password_file: /dev/null}", "supervisor.password_file", "one of them"),
        ("supervisor: {user: b, password_file: /none}", "supervisor.password_file", "/none: no such file"),
        ("supervisor: {user: b, password_file: /dev/null}", "supervisor.password_file", "a FIFO or device"),
        ("metrics: {listen: '9877'}", "metrics.listen", "HOST:PORT"),
        ("metrics: {listen: 'h:65536'}", "metrics.listen", "HOST:PORT"),
        ("metrics: on", "metrics", "found 'on', allowed: HOST:PORT"),
        ("metrics: 9877", "metrics", "text, or a mapping with listen"),
        # paths
        ("state: {directory: here}", "state.directory", "found 'here', allowed: an absolute path"),
        ("rules: [/none]", "rules[0]", "'/none', allowed: a directory that exists"),
        ("rules: /none", "rules", "found '/none', allowed: a list"),
        # programs
        ("programs: [{match: ami}]", "programs[0].match", r"did you mean 'ami:\*'"),
        ("programs: [{match: 'a:*'}, {match: 'a:*'}]", "programs[1].match", "each pattern once"),
        (
            "programs: [{match: '*', rules: [stal]}]",
            "programs[0].rules[0]",
            "'stal', allowed: .*stall.*did you mean 'stall'",
        ),
        ("programs: [{match: '*', rules: [stall, stall]}]", "programs[0].rules[1]", "each rule once"),
        ("programs: [{match: '*', logs: [x.log]}]", "programs[0].logs[0]", "an absolute path"),
        ("programs: [{match: '*', progress: {}}]", "programs[0].progress", "log, file, or both"),
        ("programs: [{match: '*', progress: {file: '/x/{prog}'}}]", "programs[0].progress.file", "{program}, {group}"),
        ("programs: [{match: '*', progress: {file: '/x/{pid'}}]", "programs[0].progress.file", "no other braces"),
        ("programs: [{match: '*', progress: {log: '('}}]", "programs[0].progress.log", "a regular expression .missing"),
        ("programs: [{match: '*', progress.log: 'a{9999999999}'}]", "programs[0].progress.log", "too large"),
        ("programs: [{match: '*', progress.log: '(?P<cuont>.)'}]", "programs[0].progress.log", "did you mean 'count'"),
        (
            "programs: [{match: '*', progress.log: a, progress: {file: /x}}]",
            "programs[0].progress.log",
            "both progress and",
        ),
        ("programs: [{match: '*', idle: '.*'}]", "programs[0].idle", "does not match an empty line"),
        ("programs: [{match: '*', idle: {line: 5}}]", "programs[0].idle.line", "found the number 5.*quotes: '5'"),
    ],
)
def test_each_mistake_has_its_place_and_its_words(tmp_path: Path, text: str, path: str, words: str) -> None:
    problem = only(tmp_path, text)
    assert problem.path == path
    assert re.search(words, str(problem))
    assert "\n" not in str(problem)


def test_the_line_is_that_of_the_value(tmp_path: Path) -> None:
    text = "# a comment\n\nprograms:\n  - match: '*'\n    rules:\n      - stall\n      - unlike\n    idle:\n      for: 1h\n"
    lines = {problem.path: problem.line for problem in problems_of(tmp_path, text)}
    # A missing key has the line of the mapping that lacks it.
    assert lines == {"programs[0].rules[1]": 7, "programs[0].idle.line": 8}


def test_a_rule_that_is_broken_is_not_unknown_as_well(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules/file.yaml").write_text("name: mine\n")
    (tmp_path / "rules/torn.yaml").write_text("name: {")
    problems = problems_of(tmp_path, "programs: [{match: '*', rules: [mine, torn]}]")
    assert {Path(problem.file).name for problem in problems} == {"file.yaml", "torn.yaml"}


@pytest.mark.parametrize(
    "text",
    [
        "supervisor: {user: b, password: [hunter2]}",
        "supervisor: {user: b, password: {hunter2: x}}",
        "supervisor: {user: b, password: 5552368}",
        "supervisor: {url: 'http://b:hunter2@h:1'}",
        "supervisor: {url: 'http:/b:hunter2@h'}",
    ],
)
def test_a_wrong_password_is_not_shown(tmp_path: Path, text: str) -> None:
    line = str(ConfigError(problems_of(tmp_path, text)))
    assert "hunter2" not in line
    assert "5552368" not in line


def test_what_was_found_stays_on_one_short_line(tmp_path: Path) -> None:
    assert "'" + "x" * 60 + "...'" in str(only(tmp_path, "mode: " + "x" * 5000))
    assert r"'two\nlines'" in str(only(tmp_path, 'mode: "two\\nlines"'))
    assert len(str(only(tmp_path, f"{'k' * 5000}: 1"))) < 500


# Files that cannot be read


def refused(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path, {}, uid=0)
    assert all(problem.file == str(path) for problem in caught.value.problems)
    return str(caught.value)


def test_a_file_that_is_named_must_be_there(tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    assert refused(path) == (
        f"{path}: found no such file or directory, allowed: a file that can be read (check the path)"
    )


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    assert "found a directory, allowed: a regular file" in refused(tmp_path)


def test_a_fifo_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert "found a FIFO or device, allowed: a regular file" in refused(tmp_path / "fifo")


def test_a_file_that_may_not_be_read_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # These tests may run as root, whom no mode keeps out.
    def denied(*args: object, **kwargs: object) -> int:
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "watchdog.yaml"
    monkeypatch.setattr("watchdog.yamlfile.os.open", denied)
    with pytest.raises(ConfigError) as caught:
        load(path, {}, uid=0)
    assert f"{path}: found permission denied" in str(caught.value)


def test_a_standard_file_that_cannot_be_looked_at_is_no_absent_one(tmp_path: Path) -> None:
    standard = tmp_path / "watchdog.yaml"
    standard.symlink_to(standard)
    with pytest.raises(ConfigError, match=r"watchdog\.yaml: found too many levels of symbolic links"):
        load(None, {}, standard=standard, uid=0)


def test_bytes_that_are_not_utf8_have_a_line(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes("mode: report\n# Größe\n".encode("latin-1"))
    assert f"{path}:2: found the byte 0xf6, which is not UTF-8, allowed: text in UTF-8" in refused(path)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    assert "found more than 1 MiB, allowed: at most 1 MiB" in refused(path)
    path.write_bytes(b"#" * MAX_BYTES)
    assert load(path, {}, uid=0).path == path


def test_a_password_file_of_other_bytes_is_told_of_where_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"\xff")
    problem = only(tmp_path, f"supervisor:\n  user: b\n  password_file: {tmp_path}/secret\n")
    assert (problem.line, problem.path, problem.found) == (3, "supervisor.password_file", "bytes that are not UTF-8")


# Directories of rules


def test_a_directory_of_rules_must_be_one(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, words in (("none", "no such file"), ("file", "not a directory")):
        for read in (load_rules, load_signatures):
            with pytest.raises(ConfigError, match=f"{tmp_path}/{name}: found {words}"):
                read([tmp_path / name])


def test_a_link_that_leads_nowhere_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ConfigError, match="loop: found too many levels of symbolic links"):
        load_rules([tmp_path / "loop"])


def test_another_ending_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    (tmp_path / "mine.yml").touch()
    (tmp_path / "torn.yaml").write_text("{")
    with pytest.raises(ConfigError) as caught:
        load_rules([tmp_path])
    assert [problem.found.split(":")[0] for problem in caught.value.problems] == ["the ending .yml", "a YAML error"]


def test_one_name_twice_in_a_directory_is_a_mistake(tmp_path: Path) -> None:
    text = "summary: x\nname: mine\nwhen:\n- group: g\n  all: [{working: true}]\n"
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_rules([tmp_path])
    assert str(caught.value) == (
        f"{tmp_path}/b.yaml:2: name: found 'mine', allowed: each name once in a directory ({tmp_path}/a.yaml has it already)"
    )
