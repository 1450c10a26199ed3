"""What supervisord can be asked and told. May call it, and checks the type of all that it answers; does not poll or retry."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeVar

from watchdog.model.observation import ProcessInfo
from watchdog.supervisor.fault import Fault, FaultKind, fault_of
from watchdog.supervisor.rpc import call, parse_url

MAX_BYTES: Final = 8 << 20
"""Of one answer. getAllConfigInfo, the longest, takes 2.7 KB a program: room for 3,000."""

PID_MAX: Final = 1 << 22
"""PID_MAX_LIMIT of Linux on 64 bits."""

STATES: Final = {
    0: "STOPPED",
    10: "STARTING",
    20: "RUNNING",
    30: "BACKOFF",
    40: "STOPPING",
    100: "EXITED",
    200: "FATAL",
    1000: "UNKNOWN",
}
"""ProcessStates of supervisor/states.py, 4.3.0."""

_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot carry, lone surrogates included."""

T = TypeVar("T")


class ProgramSettings(NamedTuple):
    """What supervisord was configured to do with one program; None: this supervisord does not tell."""

    startsecs: int | None = None
    """Seconds that it must stay up to be RUNNING."""
    stopwaitsecs: int | None = None
    """Seconds from the stop signal to SIGKILL."""
    stopsignal: int | None = None
    autostart: bool | None = None
    redirect_stderr: bool | None = None
    killasgroup: bool | None = None


class SupervisorIdentity(NamedTuple):
    version: str
    identification: str
    pid: int
    state: str
    """RUNNING, RESTARTING, SHUTDOWN or FATAL."""


class Supervisor:
    """One supervisord. A program is `group:name`, as `processes` spells it.

    Args:
        url: unix:///PATH or http://[USER:PASSWORD@]HOST:PORT[/RPC2].
        timeout: seconds for the whole of one call.
        max_bytes: the longest answer that is read.
    Raises ValueError for a url that is none; no method raises for what supervisord, or whoever answers, does.
    """

    def __init__(
        self,
        url: str,
        user: str | None = None,
        password: str | None = None,
        timeout: float = 5.0,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        address = parse_url(url)
        self._address = address if user is None else address._replace(user=user, password=password)
        self.timeout = timeout
        self.max_bytes = max_bytes
        self.rpc_seconds: float | None = None
        """Wall time of the call that ended last, whatever came of it; None: none was made."""

    @property
    def url(self) -> str:
        """Without user and password."""
        return self._address.url

    def __repr__(self) -> str:
        return f"Supervisor({self.url!r})"

    def processes(self) -> dict[str, ProcessInfo] | Fault:
        """Every program, by group:name."""
        return self._call(_processes, "getAllProcessInfo")

    def process(self, name: str) -> ProcessInfo | Fault:
        """One program."""
        info = self._call_about(name, _process_info, "getProcessInfo")
        if not isinstance(info, Fault) and info.program != name:
            return Fault(FaultKind.GARBLED, f"asked for {name!r}, supervisord answered for {info.program!r}")
        return info

    def stop(self, name: str) -> Fault | None:
        """Ask for a stop; returns at once, while the program is STOPPING. None: supervisord took it."""
        return self._call_about(name, _true, "stopProcess", False)

    def start(self, name: str) -> Fault | None:
        """Ask for a start; returns at once. None: supervisord took it, which it also says, and does nothing, in STOPPING."""
        return self._call_about(name, _true, "startProcess", False)

    def kill(self, name: str) -> Fault | None:
        """SIGKILL to the main process, and to no other. Works in STOPPING."""
        return self._call_about(name, _true, "signalProcess", "KILL")

    def settings(self) -> dict[str, ProgramSettings] | Fault:
        """What each configured program is told to do, by group:name; also programs that a reread found but no update made live."""
        return self._call(_settings, "getAllConfigInfo")

    def identity(self) -> SupervisorIdentity | Fault:
        """Who answers. One round trip, and four methods in it."""
        names = ("getSupervisorVersion", "getIdentification", "getPID", "getState")
        calls = [{"methodName": f"supervisor.{name}", "params": []} for name in names]
        return self._call(_identity, "multicall", calls, space="system")

    def log_tail(self, max_bytes: int = 65536) -> str | Fault:
        """The end of supervisord's own log: at most `max_bytes` bytes of it."""
        return self._call(_string, "readLog", -max(1, max_bytes), 0)  # -0 would be all of it

    def _call_about(self, name: str, reader: Callable[[object], T], method: str, *params: bool | str) -> T | Fault:
        """Only for one program: supervisord takes `group:*` and `group:` for the whole group, and would stop all of it."""
        group, colon, process = name.partition(":")
        if not (group and colon and process) or process == "*" or _NOT_XML.search(name):
            return Fault(FaultKind.BAD_NAME, f"{name!r} is not the name of one program, nothing was sent")
        return self._call(reader, method, name, *params)

    def _call(
        self, reader: Callable[[object], T], method: str, *params: object, space: str = "supervisor"
    ) -> T | Fault:
        began = time.monotonic()
        answer = call(self._address, self.timeout, self.max_bytes, f"{space}.{method}", *params)
        self.rpc_seconds = time.monotonic() - began
        return _read(reader, answer, method)


class _Garbled(ValueError):
    """A value of a wrong type in an answer. Never leaves this module: `_read` turns it into a Fault."""


def _read(reader: Callable[[object], T], answer: object, method: str) -> T | Fault:
    """`reader(answer)`; a Fault where `answer` is one, or has a wrong type in it."""
    if isinstance(answer, Fault):
        return answer
    try:
        return reader(answer)
    except _Garbled as error:
        return Fault(FaultKind.GARBLED, f"{method} was answered with wrong types: {error}")


def _processes(answer: object) -> dict[str, ProcessInfo]:
    infos = [_process_info(item) for item in _list(answer)]
    found = {info.program: info for info in infos}
    if len(found) != len(infos):
        raise _Garbled("two programs of one name")
    return found


def _process_info(item: object) -> ProcessInfo:
    fields = _struct(item)
    group, name = _text(fields, "group"), _text(fields, "name")
    return ProcessInfo(
        program=f"{group}:{name}",
        group=group,
        name=name,
        state=STATES.get(_whole_number(fields, "state"), "UNKNOWN"),
        pid=_pid(fields, "pid"),
        started_at=_whole_number(fields, "start"),
        exitstatus=_whole_number(fields, "exitstatus", 0),
        stdout_logfile=_text(fields, "stdout_logfile", ""),
        stderr_logfile=_text(fields, "stderr_logfile", ""),
        description=_text(fields, "description", ""),
        spawnerr=_text(fields, "spawnerr", ""),
    )


def _settings(answer: object) -> dict[str, ProgramSettings]:
    found = {}
    for item in _list(answer):
        fields = _struct(item)
        number, flag = (_only(int, fields), _only(bool, fields))
        found[f"{_text(fields, 'group')}:{_text(fields, 'name')}"] = ProgramSettings(
            startsecs=number("startsecs"),
            stopwaitsecs=number("stopwaitsecs"),
            stopsignal=number("stopsignal"),
            autostart=flag("autostart"),
            redirect_stderr=flag("redirect_stderr"),
            killasgroup=flag("killasgroup"),
        )
    return found


def _only(kind: type[T], fields: Mapping[str, object]) -> Callable[[str], T | None]:
    """Settings are a convenience: one that is missing, or of another type in another version, is not known."""

    def get(key: str) -> T | None:
        value = fields.get(key)
        return value if type(value) is kind else None

    return get


def _identity(answer: object) -> SupervisorIdentity | Fault:
    """Of a multicall, whose values supervisord gives bare, where others wrap each in an array of one."""
    values = _list(answer)
    for value in values:
        if isinstance(value, dict) and "faultCode" in value:
            return fault_of(value["faultCode"], value.get("faultString"), "multicall")
    if len(values) != 4:
        raise _Garbled(f"{len(values)} answers to 4 calls")
    fields = dict(zip(("version", "identification", "pid", "state"), values, strict=True))
    state = _struct(fields["state"])
    return SupervisorIdentity(
        _text(fields, "version"), _text(fields, "identification"), _pid(fields, "pid"), _text(state, "statename")
    )


def _string(answer: object) -> str:
    if not isinstance(answer, str):
        raise _Garbled(f"{_kind(answer)} instead of text")
    return answer


def _true(answer: object) -> None:
    if answer is not True:
        raise _Garbled(f"{_kind(answer)} instead of true")


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise _Garbled(f"{_kind(value)} instead of an array")
    return value


def _struct(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise _Garbled(f"{_kind(value)} instead of a struct")
    return value


def _text(fields: Mapping[str, object], key: str, default: str | None = None) -> str:
    value = fields.get(key, default)
    if not isinstance(value, str):
        raise _Garbled(f"{key} is {_kind(value)} instead of text")
    return value


def _whole_number(fields: Mapping[str, object], key: str, default: int | None = None) -> int:
    value = fields.get(key, default)
    if type(value) is not int:  # not isinstance: True is an int, too
        raise _Garbled(f"{key} is {_kind(value)} instead of an integer")
    return value


def _pid(fields: Mapping[str, object], key: str) -> int:
    value = _whole_number(fields, key)
    if not 0 <= value <= PID_MAX:
        raise _Garbled(f"{key} is {value}, which is no pid")
    return value


def _kind(value: object) -> str:
    return "missing" if value is None else f"of type {type(value).__name__}"
