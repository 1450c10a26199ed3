"""Bytes that are still there after a power cut. May write to the descriptors and sync the directories it is given; nothing else."""

from __future__ import annotations

import os
from pathlib import Path


def write_all(descriptor: int, data: bytes) -> None:
    """All of `data`: write(2) may take less at a time, on a disk that is nearly full for one. Syncs nothing. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_directory(directory: Path) -> None:
    """Make names that were created, renamed or removed in `directory` durable. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
