from __future__ import annotations

from pathlib import Path

import pytest

from watchdog import resources


def test_this_checkout_has_rules_and_systemd_files() -> None:
    assert (resources.rules_directory() / "stall.yaml").is_file()
    assert (resources.systemd_directory() / "watchdog.yaml").is_file()


def test_an_installed_package_comes_before_what_lies_beside_it(tmp_path: Path) -> None:
    package = tmp_path / "watchdog"
    (package / "rules").mkdir(parents=True)
    (tmp_path / "rules").mkdir()
    (tmp_path / "pyproject.toml").touch()
    assert resources.find_directory("rules", package) == package / "rules"


def test_a_checkout_is_known_by_its_pyproject(tmp_path: Path) -> None:
    package = tmp_path / "watchdog"
    (tmp_path / "rules").mkdir()
    (tmp_path / "pyproject.toml").touch()
    assert resources.find_directory("rules", package) == tmp_path / "rules"


def test_a_directory_of_that_name_in_site_packages_is_somebody_elses(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    with pytest.raises(resources.MissingResources, match=r"incomplete\. Install it again"):
        resources.find_directory("rules", tmp_path / "watchdog")


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(resources.MissingResources, match="no directory 'systemd' in"):
        resources.find_directory("systemd", tmp_path / "watchdog")
