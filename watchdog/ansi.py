"""Terminal escapes in text that others wrote. Pure."""

from __future__ import annotations

import re

ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,32}[ -/]{0,8}[@-~]"
    r"|\x1b\][^\x07\x1b\n]{0,512}(?:\x07|\x1b\\)"
    r"|\x1b[ -/]{1,8}[0-~]"
    r"|\x1b[0-Z\\-cno|}~]"
    r"|[\x1b\x9b]"
)
"""CSI and OSC sequences, escapes with intermediates (`ESC ( B`, which tput writes), two-byte ones (of the small letters only those
that terminals know, `ESC c` for one), and any ESC that is left, so that nothing can be put together from the rest. Every repeat is
bounded, so it takes linear time; none goes beyond the end of its line."""
