"""What a wheel holds, built the way it is released: through the sdist. `slow`, a tier of .ci/run: the build fetches its backend."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
from email import message_from_string
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parent.parent


def tracked(folder: str) -> dict[str, bytes]:
    """Name and content of every file below `folder` that belongs to the project."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_bytes()
        for path in sorted((ROOT / folder).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return out


@pytest.fixture(scope="module")
def wheel(built: Path) -> ZipFile:
    (found,) = built.glob("worker_watchdog-*.whl")
    return ZipFile(found)


@pytest.fixture(scope="module")
def metadata(wheel: ZipFile) -> Message:
    (name,) = (n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
    return message_from_string(wheel.read(name).decode())


def test_the_project_names_what_it_ships() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == "worker-watchdog"
    assert set(project["optional-dependencies"]) == {"demo", "test", "torch", "dev"}
    assert not any(d.startswith(("psutil", "supervisor", "torch", "watchdog")) for d in project["dependencies"])


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_wheel_holds_package_rules_and_systemd_files(wheel: ZipFile) -> None:
    expected = {
        f"watchdog/{name}": content for folder in ("rules", "systemd") for name, content in tracked(folder).items()
    }
    expected |= tracked("watchdog")
    assert "watchdog/py.typed" in expected
    assert "watchdog/rules/stall.yaml" in expected
    inside = {name: wheel.read(name) for name in wheel.namelist() if ".dist-info/" not in name}
    assert inside.keys() == expected.keys()
    assert inside == expected


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_wheel_says_what_it_is(metadata: Message) -> None:
    assert metadata["Name"] == "worker-watchdog"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["License-File"] == "LICENSE"
    assert metadata["Requires-Python"] == ">=3.11"
    assert set(metadata.get_all("Provides-Extra", [])) == {"demo", "test", "torch", "dev"}
    plain = [r for r in metadata.get_all("Requires-Dist", []) if "extra ==" not in r]
    assert not any(r.startswith(("psutil", "supervisor", "torch", "watchdog")) for r in plain)
    assert (ROOT / "README.md").read_text().strip() in metadata.get_payload()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_wheel_brings_the_command(wheel: ZipFile) -> None:
    (name,) = (n for n in wheel.namelist() if n.endswith(".dist-info/entry_points.txt"))
    assert "watchdog = watchdog.cli:main" in wheel.read(name).decode()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_sdist_brings_the_tests(built: Path) -> None:
    (found,) = built.glob("worker_watchdog-*.tar.gz")
    with tarfile.open(found) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"tests/test_packaging.py", "CHANGELOG.md", "LICENSE", "systemd/worker-watchdog.service"} <= names
