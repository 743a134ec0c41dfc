"""Where the time of a request went."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetpulse.dashboard.phases import Phase, phases, received_ms, timeline
from fleetpulse.dashboard.theme import LIGHT

TIMES = ("ttft_us", "e2e_us", "queue_us", "prefill_us", "decode_us")


def a_request(**times: int | None) -> dict[str, Any]:
    return {"at_ms": 1_000_000, **dict.fromkeys(TIMES), **times}


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        pytest.param({}, [], id="nothing reported"),
        pytest.param({"ttft_us": 5}, [], id="no end reported"),
        pytest.param({"e2e_us": 9_000}, [Phase("rest", 0, 9_000)], id="only the end reported"),
        pytest.param(
            {"e2e_us": 9_000, "ttft_us": 4_000},
            [Phase("to first token", 0, 4_000), Phase("rest", 4_000, 9_000)],
            id="measured from outside",
        ),
        pytest.param(
            {"e2e_us": 9_000, "ttft_us": 4_000, "queue_us": 1_000, "prefill_us": 3_000, "decode_us": 5_000},
            [Phase("queue", 0, 1_000), Phase("prefill", 1_000, 4_000), Phase("decode", 4_000, 9_000)],
            id="reported by the engine",
        ),
        pytest.param(
            {"e2e_us": 9_000, "queue_us": 20_000}, [Phase("queue", 0, 9_000)], id="a queue longer than the request"
        ),
    ],
)
def test_phases_are_what_was_reported(times: dict[str, int], expected: list[Phase]) -> None:
    """In order, without inventing any."""
    assert phases(a_request(**times)) == expected


@given(st.fixed_dictionaries(dict.fromkeys(TIMES, st.none() | st.integers(0, 2**32 - 1))))
def test_phases_follow_one_another_within_the_request(times: dict[str, int | None]) -> None:
    """Whatever nonsense a sender reports."""
    found = phases(a_request(**times))

    assert all(one.from_us < one.to_us <= (times["e2e_us"] or 0) for one in found)
    assert all(before.to_us == after.from_us for before, after in pairwise(found))


def test_a_request_was_received_its_length_before_its_end() -> None:
    """Not known when the length is not."""
    assert received_ms(a_request(e2e_us=2_500_000)) == 997_500
    assert received_ms(a_request()) is None


def test_the_bar_is_as_long_as_the_request() -> None:
    """One series for each phase, in order."""
    options = timeline([Phase("queue", 0, 10), Phase("decode", 10, 40)], LIGHT)

    assert options["xAxis"]["max"] == 40
    assert [(one["name"], one["data"]) for one in options["series"]] == [("queue", [10]), ("decode", [30])]
    assert timeline([], LIGHT)["series"] == []
