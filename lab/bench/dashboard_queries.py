"""What ``bench dashboard`` runs queries with: values as pages give them, of things that are in the tables.

A query that finds nothing has proved nothing: what is looked up by name is picked from the tables, and which tables a
query reads follows from its text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleetpulse.queries import dashboard as catalogue
from fleetpulse.queries.alerts import ALERTS_KEPT_MS
from lab.bench.dashboard_alerts import ALERTS, fingerprint
from lab.bench.dashboard_fleet import TENANTS, gpu_uuid
from lab.bench.dashboard_windows import JOB, METRICS, RANGES_MS
from schemas.limits import MINUTE_MS

AROUND_MS = MINUTE_MS
"""Of a single request the seconds around it are shown, whatever the page's range."""
_AROUND = frozenset({"request_engine", "request_gpus"})
ENGINE = "host-0000-engine-0"
_OF_ONE_ENGINE = _AROUND | {
    *("engine_gpus", "engine_gpus_over_time", "engine_memory", "engine_over_time", "engine_requests")
}
_GIVEN: dict[str, catalogue.Value] = {
    "total": "util_gpu_pct_sum",
    "known": "util_gpu_pct_count",
    "dimension": "tenant",
    "bins": "ttft_us_bins",
    "top": 50,
    "kept_ms": ALERTS_KEPT_MS,
    "near_ms": 0,
    "bytes_max": 2_048,
    "metric": "ttft",
    "slo_classes": ["interactive", "standard"],
    "slo_ttft_us": [500_000, None],
    "slo_tpot_us": [50_000, None],
    "slo_e2e_us": [None, 30_000_000],
    "names": [*TENANTS, None],
}
_OF_ONE_GPU: dict[str, catalogue.Value] = {"gpu_uuid": gpu_uuid(0)}
_OF_QUERIES: Mapping[str, Mapping[str, catalogue.Value]] = {
    "names": {"parts": [TENANTS[0], "gpu-1"]},
    "values_of_gpus": {"dimension": "host"},
    "gpu_identity": _OF_ONE_GPU,
    "gpu_signals": _OF_ONE_GPU,
    **{name: {"host": "host-0000"} for name in ("host_over_time", "host_devices", "host_links")},
    **{name: {"engine_id": ENGINE} for name in _OF_ONE_ENGINE},
    "training_ranks": {"job": JOB},
    "training_over_time": {"job": JOB, "names": [str(rank) for rank in range(8)]},
    "custom_over_time": {"metric": METRICS[0]},
    "requests": {"top": 200},
    "slowest_of_windows": {"top": 200},
    "alert_transitions": {"fingerprint": fingerprint(7)},
    "latency_rise": {"width_ms": MINUTE_MS, "bins": "ttft_us_bins", "quantile": "0.99"},
    "request_cost_of_alert": {"fingerprint": fingerprint(ALERTS - 1)},
}
"""What is not the same for all queries."""
_EMPTY: dict[str, catalogue.Value] = {"String": ""}
"""What a place takes that no page fills: a filter that takes all; numbers are 0."""
_TABLES = re.compile(r"\b(?:FROM|JOIN)\s+([a-z_][a-z0-9_]*)\b(?!\s*[(.])")
_NAMED = re.compile(r"\b(\w+)\s+AS\s*\(")


@dataclass(frozen=True, slots=True)
class Examples:
    """Things of the tables that queries and pages look up by name."""

    request: str = ""
    request_ms: int = 0
    refused: Mapping[str, catalogue.Value] | None = None

    def of(self, query: str) -> Mapping[str, catalogue.Value]:
        """What a query is given of them."""
        if query == "pipeline_rejected_bytes" and self.refused:
            return self.refused
        return {"id": self.request} if query == "request" else {}

    def addresses(self) -> tuple[str, ...]:
        """Pages that show one thing, as links to it say it."""
        one = f"/request?id={self.request}&at={self.request_ms}"
        return (one, f"/gpu?gpu={gpu_uuid(0)}", f"/alerts?alert={fingerprint(7)}", "/requests?order=ttft")


def examples_of(client: Any, to_ms: int) -> Examples:
    """The newest of what was filled; ``client`` is one of clickhouse_connect."""
    (request, at_ms), *_ = client.query(
        f"SELECT request_id, at_ms FROM llm_requests WHERE engine_id IS NOT NULL"
        f" AND at_ms >= {to_ms - 5 * MINUTE_MS} AND at_ms < {to_ms} ORDER BY at_ms DESC LIMIT 1"
    ).result_rows
    refused = client.query(
        "SELECT topic, partition, offset, ifNull(toInt64(row), -1) AS row FROM rejected"
        " ORDER BY appended_ms DESC LIMIT 1"
    )
    return Examples(request, at_ms, dict(zip(refused.column_names, refused.result_rows[0], strict=True)))


def ranges_of(query: catalogue.Query, most_ms: int) -> list[int]:
    """Over which lengths a query is run [ms], of a history of this length."""
    wanted = (AROUND_MS,) if query.name in _AROUND else RANGES_MS
    return [one for one in wanted if one <= most_ms]


def values_of(
    query: catalogue.Query, from_ms: int, to_ms: int, examples: Examples | None = None
) -> dict[str, catalogue.Value]:
    """A value for every place of a query: the range, no filter, and what a page would choose."""
    range_ms = to_ms - from_ms
    known: dict[str, catalogue.Value] = {"from_ms": from_ms, "to_ms": to_ms, "bucket_ms": range_ms // 120, **_GIVEN}
    known["grain_ms"] = query.grain_ms(range_ms)
    known |= _OF_QUERIES.get(query.name, {})
    known |= (examples or Examples()).of(query.name)
    given = {
        name: known.get(name, _EMPTY.get(kind, 0))
        for name, kind in query.parameters.items()
        if name not in query.sources
    }
    return query.values(given, range_ms)


def tables_of(query: catalogue.Query, range_ms: int) -> set[str]:
    """Names of the tables that a query reads over a range of this length."""
    text = query.at_levels(range_ms)
    return set(_TABLES.findall(text)) - set(_NAMED.findall(text))
