"""A page that is open: what it may ask once its user was revoked."""

from __future__ import annotations

from typing import Any

import pytest

from fleetpulse.dashboard.url_state import UrlState
from fleetpulse.dashboard.users import VIEWER, User
from fleetpulse.dashboard.view import Facts, View
from fleetpulse.dashboard.zone import UTC_ZONE
from fleetpulse.sql.database import Answer
from schemas.errors import FleetpulseError


class Data:
    """Answers everything with nothing, and keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def ask(self, name: str, _values: object, _span_ms: int, kept_from_ms: int = 0) -> Answer:
        self.asked.append(name)
        return Answer((), ())


async def test_who_was_revoked_reads_nothing_more() -> None:
    """Neither suggestions of a filter nor the answer behind a button: what is not a refresh asks the same way."""
    users: list[User | None] = [User("ada", VIEWER)]
    data: Any = Data()
    view = View(
        "/models", {}, UrlState(), data, Facts(), lambda: users[0], dark=False, zone=UTC_ZONE, now_ms=lambda: 10**12
    )
    await view.ask("values_of_requests", dimension="model", search="", top=50)

    users[0] = None

    with pytest.raises(FleetpulseError, match="login has ended"):
        await view.ask("values_of_requests", dimension="model", search="", top=50)
    assert data.asked == ["values_of_requests"]
