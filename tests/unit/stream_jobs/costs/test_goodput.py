"""Goodput: who is good, who is left out, and what that leaves of the error budget."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_jobs.costs.goodput import VERDICTS, Goodput, Served, goodput, verdicts
from stream_jobs.costs.wide import ints
from stream_jobs.rules.model import SloClass

CLASSES = (
    SloClass("interactive", 0.99, ttft_us=500_000, tpot_us=50_000),
    SloClass("batch", 0.9, e2e_us=60_000_000),
    SloClass("anything", 0.5),
)
USUAL: dict[str, Any] = {
    "slo_class": 0,
    "ok": True,
    "aborted": False,
    "client_fault": False,
    "ttft_us": 500_000,
    "tpot_us": 50_000,
    "e2e_us": 90_000_000,
    "input_tokens": 10,
    "output_tokens": 5,
}
FLAGS = {"ok", "aborted", "client_fault"}


def served(*rows: dict[str, Any]) -> Served:
    columns = {name: [(USUAL | row)[name] for row in rows] for name in USUAL}
    return Served(**{n: np.array(c, dtype=np.bool_) if n in FLAGS else ints(c) for n, c in columns.items()})


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        pytest.param({}, "good", id="on the objectives"),
        pytest.param({"ttft_us": 500_001}, "missed", id="a microsecond above one of them"),
        pytest.param({"tpot_us": 50_001}, "missed", id="above the other"),
        pytest.param({"ttft_us": None, "tpot_us": None}, "good", id="what is not known is not judged"),
        pytest.param({"ttft_us": None, "tpot_us": 50_001}, "missed", id="the one that is known is missed"),
        pytest.param({"ok": False}, "failed", id="failed in time"),
        pytest.param({"ok": False, "ttft_us": 900_000}, "failed", id="failed and late is one failure"),
        pytest.param({"ok": False, "client_fault": True}, "left_out", id="the client's fault"),
        pytest.param({"ok": False, "aborted": True}, "left_out", id="the client left in time"),
        pytest.param({"ok": False, "aborted": True, "ttft_us": 900_000}, "missed", id="the client waited too long"),
        pytest.param({"slo_class": 1}, "missed", id="another class, other objectives"),
        pytest.param({"slo_class": 1, "e2e_us": 60_000_000, "ttft_us": 10**9}, "good", id="no objective, no miss"),
        pytest.param({"slo_class": 2, "ttft_us": 10**9}, "good", id="a class without latencies: it answered"),
        pytest.param({"slo_class": 2, "ok": False}, "failed", id="a class without latencies: it did not"),
        pytest.param({"slo_class": -1, "ok": False}, "not_judged", id="no class"),
    ],
)
def test_the_verdict_on_a_request(row: dict[str, Any], verdict: str) -> None:
    """Interactive: first token in half a second, then one every 50 ms; batch: all of it in a minute."""
    found, _ = verdicts(served(row), CLASSES)

    assert VERDICTS[found[0]] == verdict


def test_counts_of_a_class() -> None:
    """Each request once among good, missed, failed, left out; an objective counts whoever missed it."""
    rows = [
        {},
        {"tpot_us": None, "output_tokens": None},
        {"ttft_us": 10**9, "tpot_us": 10**9},
        {"ok": False},
        {"ok": False, "client_fault": True},
        {"slo_class": -1},
    ]
    expected = Goodput(
        good=2,
        missed=1,
        failed=1,
        left_out=1,
        missed_ttft_us=1,
        missed_tpot_us=1,
        unjudged=1,
        good_input_tokens=20,
        good_output_tokens=5,
    )

    assert goodput(served(*rows), CLASSES) == [expected, Goodput(), Goodput()]


def test_attainment_and_the_error_budget() -> None:
    """Of 1,000 at 99 %: ten bad ones are the whole budget, five half of it, twenty twice."""
    slo = CLASSES[0]

    assert Goodput(good=995, missed=3, failed=2).attainment() == 0.995
    assert Goodput(good=995, missed=5).budget_left(slo) == pytest.approx(0.5)
    assert Goodput(good=990, failed=10).budget_left(slo) == pytest.approx(0)
    assert Goodput(good=980, missed=20).budget_left(slo) == pytest.approx(-1)
    assert Goodput(good=980, missed=20).burn_rate(slo) == pytest.approx(2)


def test_without_requests_nothing_is_known() -> None:
    """None, not 100 %; and a class that allows nothing to be bad has no budget."""
    assert Goodput(left_out=5).attainment() is None
    assert Goodput(left_out=5).budget_left(CLASSES[0]) is None
    assert Goodput(left_out=5).burn_rate(CLASSES[0]) is None
    assert Goodput(good=5).budget_left(SloClass("perfect", 1.0)) is None
    assert goodput(served(), CLASSES) == [Goodput()] * 3


LATENCY = st.one_of(st.none(), st.integers(0, 10**8))
REQUEST = st.fixed_dictionaries(
    {
        "slo_class": st.integers(-1, 2),
        "ok": st.booleans(),
        "client_fault": st.booleans(),
        "ttft_us": LATENCY,
        "tpot_us": LATENCY,
        "e2e_us": LATENCY,
    }
)


@given(rows=st.lists(REQUEST, max_size=12), cut=st.integers(0, 12))
@settings(max_examples=50)
def test_counts_add_and_agree_with_one_request_at_a_time(rows: list[dict[str, Any]], cut: int) -> None:
    """Two parts add up to the whole, and plain Python says the same."""
    whole = goodput(served(*rows), CLASSES)

    halves = zip(goodput(served(*rows[:cut]), CLASSES), goodput(served(*rows[cut:]), CLASSES), strict=True)
    assert [a + b for a, b in halves] == whole
    for number, slo in enumerate(CLASSES):
        mine = [row for row in rows if row["slo_class"] == number and not (row["client_fault"])]
        assert whole[number].judged == len(mine)
        assert whole[number].good == sum(row["ok"] and met(row, slo) for row in mine)


def met(row: dict[str, Any], slo: SloClass) -> bool:
    pairs = [(row[name], getattr(slo, name)) for name in ("ttft_us", "tpot_us", "e2e_us")]
    return all(value is None or bound is None or value <= bound for value, bound in pairs)
