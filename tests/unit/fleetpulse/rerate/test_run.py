"""Bills computed again from stored windows are those that the cost job would have emitted."""

from __future__ import annotations

from typing import Any

import pytest

from fleetpulse.rerate.run import Stored, fields_of, keys_of, newer, rerated, total_nusd
from schemas.codec.build import rows_of
from schemas.rows.costs import COSTS
from schemas.rows.gpu_shares import SHARES
from schemas.rows.tables import PARTIALS
from schemas.rows.usage import USAGE
from stream_jobs.costs.account import Prices

GPU = PARTIALS["gpu.samples"]
MINUTE_MS = 1_795_305_600_000
HOURLY = Prices(3_600_000_000, 0, 0, 1_000_000, None)
"""A microdollar a GPU-millisecond, so that sums can be seen."""


def gpu_rows(*rows: dict[str, Any]) -> Stored:
    """Windows of GPUs of engine ``e``, ten seconds each."""
    usual = {"window_ms": MINUTE_MS, "engine_id": "e", "host": "h", "workload": "inference", "placement_group": "e",
             "gpu_uuid": "G", "gpu_model": "H100", "region": None, "parent_uuid": None, "mig_profile": None,
             "interval_ms_sum": 10_000, "energy_mj_sum": 5, "log_offset": 0}  # fmt: skip
    return stored(GPU, [usual | row for row in rows])


def usage_rows(*rows: dict[str, Any]) -> Stored:
    """Usage of engine ``e``."""
    usual = {"window_ms": MINUTE_MS, "requests": 1, "prefill_tokens": 1, "cached_tokens": 0, "decode_tokens": 0,
             "kv_token_ms": 0, "definition_version": 1, "engine_id": "e", "placement_group": "e", "host": "h",
             "tenant": "t", "model": "m", "slo_class": None, "status": "ok", "log_offset": 0}  # fmt: skip
    return stored(USAGE, [usual | row for row in rows])


def share_rows(**memory: int) -> Stored:
    """What engines held of GPU ``G``."""
    usual = {"window_ms": MINUTE_MS, "readings": 1, "memory_readings": 1, "sm_readings": 0, "sm_util_pct": None,
             "definition_version": 1, "placement_group": "e", "host": "h", "gpu_uuid": "G",
             "log_offset": 9}  # fmt: skip
    return stored(SHARES, [usual | {"engine_id": engine, "memory_bytes": held} for engine, held in memory.items()])


def stored(table: Any, rows: list[dict[str, Any]]) -> Stored:
    return Stored(table, {field.name: [row[field.name] for row in rows] for field in fields_of(table)})


def bills(*tables: Stored) -> list[dict[str, Any]]:
    block, failed = rerated(tables, lambda *_asked: HOURLY, "v2")
    assert block is not None
    assert failed == []
    return rows_of(COSTS.fields, block)


def test_nothing_stored_makes_no_bill() -> None:
    """A range without windows is left as it is."""
    assert rerated([gpu_rows(), usage_rows()], lambda *_asked: HOURLY, "v2") == (None, [])


def test_a_bill_is_final_and_knows_its_last_row_and_prices() -> None:
    """Revision is the greatest offset of the minute; the parts are the tenants'."""
    (bill,) = bills(
        gpu_rows({"log_offset": 7}, {"window_ms": MINUTE_MS + 10_000, "log_offset": 9}),
        usage_rows({"log_offset": 8}, {"tenant": "u", "prefill_tokens": 3, "log_offset": 11}),
    )

    assert (bill["revision"], bill["version"], bill["final"], bill["prices_version"]) == (11, 23, 1, "v2")
    assert (bill["gpu_ms"], bill["total_nusd"]) == (20_000, 20_000_000)
    assert list(zip(bill["part_tenant"], bill["part_cost_nusd"], strict=True)) == [
        ("t", 5_000_000),
        ("u", 15_000_000),
    ]


def test_what_cannot_be_billed_is_said_and_costs_no_other_bill() -> None:
    """Of one group and minute: all others are rated again."""

    def priced(*asked: Any) -> Prices:
        if "V100" in map(str, asked):
            raise ValueError("beyond all bounds")
        return HOURLY

    rows = gpu_rows({}, {"placement_group": "f", "engine_id": "f", "gpu_model": "V100", "gpu_uuid": "F"})
    block, (failed,) = rerated([rows], priced, "v2")

    assert block is not None
    assert [owner for _, owner, *_ in keys_of(block)] == ["e"]
    assert (failed.group, failed.minute_ms, failed.cause) == ("f", MINUTE_MS, "ValueError: beyond all bounds")


def test_engines_side_by_side_pay_by_what_they_held() -> None:
    """Stored share rows count as they did for the cost job."""
    found = bills(gpu_rows({"engine_id": None}), share_rows(a=30, b=10))

    assert {bill["owner"]: bill["total_nusd"] for bill in found} == {"a": 7_500_000, "b": 2_500_000, "h": 0}


def test_minutes_apart_are_bills_apart_and_all_are_told() -> None:
    """A day of minutes is not forgotten on the way."""
    found = bills(gpu_rows(*({"window_ms": MINUTE_MS + n * 60_000, "log_offset": n} for n in range(1_500))))

    assert len(found) == 1_500
    assert {bill["final"] for bill in found} == {1}
    assert found[-1]["minute_ms"] == MINUTE_MS + 1_499 * 60_000


@pytest.mark.parametrize(
    ("stood", "version"),
    [
        ({}, 2),
        ({MINUTE_MS: 0}, 2),
        ({MINUTE_MS: 1}, 2),
        ({MINUTE_MS: 2}, 4),
        ({MINUTE_MS: 9}, 10),
        ({MINUTE_MS: 10}, 12),
    ],
)
def test_a_new_bill_is_newer_than_the_one_that_stands(stood: dict[int, int], version: int) -> None:
    """Whatever revision it has: the greater version counts in the table. None equals a final one of the cost job,
    which are odd: of two equal ones the last that was written would count."""
    block, _ = rerated([gpu_rows({})], lambda *_asked: HOURLY, "v2")
    assert block is not None

    made = newer(block, {("engine", "e", "e", minute): number for minute, number in stood.items()})

    assert [row["version"] for row in rows_of(COSTS.fields, made)] == [version]
    assert keys_of(made) == [("engine", "e", "e", MINUTE_MS)]
    assert total_nusd(made) == 10_000_000


def test_without_prices_a_bill_is_unknown_not_zero() -> None:
    """And its sum is that of what is known."""
    block, _ = rerated([gpu_rows({})], lambda *_asked: Prices(None, None, None, None, None), "v2")
    assert block is not None

    assert [row["total_nusd"] for row in rows_of(COSTS.fields, block)] == [None]
    assert total_nusd(block) == 0
