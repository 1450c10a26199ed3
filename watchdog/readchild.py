"""Run as a child process by childread: reads what may block for ever, so that only this process can get stuck.

May import only what starts quickly (no site, no package), since one may be started for one file: it is run with -I -S.
May read, nothing else. Requests come as JSON lines on stdin, answers go to stdout: HEAD (errno or NOT_REGULAR, length), then bytes.
"""

# pathlib takes longer to import than the read takes.
# ruff: noqa: PTH115, PTH116

import errno
import json
import os
import stat
import struct
import sys

HEAD = struct.Struct("<iI")
STAT = struct.Struct("<QQQqII")
"""dev, ino, size, mtime_ns, mode, nlink."""
HANDLE = struct.Struct("<I")
NOT_REGULAR = -1
FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class NotRegularError(OSError):
    """A FIFO, device, socket or directory: opening it could act or block, so it is not opened."""


def open_regular(path: str) -> int:
    """A descriptor of a regular file. Raises OSError; looks before it opens (a device acts on open), and again after."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise NotRegularError
    descriptor = os.open(path, FLAGS)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegularError
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def read_up_to(descriptor: int, limit: int) -> bytes:
    """The first `limit` bytes; files of /proc come in pieces of a page or so."""
    pieces = []
    while limit > 0 and (piece := os.read(descriptor, min(limit, 1 << 20))):
        pieces.append(piece)
        limit -= len(piece)
    return b"".join(pieces)


def pack_stat(seen: os.stat_result) -> bytes:
    """`seen` as STAT has it."""
    return STAT.pack(seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_mode, seen.st_nlink)


def answer(op: str, path: str, handle: int, offset: int, limit: int) -> bytes:
    """The payload of one request. Raises OSError."""
    if op == "read":
        descriptor = open_regular(path)
        try:
            return read_up_to(descriptor, limit)
        finally:
            os.close(descriptor)
    if op == "link":
        return os.fsencode(os.readlink(path))
    if op == "stat":
        return pack_stat(os.stat(path))
    if op == "open":
        return HANDLE.pack(open_regular(path))
    if op == "fstat":
        return pack_stat(os.fstat(handle))
    if op == "pread":
        return os.pread(handle, limit, offset)
    os.close(handle)
    return b""


def serve() -> None:
    """Answer requests until stdin ends, that is, until the parent is gone or done."""
    for line in sys.stdin.buffer:
        request = json.loads(line)
        try:
            code, payload = 0, answer(**request)
        except NotRegularError:
            code, payload = NOT_REGULAR, b""
        except OSError as error:
            code, payload = error.errno or errno.EIO, b""
        except ValueError:  # a NUL in the path: no reason to end, and be taken for a dead mount
            code, payload = errno.EINVAL, b""
        sys.stdout.buffer.write(HEAD.pack(code, len(payload)) + payload)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve()
