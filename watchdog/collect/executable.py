"""Is a process Python at all? Told by its executable and the libraries that it maps, never by its name (comm): a forked
child may keep its parent's.

May read /proc/PID/exe and maps, by child processes only, since both can block on a wedged process's mmap_lock.
"""

from __future__ import annotations

import re
from pathlib import Path

from watchdog import childread

PYTHON = re.compile(rb"(?:^|/)(?:python|pypy)[0-9.]*[a-z]*(?: \(deleted\))?$")
"""python, python3.11, python3.13t, pypy3."""

LIBPYTHON = re.compile(rb"/libpython[0-9.]*[a-z]*\.so|/libpypy[0-9.]*[a-z-]*\.so|/\.Python\b")
"""An embedding program (uwsgi, mod_wsgi) or a frozen one maps it."""

MAPS_LIMIT = 4 << 20
"""Bytes: a process with 20,000 mappings has 2 MB of them."""


def is_python(pid: int, *, within: float, root: Path = Path("/proc")) -> bool | None:
    """True or False as the executable says; None when that could not be read within `within` seconds."""
    target = childread.read_link(root / str(pid) / "exe", within=within / 2)
    if isinstance(target, childread.ReadFailure):
        return None
    if PYTHON.search(target):
        return True
    maps = childread.read_file(root / str(pid) / "maps", limit=MAPS_LIMIT, within=within / 2)
    if isinstance(maps, childread.ReadFailure):
        return None
    return LIBPYTHON.search(maps) is not None
