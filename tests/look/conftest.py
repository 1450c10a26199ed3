"""What the tests of this room share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from watchdog.look.files import Files
from watchdog.mounts import Mounts


@pytest.fixture
def files() -> Iterator[Files]:
    files = Files()
    yield files
    files.close()


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[Files]:
    """`tmp_path` is on a mount that is not local, says mountinfo: everything there is read by the mount's child."""
    mountinfo = tmp_path.parent / f"{tmp_path.name}.mountinfo"
    mountinfo.write_text(f"1 0 8:1 / / rw - ext4 /dev/x rw\n2 1 0:9 / {tmp_path} rw - nfs4 server:/x rw\n")
    files = Files(Mounts(mountinfo), within=5.0)
    yield files
    files.close()
