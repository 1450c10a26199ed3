"""systemd's notify protocol: a datagram to NOTIFY_SOCKET. May send that, and nothing where there is no systemd."""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping


class Notifier:
    """Tells systemd READY=1, WATCHDOG=1, STATUS=..., STOPPING=1. A send that fails is dropped: systemd's own timeout answers it.

    NOTIFY_SOCKET is taken out of `environ`: a child such as loginctl would speak there, too, and systemd would complain.
    """

    def __init__(self, environ: MutableMapping[str, str] = os.environ) -> None:
        name = environ.pop("NOTIFY_SOCKET", "")
        self._address = "\0" + name[1:] if name.startswith("@") else name
        self._socket: socket.socket | None = None
        if name:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)

    def tell(self, *lines: str) -> None:
        """One datagram of `lines`, such as "READY=1"."""
        if self._socket is None:
            return
        try:
            self._socket.sendto("\n".join(lines).encode(), self._address)
        except OSError:
            return

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
