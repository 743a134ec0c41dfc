"""Windows that the tests of evidence share: one engine on two GPUs, and requests of two models."""

from __future__ import annotations

from typing import Any

from schemas.codec.block import Block
from schemas.codec.build import block_from_rows
from schemas.contract.alerts import Alert
from schemas.rows.tables import EXEMPLARS, PARTIALS
from stream_jobs.insight.frame import Window

BASE_MS = 1_800_000_000_000
STEP_MS = 10_000


def rows_of_topic(topic: str, rows: list[dict[str, Any]]) -> Block:
    """Partial rows; what is not named is null, 0 or empty."""
    fields = PARTIALS[topic].fields
    zero = {"UInt64": 0, "Int64": 0, "UInt32": 1, "Map(Int16, UInt64)": {}}
    blank = {field.name: zero.get(field.kind.value) for field in fields}
    return block_from_rows(fields, [{**blank, **row} for row in rows])


def exemplars(rows: list[dict[str, Any]]) -> Block:
    blank: dict[str, Any] = {field.name: None for field in EXEMPLARS.fields}
    return block_from_rows(EXEMPLARS.fields, [{**blank, **row} for row in rows])


def a_gpu(uuid: str = "GPU-1", **fields: Any) -> dict[str, Any]:
    base = {"grouping": "gpu", "gpu_uuid": uuid, "engine_id": "e1", "host": "h1", "event_count": 10}
    return {**base, "interval_ms_sum": 10_000, "throttled_us_sum": 0, **fields}


def a_service(
    tenant: str, requests: int, failed: int = 0, ttft_us: int = 100_000, **fields: Any
) -> list[dict[str, Any]]:
    """Rows of a tenant, those that failed apart."""
    base = {"grouping": "service", "tenant": tenant, "model": "m1", "region": "eu", **fields}
    good = {"status": "ok", "event_count": requests, "ttft_us_count": requests, "ttft_us_sum": requests * ttft_us}
    rows = [{**base, **good}]
    return [*rows, {**base, "status": "error", "event_count": failed}] if failed else rows


def an_exemplar(request_id: str, metric: str = "ttft", value_us: int | None = 1, **fields: Any) -> dict[str, Any]:
    base = {"window_ms": BASE_MS, "metric": metric, "value_us": value_us, "request_id": request_id, "engine_id": "e1"}
    return {**base, "model": "m1", "host": "edge", "tenant": "a", "status": "ok", "origin": "measured", **fields}


def a_window(number: int = 0, **blocks: Any) -> Window:
    """The ``number``-th window; ``requests``, ``gpus``, ``engines``, ``events`` are rows."""
    topics = {"requests": "llm.requests", "gpus": "gpu.samples", "engines": "engine.samples", "events": "gpu.events"}
    tables = {topics[name]: rows_of_topic(topics[name], rows) for name, rows in blocks.items() if name in topics}
    found = exemplars(blocks["exemplars"]) if "exemplars" in blocks else None
    return Window(BASE_MS + number * STEP_MS, tables, found)


def an_alert(rule: str = "ttft_slow", since: int = 0, **fields: Any) -> Alert:
    """An alert that began with the ``since``-th window."""
    since_ms = BASE_MS + since * STEP_MS
    base: dict[str, Any] = {
        "labels": {},
        "opened_ms": since_ms + STEP_MS,
        "since_ms": since_ms,
        "at_ms": since_ms + STEP_MS,
    }
    texts = {"severity": "warning", "summary": "", "advice": ""}
    return Alert(
        **{"fingerprint": "0" * 16, "transition": "opened", "number": 1, "rule": rule, **texts, **base, **fields}
    )
