"""How long the path of a unix socket may be. Holds one number: the configuration checks it without importing the client."""

from __future__ import annotations

from typing import Final

LONGEST: Final = 107
"""Bytes: sun_path has 108, and a NUL ends it (unix(7))."""
