"""Every face says the same of any range, and what single requests say when they are counted one by one.

Covers lab.oracle.faces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lab.oracle.run import Comparison, oracle
from schemas.limits import DAY_MS
from tests.integration.request_rows import fill, requests

pytestmark = [pytest.mark.integration, pytest.mark.tables]

RANGES = 12


@pytest.fixture
def compared(clickhouse: Any) -> Comparison:
    """Random ranges of a minute to thirty days, before, across and after the requests."""
    now_ms = int(clickhouse.command("SELECT toUnixTimestamp64Milli(now64(3))"))
    fill(clickhouse, requests(now_ms))

    def ask(sql: str, bound: Mapping[str, Any]) -> list[dict[str, Any]]:
        return list(clickhouse.query(sql, parameters=dict(bound)).named_results())

    return oracle(ask, RANGES, 1, now_ms + DAY_MS)


def test_every_face_says_what_single_requests_say(compared: Comparison) -> None:
    """Counts to the last one, percentiles within the sketch's error, whatever the ends of the range are."""
    differing = [line for line in compared.as_dict()["lines"] if line["different"]]

    assert differing == []
    assert compared.ranges == RANGES
    assert {face for face, _ in compared.lines} == {"views", "dashboard", "grafana", "query"}
    assert all(line.compared >= RANGES // 2 for line in compared.lines.values())
