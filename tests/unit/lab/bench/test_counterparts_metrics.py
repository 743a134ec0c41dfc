"""Figures from a client's export: the formulas by hand, a recorded export whole, and verdicts at their bounds."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.bench.counterparts_metrics import (
    METRICS,
    QUANTILES,
    Ours,
    Seen,
    compare,
    exactly,
    gaps_per_token,
    judged,
    metrics_of_client,
    percentiles_of_rows,
    quantiles_of,
    read_export,
)

DATA = Path(__file__).resolve().parents[3] / "data" / "counterparts"
MS = 1_000_000
COUNTS = {
    "requests": (8, 8),
    "requests_matched": (8, 8),
    "requests_ok": (8, 8),
    "input_tokens": (548, 548),
    "output_tokens": (132, 132),
    "chunks": (132, 132),
    "gaps": (124, 124),
}
DIFFERENCES = {
    "ttft_us": pytest.approx({0.5: 1_918.0, 0.95: 8_517.65, 0.99: 10_147.53}),
    "e2e_us": pytest.approx({0.5: -588.0, 0.95: 2_742.4, 0.99: 3_161.28}),
    "requests_with_other_counts": 0,
}


def recorded() -> list[Seen]:
    raw, metrics = (
        (DATA / name).read_text().splitlines() for name in ("profile_export_raw.jsonl", "profile_export.jsonl")
    )
    return read_export(raw, metrics)


def rows() -> tuple[dict[str, Any], ...]:
    told = json.loads((DATA / "rows.json").read_text())
    return tuple(row | {"itl_bins": {int(key): count for key, count in row["itl_bins"].items()}} for row in told)


def message(at_ms: int, body: object) -> dict[str, Any]:
    value = body if isinstance(body, str) else json.dumps(body)
    return {"perf_ns": 5 * MS + at_ms * MS, "packets": [{"name": "data", "value": value}]}


def exported(*messages: dict[str, Any], status: int = 200) -> Seen:
    """A request that was started at 5 ms of one clock and 100 ms of the other, and sent 2 ms later."""
    metadata = {"x_request_id": "a", "request_start_ns": 100 * MS}
    raw = {"metadata": metadata, "start_perf_ns": 5 * MS, "responses": messages, "status": status}
    metrics = {"metadata": metadata, "trace_data": {"request_send_end_ns": 102 * MS}}
    return read_export([json.dumps(raw)], [json.dumps(metrics)])[0]


def delta(**fields: object) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields}]}


def test_a_stream_is_read_by_our_definitions() -> None:
    """The role, the finish reason and the usage are no chunks; the last byte is that of the end mark."""
    seen = exported(
        message(10, delta(role="assistant", content="")),
        message(20, delta(content="a")),
        message(26, delta(reasoning_content="b")),
        message(36, delta(tool_calls=[{"index": 0}])),
        message(37, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        message(38, {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 4}}),
        message(39, "[DONE]"),
    )

    assert seen == Seen("a", 2_000, 20_000, 39_000, (6_000, 10_000), 3, 7, 4, 200)


def test_nothing_came() -> None:
    """A refused request has no first chunk and no tokens, and that is not 0."""
    seen = exported(status=429)

    assert seen == Seen("a", 2_000, None, 0, (), 0, None, None, 429)
    assert metrics_of_client([seen], "sent")["ttft_us"] == []


@pytest.mark.parametrize(
    ("chunk_ms", "output_tokens", "gaps_us"),
    [
        pytest.param((), None, (), id="no chunk"),
        pytest.param((5,), 9, (), id="one chunk"),
        pytest.param((0, 6, 10), None, (6_000, 4_000), id="usage unknown"),
        pytest.param((0, 6, 10), 4, (6_000, 4_000), id="one more is the end of the sequence"),
        pytest.param((0, 6, 10), 5, (3_000, 3_000, 2_000, 2_000), id="two more are spread"),
        pytest.param((0, 6, 10), 2, (6_000, 4_000), id="fewer than the chunks"),
    ],
)
def test_gaps_per_token(chunk_ms: tuple[int, ...], output_tokens: int | None, gaps_us: tuple[int, ...]) -> None:
    """A gap counts once for each token of the later chunk."""
    assert gaps_per_token([at_ms * MS for at_ms in chunk_ms], output_tokens) == gaps_us


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=60), st.integers(0, 300))
def test_every_token_after_the_first_chunk_has_a_gap(chunk_ns: list[int], output_tokens: int) -> None:
    """There are as many gaps as tokens that came, less those of the first chunk."""
    count = len(chunk_ns)
    total = output_tokens if output_tokens > count + 1 else count

    assert len(gaps_per_token(sorted(chunk_ns), output_tokens)) == total - total // count


@given(st.lists(st.integers(0, 3_600_000_000), min_size=1, max_size=300))
def test_percentiles_lie_between_the_two_ranks_around_theirs(values: list[int]) -> None:
    """On the way from one to the next, in exact arithmetic."""
    ordered, expected = sorted(values), {}
    for q, percent in zip(QUANTILES, (50, 95, 99), strict=True):
        rank, part = divmod(percent * (len(values) - 1), 100)
        above = ordered[min(rank + 1, len(values) - 1)]
        expected[q] = float(ordered[rank] + Fraction(part, 100) * (above - ordered[rank]))

    assert quantiles_of(values) == pytest.approx(expected, rel=1e-12)
    assert quantiles_of([]) == dict.fromkeys(QUANTILES)


def test_a_recorded_export_agrees_with_the_rows_of_the_same_requests() -> None:
    """Counts are the same, request by request; times differ by what the run's own two clocks did, which moves the
    median and the tail of so few by more than a sketch may."""
    found = compare(recorded(), Ours(rows(), percentiles_of_rows(rows())))

    assert {name: (count["client"], count["ours"]) for name, count in found["counts"].items()} == COUNTS
    assert found["request_by_request"]["sent"] == DIFFERENCES
    apart = [(each["metric"], each["percentile"]) for each in found["percentiles"]["sent"] if not each["agrees"]]
    assert apart == [("ttft_us", 50.0), ("itl_us", 99.0)]
    assert not found["agrees"]


def test_sketches_of_recorded_rows_are_close_to_what_the_rows_say() -> None:
    """Within the grid's error, whatever the client saw."""
    ours = percentiles_of_rows(rows())

    for metric, exact in exactly(rows()).items():
        assert ours[metric] == pytest.approx(exact, rel=0.0109)


def test_the_recorded_export_figures() -> None:
    """The client's own mean gap of each request is the mean of the gaps that are read here."""
    metrics = [json.loads(line) for line in (DATA / "profile_export.jsonl").read_text().splitlines()]
    told = {each["metadata"]["x_request_id"]: each["metrics"] for each in metrics}

    for seen in recorded():
        figures = told[seen.request_id]
        assert seen.first_us == pytest.approx(figures["time_to_first_token"]["value"] * 1_000, abs=1)
        assert np.mean(seen.gaps_us) == pytest.approx(figures["inter_token_latency"]["value"] * 1_000, abs=1)
        assert seen.output_tokens == figures["output_sequence_length"]["value"]
        assert seen.input_tokens == figures["usage_prompt_tokens"]["value"]


@pytest.mark.parametrize(
    ("ours_us", "agrees"),
    [
        pytest.param(203_200.0, True, id="as much above as is allowed"),
        pytest.param(203_201.0, False, id="one more"),
        pytest.param(196_800.0, True, id="as much below as is allowed"),
        pytest.param(196_799.0, False, id="one less"),
        pytest.param(None, False, id="unknown on one side"),
    ],
)
def test_verdicts_at_their_bounds(ours_us: float | None, agrees: bool) -> None:
    """1.1 % of the client's value and 1 ms are allowed, here 3.2 ms of 200 ms, no more."""
    client = {name: [200_000] for name in METRICS}
    ours = {name: dict.fromkeys(QUANTILES, ours_us) for name in METRICS}

    assert [each["agrees"] for each in judged(client, ours)] == [agrees] * 9


def test_a_lost_request_is_told() -> None:
    """A row too few, or another request's row, is a difference whatever the percentiles say."""
    found = compare(recorded(), Ours(rows()[1:], percentiles_of_rows(rows())))

    assert not found["agrees"]
    assert not found["counts"]["requests"]["agrees"]
    assert not found["counts"]["requests_matched"]["agrees"]
