"""Limits: the defaults hold, and each relation that does not is named with its key, value and bound."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.errors import ConfigError
from schemas.limits import DAY_MS, DEFAULT_LIMITS, Limits

BROKEN = [
    ({"batch_bytes_max": 2 * DEFAULT_LIMITS.record_bytes_max - 1}, "limits.batch_bytes_max"),
    ({"out_of_orderness_ms": 1_499}, "limits.out_of_orderness_ms"),
    ({"hot_ms": 2_499}, "limits.hot_ms"),
    ({"final_wait_ms": 1_999}, "limits.final_wait_ms"),
    ({"spool_age_ms": DEFAULT_LIMITS.allowed_lateness_ms + 1}, "limits.allowed_lateness_ms"),
    (
        {"source_retention_ms": DEFAULT_LIMITS.allowed_lateness_ms + DEFAULT_LIMITS.outage_ms - 1},
        "limits.source_retention_ms",
    ),
    ({"partials_retention_ms": DEFAULT_LIMITS.outage_ms + DEFAULT_LIMITS.hot_ms - 1}, "limits.partials_retention_ms"),
    ({"raw_ttl_ms": DEFAULT_LIMITS.allowed_lateness_ms + DEFAULT_LIMITS.source_retention_ms - 1}, "limits.raw_ttl_ms"),
    ({"partials_ttl_ms": DEFAULT_LIMITS.source_retention_ms + 2 * DAY_MS - 1}, "limits.partials_ttl_ms"),
    ({"rollup_ttl_ms": DEFAULT_LIMITS.partials_ttl_ms - 1}, "limits.rollup_ttl_ms"),
    ({"costs_ttl_ms": DEFAULT_LIMITS.partials_ttl_ms - 1}, "limits.costs_ttl_ms"),
    ({"source_expiry_ms": DEFAULT_LIMITS.spool_age_ms}, "limits.source_expiry_ms"),
    ({"offsets_retention_ms": DEFAULT_LIMITS.outage_ms}, "limits.offsets_retention_ms"),
]


@pytest.mark.parametrize(("change", "key"), BROKEN, ids=[key for _, key in BROKEN])
def test_a_relation_that_does_not_hold_is_named(change: dict[str, int], key: str) -> None:
    """One beyond the bound stops start-up; on the bound is fine."""
    with pytest.raises(ConfigError, match="must be") as caught:
        Limits(**change)

    assert caught.value.key == key


@pytest.mark.parametrize(
    "change",
    [
        {"out_of_orderness_ms": 1_500},
        {"hot_ms": 2_500},
        {"final_wait_ms": 2_000},
        {"spool_age_ms": DEFAULT_LIMITS.allowed_lateness_ms},
        {"partials_ttl_ms": DEFAULT_LIMITS.source_retention_ms + 2 * DAY_MS},
        {"rollup_ttl_ms": DEFAULT_LIMITS.partials_ttl_ms, "costs_ttl_ms": DEFAULT_LIMITS.partials_ttl_ms},
        {"source_expiry_ms": DEFAULT_LIMITS.spool_age_ms + 1},
    ],
)
def test_on_the_bound_is_allowed(change: dict[str, int]) -> None:
    """Relations include their bound."""
    Limits(**change).check()


def test_rows_of_10_s_are_kept_since_their_ttl() -> None:
    """What every answer goes by that reads minutes before."""
    assert Limits(partials_ttl_ms=20 * DAY_MS).kept_from_ms(21 * DAY_MS) == DAY_MS


@pytest.mark.parametrize("value", [0, -1, 1.5, "10", None])
@pytest.mark.parametrize("name", ["batch_events_max", "raw_ttl_ms"])
def test_a_limit_is_a_whole_number_above_zero(name: str, value: Any) -> None:
    """Anything else is refused with key and value."""
    with pytest.raises(ConfigError, match=f"limits.{name} = {value!r}: must be a whole number above 0"):
        Limits(**{name: value})
