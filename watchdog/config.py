"""Configuration: YAML files to one Config, or every problem of every file at once.

May read the configuration, the rule and signature files and a password file; creates nothing and reaches nobody.
The shape of the file is in configfile.py, that of rules and signatures in rulefiles.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from watchdog import configfile
from watchdog.configfile import ConfigFile, Entry, Keep, MetricsSettings
from watchdog.model.rule import Level, Policy, Progress, Rule, Ruleset
from watchdog.model.signature import Signature
from watchdog.problems import ConfigError, Problem, Where, choice, nearest, show, spell
from watchdog.rulefiles import Library, read_library
from watchdog.yamlfile import Document, read_bytes, read_document

__all__ = [
    "STANDARD_PATH",
    "ArchiveSettings",
    "Config",
    "ConfigError",
    "Keep",
    "MetricsSettings",
    "Problem",
    "SupervisorSettings",
    "load",
    "load_rules",
    "load_signatures",
]

STANDARD_PATH: Final = Path("/etc/worker-watchdog/watchdog.yaml")
_STATE: Final = Path("/var/lib/worker-watchdog")
_RUNTIME: Final = Path("/run/worker-watchdog")


@dataclass(frozen=True, slots=True)
class SupervisorSettings:
    """Where supervisord answers. `url` None: supervisor.py looks for it."""

    url: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    timeout: float = 5.0
    """Seconds for each call."""


@dataclass(frozen=True, slots=True)
class ArchiveSettings:
    directory: Path
    keep: Keep = field(default_factory=Keep)


@dataclass(frozen=True, slots=True)
class Config:
    """All that the daemon and the commands are told. Directories are absolute, and need not exist."""

    supervisor: SupervisorSettings
    ruleset: Ruleset
    archive: ArchiveSettings
    state: Path
    runtime: Path
    metrics: MetricsSettings | None
    """None: off."""
    files: tuple[Path, ...]
    """Every file that was read, the configuration first."""
    path: Path | None
    """The configuration; None: there is none, and all is default."""


def load(
    path: Path | None,
    environ: Mapping[str, str] = os.environ,
    *,
    standard: Path = STANDARD_PATH,
    uid: int | None = None,
) -> Config:
    """The configuration at `path`; without a path the one at `standard`, if there, else defaults only.

    `environ` and `uid` (by default this process's) decide on the directories that the file does not name.
    Raises ConfigError with every problem of the configuration, the rules and the signatures; MissingResources.
    """
    if path is None and not _is_absent(standard):
        path = standard
    loading = _Loading()
    document = loading.document(path)
    beside = (path or standard).absolute().parent
    library = read_library(
        loading.directories(document, "rules", beside, standard.parent),
        loading.directories(document, "signatures", beside, standard.parent),
    )
    loading.problems += library.problems
    loading.problems += _unknown_rules(document, library.names)
    file = loading.file(document)
    supervisor = loading.supervisor(document, file)
    if loading.problems:
        raise ConfigError(sorted(loading.problems, key=lambda p: (p.file != document.file, p.file, p.line or 0)))
    return _config(path, file, library, supervisor, (environ, os.geteuid() if uid is None else uid))


def load_rules(directories: Iterable[Path]) -> dict[str, Rule]:
    """Every rule by name: the built-in ones, then those of the directories. Raises ConfigError; MissingResources."""
    return _sound(read_library(directories, ())).rules


def load_signatures(directories: Iterable[Path]) -> tuple[Signature, ...]:
    """The built-in signatures, then those of the directories. Raises ConfigError; MissingResources."""
    return _sound(read_library((), directories)).signatures


def _sound(library: Library) -> Library:
    if library.problems:
        raise ConfigError(library.problems)
    return library


class _Loading:
    """Gathers problems while a configuration is read as far as it can be."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def document(self, path: Path | None) -> Document:
        """An empty one where there is no file, or none that can be read."""
        empty = Document(str(path or STANDARD_PATH), None, {})
        if path is None:
            return empty
        try:
            return read_document(path)
        except ConfigError as error:
            self.problems += error.problems
            return empty

    def file(self, document: Document) -> ConfigFile:
        """The default one where the document has problems."""
        try:
            return configfile.SCHEMA.read(document, ConfigFile)
        except ConfigError as error:
            self.problems += error.problems
            return ConfigFile()

    def directories(self, document: Document, key: str, beside: Path, standard: Path) -> list[Path]:
        """The directories under `key`; without it, `key` beside the configuration, if there.

        One that does not exist is a slip, but for the usual two: a sample may name those before anyone needs them.
        """
        named = document.data.get(key) if isinstance(document.data, dict) else None
        if named is None:
            return [] if _is_absent(beside / key) else [beside / key]
        found = []
        for index, text in enumerate(named if isinstance(named, list) else ()):
            # What is no absolute path is told of by the schema.
            if not isinstance(text, str) or not text.startswith("/"):
                continue
            if not _is_absent(Path(text)):
                found.append(Path(text))
            elif Path(text) not in (beside / key, standard / key):
                hint = "create it, or remove it from the list"
                self._add(document, (key, index), show(text), "a directory that exists", hint)
        return found

    def supervisor(self, document: Document, file: ConfigFile) -> SupervisorSettings:
        """With the password read from its file, if it is in one."""
        written = file.supervisor
        password = written.password
        if written.password_file is not None:
            try:
                password = read_bytes(written.password_file).decode().rstrip("\r\n")
            except ConfigError as error:
                for problem in error.problems:
                    found = f"{written.password_file}: {problem.found}"
                    self._add(document, ("supervisor", "password_file"), found, problem.allowed, problem.hint)
            except UnicodeDecodeError:
                self._add(document, ("supervisor", "password_file"), "bytes that are not UTF-8", "text in UTF-8")
        return SupervisorSettings(written.url, written.user, password, written.timeout)

    def _add(self, document: Document, where: Where, found: str, allowed: str, hint: str = "") -> None:
        self.problems.append(Problem(document.file, document.line(where), spell(where), found, allowed, hint))


def _is_absent(path: Path) -> bool:
    """Nothing is there. What cannot be told (permission denied) is not absent: reading it will say why."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _unknown_rules(document: Document, names: frozenset[str]) -> Iterator[Problem]:
    """Rules that program entries name and no file has; looked up in the raw document, which may have other problems."""
    entries = document.data.get("programs") if isinstance(document.data, dict) else None
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        rules = entry.get("rules") if isinstance(entry, dict) else None
        for place, name in enumerate(rules if isinstance(rules, list) else ()):
            if isinstance(name, str) and name not in names:
                where = ("programs", index, "rules", place)
                yield Problem(
                    document.file,
                    document.line(where),
                    spell(where),
                    show(name),
                    choice(sorted(names)) or "no rule: there is none",
                    nearest(name, names),
                )


def _config(
    path: Path | None,
    file: ConfigFile,
    library: Library,
    supervisor: SupervisorSettings,
    process: tuple[Mapping[str, str], int],
) -> Config:
    state = file.state.directory or default_state(*process)
    return Config(
        supervisor=supervisor,
        ruleset=Ruleset(file.interval, _policies(file, library.rules), file.limits, library.signatures),
        archive=ArchiveSettings(file.archive.directory or state / "incidents", file.archive.keep),
        state=state,
        runtime=file.runtime.directory or _default_runtime(*process, state),
        metrics=file.metrics,
        files=tuple(p for p in (path, file.supervisor.password_file) if p is not None) + library.files,
        path=path,
    )


def _policies(file: ConfigFile, rules: Mapping[str, Rule]) -> tuple[Policy, ...]:
    """Without `programs` every program is watched, by every rule."""
    entries = file.programs if file.programs is not None else (Entry("*"),)
    return tuple(_policy(entry, file.mode, rules) for entry in entries)


def _policy(entry: Entry, mode: Level, rules: Mapping[str, Rule]) -> Policy:
    names = entry.rules if entry.rules is not None else rules
    progress = entry.progress
    if entry.progress_log is not None or entry.progress_file is not None:
        progress = Progress(entry.progress_log, entry.progress_file)
    return Policy(
        match=entry.match,
        mode=entry.mode if entry.mode is not None else mode,
        rules=tuple(rules[name] for name in names),
        logs=entry.logs,
        progress=progress,
        idle=entry.idle,
    )


def default_state(environ: Mapping[str, str], uid: int) -> Path:
    """systemd's word, then root's usual place, then the user's own (XDG Base Directory Specification)."""
    if (given := _first(environ, "STATE_DIRECTORY")) is not None:
        return given
    home = _first(environ, "HOME")
    base = _first(environ, "XDG_STATE_HOME") or (home / ".local/state" if home is not None else None)
    return _STATE if uid == 0 or base is None else base / "worker-watchdog"


def _default_runtime(environ: Mapping[str, str], uid: int, state: Path) -> Path:
    if (given := _first(environ, "RUNTIME_DIRECTORY")) is not None:
        return given
    if uid == 0:
        return _RUNTIME
    base = _first(environ, "XDG_RUNTIME_DIR")
    return base / "worker-watchdog" if base is not None else state / "run"


def _first(environ: Mapping[str, str], name: str) -> Path | None:
    """The variable's first path (systemd separates several by colons); None where there is no absolute one."""
    path = environ.get(name, "").partition(":")[0]
    return Path(path) if path.startswith("/") else None
