"""What integration tests share: a real supervisord of their own."""

from __future__ import annotations

from tests.supervisord import supervisord_fixture

__all__ = ["supervisord_fixture"]
