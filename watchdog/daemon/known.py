"""What a daemon needs before its configuration is known to be sound: where its state is, and how to reach supervisord.

A broken configuration must not leave a program down that the last daemon stopped, so the state directory is found in it as well as
can be, and the way to supervisord is remembered in the state directory. May read and write those; validates nothing.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from watchdog.config import STANDARD_PATH, ConfigError, SupervisorSettings, default_state
from watchdog.durable import sync_directory
from watchdog.supervisor import parse_url
from watchdog.yamlfile import parse_document

FILE: Final = "supervisor.json"

LIMIT: Final = 1 << 20
"""Bytes; a configuration that is longer is refused later, with words."""

_STATE_LINE: Final = re.compile(r"^state:\s*(?:\{|\n\s+)\s*[\"']?directory[\"']?:\s*[\"']?([^\s\"',}#]+)", re.MULTILINE)


def state_directory(path: Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    """`state.directory` of a configuration that may be broken; the default where it cannot be told."""
    text = _text(path or STANDARD_PATH)
    named = _parsed(text)
    if named is None:
        found = _STATE_LINE.search(text)
        named = found.group(1) if found else None
    return Path(named) if named and Path(named).is_absolute() else default_state(environ, os.geteuid())


def _text(path: Path) -> str:
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(LIMIT).decode("utf-8", "replace")
    except OSError:
        return ""


def _parsed(text: str) -> str | None:
    """The last `state.directory` of a document that is YAML; None: it is none, or names none."""
    try:
        data = parse_document("", text.encode()).data
    except ConfigError:
        return None
    state = data.get("state") if isinstance(data, dict) else None
    named = state.get("directory") if isinstance(state, dict) else None
    return named if isinstance(named, str) else None


def remember(state: Path, settings: SupervisorSettings, url: str) -> None:
    """Keep the way to supervisord, readable by us alone: it may hold a password. Raises OSError."""
    data = {"url": url, "user": settings.user, "password": settings.password, "timeout": settings.timeout}
    path, temporary = state / FILE, state / f".{FILE}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        os.fchmod(fd, 0o600)
        json.dump(data, file)
        file.flush()
        os.fsync(fd)
    temporary.replace(path)
    sync_directory(state)


def recall(state: Path) -> SupervisorSettings:
    """The way to supervisord that was remembered; the usual places where none was, or it cannot be read."""
    try:
        data = json.loads((state / FILE).read_text(encoding="utf-8"))
        url, timeout = data["url"], float(data["timeout"])
        user, password = data.get("user"), data.get("password")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return SupervisorSettings()
    if not isinstance(url, str) or not all(isinstance(v, str | None) for v in (user, password)):
        return SupervisorSettings()
    try:
        parse_url(url)
    except ValueError:
        return SupervisorSettings()
    return SupervisorSettings(url, user, password, timeout)
