"""Goodput of windows, against judging request by request.

Covers stream_jobs.windows.goodput.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.limits import DEFAULT_LIMITS
from stream_jobs.rules.model import SloClass
from stream_jobs.windows.step import WindowsStep
from tests.unit.stream_jobs.windows.cases import (
    BASE_MS,
    PARTITIONS,
    Row,
    a_record,
    a_request,
    fold_all,
    partials,
)

REQUESTS = "llm.requests"
RECORDED = Path(__file__).resolve().parents[3] / "data" / "counterparts"
CLASSES = (SloClass("interactive", 0.99, ttft_us=500, tpot_us=50), SloClass("batch", 0.9, e2e_us=9_000))
COUNTS = ("judged_requests_sum", "good_requests_sum", "good_tokens_sum")
near = st.none() | st.sampled_from((0, 50, 51, 500, 501, 9_000, 9_001))
requests = st.builds(
    a_request,
    st.integers(BASE_MS, BASE_MS + 19_999),
    ttft_us=near,
    tpot_us=near,
    e2e_us=near,
    input_tokens=st.none() | st.integers(0, 9),
    output_tokens=st.none() | st.integers(0, 9),
    tenant=st.sampled_from(("a", "b")),
    slo_class=st.sampled_from((None, "interactive", "batch", "unheard of")),
    status=st.sampled_from(("ok", "error", "aborted", "timeout")),
    error_kind=st.sampled_from((None, "client", "server")),
)


def by_hand(row: Row) -> tuple[int, int, int] | None:
    """Judged, good and good tokens of one request, straight from the definition; None where no class applies."""
    slo = next((one for one in CLASSES if one.name == row["slo_class"]), None)
    if slo is None:
        return None
    bounds = ((row[name], getattr(slo, name)) for name in ("ttft_us", "tpot_us", "e2e_us"))
    missed = any(value is not None and bound is not None and value > bound for value, bound in bounds)
    if row["error_kind"] == "client" or (row["status"] == "aborted" and not missed):
        return 0, 0, 0
    if row["status"] != "ok" or missed:
        return 1, 0, 0
    return 1, 1, (row["input_tokens"] or 0) + (row["output_tokens"] or 0)


def counted(
    rows: list[Row], classes: tuple[SloClass, ...], appended_ms: int = BASE_MS + 20_000
) -> dict[Any, list[int | None]]:
    """Sums of the set ``service`` by window, tenant and class."""
    step = WindowsStep(DEFAULT_LIMITS, PARTITIONS, classes=classes)
    state, changes = fold_all(step, [a_record(REQUESTS, rows, 0, appended_ms)], REQUESTS)
    found: dict[Any, list[int | None]] = {}
    for row in partials(step, state, changes):
        if row["grouping"] == "service":
            key = (row["window_ms"], row["tenant"], row["slo_class"])
            _add(found.setdefault(key, [None] * 3), [row[name] for name in COUNTS])
    return found


def _add(line: list[int | None], counts: list[int | None]) -> None:
    for place, count in enumerate(counts):
        if count is not None:
            line[place] = (line[place] or 0) + count


@given(st.lists(requests, min_size=1, max_size=30))
@settings(max_examples=60, deadline=None)
def test_windows_count_goodput_as_judging_one_by_one(rows: list[Row]) -> None:
    """By window, tenant and class: judged, good, and the tokens of good ones; null where no class applies."""
    expected: dict[Any, list[int | None]] = {}
    for row in rows:
        key = (row["at_ms"] - row["at_ms"] % 10_000, row["tenant"], row["slo_class"])
        _add(expected.setdefault(key, [None] * 3), list(by_hand(row) or (None, None, None)))

    assert counted(rows, CLASSES) == expected


def test_without_classes_nothing_is_judged() -> None:
    """Unknown, not 0 of 0."""
    row = a_request(tenant="a", slo_class="interactive", ttft_us=1)

    assert counted([row], ()) == {(BASE_MS, "a", "interactive"): [None, None, None]}


OBJECTIVES = (SloClass("interactive", 0.99, ttft_us=275_000, tpot_us=32_800), SloClass("batch", 0.9, e2e_us=745_000))


def seen_by_client() -> dict[str, dict[str, float]]:
    """What aiperf measured of each request, in milliseconds and tokens."""
    lines = map(json.loads, (RECORDED / "profile_export.jsonl").read_text().splitlines())
    names = (
        *("time_to_first_token", "inter_token_latency", "request_latency"),
        *("usage_prompt_tokens", "usage_completion_tokens"),
    )
    return {
        line["metadata"]["x_request_id"]: {name: line["metrics"][name]["value"] for name in names} for line in lines
    }


def test_recorded_requests_are_good_where_their_client_says_so() -> None:
    """Eight streams through the proxy, of two tenants and classes: none of their times lies near a bound."""
    kept = json.loads((RECORDED / "rows.json").read_text())
    client = seen_by_client()
    rows = list[Row]()
    expected = {("a", "interactive"): [4, 0, 0], ("b", "batch"): [4, 0, 0]}
    for number, row in enumerate(kept):
        tenant, slo = (("a", "interactive"), ("b", "batch"))[number % 2]
        bins = {int(key): count for key, count in row["itl_bins"].items()}
        rows.append(a_request(**row | {"itl_bins": bins, "tenant": tenant, "slo_class": slo}))
        seen = client[row["request_id"]]
        slow = (seen["time_to_first_token"] > 275 or seen["inter_token_latency"] > 32.8, seen["request_latency"] > 745)
        if not slow[number % 2]:
            tokens = seen["usage_prompt_tokens"] + seen["usage_completion_tokens"]
            expected[tenant, slo] = [4, expected[tenant, slo][1] + 1, expected[tenant, slo][2] + int(tokens)]

    found: dict[tuple[str, str], list[int | None]] = {}
    for (_, tenant, slo), counts in counted(rows, OBJECTIVES, rows[-1]["at_ms"] + 100).items():
        _add(found.setdefault((tenant, slo), [None] * 3), counts)

    assert found == expected
    assert {key: counts[1] for key, counts in found.items()} == {("a", "interactive"): 2, ("b", "batch"): 1}
