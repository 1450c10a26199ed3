"""Words for values that no clock shows."""

from __future__ import annotations

import pytest

from watchdog.show.words import moment


@pytest.mark.parametrize("wall", [1e300, -1e300, float("nan"), float("inf")])
def test_a_moment_beyond_the_calendar_is_unknown(wall: float) -> None:
    assert moment(wall) == "unknown"
