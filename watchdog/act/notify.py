"""Pages the operator. May write to the log; may not decide what is worth a page."""

from __future__ import annotations

import logging

from watchdog.logfmt import format_line
from watchdog.model.action import Say

_log = logging.getLogger("watchdog.notice")


def notify(say: Say) -> None:
    """A notice is a line at error level, whatever its own level: that is where alerts on logs are set."""
    _log.error("%s", format_line(say.message, say.program, say.incident, say.fields))
