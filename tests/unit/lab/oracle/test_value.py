"""Numbers and how near an answer must come."""

from __future__ import annotations

import pytest

from lab.oracle.value import Each, Shown, Value, merged, percentile, percentile_of_bins
from schemas.sketch import quantile


def test_a_percentile_lies_between_its_two_ranks() -> None:
    """Of three values the 95th is between the second and the third, give or take the sketch's error."""
    found = percentile([100, 200, 300], 0.95)

    assert (found.least, found.most) == (200 * (1 - 0.0109), 300 * (1 + 0.0109))
    assert [found.holds(value) for value in (250, 150, float("nan"))] == [True, False, False]


@pytest.mark.parametrize("share", [0, 0.3, 0.5, 0.99, 1])
def test_a_percentile_of_bins_lies_within_those_of_its_two_ranks(share: float) -> None:
    """As a sketch's own does; zeros have a bin."""
    bins = merged([{-1: 2, 40: 1}, {40: 3, 200: 1}])

    assert bins == {-1: 2, 40: 4, 200: 1}
    assert percentile_of_bins(bins, share).holds(quantile(bins, share))
    assert not percentile_of_bins(bins, share).holds(2**9)


@pytest.mark.parametrize(
    ("shown", "held"),
    [(15.2, True), (15.3, True), (15.1, False), (15.4, False), (None, False), (float("nan"), False)],
)
def test_what_is_shown_to_a_tenth_may_differ_by_half_of_it_and_no_more(shown: float | None, held: bool) -> None:
    """Of 15.25 both neighbours are right; null is 0."""
    assert Value(15.25, 15.25).holds(Shown(shown, 0.05)) is held


def test_of_several_answers_each_must_be_right() -> None:
    """One that is wrong is not hidden by another."""
    assert Value(15, 15).holds(Each((15, Shown(15.2, 0.5))))
    assert not Value(15, 15).holds(Each((16, 15)))
    assert not Value(15, 15).holds(Each((15, None)))
