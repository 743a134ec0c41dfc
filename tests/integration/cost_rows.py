"""Two minutes of a small fleet as rows of costs, whose figures can be checked by hand; and what stands beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schemas.codec import native
from schemas.codec.build import block_from_rows
from schemas.contract.headers import NATIVE
from schemas.contract.record import Record
from schemas.contract.topics import COSTS_TOPIC, WINDOW_PARTIALS
from schemas.events.event_types import LLM_REQUESTS
from schemas.fields import Event
from schemas.rows.costs import COSTS
from schemas.rows.usage import USAGE
from sinks.database import SinkDatabase
from tests.integration.sink_rig import store_raw
from tests.unit.sinks.landing_cases import LOG_IDS, derived, partials

BEGIN_MS = 1_795_305_600_000
"""2026-11-22 00:00 UTC."""
Row = dict[str, Any]
LINE = ("tenant", "model", "slo_class", "status", "requests", "prefill_tokens", "cached_tokens", "decode_tokens",
        "kv_token_ms")  # fmt: skip
PART = ("name", "kind", "tenant", "model", "slo_class", "status", "amount", "cost_nusd", "energy_mj", "gpu_ms")
UG_PER_MJ = 2
"""What a millijoule of these bills emitted."""
ACME, INITECH = ("acme", "m", "interactive", "ok"), ("initech", "m", "batch", "error")


def bill(use: str, owner: str, minute: int, lines: Sequence[tuple[Any, ...]], parts: Sequence[tuple[Any, ...]],
         **given: Any) -> Row:  # fmt: skip
    """A row whose totals are the sums of its parts."""
    named = [dict(zip(PART, part, strict=True)) for part in parts]
    lined = [dict(zip(LINE, line, strict=True)) for line in lines]
    sums = {name: sum(one[name] or 0 for one in named) for name in ("cost_nusd", "energy_mj", "gpu_ms")}
    row = {
        "minute_ms": BEGIN_MS + 60_000 * minute, "version": 1, "revision": 0, "final": 1, "weights_version": 1,
        "definition_version": 1, "total_nusd": sums["cost_nusd"], "gpu_nusd": sums["cost_nusd"], "host_nusd": 0,
        "energy_nusd": 0, "gpu_ms": sums["gpu_ms"], "energy_mj": sums["energy_mj"],
        "carbon_ug": UG_PER_MJ * sums["energy_mj"], "meter_mj": sums["energy_mj"] * 5 // 4, "unpriced_gpu_ms": 0,
        "unpriced_energy_mj": 0, "unmeasured_gpu_ms": 0, "estimated_gpu_ms": 0, "use": use, "owner": owner,
        "placement_group": owner, "region": "eu", "host": "h", "gpu_model": "NVIDIA H100 80GB HBM3",
        "prices_version": "p1", **given,
    }  # fmt: skip
    row |= {f"line_{name}": [one[name] for one in lined] for name in LINE}
    row["part_carbon_ug"] = [UG_PER_MJ * one["energy_mj"] for one in named]
    return row | {f"part_{name}": [one[name] for one in named] for name in PART}


ROWS = (
    bill(
        "engine", "e1", 0,
        [(*ACME, 2, 1_000, 500, 200, 9_000), (*INITECH, 1, 100, 0, 0, 400)],
        [
            ("__overhead__", "startup", None, None, None, None, None, 1_000_000, 1_000, 6_000),
            ("request", "prefill", *ACME, 1_000, 10_000_000, 10_000, 20_000),
            ("request", "decode", *ACME, 200, 8_000_000, 8_000, 16_000),
            ("request", "kv", *ACME, 9_000, 2_000_000, 2_000, 4_000),
            ("__overhead__", "prefill", *INITECH, 100, 4_000_000, 3_000, 14_000),
        ],
    ),
    bill(
        "engine", "e1", 1, [],
        [("__wasted__", "held", None, None, None, None, None, 25_000_000, 6_000, 60_000)], final=0,
    ),
    bill(
        "idle", "h", 0, [],
        [("__idle__", "held", None, None, None, None, None, 40_000_000, 7_200, 60_000)],
    ),
    bill(
        "idle", "h", 1, [],
        [("__unpriced__", "held", None, None, None, None, None, None, 7_200, 60_000)],
        total_nusd=None, gpu_nusd=None, host_nusd=None, energy_nusd=None, unpriced_gpu_ms=60_000,
        unpriced_energy_mj=7_200,
    ),
)  # fmt: skip
"""Bill of 0.090 USD: 0.020 for requests, 0.004 failed, 0.001 start-up, 0.025 waiting, 0.040 idle; a minute unpriced."""

_GLOBEX, _CACHED, _NOBODYS, _LEFT = (
    ("globex", "m", "interactive", "ok"),
    ("hooli", "m", "interactive", "ok"),
    (None, "m", None, "ok"),
    ("acme", "m", "interactive", "aborted"),
)
ODD_ROWS = (
    bill(
        "engine", "e2", 0,
        [(*_GLOBEX, 3, 700, 300, 0, 5_000), (*_NOBODYS, 1, 50, 0, 20, 100)],
        [
            ("request", "prefill", *_GLOBEX, 700, 7_000_000, 5_000, 9_000),
            ("request", "kv", *_GLOBEX, 5_000, 3_000_000, 1_000, 2_000),
            ("request", "prefill", *_NOBODYS, 50, 500_000, 400, 900),
            ("request", "decode", *_NOBODYS, 20, 900_000, 700, 1_100),
            ("__unattributed__", "held", None, None, None, None, None, 600_000, 300, 700),
        ],
    ),
    bill(
        "engine", "e3", 1,
        [(*_LEFT, 1, 400, 0, 60, 800)],
        [
            ("request", "prefill", *_LEFT, 400, None, 4_000, 8_000),
            ("request", "decode", *_LEFT, 60, None, 2_000, 4_000),
            ("request", "kv", *_LEFT, 800, None, 1_000, 2_000),
        ],
        total_nusd=None, gpu_nusd=None, host_nusd=None, energy_nusd=None, meter_mj=None, unpriced_gpu_ms=14_000,
        unpriced_energy_mj=7_000,
    )
    | {"carbon_ug": None, "part_carbon_ug": [None] * 3},
    bill(
        "engine", "e4", 0,
        [(*INITECH, 2, 30, 10, 9, 70), (*_LEFT, 1, 40, 10, 3, 90), (*_CACHED, 1, 0, 900, 33, 60)],
        [
            ("__overhead__", "prefill", *INITECH, 30, 310_000, 200, 400),
            ("__overhead__", "decode", *INITECH, 9, 170_000, 100, 300),
            ("__overhead__", "kv", *INITECH, 70, 50_000, 30, 100),
            ("request", "decode", *_CACHED, 33, 290_000, 210, 600),
            ("request", "kv", *_CACHED, 60, 110_000, 80, 200),
            ("request", "prefill", *_LEFT, 40, 410_000, 300, 500),
            ("request", "decode", *_LEFT, 3, 130_000, 90, 200),
            ("request", "kv", *_LEFT, 90, 70_000, 60, 100),
        ],
    ),
)  # fmt: skip
"""Prompts without an answer, one all cached, requests of no tenant, a minute without price, meter or CO2e."""


def costs_record(rows: Sequence[Mapping[str, Any]], offset: int) -> Record:
    """A record of topic ``costs`` with these rows."""
    value = native.encode(COSTS.fields, block_from_rows(COSTS.fields, rows))
    headers = (("schema", COSTS.schema.encode()), ("content-type", NATIVE.encode()))
    return Record(COSTS_TOPIC, 0, offset, BEGIN_MS, None, value, headers)


def log_ids() -> dict[str, str]:
    """Of all topics that these tests land."""
    return {**LOG_IDS, COSTS_TOPIC: "eeee"}


def gpu_rows(limit_w: int, minute: int, energy_mj: int) -> Row:
    """A window of the GPU of engine ``e1``."""
    return {
        "window_ms": BEGIN_MS + 60_000 * minute, "last_at_ms": BEGIN_MS, "event_count": 10, "grouping": "gpu",
        "region": "eu", "host": "h", "gpu_uuid": "GPU-1", "gpu_model": "NVIDIA H100 80GB HBM3", "engine_id": "e1",
        "placement_group": "e1", "util_gpu_pct_sum": 400, "util_gpu_pct_count": 10, "energy_mj_sum": energy_mj,
        "power_limit_mw_sum": 10_000 * limit_w, "power_limit_mw_count": 10, "origin": "measured",
    }  # fmt: skip


def usage_row(minute: int, prefill: int, decode: int) -> Row:
    """What engine ``e1`` computed in a window."""
    return {
        "window_ms": BEGIN_MS + 60_000 * minute, "requests": 1, "prefill_tokens": prefill, "cached_tokens": 0,
        "decode_tokens": decode, "kv_token_ms": 0, "definition_version": 1, "engine_id": "e1", "placement_group": "e1",
        "host": "h", "tenant": "acme", "model": "m", "slo_class": "interactive", "status": "ok",
    }  # fmt: skip


def request(**given: Any) -> Row:
    """A request of model ``m``, well and in time."""
    return {
        "at_ms": BEGIN_MS + 30_000, "host": "h", "model": "m", "tenant": "acme", "slo_class": "interactive",
        "status": "ok", "origin": "measured", "engine_id": "e1", "itl_bins": {}, "request_id": "r",
        "ttft_us": 100_000, "tpot_us": 20_000, "e2e_us": 2_000_000, "input_tokens": 750, "cached_tokens": 250,
        "output_tokens": 100, **given,
    }  # fmt: skip


def land_requests(database: SinkDatabase, rows: Sequence[Mapping[str, Any]]) -> None:
    """Put requests into the raw table."""
    land_events(database, LLM_REQUESTS, [{**row, "request_id": f"r{number}"} for number, row in enumerate(rows)])


def land_events(database: SinkDatabase, event: Event, rows: Sequence[Mapping[str, Any]]) -> None:
    """Put events of one record into their raw table."""
    value = native.encode(event.fields, block_from_rows(event.fields, rows))
    headers = (("schema", event.schema.encode()), ("content-type", NATIVE.encode()))
    appended_ms = max(BEGIN_MS + 60_000, *(int(row["at_ms"]) for row in rows))  # nothing is of the future
    store_raw(database, [Record(event.topic, 0, 0, appended_ms, None, value, headers)], BEGIN_MS)


def land_fleet(database: SinkDatabase, land: Any) -> None:
    """The two minutes: bills, usage, GPU windows at two power limits, three requests."""
    land([costs_record(ROWS, 0)])
    windows = [gpu_rows(700, 0, 24_000), gpu_rows(500, 1, 15_000)]
    land([partials(windows, 1, "gpu.samples")])
    land([derived(USAGE, [usage_row(0, 1_000, 200), usage_row(1, 800, 200)], WINDOW_PARTIALS, 2)])
    failed = {"status": "error", "error_kind": "server", "input_tokens": 100, "cached_tokens": 0, "output_tokens": 0}
    of_initech = request(tenant="initech", slo_class="batch", **failed)
    land_requests(database, [request(), request(ttft_us=900_000), of_initech])
