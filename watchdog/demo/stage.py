"""The folder of one demo: programs, configuration, and rules with shortened numbers. May write into that folder only.

Made apart from running it, so that the tests can set up their own programs with the same rules.
"""

from __future__ import annotations

import re
import shlex
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

GROUP: Final = "demo"
BATCH: Final = r"\] Batch (?P<count>\d+): [\d.]+s/image"
"""What a worker logs for each batch, as the configuration knows it."""

QUIET: Final = "4s"
"""Instead of the `quiet` of each built-in signature: no more than the shortest silence for which the shortened rule fires."""

UNWRITABLE: Final = "%;"
"""supervisord expands % in a value up to three times, differently for each key, and takes what follows ` ;` as a comment."""

_QUIET = re.compile(r"\bquiet:\s*[\d.]+(?:s|m|h)\b")


@dataclass(frozen=True, slots=True)
class Program:
    """One program of the private supervisord."""

    name: str
    command: str
    """As supervisord reads it; see `command`."""
    processes: int = 1
    """supervisord's numprocs: above 1 they are called NAME_0, NAME_1 and so on."""
    settings: tuple[tuple[str, str], ...] = ()
    """Further lines of its section; a later one of the same key counts."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Where everything of one demo is. `socket` lies elsewhere: its path has 107 bytes at most, and `folder` may be deep."""

    folder: Path
    socket: Path

    @property
    def config(self) -> Path:
        return self.folder / "watchdog.yaml"

    @property
    def supervisord(self) -> Path:
        return self.folder / "supervisord.conf"

    @property
    def archive(self) -> Path:
        return self.folder / "incidents"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def runtime(self) -> Path:
        return self.folder / "run"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def daemon_log(self) -> Path:
        return self.logs / "watchdog.log"

    def fault(self, name: str) -> Path:
        """The file that has the program of this name lose a batch, or be slow."""
        return self.folder / f"{name}.fault"


def command(*arguments: object) -> str:
    """These arguments, quoted as supervisord wants it."""
    return shlex.join(str(argument) for argument in arguments)


def worker(*arguments: object) -> str:
    """The command of a sample worker."""
    return command(sys.executable, "-m", "watchdog.demo.worker", *arguments)


def demo_programs(stage: Stage) -> tuple[Program, ...]:
    """The four of the demo."""
    return (
        Program("healthy", worker("batches")),
        Program("idle", worker("idle", "--every", "1")),
        Program("slow", worker("batches", "--slow-when", stage.fault("slow"))),
        Program("wedged", worker("batches", "--lose-when", stage.fault("wedged"))),
    )


def build(stage: Stage, programs: Sequence[Program], signatures: Path) -> None:
    """Write everything below `stage.folder`, which exists. `signatures` holds the built-in ones. Raises OSError."""
    for directory in (stage.archive, stage.state, stage.runtime, stage.logs):
        directory.mkdir(mode=0o750)
    write_rules(stage.folder / "rules")
    write_signatures(signatures, stage.folder / "signatures")
    stage.supervisord.write_text(supervisord_conf(stage, programs))
    stage.config.write_text(watchdog_yaml(stage))


def write_rules(into: Path) -> None:
    """The shortened rule `stall`, as a directory of rules. Raises OSError."""
    into.mkdir()
    (into / "stall.yaml").write_text((Path(__file__).parent / "stall.yaml").read_text())


def write_signatures(built_in: Path, into: Path) -> None:
    """The built-in signatures, each with its `quiet` shortened and nothing else changed. Raises OSError."""
    into.mkdir()
    for path in sorted(built_in.glob("*.yaml")):
        shortened, count = _QUIET.subn(f"quiet: {QUIET}", path.read_text())
        if count:
            (into / path.name).write_text(shortened)


def watchdog_yaml(stage: Stage, more: str = "") -> str:
    """The daemon's configuration; `more` is appended. Every text is quoted as YAML's single quotes want it."""
    text = f"""\
    supervisor: {{url: {_quoted(f"unix://{stage.socket}")}}}
    interval: 0.5s
    programs:
      - match: '{GROUP}:*'
        mode: restart
        rules: [stall]
        progress: {{log: {_quoted(BATCH)}}}
        idle: {{line: 'No jobs found, sleeping', for: 30m}}
    archive: {{directory: {_quoted(stage.archive)}}}
    state: {{directory: {_quoted(stage.state)}}}
    runtime: {{directory: {_quoted(stage.runtime)}}}
    rules: [{_quoted(stage.folder / "rules")}]
    signatures: [{_quoted(stage.folder / "signatures")}]
    metrics: {{listen: '127.0.0.1:0'}}
    """
    return textwrap.dedent(text) + more


def _quoted(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def supervisord_conf(stage: Stage, programs: Iterable[Program]) -> str:
    """The private supervisord: all programs in one group, so that no program's name is its group's."""
    programs = tuple(programs)
    names = ",".join(program.name for program in programs)
    head: dict[str, dict[str, object]] = {
        "unix_http_server": {"file": stage.socket},
        "supervisord": {
            "logfile": stage.logs / "supervisord.log",
            "pidfile": stage.folder / "supervisord.pid",
            "childlogdir": stage.logs,
            "silent": "true",
        },
        "rpcinterface:supervisor": {
            "supervisor.rpcinterface_factory": "supervisor.rpcinterface:make_main_rpcinterface",
        },
        f"group:{GROUP}": {"programs": names},
    }
    sections = head | {f"program:{program.name}": _section(stage, program) for program in programs}
    return "\n".join(_ini(name, keys) for name, keys in sections.items())


def _section(stage: Stage, program: Program) -> dict[str, object]:
    process = program.name if program.processes == 1 else "%(program_name)s_%(process_num)d"
    return {
        "command": program.command,
        "process_name": process,
        "numprocs": program.processes,
        "autostart": "true",
        "stopwaitsecs": 5,
        "stopasgroup": "true",
        "killasgroup": "true",
        "stdout_logfile": f"{stage.logs}/{process}.log",
        "stderr_logfile": f"{stage.logs}/{process}.err",
    } | dict(program.settings)


def _ini(name: str, keys: dict[str, object]) -> str:
    return "\n".join((f"[{name}]", *(f"{key}={value}" for key, value in keys.items()), ""))
