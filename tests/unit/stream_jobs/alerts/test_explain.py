"""Explanations of a change, by the kinds of cases of the Adtributor paper and by what must always hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from schemas.codec.block import Labels
from stream_jobs.alerts.explain import Amounts, Explained, amounts_of, explain, powers, surprises


def amounts(**by_element: Any) -> Amounts:
    """Numbers, or pairs of numerator and denominator."""
    values = np.array([np.atleast_1d(value) for value in by_element.values()], np.float64)
    return Amounts(tuple(by_element), values[:, 0], values[:, 1] if values.shape[1] > 1 else None)


def test_the_paper_s_example_of_revenue() -> None:
    """Table 2 of the paper: revenue fell from 100 to 50; of data centre, advertiser and device only the data centre's
    drop is surprising (X: 94 to 47 and Y: 6 to 3 kept their shares, so the device does not explain it)."""
    before = {
        "datacentre": amounts(x=94, y=6),
        "advertiser": amounts(a1=50, a2=20, a3=20, a4=10),
        "device": amounts(pc=50, mobile=50),
    }
    now = {
        "datacentre": amounts(x=47, y=3),
        "advertiser": amounts(a1=24, a2=21, a3=4, a4=1),
        "device": amounts(pc=49, mobile=1),
    }

    first, *others = explain(now, before)

    assert (first.dimension, first.elements) == ("device", ("mobile",))
    assert first.power == pytest.approx(0.98)
    assert [one.dimension for one in others] == ["advertiser"]


def test_one_tenant_s_errors_explain_the_error_rate() -> None:
    """A ratio: errors / requests rise because of one tenant, though it is a tenth of the requests."""
    before = {
        "tenant": amounts(a=(5, 500), b=(4, 400), c=(1, 100)),
        "region": amounts(eu=(5, 500), us=(5, 500)),
    }
    now = {
        "tenant": amounts(a=(5, 500), b=(4, 400), c=(51, 100)),
        "region": amounts(eu=(30, 500), us=(30, 500)),
    }

    (found,) = explain(now, before)

    assert (found.dimension, found.elements, found.powers) == ("tenant", ("c",), (1.0,))
    assert found.power == 1.0


def test_a_mix_that_shifts_explains_a_mean_that_rises() -> None:
    """Nobody became slower: there are more long prompts, which were slow before. Their bucket explains it."""
    before = {"input_bucket": amounts(short=(900 * 10, 900), long=(100 * 100, 100))}
    now = {"input_bucket": amounts(short=(500 * 10, 500), long=(500 * 100, 500))}

    (found,) = explain(now, before)

    assert found.elements == ("long",)
    assert found.power > 0.67


def test_an_element_that_is_new_explains_its_amount() -> None:
    """A version that was not there before has an expected amount of 0."""
    (found,) = explain({"version": amounts(v1=10, v2=90)}, {"version": amounts(v1=10)})

    assert found == Explained("version", ("v2",), (1.0,), 1.0, found.surprise)
    assert found.surprise > 0


@pytest.mark.parametrize(
    ("now", "before"),
    [
        pytest.param(amounts(a=5, b=5), amounts(a=5, b=5), id="nothing changed"),
        pytest.param(amounts(a=10, b=10), amounts(a=5, b=5), id="all changed alike"),
        pytest.param(amounts(a=10), amounts(a=5), id="one element cannot stand out"),
        pytest.param(amounts(a=(1, 1), b=(1, 1)), amounts(a=(0, 0), b=(0, 0)), id="nothing to divide by before"),
        pytest.param(
            amounts(**{f"e{n}": 20 + n for n in range(12)}),
            amounts(**{f"e{n}": 10 for n in range(12)}),
            id="everybody",
        ),
    ],
)
def test_no_explanation_is_better_than_any(now: Amounts, before: Amounts) -> None:
    """What does not single out few elements is not told."""
    assert explain({"d": now}, {"d": before}) == []


def test_a_dimension_known_on_one_side_only_is_left_out() -> None:
    """There is nothing to compare it with."""
    assert explain({"d": amounts(a=1, b=9)}, {"e": amounts(a=1, b=1)}) == []


def test_rows_add_up_by_label() -> None:
    """Null is an element; words that no row has are not."""
    labels = Labels(np.array([0, 2, 2]), [None, b"unused", b"x"])

    found = amounts_of(labels, np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 1.0]))

    assert found.elements == (None, "x")
    assert found.first.tolist() == [1.0, 5.0]
    assert found.second is not None
    assert found.second.tolist() == [1.0, 2.0]


AMOUNT = st.integers(0, 10_000)
PLAIN = st.lists(st.tuples(AMOUNT, AMOUNT), min_size=2, max_size=8)
RATIO = st.lists(st.tuples(AMOUNT, AMOUNT, st.integers(1, 10_000), st.integers(1, 10_000)), min_size=2, max_size=8)


@given(PLAIN)
def test_powers_of_all_elements_add_to_one(rows: list[tuple[int, int]]) -> None:
    """And surprise is never negative."""
    now, before = np.array(rows, np.float64).T
    names = tuple(str(n) for n in range(len(rows)))
    a, f = Amounts(names, now), Amounts(names, before)
    found = powers(a, f)

    assert len(found) == 0 if now.sum() == before.sum() else found.sum() == pytest.approx(1.0)
    assert (surprises(a, f) >= 0).all()


@given(RATIO)
def test_powers_of_a_ratio_add_to_one(rows: list[tuple[int, int, int, int]]) -> None:
    """Whatever part each element has, and in whatever direction."""
    a1, f1, a2, f2 = np.array(rows, np.float64).T
    names = tuple(str(n) for n in range(len(rows)))
    found = powers(Amounts(names, a1, a2), Amounts(names, f1, f2))
    assume(len(found))

    assert found.sum() == pytest.approx(1.0, abs=1e-6)


@given(RATIO, st.randoms(use_true_random=False))
def test_the_order_of_elements_changes_nothing(rows: list[tuple[int, int, int, int]], draw: Any) -> None:
    """Explanations hang on the amounts alone."""
    shuffled = draw.sample(range(len(rows)), len(rows))

    def both(order: Any) -> tuple[Amounts, Amounts]:
        picked = np.array([rows[place] for place in order], np.float64).T
        names = tuple(f"e{place}" for place in order)
        return Amounts(names, picked[0], picked[2]), Amounts(names, picked[1], picked[3])

    (now, before), (now_shuffled, before_shuffled) = both(range(len(rows))), both(shuffled)
    found = explain({"d": now}, {"d": before})

    assert [one.elements for one in explain({"d": now_shuffled}, {"d": before_shuffled})] == [
        one.elements for one in found
    ]
