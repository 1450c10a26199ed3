"""Python or not, told by the executable and its libraries."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from watchdog.collect.executable import is_python

MAPS = "55d0-55d1 r-xp 00000000 08:01 12 {}\n"


@pytest.mark.parametrize(
    ("exe", "library", "expected"),
    [
        ("/usr/bin/python3.11", "/usr/lib/libc.so.6", True),
        ("/opt/venv/bin/python", "/usr/lib/libc.so.6", True),
        ("/usr/bin/python3.13t (deleted)", "/usr/lib/libc.so.6", True),
        ("/usr/bin/pypy3", "/usr/lib/libc.so.6", True),
        ("/usr/bin/uwsgi", "/usr/lib/libpython3.11.so.1.0", True),
        ("/opt/app/worker", "/tmp/_MEI1/libpython3.9.so.1.0", True),
        ("/usr/bin/python-config", "/usr/lib/libc.so.6", False),
        ("/usr/bin/sleep", "/usr/lib/libc.so.6", False),
        ("/srv/python/bin/bash", "/usr/lib/libc.so.6", False),
    ],
)
def test_recorded_processes(tmp_path: Path, exe: str, library: str, expected: bool) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "exe").symlink_to(exe)
    (tmp_path / "7" / "maps").write_text(MAPS.format(library))
    assert is_python(7, within=10.0, root=tmp_path) is expected


def test_what_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    assert is_python(7, within=10.0, root=tmp_path) is None
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "exe").symlink_to("/usr/bin/uwsgi")
    assert is_python(7, within=10.0, root=tmp_path) is None


def test_real_processes() -> None:
    assert is_python(os.getpid(), within=10.0) is True
    child = subprocess.Popen(["sleep", "300"])
    try:
        assert is_python(child.pid, within=10.0) is False
    finally:
        child.kill()
        child.wait(10)
