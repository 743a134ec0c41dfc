"""Where data lies when a range has none of it."""

from __future__ import annotations

import pytest

from fleetpulse.queries.dashboard import query
from fleetpulse.queries.data_ends import QUERY, Lack, Row, kinds_of, lack
from fleetpulse.queries.questions import numbered
from schemas.limits import HOUR_MS, MINUTE_MS

ASKED = (100 * MINUTE_MS, 110 * MINUTE_MS)


def row(kind: str, *minutes: int | None) -> Row:
    names = ("first_ms", "before_ms", "next_ms", "last_ms")
    values = (None if one is None else one * MINUTE_MS for one in minutes)
    return {"kind": kind, **dict(zip(names, values, strict=True))}


def label(from_ms: int, to_ms: int) -> str:
    return f"{from_ms // MINUTE_MS}-{to_ms // MINUTE_MS}"


@pytest.mark.parametrize(
    ("minutes", "says", "nearest", "compared"),
    [
        ((40, 70, None, 70), "no requests in 100-110; data covers 40-71", (61, 71), (61, 71)),
        ((68, 70, None, 70), "no requests in 100-110; data covers 68-71", (68, 71), (70, 71)),
        ((70, 70, None, 70), "no requests in 100-110; data covers 70-71", (70, 71), (70, 71)),
        ((110, None, 110, 140), "no requests in 100-110; data covers 110-141", (110, 120), (131, 141)),
        ((10, 99, 110, 140), "no requests in 100-110; data covers 10-100, and 110-141", (90, 100), (90, 100)),
        ((None,) * 4, "no requests yet", None, None),
    ],
    ids=["before", "less than was asked", "one minute", "after", "a gap", "nothing"],
)
def test_a_range_without_data_has_a_nearest_one_with_data(
    minutes: tuple[int | None, ...],
    says: str,
    nearest: tuple[int, int] | None,
    compared: tuple[int, int] | None,
) -> None:
    """As long as the one that was asked, where there is so much; for a change, half of what there is."""
    found = lack([row("requests", *minutes)], ["requests"], ASKED)

    assert found is not None
    assert found.said(label) == says
    ranges = [None if one is None else tuple(end // MINUTE_MS for end in one)
              for one in (found.nearest(), found.nearest(compared=True))]  # fmt: skip
    assert ranges == [nearest, compared]


@pytest.mark.parametrize("at", [100, 109], ids=["first minute", "last minute"])
def test_a_range_with_data_lacks_nothing(at: int) -> None:
    """On both of its ends; other kinds are not asked for."""
    rows = [row("requests", 40, 70, at, at), row("bills", 40, 70, None, 70)]

    assert lack(rows, ["requests"], ASKED) is None
    assert lack(rows, ["requests", "bills"], ASKED) == Lack(("bills",), ASKED, ((40 * MINUTE_MS, 71 * MINUTE_MS),))


def test_kinds_are_those_of_the_tables_that_a_query_reads() -> None:
    """Each is one that the lookup has."""
    read = {kind for one in numbered().values() for kind in kinds_of(one.sql(HOUR_MS))}

    assert {kind for kind in read if f"'{kind}' AS kind" not in query(QUERY).sql} == set()
    assert kinds_of("SELECT p(0.99, ttft_us_bins) FROM fleetpulse.request_windows_1m") == ("requests",)
    assert kinds_of("SELECT 1 FROM host_costs_of_mine, gpu_samples_rollup_1h") == ("GPU readings",)
