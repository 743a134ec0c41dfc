"""Curve of live traffic: rows of the query ``latency_by_concurrency`` as a curve to plan with. Pure.

Rates of a row are of one engine, and a point's are of good requests: client faults and aborted requests say nothing of
what an engine carries, so that they are no requests of a point. Concurrencies at which hardly a good request ended are
left out: their latencies are chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fleetpulse.baseline.curve import PERCENTILES, Curve, Latency, Point, Setup
from schemas.errors import FleetpulseError

REQUESTS_MIN = 20
"""So many good requests ended at a concurrency, at least."""


def curve_of_windows(rows: Iterable[Mapping[str, Any]], setup: Setup) -> Curve:
    """The curve; ``FleetpulseError`` where no concurrency had enough requests."""
    points = tuple(_point(row) for row in rows if row["ok_requests"] >= REQUESTS_MIN)
    if not points:
        raise FleetpulseError(
            f"no concurrency of {setup.model} with {REQUESTS_MIN} good requests on an engine that reports its running "
            "batch; choose a longer --last, or measure with `fleetpulse baseline`"
        )
    return Curve(setup, points)


def _point(row: Mapping[str, Any]) -> Point:
    good, failed = row["ok_requests"], row["failed_requests"]
    seconds = row["requests"] / row["requests_per_s"]
    return Point(
        concurrency=row["at_once"],
        requests=good + failed,
        failed=failed,
        seconds=round(seconds, 3),
        requests_per_s=good / seconds,
        input_tokens_per_s=row["input_tokens_per_s"] or None,
        output_tokens_per_s=row["output_tokens_per_s"] or None,
        ttft_us=_latency(row["ttft_us"]),
        itl_us=_latency(row["itl_us"]),
        e2e_us=_latency(row["e2e_us"]),
    )


def _latency(values: list[float]) -> Latency:
    """No values: not measured."""
    return dict(zip(PERCENTILES, (round(each) for each in values), strict=False)) or dict.fromkeys(PERCENTILES)
