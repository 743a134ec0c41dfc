"""What pages ask, where there is nothing: no row, no lack of any, one statement at a time."""

from __future__ import annotations

from typing import Any

from fleetpulse.dashboard.downloads import Downloads
from fleetpulse.dashboard.turns import Turns
from fleetpulse.sql.database import Answer
from runtime.config import ClickHouseConfig


class IdleData:
    """Answers every query with nothing."""

    def __init__(self) -> None:
        self.login = ClickHouseConfig(url="http://db:1")
        self.statements = Turns(1, 1, "too many statements")
        self.downloads = Downloads()

    async def ask(self, name: str, values: dict[str, Any], span_ms: int, kept_from_ms: int = 0) -> Answer:
        return Answer((), ())

    async def since_first_event(self, span: Any) -> Any:
        return span

    async def lack(self, kinds: Any, span: Any) -> None:
        return None
