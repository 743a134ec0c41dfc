"""What the export asks of real tables."""

from __future__ import annotations

from typing import Any

import pytest

from fleetpulse.export.series import COLUMNS
from fleetpulse.services.export import Asking
from runtime.config import ClickHouseConfig, Config
from schemas.limits import MINUTE_MS
from tests.integration.test_rising import HOUR, fill

pytestmark = [pytest.mark.integration, pytest.mark.tables]


def test_the_first_window_of_a_range_is_found(clickhouse: Any, clickhouse_config: ClickHouseConfig) -> None:
    """Of each query; none where the range has no rows."""
    fill(clickhouse, "first", {3: (200, 100), 5: (200, 100)})
    ask = Asking(Config(clickhouse=clickhouse_config))

    def first_ms(query: str, from_minute: int, to_minute: int) -> int | None:
        return ask.first_ms(query, HOUR + from_minute * MINUTE_MS, HOUR + to_minute * MINUTE_MS)

    assert first_ms("windows_by_model", 0, 10) == HOUR + 3 * MINUTE_MS
    assert first_ms("windows_by_model", 4, 10) == HOUR + 5 * MINUTE_MS
    assert [first_ms(query, 6, 60) for query in COLUMNS] == [None] * len(COLUMNS)
