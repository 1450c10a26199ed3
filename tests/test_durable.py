"""Writes that are whole, and names that stay."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from watchdog import durable


def test_all_is_written_however_little_the_kernel_takes_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, bytes(data)[:3]))
    with (tmp_path / "file").open("wb") as file:
        durable.write_all(file.fileno(), b"0123456789")
    assert (tmp_path / "file").read_bytes() == b"0123456789"


def test_a_directory_is_synced_and_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    before = len(os.listdir("/proc/self/fd"))
    durable.sync_directory(tmp_path)
    assert synced == [str(tmp_path)]
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        durable.sync_directory(tmp_path / "file")
    assert len(os.listdir("/proc/self/fd")) == before
