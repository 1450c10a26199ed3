"""Threads whose names hold what a printed dump does not escape. Waits for ever."""

from __future__ import annotations

import threading

from tests.programs.ptraced import allow_any_tracer


class Keeper:
    def keep(self) -> None:
        def inner(text: str) -> None:
            threading.Event().wait()

        inner('two\nlines of a "local"')


if __name__ == "__main__":
    allow_any_tracer()
    for name in ("plain", 'odd "na\nme"'):
        threading.Thread(target=Keeper().keep, name=name, daemon=True).start()
    Keeper().keep()
