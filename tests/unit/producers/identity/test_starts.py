"""Which requests are cold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from producers.identity.joiner import ENGINES_MAX, Starts
from schemas.contract.engines import Engine

FRESH = Engine("e", "h", "g", started_ms=1_000)


def test_requests_before_the_first_response_of_a_start_has_ended_are_cold() -> None:
    """Also those that wait beside it; a failure ends no cold start."""
    starts = Starts()

    assert starts.of(FRESH, 2_000, 2_500, served=False) == "cold"
    assert starts.of(FRESH, 2_000, 4_000, served=True) == "cold"
    assert starts.of(FRESH, 3_999, 5_000, served=True) == "cold"
    assert starts.of(FRESH, 4_000, 5_000, served=True) == "warm"


def test_an_engine_that_served_before_it_was_seen_is_warm() -> None:
    """An edge that restarts beside a running engine sees no cold start."""
    running = replace(FRESH, warm_ms=1_000)

    assert Starts().of(running, 2_000, 3_000, served=True) == "warm"


def test_a_request_that_is_judged_late_is_cold_by_when_it_came() -> None:
    """Its engine was known only after it had ended, and has served by then: this very request."""
    assert Starts().of(replace(FRESH, warm_ms=3_500), 2_000, 3_000, served=True) == "cold"
    assert Starts().of(replace(FRESH, warm_ms=3_500), 3_500, 4_000, served=True) == "warm"


def test_a_request_of_unknown_duration_is_cold_or_unknown() -> None:
    """It was received before it ended, and who knows how long before: warm is what was received later."""
    starts = Starts()

    assert starts.of(FRESH, None, 2_500, served=False) == "cold"
    assert starts.of(FRESH, None, 4_000, served=True) == "cold"
    assert starts.of(FRESH, None, 3_999, served=True) == "cold"
    assert starts.of(FRESH, None, 4_000, served=True) is None
    assert starts.of(FRESH, 4_000, 5_000, served=True) == "warm"


def test_a_new_start_is_cold_again() -> None:
    """The start is told apart by its time; that the agent calls it warm by now does not undo what was cold."""
    starts = Starts()
    starts.of(FRESH, 2_000, 3_000, served=True)

    assert starts.of(replace(FRESH, warm_ms=3_700), 3_500, 4_000, served=True) == "warm"
    assert starts.of(replace(FRESH, started_ms=9_000), 10_000, 11_000, served=True) == "cold"


@pytest.mark.parametrize("unknown", [{"started_ms": None}, {"responding": False, "warm_ms": 1_500}])
def test_without_a_start_nothing_is_said(unknown: dict[str, Any]) -> None:
    """Unknown is null; of an engine that did not answer, too: another process may answer by now."""
    assert Starts().of(replace(FRESH, **unknown), 2_000, 3_000, served=True) is None


def test_engines_followed_are_bounded() -> None:
    """The one not seen for longest is forgotten, and is cold again while its agent calls it so; the one seen first is
    kept while it is seen."""
    starts = Starts()
    others = [replace(FRESH, engine_id=str(number)) for number in range(ENGINES_MAX)]
    starts.of(FRESH, 2_000, 3_000, served=True)
    for other in others[:-1]:
        starts.of(other, 2_000, 3_000, served=True)
    starts.of(FRESH, 4_000, 5_000, served=True)
    starts.of(others[-1], 2_000, 3_000, served=True)

    assert starts.of(FRESH, 4_000, 5_000, served=True) == "warm"
    assert starts.of(others[0], 4_000, 5_000, served=True) == "cold"
