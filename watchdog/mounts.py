"""Which paths are on a local filesystem, told from mountinfo alone.

May read mountinfo, and links in local directories; may not touch what is not local.

Limits: a mount made between the question and the use is not seen; a filesystem stacked on a remote one (overlay, a loop
device, ecryptfs) counts as what it says it is; paths are those of this process's mount namespace.
"""

# Strings, not Path: links are followed part by part, and this runs over every log path.
# ruff: noqa: PTH109, PTH115, PTH118

from __future__ import annotations

import os
import re
import select
from pathlib import Path
from typing import Final, NamedTuple

MOUNTINFO: Final = Path("/proc/self/mountinfo")

_LOCAL_NAMES = """
    bcachefs bpf btrfs cgroup cgroup2 configfs debugfs devpts devtmpfs efivarfs erofs exfat ext2 ext3
    ext4 f2fs fusectl hugetlbfs iso9660 jfs mqueue msdos nilfs2 ntfs ntfs3 nullfs overlay proc pstore
    ramfs reiserfs rootfs securityfs squashfs sysfs tmpfs tracefs udf vfat xfs zfs
"""
LOCAL: Final = frozenset(_LOCAL_NAMES.split())
"""Filesystems that answer or fail by themselves. All others (nfs, cifs, fuse.*, 9p, afs, ceph, lustre, gfs2, autofs, what is yet to
be invented) may wait for another machine or program, and so count as not local."""

_OCTAL = re.compile(r"\\([0-7]{3})")
_MOST_LINKS = 40  # the kernel's own limit (MAXSYMLINKS)


class Mount(NamedTuple):
    point: str
    """Absolute path of the mount point."""
    fstype: str

    @property
    def local(self) -> bool:
        return self.fstype in LOCAL


def parse(text: str) -> dict[str, Mount]:
    """Mounts by mount point; of several on one point the last, which covers the others. Lines that make no sense are left out."""
    found = {}
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        fields, tail = before.split(" "), after.split(" ")
        if separator and len(fields) >= 5 and tail[0]:
            point = _OCTAL.sub(lambda m: chr(int(m[1], 8)), fields[4])  # space, tab, newline, backslash
            found[point] = Mount(point, tail[0])
    return found


class Mounts:
    """The mounts of this process, read anew when the kernel says that they changed (mountinfo can be polled, 1 us)."""

    def __init__(self, mountinfo: Path = MOUNTINFO) -> None:
        self._path = mountinfo
        self._mounts: dict[str, Mount] | None = None
        self._poll = select.poll()
        self._file: int | None = None
        try:
            self._file = os.open(mountinfo, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return  # no mountinfo: every question is answered by None
        self._poll.register(self._file, select.POLLERR | select.POLLPRI)
        self._read()

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def refresh(self) -> bool:
        """Read the mounts anew if they changed; True if they did."""
        if self._file is None or not self._poll.poll(0):
            return False
        self._read()
        return True

    def _read(self) -> None:
        try:
            self._mounts = parse(self._path.read_text(encoding="utf-8", errors="surrogateescape"))
        except OSError:
            self._mounts = None

    def covering(self, path: str) -> Mount | None:
        """The mount with the longest prefix of `path`, which must be absolute and free of links."""
        mounts = self._mounts or {}
        while path not in mounts and path != "/":
            path = path.rpartition("/")[0] or "/"
        return mounts.get(path)

    def resolve(self, path: str | os.PathLike[str]) -> tuple[str, Mount | None]:
        """`path` without links and `..`, and its mount. From the first part that is not local on, it is taken as it is spelled.

        A relative path is one below the working directory; when that was deleted, its mount cannot be told.
        """
        spelled = _absolute(os.fspath(path))
        if spelled is None:
            return os.fspath(path), None
        todo = spelled.split("/")[::-1]
        done, links = "", 0
        while todo:
            part = todo.pop()
            if part in ("", "."):
                continue
            here = done.rpartition("/")[0] if part == ".." else f"{done}/{part}"
            mount = self.covering(here or "/")
            if mount is None or not mount.local:
                return os.path.normpath("/".join([here, *todo[::-1]])), mount
            target = None if part == ".." or links >= _MOST_LINKS else _readlink(here)
            if target is None:
                done = here
                continue
            links += 1
            todo.extend(target.split("/")[::-1])
            done = "" if target.startswith("/") else done
        return done or "/", self.covering(done or "/")


def _absolute(path: str) -> str | None:
    """None: it is relative to a directory that is no more."""
    try:
        return path if path.startswith("/") else os.path.join(os.getcwd(), path)
    except OSError:
        return None


def _readlink(path: str) -> str | None:
    """Where `path` points to; None where it is no link, not there, or not to be told."""
    try:
        return os.readlink(path)
    except (OSError, ValueError):
        return None
