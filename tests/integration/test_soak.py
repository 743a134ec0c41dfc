"""What the soak asks of a server while the load is on."""

from __future__ import annotations

from typing import Any

import pytest

from lab.soak.run import query_p95_ms

pytestmark = [pytest.mark.integration, pytest.mark.tables]


def test_every_query_of_a_page_is_asked_and_answered(clickhouse: Any) -> None:
    """As pages ask it: nothing is refused, over a range without an event too."""
    refused: dict[str, str] = {}

    took_ms = query_p95_ms(clickhouse, refused)

    assert refused == {}
    assert took_ms > 0
