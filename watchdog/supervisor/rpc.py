"""One XML-RPC call with a deadline over the whole of it. May open one connection and parse its answer; knows no supervisord method.

Expected failures are values (`Fault`); a bug escapes. Nothing is kept between calls, so threads may call at once.
"""

from __future__ import annotations

import base64
import errno
import ipaddress
import queue
import socket
import threading
import time
import xmlrpc.client
from http.client import HTTPException, HTTPResponse
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit
from xml.parsers.expat import ExpatError

from watchdog import sunpath
from watchdog.supervisor.fault import Fault, FaultKind, fault_of


class Address(NamedTuple):
    """Where to connect, and as whom. `host` is '' for a unix socket."""

    unix: str
    host: str
    port: int
    path: str
    """Of the HTTP request."""
    user: str | None = None
    password: str | None = None

    @property
    def url(self) -> str:
        """Without user and password: fit for logs."""
        if self.unix:
            return f"unix://{self.unix}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def parse_url(url: str) -> Address:
    """`unix:///path` or `http://[user:password@]host[:port][/path]`. Raises ValueError, which says what is allowed."""
    if url.startswith("unix://"):
        return _parse_unix(url)
    try:
        parts = urlsplit(url)
        port = 80 if parts.port is None else parts.port  # as supervisor's own clients do
    except ValueError as error:
        why = "" if "@" in url else f": {error}"  # urlsplit's own words may quote the password
        raise ValueError(f"{_bare(url)!r} is no url{why}; allowed: unix:///PATH or http://HOST:PORT") from None
    if parts.scheme != "http" or not parts.hostname or not port or not _clean(parts):
        raise ValueError(f"{_bare(url)!r} is no supervisord url; allowed: unix:///PATH or http://HOST:PORT")
    path = parts.path if parts.path.strip("/") else "/RPC2"
    user, password = (None if part is None else unquote(part) for part in (parts.username, parts.password))
    return Address("", parts.hostname, port, path, user, password)


def _parse_unix(url: str) -> Address:
    path = url.removeprefix("unix://")
    if not path.startswith("/") or "\0" in path:
        raise ValueError(f"{url!r} names no absolute path; allowed: unix:///PATH, as in unix:///run/supervisor.sock")
    if len(path.encode(errors="surrogateescape")) > sunpath.LONGEST:
        raise ValueError(
            f"{url!r} has a path of more than {sunpath.LONGEST} bytes, too long for a unix socket; use a shorter one"
        )
    return Address(path, "", 0, "/RPC2")


def _clean(parts: SplitResult) -> bool:
    """Nothing in it that could end an HTTP header line or a request line early."""
    return all(33 <= ord(letter) < 127 for letter in f"{parts.hostname}{parts.path}")


def _bare(url: str) -> str:
    """`url` without anything that may be a password."""
    scheme, mark, rest = url.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"


def call(address: Address, timeout: float, max_bytes: int, method: str, *params: Any) -> Any:
    """One call. Returns its value, or Fault.

    `timeout` (seconds) covers connecting, sending and receiving together, however slowly bytes trickle in; `max_bytes` bounds the
    answer's body. Parsing comes after, at about 10 MB/s.
    """
    try:
        body = xmlrpc.client.dumps(params, method, encoding="utf-8").encode()
    except (UnicodeEncodeError, OverflowError) as error:
        return Fault(FaultKind.OTHER, f"{method} was not sent, XML-RPC cannot carry its parameters ({error})")
    deadline = time.monotonic() + timeout
    wire = _connect(address, deadline, timeout)
    if isinstance(wire, Fault):
        return wire
    with wire:
        fault = _send(wire, address, body, timeout)
        reply = fault if fault is not None else _receive(wire, address, timeout, max_bytes)
    return reply if isinstance(reply, Fault) else parse_answer(reply, method)


class _Wire(socket.socket):
    """A socket whose every read ends at one deadline, where settimeout alone starts anew with each byte that trickles in."""

    deadline: float

    def left(self) -> float:
        """Seconds. Raises TimeoutError when there are none."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def recv_into(self, *args: Any) -> int:
        """Called by the file object that http.client reads from."""
        self.settimeout(self.left())
        return super().recv_into(*args)


def _connect(address: Address, deadline: float, timeout: float) -> _Wire | Fault:
    if address.unix:
        return _dial(address, deadline, timeout, socket.AF_UNIX, address.unix)
    places = _resolve(address, deadline)
    if isinstance(places, Fault):
        return places
    wire: _Wire | Fault = Fault(FaultKind.UNREACHABLE, f"the name {address.host!r} has no address")
    for family, place in places:
        wire = _dial(address, deadline, timeout, family, place)
        if not isinstance(wire, Fault):
            break
    return wire


def _dial(address: Address, deadline: float, timeout: float, family: int, place: Any) -> _Wire | Fault:
    wire = None
    try:
        wire = _Wire(family, socket.SOCK_STREAM)
        wire.deadline = deadline
        wire.settimeout(wire.left())
        wire.connect(place)
    except OSError as error:
        if wire is not None:
            wire.close()
        return _not_connected(error, address.url, timeout)
    return wire


def _not_connected(error: OSError, url: str, timeout: float) -> Fault:
    if isinstance(error, PermissionError):
        return Fault(FaultKind.NOT_PERMITTED, f"no permission to connect to {url}")
    if isinstance(error, TimeoutError):
        return Fault(FaultKind.UNREACHABLE, f"no connection to {url} within {timeout:g} s")
    if error.errno == errno.EAGAIN:  # a unix socket's way to say it, at once: its backlog (1024 in supervisord) is full
        return Fault(
            FaultKind.UNREACHABLE, f"{url} accepts no more connections, its queue is full (supervisord may be frozen)"
        )
    return Fault(FaultKind.UNREACHABLE, f"cannot connect to {url} ({error.strerror or error})")


def _resolve(address: Address, deadline: float) -> list[tuple[int, Any]] | Fault:
    """Addresses of a host. A name is looked up in a thread, which may be left behind: getaddrinfo has no deadline of its own."""
    answers: queue.SimpleQueue[list[tuple[int, Any]] | Fault] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            answers.put(Fault(FaultKind.UNREACHABLE, f"the name {address.host!r} cannot be looked up ({error})"))
        else:
            answers.put([(family, place) for family, _type, _proto, _name, place in found])

    if _numeric(address.host):
        look_up()
    else:
        threading.Thread(target=look_up, name="resolve", daemon=True).start()
    try:
        return answers.get(timeout=max(0.0, deadline - time.monotonic()))
    except queue.Empty:
        return Fault(FaultKind.UNREACHABLE, f"the name {address.host!r} was not looked up in time; use a number")


def _numeric(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _send(wire: _Wire, address: Address, body: bytes, timeout: float) -> Fault | None:
    head = [
        f"POST {address.path} HTTP/1.1",
        f"Host: {'localhost' if address.unix else address.url.removeprefix('http://')}",
        "Content-Type: text/xml",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    if address.user is not None:
        login = base64.b64encode(f"{address.user}:{address.password or ''}".encode(errors="surrogateescape"))
        head.append(f"Authorization: Basic {login.decode()}")
    try:
        wire.settimeout(wire.left())
        wire.sendall("\r\n".join([*head, "", ""]).encode() + body)  # at once: two small writes would wait for an ACK
    except TimeoutError:
        return Fault(FaultKind.TIMEOUT, f"{address.url} did not take the whole request within {timeout:g} s")
    except OSError as error:  # a request that was cut short is not acted on
        return Fault(FaultKind.UNREACHABLE, f"{address.url} closed the connection at once ({error.strerror or error})")
    return None


def _receive(wire: _Wire, address: Address, timeout: float, max_bytes: int) -> bytes | Fault:
    try:
        with HTTPResponse(wire, method="POST") as response:
            response.begin()
            if response.status != 200:
                return _http_fault(address, response.status, response.reason)
            body = response.read(max_bytes + 1)
            cut = bool(response.length)
    except TimeoutError:
        return Fault(FaultKind.TIMEOUT, f"{address.url} took the request but gave no whole answer within {timeout:g} s")
    except (HTTPException, OSError, ValueError) as error:
        return Fault(FaultKind.GARBLED, f"{address.url} gave no whole HTTP answer ({error or type(error).__name__})")
    if len(body) > max_bytes:
        return Fault(FaultKind.GARBLED, f"{address.url} answered with more than {max_bytes} bytes")
    if cut:
        return Fault(FaultKind.GARBLED, f"{address.url} cut its answer short, after {len(body)} bytes")
    return body


def _http_fault(address: Address, status: int, reason: str) -> Fault:
    kind = FaultKind.UNAUTHORIZED if status in (401, 403) else FaultKind.HTTP
    where = address.url if address.unix else address.url + address.path
    return Fault(kind, f"{where} answered HTTP {status} {reason[:100]}".rstrip(), status)


_PLAIN: Final = bytes(byte if byte >= 32 or byte in b"\t\n\r" else ord("?") for byte in range(256))
"""supervisord sends control characters as they are (in its own log, in spawnerr), which XML cannot carry: they are read as '?'."""


def parse_answer(body: bytes, method: str) -> Any:
    """The one value of an XML-RPC response; Fault for a fault, or for anything else. Never raises, whatever `body` is."""
    try:
        values, name = xmlrpc.client.loads(body.translate(_PLAIN), use_builtin_types=True)
    except xmlrpc.client.Fault as fault:
        return fault_of(fault.faultCode, fault.faultString, method)
    # What the parser of the standard library raises on hostile input, besides its own errors: tests/integration mutates answers.
    except (
        ExpatError,
        xmlrpc.client.Error,
        ValueError,
        TypeError,
        LookupError,
        ArithmeticError,
    ) as error:
        return Fault(
            FaultKind.GARBLED, f"{method} was not answered in XML-RPC ({type(error).__name__}: {str(error)[:200]})"
        )
    if name is not None or len(values) != 1:
        return Fault(FaultKind.GARBLED, f"{method} was answered with something that is no XML-RPC response")
    return values[0]
