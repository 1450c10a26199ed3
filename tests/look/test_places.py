"""Where logs are, and which are shared. Real files and links."""

from pathlib import Path

import pytest

from watchdog.look.files import Files
from watchdog.look.places import Places, places_of_all
from watchdog.model.observation import ProcessInfo
from watchdog.model.rule import Policy, Ruleset


def info(process: str, out: object, err: object = "") -> ProcessInfo:
    return ProcessInfo(f"grp:{process}", "grp", process, "RUNNING", 40 + len(process), 7, 0, str(out), str(err))


def places(files: Files, *infos: ProcessInfo, policies: tuple[Policy, ...] = ()) -> dict[str, Places]:
    return places_of_all({i.program: i for i in infos}, Ruleset(policies=policies), files)


def test_the_paths_that_supervisord_reports(files: Files, tmp_path: Path) -> None:
    found = places(files, info("a", tmp_path / "out", tmp_path / "err"))["grp:a"]
    assert found == Places({str(tmp_path / "out"): "stdout", str(tmp_path / "err"): "stderr"}, shared=False)


def test_the_paths_of_the_configuration_come_instead(files: Files, tmp_path: Path) -> None:
    policy = Policy("grp:a", logs=(str(tmp_path / "own"),))
    found = places(files, info("a", tmp_path / "out"), info("bb", tmp_path / "out2"), policies=(policy,))
    assert found["grp:a"].streams == {str(tmp_path / "own"): "log"}
    assert found["grp:bb"].streams == {str(tmp_path / "out2"): "stdout"}


def test_one_path_for_both_streams_is_one_log(files: Files, tmp_path: Path) -> None:
    found = places(files, info("a", tmp_path / "log", tmp_path / "log"))["grp:a"]
    assert found == Places({str(tmp_path / "log"): "stdout"}, shared=False)


def test_nothing_is_logged_to_nothing_and_to_dev_null(files: Files) -> None:
    found = places(files, info("a", "", "/dev/null"), info("bb", "/dev/null", ""))
    assert found == {"grp:a": Places({}, shared=False), "grp:bb": Places({}, shared=False)}


@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_supervisords_own_output_is_no_log(files: Files, path: str) -> None:
    """Opened here it would be the watchdog's own."""
    found = places(files, info("a", path), info("bb", path))["grp:a"]
    assert (found.streams, found.shared) == ({}, False)
    assert path in found.troubles[0]


@pytest.mark.parametrize("kind", ["same", "missing", "link", "dangling link", "hard link", "dots"])
def test_two_programs_on_one_file_share_it(files: Files, tmp_path: Path, kind: str) -> None:
    log, other = tmp_path / "log", tmp_path / "other"
    if kind not in ("missing", "dangling link"):
        log.write_text("x")
    if kind.endswith("link") and kind != "hard link":
        other.symlink_to("log")
    elif kind == "hard link":
        other.hardlink_to(log)
    elif kind == "dots":
        other = tmp_path / "." / ".." / tmp_path.name / "log"
    else:
        other = log
    found = places(
        files, info("a", log, tmp_path / "a.err"), info("bb", tmp_path / "bb.out", other), info("ccc", "/x/y")
    )
    assert [found[name].shared for name in ("grp:a", "grp:bb", "grp:ccc")] == [True, True, False]
    assert "grp:bb" in found["grp:a"].troubles[0]
    assert "grp:a" in found["grp:bb"].troubles[0]
    assert found["grp:ccc"].troubles == ()


def test_an_unwatched_program_shares_too(files: Files, tmp_path: Path) -> None:
    found = places(files, info("a", tmp_path / "log"), info("bb", tmp_path / "log"), policies=(Policy("grp:a"),))
    assert found["grp:a"].shared


def test_a_hostile_path_is_no_failure(files: Files) -> None:
    found = places(files, info("a", "/tmp/x\0y"))
    assert found["grp:a"].shared is False
