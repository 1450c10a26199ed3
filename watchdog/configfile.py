"""The shape of watchdog.yaml: its keys, their readers and defaults. Declares only; reads no file.

The dataclasses whose names end in File or Entry are shapes of YAML; the rest goes to Config as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from watchdog import sunpath, units
from watchdog.model.rule import CommonCause, HostLimits, Idle, Level, Progress
from watchdog.problems import Invalid, show
from watchdog.structure import Schema, list_of

_LEAST: Final = 20
"""Bundles that retention leaves alone whatever the disk says."""


@dataclass(frozen=True, slots=True)
class Keep:
    """How much of the archive is kept: what passes any of these limits goes, oldest first, but for the `least` newest."""

    count: int = 200
    size: int = 5 * 2**30
    """Bytes."""
    age: float = 90 * 86400.0
    """Seconds."""
    free: float = 0.1
    """The share of the file system that is left free."""
    least: int = _LEAST


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    host: str = "127.0.0.1"
    port: int = 9877
    """0: a free one."""


@dataclass(frozen=True, slots=True)
class SupervisorFile:
    url: str | None = None
    timeout: float = 5.0
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    password_file: Path | None = None


@dataclass(frozen=True, slots=True)
class KeepFile:
    count: int = 200
    size: int = 5 * 2**30
    age: float = 90 * 86400.0
    free: float = 0.1
    least: int | None = None

    def keep(self) -> Keep:
        # Whoever asks for 5 bundles and says no more does not want the 20 of the default.
        least = self.least if self.least is not None else min(_LEAST, self.count)
        return Keep(self.count, self.size, self.age, self.free, least)


@dataclass(frozen=True, slots=True)
class DirectoryFile:
    directory: Path | None = None


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    directory: Path | None = None
    keep: Keep = field(default_factory=Keep)


@dataclass(frozen=True, slots=True)
class MetricsFile:
    listen: MetricsSettings | None = field(default_factory=MetricsSettings)


@dataclass(frozen=True, slots=True)
class Entry:
    """An item of `programs`. None: the key is not there."""

    match: str
    mode: Level | None = None
    rules: tuple[str, ...] | None = None
    logs: tuple[str, ...] = ()
    progress: Progress | None = None
    progress_log: str | None = None
    progress_file: str | None = None
    idle: Idle | None = None


@dataclass(frozen=True, slots=True)
class ConfigFile:
    supervisor: SupervisorFile = field(default_factory=SupervisorFile)
    interval: float = 5.0
    mode: Level = Level.REPORT
    programs: tuple[Entry, ...] | None = None
    archive: ArchiveFile = field(default_factory=ArchiveFile)
    state: DirectoryFile = field(default_factory=DirectoryFile)
    runtime: DirectoryFile = field(default_factory=DirectoryFile)
    rules: tuple[Path, ...] | None = None
    signatures: tuple[Path, ...] | None = None
    metrics: MetricsSettings | None = field(default_factory=MetricsSettings)
    limits: HostLimits = field(default_factory=HostLimits)


def read_url(value: object) -> str:
    """unix:///PATH or http://HOST:PORT, as supervisorctl's serverurl. Raises Invalid, which never shows a password."""
    url = units.text(value)
    if "@" in url:
        # Such a url would stand in logs, `status` and bundles.
        raise Invalid("a user or password in the url", "a url without", "they have keys of their own: user, password")
    if re.fullmatch(r"unix:///\S+", url):
        if len(url.removeprefix("unix://").encode()) > sunpath.LONGEST:
            raise Invalid(
                show(url), f"a socket's path of at most {sunpath.LONGEST} bytes", "a symbolic link makes it shorter"
            )
        return url
    if _is_http(url):
        return url
    hint = f"did you mean 'unix://{url}'?" if url.startswith("/") else ""
    raise Invalid(show(url), "unix:///PATH, http://HOST:PORT", hint)


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return (
            parts.scheme == "http"
            and bool(parts.hostname)
            and parts.port != 0
            and url.isascii()
            and url.isprintable()
            and " " not in url
        )
    except ValueError:  # a port above 65535, half an IPv6 address
        return False


def read_listen(value: object) -> MetricsSettings | None:
    """HOST:PORT or `off`. Raises Invalid."""
    words = units.text(value)
    if words == "off":
        return None
    found = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):([0-9]{1,5})", words)
    if found is None or int(found[2]) > 65535:
        raise Invalid(show(words), "HOST:PORT, such as 127.0.0.1:9877 (port 0: a free one), or off")
    return MetricsSettings(found[1].strip("[]"), int(found[2]))


def read_interval(value: object) -> float:
    """Seconds between looks, from 0.1 s to 5 min. Raises Invalid."""
    seconds = units.duration(value)
    # Below 0.1 s a tick would not end before the next; above 5 min a stall could not be told in the time there is.
    if not 0.1 <= seconds <= 300:
        raise Invalid(show(value), "from 100ms to 5m")
    return seconds


def read_match(value: object) -> str:
    """A shell pattern that can match group:name. Raises Invalid."""
    words = units.title(value)
    if ":" not in words and not set(words) & set("*?["):
        raise Invalid(show(words), "a shell pattern on group:name", f"did you mean '{words}:*'?")
    return words


def read_share(value: object) -> float:
    """`0.5` or `50%`; above 0, at most 1. Raises Invalid."""
    if isinstance(value, str) and value != "100%":
        value = units.percentage(value)
    return 1.0 if value == "100%" else units.number(0, 1, above=True)(value)


def read_log(value: object) -> str:
    """An absolute path, as the text the model keeps. Raises Invalid."""
    return str(units.absolute(value))


def read_progress_line(value: object) -> str:
    """A pattern whose named groups, if any, are `count` and `total`. Raises Invalid."""
    return units.pattern(value, groups=("count", "total"))


def _check_supervisor(file: SupervisorFile) -> Iterator[Invalid]:
    if file.password is not None and file.password_file is not None:
        yield Invalid("both password and password_file", "one of them", at=("password_file",))
    has_password = file.password is not None or file.password_file is not None
    if has_password != (file.user is not None):
        missing = "password" if file.user is not None else "user"
        yield Invalid("nothing", "a value", "user and password belong together", at=(missing,))


def _check_keep(file: KeepFile) -> Iterator[Invalid]:
    if file.least is not None and file.least > file.count:
        yield Invalid(str(file.least), f"at most count, {file.count}", at=("least",))


def _check_progress(progress: Progress) -> Iterator[Invalid]:
    if progress.log is None and progress.file is None:
        yield Invalid("an empty mapping", "log, file, or both")


def _check_entry(entry: Entry) -> Iterator[Invalid]:
    for key, value in (("progress.log", entry.progress_log), ("progress.file", entry.progress_file)):
        if value is not None and entry.progress is not None:
            yield Invalid(f"both progress and {key}", f"{key.partition('.')[2]} as a key of progress", at=(key,))
    names = entry.rules or ()
    for index, name in enumerate(names):
        if name in names[:index]:
            yield Invalid(f"{show(name)} again", "each rule once", at=("rules", index))


def _check_file(file: ConfigFile) -> Iterator[Invalid]:
    seen: set[str] = set()
    for index, entry in enumerate(file.programs or ()):
        if entry.match in seen:
            hint = "only the first entry that matches a program counts"
            yield Invalid(f"{show(entry.match)} again", "each pattern once", hint, at=("programs", index, "match"))
        seen.add(entry.match)


def _declare(schema: Schema) -> None:
    schema.scalar(Level, units.level)
    schema.scalar(Path, units.absolute)
    schema.mapping(SupervisorFile, check=_check_supervisor, url=read_url, password=units.secret)
    schema.mapping(KeepFile, check=_check_keep, size=units.size, free=units.percentage)
    keep = schema.reader(KeepFile)
    schema.mapping(DirectoryFile)
    schema.mapping(ArchiveFile, keep=lambda value: keep(value).keep())
    schema.mapping(MetricsFile, short=lambda word: MetricsFile(read_listen(word)), listen=read_listen)
    schema.mapping(CommonCause, share=read_share)
    schema.mapping(HostLimits)
    _declare_programs(schema)
    metrics = schema.reader(MetricsFile)
    schema.mapping(ConfigFile, check=_check_file, interval=read_interval, metrics=lambda value: metrics(value).listen)


def _declare_programs(schema: Schema) -> None:
    schema.mapping(
        Progress,
        check=_check_progress,
        log=read_progress_line,
        file=units.path_template,
    )
    schema.mapping(Idle, short=lambda line: Idle(units.selective(line)), line=units.selective)
    schema.mapping(
        Entry,
        keys={"progress_log": "progress.log", "progress_file": "progress.file"},
        check=_check_entry,
        match=read_match,
        logs=list_of(read_log),
        progress_log=read_progress_line,
        progress_file=units.path_template,
    )


SCHEMA: Final = Schema()
_declare(SCHEMA)
