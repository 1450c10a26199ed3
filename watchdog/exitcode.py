"""The exit codes of every command, and of the daemon. Holds four numbers, which are part of the public interface."""

from __future__ import annotations

from typing import Final

FINE: Final = 0
PROBLEM: Final = 1
"""Something was found, or could not be done: a program is wedged, a check failed, a start is owed."""
USAGE: Final = 2
"""Usage, or configuration."""
UNREACHABLE: Final = 3
"""Cannot reach, or not permitted."""
