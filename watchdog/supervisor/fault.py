"""Why supervisord gave no answer, as a value, and what an operator can do about it. May hold values and words only."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class FaultKind(StrEnum):
    """Why there is no answer, in our own names. Only `timeout`, `garbled` and `http` 5xx leave open whether it was done."""

    UNREACHABLE = "unreachable"
    """Nothing was sent: no socket, refused, no connection in time."""
    TIMEOUT = "timeout"
    """It was sent and may have been received."""
    UNAUTHORIZED = "unauthorized"
    NOT_PERMITTED = "not_permitted"
    """The kernel refused us the socket."""
    BAD_NAME = "bad_name"
    NOT_RUNNING = "not_running"
    ALREADY_STARTED = "already_started"
    FAILED = "failed"
    SPAWN_ERROR = "spawn_error"
    NO_FILE = "no_file"
    SHUTTING_DOWN = "shutting_down"
    GARBLED = "garbled"
    """Not XML-RPC, too large, cut short, or of wrong types."""
    HTTP = "http"
    """Another HTTP status; `code` tells it."""
    OTHER = "other"


FAULT_CODES: Final = {
    6: FaultKind.SHUTTING_DOWN,
    10: FaultKind.BAD_NAME,
    20: FaultKind.NO_FILE,
    21: FaultKind.NO_FILE,  # NOT_EXECUTABLE: there is no file that could be run
    30: FaultKind.FAILED,
    40: FaultKind.FAILED,  # ABNORMAL_TERMINATION
    50: FaultKind.SPAWN_ERROR,
    60: FaultKind.ALREADY_STARTED,
    70: FaultKind.NOT_RUNNING,
}
"""supervisord's fault codes (class Faults of supervisor/xmlrpc.py, 4.3.0); any other is OTHER."""

_MEANING: Final[dict[FaultKind, tuple[str, str]]] = {
    FaultKind.UNREACHABLE: (
        "no supervisord listens there, and nothing was sent",
        "start supervisord, or set supervisor.url to the `file` or `port` of its configuration",
    ),
    FaultKind.TIMEOUT: (
        "supervisord is stopped, overloaded or blocked; it may still act on what was sent",
        "look at its state in `ps -o pid,stat,wchan:30,cmd`; `kill -CONT` resumes a stopped one; or raise supervisor.timeout",
    ),
    FaultKind.UNAUTHORIZED: (
        "supervisord wants another user name or password",
        "set supervisor.user and supervisor.password to `username` and `password` of its configuration",
    ),
    FaultKind.NOT_PERMITTED: (
        "this user may not write to supervisord's socket",
        "run as root, give CAP_DAC_OVERRIDE, or set `chown` and `chmod` in supervisord's [unix_http_server]",
    ),
    FaultKind.BAD_NAME: (
        "supervisord has no such program; a name is group:name",
        "list the names with `supervisorctl status`",
    ),
    FaultKind.NOT_RUNNING: (
        "the program is down, or is being stopped already",
        "nothing, unless it should run: `supervisorctl start` it",
    ),
    FaultKind.ALREADY_STARTED: ("the program is up, or supervisord is starting it by itself", "nothing"),
    FaultKind.FAILED: (
        "supervisord tried and failed, or the program ended too early",
        "read supervisord's own log and the program's stderr",
    ),
    FaultKind.SPAWN_ERROR: (
        "supervisord could not start the program's command",
        "read supervisord's own log; try the command by hand as the program's user",
    ),
    FaultKind.NO_FILE: (
        "a file that supervisord needs for this is missing or cannot be run",
        "check `command`, `directory` and the log files in supervisord's configuration",
    ),
    FaultKind.SHUTTING_DOWN: ("supervisord is shutting down or restarting", "wait, or start supervisord again"),
    FaultKind.GARBLED: (
        "what answers is not supervisord, or its answer was cut or too large",
        "check supervisor.url: does another server listen there?",
    ),
    FaultKind.HTTP: (
        "the server did not handle the call; supervisord answers 500 on an internal error",
        "check supervisor.url, and read supervisord's own log",
    ),
    FaultKind.OTHER: (
        "supervisord refused the call for a reason this version does not know",
        "read supervisord's own log; compare `supervisord --version` with what the README supports",
    ),
}


class Fault(NamedTuple):
    """Why there is no answer. A value: it is returned, never raised."""

    kind: FaultKind
    detail: str
    """What happened, for people."""
    code: int = 0
    """The XML-RPC fault code, or the HTTP status; 0: neither came."""

    @property
    def maybe_done(self) -> bool:
        """The request may have been received whole, so that what it asked for may happen, or have happened."""
        return self.kind in (FaultKind.TIMEOUT, FaultKind.GARBLED) or (self.kind is FaultKind.HTTP and self.code >= 500)

    def hint(self) -> str:
        """For an operator, in one line: what happened, what it means, what to do."""
        means, todo = _MEANING[self.kind]
        return f"{self.detail}: {means}. What to do: {todo}."

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


def fault_of(code: object, text: object, method: str) -> Fault:
    """An XML-RPC fault in our own names."""
    if type(code) is not int or not isinstance(text, str):
        return Fault(FaultKind.GARBLED, f"{method} was answered with a fault that has no code and text")
    return Fault(FAULT_CODES.get(code, FaultKind.OTHER), f"{method} was refused: {text[:500]} (fault {code})", code)
