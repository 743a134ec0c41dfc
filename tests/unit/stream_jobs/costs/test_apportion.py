"""Largest remainder: nothing is lost, ties have a rule, products beyond 64 bits stay exact."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_jobs.costs.apportion import apportion, apportion_one
from stream_jobs.costs.wide import UNKNOWN, ints, multiply_divide, rounded

SMALL = st.integers(0, 2**50 - 1)
LARGE = st.integers(0, 2**63 - 1)
WEIGHTS = st.lists(st.one_of(st.integers(0, 5), st.integers(0, 2**59)), min_size=1, max_size=8)


def exactly(total: int, weights: list[int]) -> list[int]:
    """The method as it stands in textbooks, with fractions."""
    quotas = [Fraction(total * weight, sum(weights)) for weight in weights]
    parts = [int(quota) for quota in quotas]
    order = sorted(range(len(weights)), key=lambda i: (parts[i] - quotas[i], i))
    for i in order[: total - sum(parts)]:
        parts[i] += 1
    return parts


@pytest.mark.parametrize(
    ("total", "weights", "parts"),
    [
        pytest.param(0, [], [], id="nothing for nobody"),
        pytest.param(0, [0, 0], [0, 0], id="nothing needs no weight"),
        pytest.param(7, [0, 3], [0, 7], id="no weight gets nothing"),
        pytest.param(1, [1, 1, 1], [1, 0, 0], id="a tie goes to the lowest index"),
        pytest.param(5, [1, 1, 1], [2, 2, 1], id="two units left go to the first two"),
        pytest.param(10, [3, 3, 1], [4, 4, 2], id="largest remainder first"),
        pytest.param(2**62, [1, 2**61], [2, 2**62 - 2], id="far beyond the fast bounds"),
    ],
)
def test_parts_by_hand(total: int, weights: list[int], parts: list[int]) -> None:
    """Small cases that can be checked by hand."""
    assert apportion_one(total, weights) == parts


@given(rows=st.lists(st.tuples(st.one_of(SMALL, st.integers(0, 2**62)), WEIGHTS), min_size=1, max_size=6))
@settings(max_examples=70)
def test_many_rows_equal_the_textbook(rows: list[tuple[int, list[int]]]) -> None:
    """All rows at once give what the textbook gives for each; so every row adds up."""
    given_rows = [(total if any(weights) else 0, weights) for total, weights in rows]
    starts = np.cumsum([0] + [len(weights) for _, weights in given_rows])

    parts = apportion(ints([total for total, _ in given_rows]), ints([w for _, row in given_rows for w in row]), starts)

    for i, (total, weights) in enumerate(given_rows):
        mine = parts[starts[i] : starts[i + 1]].tolist()
        assert sum(mine) == total
        assert mine == (exactly(total, weights) if total else [0] * len(weights))


@given(total=SMALL, weights=WEIGHTS.filter(any))
def test_a_greater_weight_never_gets_less(total: int, weights: list[int]) -> None:
    """Parts are ordered as their weights are."""
    parts = [part for _, part in sorted(zip(weights, apportion_one(total, weights), strict=True))]

    assert parts == sorted(parts)


@given(total=SMALL, weights=WEIGHTS.filter(any), seed=st.randoms())
def test_order_matters_to_ties_alone(total: int, weights: list[int], seed: object) -> None:
    """Shuffled weights get the same parts when equal weights are compared as a bag, and remainders do not tie."""
    remainders = [total * weight % sum(weights) for weight in weights]
    tied = {r for r in remainders if remainders.count(r) > 1}
    order = list(range(len(weights)))
    seed.shuffle(order)  # type: ignore[attr-defined]

    parts = apportion_one(total, weights)
    shuffled = apportion_one(total, [weights[i] for i in order])

    assert all(shuffled[at] == parts[i] for at, i in enumerate(order) if remainders[i] not in tied)
    assert all(abs(shuffled[at] - parts[i]) <= 1 for at, i in enumerate(order))


@pytest.mark.parametrize(
    ("total", "weights", "told"),
    [
        pytest.param(1, [0, 0], "row 0: 1 to share out and no weight above 0", id="nobody takes it"),
        pytest.param(1, [], "row 0: 1 to share out and no weight above 0", id="there is nobody"),
        pytest.param(-1, [1], "totals and weights must not be negative", id="a negative total"),
        pytest.param(1, [-1, 2], "totals and weights must not be negative", id="a negative weight"),
        pytest.param(1, [2**62, 2**62], "the weights of a row add up to more", id="weights beyond 64 bits"),
    ],
)
def test_what_cannot_be_shared_is_refused(total: int, weights: list[int], told: str) -> None:
    """No guess and no wrap-around."""
    with pytest.raises(ValueError, match=told):
        apportion_one(total, weights)


@given(a=LARGE, b=st.one_of(LARGE, st.integers(0, 2**12)), divisor=st.integers(1, 2**63 - 1))
@settings(max_examples=120)
def test_products_beyond_64_bits_divide_exactly(a: int, b: int, divisor: int) -> None:
    """Quotient and remainder are Python's, in the fast way and the slow one."""
    if a * b // divisor >= 2**63:
        with pytest.raises(OverflowError):
            multiply_divide(ints([a]), ints([b]), ints([divisor]))
        return

    quotient, remainder = multiply_divide(ints([a]), ints([b]), ints([divisor]))

    assert (int(quotient[0]), int(remainder[0])) == divmod(a * b, divisor)


@given(a=st.integers(0, 2**59), b=st.integers(0, 2**40), divisor=st.integers(2**50, 2**61))
def test_the_fast_way_is_exact(a: int, b: int, divisor: int) -> None:
    """Numbers of the size of bills, whose quotient is below the fast bound."""
    quotient, remainder = multiply_divide(ints([a]), ints([b]), ints([divisor]))

    assert (int(quotient[0]), int(remainder[0])) == divmod(a * b, divisor)


@given(a=st.integers(2**61, 2**62), b=st.integers(2**60, 2**61), divisor=st.integers(2**60, 2**61))
def test_a_quotient_too_large_for_a_guess_goes_the_slow_way(a: int, b: int, divisor: int) -> None:
    """A guess of 62 bits is off by thousands of divisors, more than 64 bits tell apart."""
    if a * b // divisor >= 2**63:
        return

    quotient, remainder = multiply_divide(ints([a]), ints([b]), ints([divisor]))

    assert (int(quotient[0]), int(remainder[0])) == divmod(a * b, divisor)


def test_halves_are_rounded_to_even() -> None:
    """5/2 is 2, 7/2 is 4, 4/3 is 1, 5/3 is 2; a divisor near the top does not wrap."""
    top = 2**63 - 1

    assert rounded(ints([5, 7, 4, 5, top - 1]), ints([1] * 5), ints([2, 2, 3, 3, top])).tolist() == [2, 4, 1, 2, 1]


def test_columns_hold_null_and_refuse_fractions() -> None:
    """None has its own mark; floats would round."""
    assert ints([1, None]).tolist() == [1, UNKNOWN]
    assert ints([]).tolist() == []
    with pytest.raises(TypeError, match="float64 is no column of whole numbers"):
        ints(np.array([1.0]))
