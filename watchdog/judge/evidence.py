"""evidence.json to Evidence and back: the form in which a field incident becomes a test.

May read and build values that are already in memory, nothing else: no file, no process, no clock, no logging. Keys that it
does not know are ignored (a newer daemon may write more); a value of the wrong type is an error that names its path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeVar

from watchdog.model.evidence import Dump, Evidence, Frame, LogLines, ProcessStacks, ThreadStack

VERSION: Final = 1
"""Of evidence.json. A higher one may mean something else by the same keys, so it is refused."""

LARGEST: Final = 1e300
"""Nothing measured comes near it; a comparison with it also refuses NaN, Infinity and integers too large for a float."""

T = TypeVar("T")
Json = dict[str, object]


class StacksError(ValueError):
    """A dump, or an evidence.json, that cannot be read. `line` counts from 1 in a text, `path` leads into a JSON value."""

    def __init__(self, what: str, line: int | None = None, path: str | None = None) -> None:
        self.what = what
        self.line = line
        self.path = path
        where = f"line {line}: " if line is not None else f"{path}: " if path else ""
        super().__init__(where + what)


def evidence_from(obj: object) -> Evidence:
    """Evidence from the parsed JSON of an evidence.json. Raises StacksError with the path of the first wrong value."""
    top = _object(obj, "")
    version = _integer(top.get("version", VERSION), "version")
    if version != VERSION:
        raise StacksError(f"this is version {version}; only version {VERSION} can be read", path="version")
    if "dumps" not in top:
        raise StacksError("there is no `dumps` in it, so it is no evidence.json", path="dumps")
    return Evidence(
        program=_optional(_text, top.get("program"), "program"),
        dumps=_each(_dump, top["dumps"], "dumps"),
        quiet_s=_optional(_number, top.get("quiet_s"), "quiet_s"),
        working=_optional(_flag, top.get("working"), "working"),
        cpu_cores=_optional(_number, top.get("cpu_cores"), "cpu_cores"),
        log=_log(top.get("log")),
        version=version,
    )


def _dump(obj: object, path: str) -> Dump:
    dump = _object(obj, path)
    return Dump(
        at_s=_number(dump.get("at_s", 0.0), f"{path}.at_s"),
        processes=_each(_process, dump.get("processes"), f"{path}.processes"),
    )


def _process(obj: object, path: str) -> ProcessStacks:
    process = _object(obj, path)
    return ProcessStacks(
        pid=_integer(process.get("pid"), f"{path}.pid"),
        ppid=_optional(_integer, process.get("ppid"), f"{path}.ppid"),
        comm=_optional(_text, process.get("comm"), f"{path}.comm"),
        threads=_each(_thread, process.get("threads", []), f"{path}.threads"),
        state=_optional(_text, process.get("state"), f"{path}.state"),
        role=_optional(_role, process.get("role"), f"{path}.role"),
        cpu_cores=_optional(_number, process.get("cpu_cores"), f"{path}.cpu_cores"),
        error=_optional(_text, process.get("error"), f"{path}.error"),
        python=_optional(_flag, process.get("python"), f"{path}.python"),
    )


def _thread(obj: object, path: str) -> ThreadStack:
    thread = _object(obj, path)
    return ThreadStack(
        tid=_optional(_integer, thread.get("tid"), f"{path}.tid"),
        name=_optional(_text, thread.get("name"), f"{path}.name"),
        frames=_each(_frame, thread.get("frames", []), f"{path}.frames"),
        state=_optional(_text, thread.get("state"), f"{path}.state"),
        wchan=_optional(_text, thread.get("wchan"), f"{path}.wchan"),
        active=_optional(_flag, thread.get("active"), f"{path}.active"),
        gil=_optional(_flag, thread.get("gil"), f"{path}.gil"),
    )


def _frame(obj: object, path: str) -> Frame:
    frame = _object(obj, path)
    return Frame(
        function=_text(frame.get("function"), f"{path}.function"),
        file=_text(frame.get("file"), f"{path}.file"),
        line=_optional(_integer, frame.get("line"), f"{path}.line"),
    )


def _log(obj: object) -> LogLines:
    log = _object({} if obj is None else obj, "log")
    return LogLines(
        stdout=_each(_text, log.get("stdout", []), "log.stdout"),
        stderr=_each(_text, log.get("stderr", []), "log.stderr"),
    )


def evidence_to(evidence: Evidence) -> dict[str, object]:
    """The JSON object of an evidence.json; `evidence_from` reads back the same Evidence.

    `python` of a process is written only where it is known, so that the file says what was measured and no more.
    """
    return {
        "version": VERSION,
        "program": evidence.program,
        "quiet_s": evidence.quiet_s,
        "working": evidence.working,
        "cpu_cores": evidence.cpu_cores,
        "dumps": [
            {"at_s": dump.at_s, "processes": [_process_to(process) for process in dump.processes]}
            for dump in evidence.dumps
        ],
        "log": {"stdout": list(evidence.log.stdout), "stderr": list(evidence.log.stderr)},
    }


def _process_to(process: ProcessStacks) -> Json:
    known: Json = {} if process.python is None else {"python": process.python}
    return {
        "pid": process.pid,
        "ppid": process.ppid,
        "comm": process.comm,
        "state": process.state,
        "role": process.role,
        "cpu_cores": process.cpu_cores,
        "error": process.error,
        **known,
        "threads": [_thread_to(thread) for thread in process.threads],
    }


def _thread_to(thread: ThreadStack) -> Json:
    return {
        "tid": thread.tid,
        "name": thread.name,
        "state": thread.state,
        "wchan": thread.wchan,
        "active": thread.active,
        "gil": thread.gil,
        "frames": [{"function": f.function, "file": f.file, "line": f.line} for f in thread.frames],
    }


def _found(obj: object) -> str:
    shown = repr(obj)
    return shown if len(shown) <= 40 else shown[:37] + "..."


def _object(obj: object, path: str) -> Json:
    if not isinstance(obj, dict):
        raise StacksError(f"expected an object, found {_found(obj)}", path=path or "the whole")
    return obj


def _each(read: Callable[[object, str], T], obj: object, path: str) -> tuple[T, ...]:
    if not isinstance(obj, list):
        raise StacksError(f"expected a list, found {_found(obj)}", path=path)
    return tuple(read(item, f"{path}[{index}]") for index, item in enumerate(obj))


def _optional(read: Callable[[object, str], T], obj: object, path: str) -> T | None:
    """null, and an absent key, are "could not be read"."""
    return None if obj is None else read(obj, path)


def _text(obj: object, path: str) -> str:
    if not isinstance(obj, str):
        raise StacksError(f"expected a text, found {_found(obj)}", path=path)
    return obj


def _integer(obj: object, path: str) -> int:
    if not isinstance(obj, int) or isinstance(obj, bool):
        raise StacksError(f"expected an integer, found {_found(obj)}", path=path)
    return obj


def _number(obj: object, path: str) -> float:
    if isinstance(obj, bool) or not isinstance(obj, (int, float)) or not -LARGEST < obj < LARGEST:
        raise StacksError(f"expected a number, found {_found(obj)}", path=path)
    return float(obj)


def _flag(obj: object, path: str) -> bool:
    if not isinstance(obj, bool):
        raise StacksError(f"expected true, false or null, found {_found(obj)}", path=path)
    return obj


def _role(obj: object, path: str) -> Literal["main", "child"]:
    if obj == "main":
        return "main"
    if obj == "child":
        return "child"
    raise StacksError(f"expected main or child, found {_found(obj)}", path=path)
