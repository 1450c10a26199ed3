"""Where a supervisord may be found, and one name for one place. May ask each place who answers; changes nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from watchdog.supervisor.client import Supervisor
from watchdog.supervisor.fault import Fault, FaultKind
from watchdog.supervisor.rpc import parse_url

SOCKETS: Final = (
    "/run/supervisor.sock",
    "/var/run/supervisor.sock",
    "/run/supervisor/supervisor.sock",
    "/tmp/supervisor.sock",
)
"""Where Debian's and Fedora's packages, and supervisord's own sample configuration, put it."""


def discover(environ: Mapping[str, str], candidates: Sequence[str] = SOCKETS) -> tuple[str, ...]:
    """Urls to try, in order: SUPERVISOR_SERVER_URL, then the usual sockets; each place once."""
    named = environ.get("SUPERVISOR_SERVER_URL", "").strip()
    places: dict[str, str] = {}
    for url in [*filter(None, [named]), *(f"unix://{path}" for path in candidates)]:
        places.setdefault(lock_key(url), url)
    return tuple(places.values())


def find(environ: Mapping[str, str], timeout: float = 5.0, candidates: Sequence[str] = SOCKETS) -> Supervisor | Fault:
    """The first supervisord that answers; else a Fault of the most telling kind, whose detail lists what was tried.

    SUPERVISOR_USERNAME and SUPERVISOR_PASSWORD of `environ` go to SUPERVISOR_SERVER_URL, and nowhere else. `timeout`: seconds for
    each place.
    """
    faults = []
    for url in discover(environ, candidates):
        supervisor = _try(url, environ, timeout)
        if not isinstance(supervisor, Fault):
            return supervisor
        faults.append(supervisor)
    telling = next((fault for fault in faults if fault.kind is not FaultKind.UNREACHABLE), None)
    tried = "; ".join(fault.detail for fault in faults) or "nothing, no place was given"
    return (telling or Fault(FaultKind.UNREACHABLE, ""))._replace(detail=f"no supervisord found; tried: {tried}")


def _try(url: str, environ: Mapping[str, str], timeout: float) -> Supervisor | Fault:
    named = url == environ.get("SUPERVISOR_SERVER_URL", "").strip()
    user = (environ.get("SUPERVISOR_USERNAME") or None) if named else None
    if not named and (why := _planted(url.removeprefix("unix://"))):
        return Fault(FaultKind.UNREACHABLE, f"{url} was not asked, {why}")
    try:
        supervisor = Supervisor(url, user, environ.get("SUPERVISOR_PASSWORD"), timeout)
    except ValueError as error:
        return Fault(FaultKind.UNREACHABLE, str(error))
    answer = supervisor.identity()
    return answer if isinstance(answer, Fault) else supervisor


def _planted(path: str) -> str:
    """Why a socket that nobody named is not trusted; '' when it is.

    In a folder such as /tmp anyone could answer for supervisord, and have a watchdog that runs as root end the pids it is told.
    """
    try:
        owner, folder = Path(path).stat().st_uid, Path(path).parent.stat().st_mode
    except OSError:
        return ""  # connecting will say it better
    if not folder & stat.S_IWOTH or owner in (0, os.geteuid()):
        return ""
    return f"it belongs to uid {owner} and lies where anyone may put one; if it is yours, name it as supervisor.url"


def lock_key(url: str) -> str:
    """One spelling for one place: symbolic links in a socket's path resolved, loopback names unified, no user, password or path.

    supervisord listening on a socket and on a port has two keys: only asking it would tell. What is no url is its own key.
    """
    try:
        address = parse_url(url)
    except ValueError:
        return url
    if address.unix:
        return f"unix://{os.path.realpath(address.unix)}"
    host = "localhost" if address.host in ("127.0.0.1", "::1") else address.host
    return address._replace(host=host).url
