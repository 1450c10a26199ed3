"""A server that answers XML-RPC as a test says: well, badly, slowly or not at all; on a unix socket or a port."""

from __future__ import annotations

import contextlib
import socket
import threading
import xmlrpc.client
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

Behaviour = Callable[[socket.socket], None]
"""What is done on a connection once the request was read; the connection is closed afterwards."""


def http(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    """A whole HTTP response."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def xml(value: Any) -> bytes:
    """An XML-RPC response with this one value, or fault."""
    values = value if isinstance(value, xmlrpc.client.Fault) else (value,)
    return xmlrpc.client.dumps(values, methodresponse=True).encode()


def send(data: bytes) -> Behaviour:
    return lambda connection: connection.sendall(data)


def answer(value: Any) -> Behaviour:
    return send(http(xml(value)))


def process_info(program: str, **fields: Any) -> dict[str, Any]:
    """A struct as getProcessInfo gives it; every number another one."""
    group, _, name = program.partition(":")
    whole = {
        "name": name,
        "group": group,
        "start": 1_700_000_001,
        "stop": 1_700_000_000,
        "now": 1_700_000_444,
        "state": 20,
        "statename": "RUNNING",
        "spawnerr": "",
        "exitstatus": 3,
        "logfile": "/alias.log",
        "stdout_logfile": "/out.log",
        "stderr_logfile": "/err.log",
        "pid": 4711,
        "description": "pid 4711, uptime 0:07:23",
    }
    return whole | fields


class FakeRpc:
    """Serves one connection after the other, each by the behaviour that `methods` has for its XML-RPC method.

    `requests` keeps each request's head and body. Without `path` it listens on a TCP port
    that the kernel chose.
    """

    def __init__(self, methods: Mapping[str, Behaviour] | Behaviour, path: Path | None = None) -> None:
        self._methods = methods
        self.requests: list[tuple[bytes, bytes]] = []
        if path is None:
            self._listener = socket.create_server(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        else:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(str(path))
            self._listener.listen()
            self.url = f"unix://{path}"
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="fake-rpc")
        self._thread.start()

    @property
    def asked(self) -> list[str]:
        """The methods of all requests, in order."""
        return [str(xmlrpc.client.loads(body)[1]) for _, body in self.requests]

    def wait(self, seconds: float) -> None:
        """For a behaviour: pause, or less when the server is being closed."""
        self._closing.wait(seconds)

    def _serve(self) -> None:
        self._listener.settimeout(0.02)
        while not self._closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            with connection:
                connection.settimeout(5)
                with contextlib.suppress(OSError):  # the client gave up, as it should when its deadline passes
                    self._behaviour(connection)(connection)

    def _behaviour(self, connection: socket.socket) -> Behaviour:
        head, body = _read_request(connection)
        self.requests.append((head, body))
        if callable(self._methods):
            return self._methods
        return self._methods[str(xmlrpc.client.loads(body)[1])]

    def __enter__(self) -> FakeRpc:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._thread.join()
        self._listener.close()


def _read_request(connection: socket.socket) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        data += _some(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    while len(body) < length:
        body += _some(connection)
    return head, body


def _some(connection: socket.socket) -> bytes:
    data = connection.recv(65536)
    if not data:
        raise ConnectionResetError
    return data
