"""View ``latency_by_concurrency``: requests of an engine in a window beside how many it ran at that time.

A request belongs to the window of its end; concurrency is the mean of the engine's ``running`` over that window, all of
its models together. ``at_once`` puts it on powers of two (the nearest), so that sketches merge by it. Windows in which
the engine reported no running batch are left out. Good requests alone have latencies here.
"""

from __future__ import annotations

from schemas.ddl.columns import Column, create
from schemas.definitions import END, METRICS

NAME = "latency_by_concurrency"
_LABEL = "LowCardinality(Nullable(String))"
_LABELS = {
    "cluster": "cluster",
    "region": "region",
    "host": "machine",
    "engine_id": "the engine",
    "placement_group": "engines that share any GPU; else the host",
    "model": "model as served",
    "model_version": "its version",
    "precision": "of its weights",
    "origin": "where the requests come from",
}
_SKETCHES = {
    "ttft_us_bins": "TTFT",
    "itl_bins": "ITL",
    "tpot_us_bins": "TPOT",
    "e2e_us_bins": "E2E",
    "queue_us_bins": "time in the queue",
}
_TOKENS = {"input_tokens_sum": "prompt tokens", "output_tokens_sum": "generated tokens"}


def view() -> str:
    """Its CREATE statement."""
    names = list(_LABELS)
    shown: list[tuple[Column, str]] = [
        (Column("window", "DateTime('UTC')", "start of the 10 s window, event time"),
         "toDateTime(intDiv(r.window_ms, 1000), 'UTC')"),
        (Column("window_ms", "Int64", "start of the 10 s window, event time, UTC [ms]"), "r.window_ms"),
        *((Column(name, _LABEL, meaning), f"r.{name}") for name, meaning in _LABELS.items()),
        (Column("running", "Float64", "mean number of requests the engine ran at one time"), "e.running"),
        (Column("at_once", "UInt32", "the same on the nearest power of two, at least 1"), at_once("e.running")),
        (Column("requests", "UInt64", "requests that ended"), "r.requests"),
        (Column("failed", "UInt64", f"of them: {METRICS['failed'].meaning}"), "r.failed"),
        *((Column(name, "Map(Int16, UInt64)", f"sketch of {what} of good requests [us]"), f"r.{name}")
          for name, what in _SKETCHES.items()),
        *((Column(name, "Nullable(Int64)", f"{what} of good requests"), f"r.{name}") for name, what in _TOKENS.items()),
    ]  # fmt: skip
    ok = [f"sumMapIf(p.{name}, {END['ok']}) AS {name}" for name in _SKETCHES]
    ok += [f"sumIf(p.{name}, {END['ok']}) AS {name}" for name in _TOKENS]
    requests = ",\n        ".join([
        "p.window_ms AS window_ms", *(f"p.{name} AS {name}" for name in names), "sum(p.event_count) AS requests",
        f"sumIf(p.event_count, {END['failed']}) AS failed", *ok,
    ])  # fmt: skip
    of_requests = (
        f"(\n    SELECT\n        {requests}\n    FROM llm_requests_partials AS p FINAL\n"
        f"    WHERE p.grouping = 'engine' AND p.engine_id IS NOT NULL\n"
        f"    GROUP BY p.window_ms, {', '.join(f'p.{name}' for name in names)}\n)"
    )
    source = (
        f"{of_requests} AS r\nINNER JOIN {running()} AS e ON r.window_ms = e.window_ms AND r.engine_id = e.engine_id"
    )
    picked = ",\n    ".join(f"{sql} AS {column.name}" for column, sql in shown)
    comment = "latencies of an engine's requests beside its running batch, by 10 s window"
    columns = [column for column, _ in shown]
    return create("CREATE OR REPLACE VIEW", NAME, columns, f"AS SELECT\n    {picked}\nFROM {source}", comment)


def at_once(running: str) -> str:
    """The power of two that stands for a mean batch."""
    return f"toUInt32(exp2(round(log2(greatest(1, {running})))))"


def running() -> str:
    """A subquery: mean running batch by window and engine. Models of one engine add up."""
    return (
        "(\n    SELECT s.window_ms AS window_ms, s.engine_id AS engine_id,\n"
        "        sum(assumeNotNull(s.mean_running)) AS running\n    FROM (\n"
        "        SELECT p.window_ms AS window_ms, p.engine_id AS engine_id, p.model AS model,\n"
        "            sum(toInt128(p.running_sum)) / nullIf(sum(p.running_count), 0) AS mean_running\n"
        "        FROM engine_samples_partials AS p FINAL\n        WHERE p.grouping = 'engine_sample'\n"
        "        GROUP BY p.window_ms, p.engine_id, p.model\n    ) AS s\n    WHERE s.mean_running IS NOT NULL\n"
        "    GROUP BY s.window_ms, s.engine_id\n)"
    )
