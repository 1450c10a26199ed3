"""Finds the files that travel with the code: rules/ and systemd/. May look whether a directory is there; reads no file."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


class MissingResources(Exception):
    """A directory that belongs to every installation is not there; the message says what to do."""


def rules_directory() -> Path:
    """The built-in rules, with `signatures`, `prometheus` and `grafana` below. Raises MissingResources."""
    return find_directory("rules")


def systemd_directory() -> Path:
    """The unit and the sample configuration. Raises MissingResources."""
    return find_directory("systemd")


def find_directory(name: str, package: Path = _PACKAGE) -> Path:
    """`name` inside the installed package, else beside it in a checkout. Raises MissingResources when it is in neither."""
    # A wheel carries the directories inside the package; an editable install leaves them at the top of the checkout.
    # Beside an installed package is site-packages, where a directory `rules` is somebody else's: hence pyproject.toml.
    checkout = package.parent
    if (package / name).is_dir():
        return package / name
    if (checkout / name).is_dir() and (checkout / "pyproject.toml").is_file():
        return checkout / name
    raise MissingResources(
        f"no directory {name!r} in {package}, nor in a checkout at {checkout}: this installation of worker-watchdog is "
        f"incomplete. Install it again (pip install --force-reinstall worker-watchdog), or run it from a whole checkout."
    )
