"""The host's memory and /dev/shm."""

import os
from pathlib import Path

from watchdog.look.host import sample_host
from watchdog.model.observation import HostSample


def test_this_host() -> None:
    seen = sample_host()
    assert seen.mem_total == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert seen.mem_available is not None
    assert 0 < seen.mem_available < seen.mem_total
    assert seen.shm_total is not None
    assert seen.shm_used is not None
    assert 0 <= seen.shm_used <= seen.shm_total


def test_a_recorded_host(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text(
        "MemTotal:       16 kB\nMemFree:         1 kB\nMemAvailable:    9 kB\nSwapTotal: 5 kB\n"
    )
    seen = sample_host(tmp_path, tmp_path)
    assert (seen.mem_total, seen.mem_available) == (16 << 10, 9 << 10)
    assert seen.shm_total is not None


def test_what_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    assert sample_host(tmp_path, tmp_path / "none") == HostSample()
    (tmp_path / "meminfo").write_text("MemTotal: many\n")
    assert sample_host(tmp_path, tmp_path / "none") == HostSample()
