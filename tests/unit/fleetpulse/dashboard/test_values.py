"""Numbers and names as people read them."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from fleetpulse.dashboard.values import (
    FEW,
    ago,
    clean,
    energy,
    microseconds,
    middle,
    percent,
    percentile,
    percentile_cells,
    short,
    size,
    watts,
)
from fleetpulse.dashboard.view import mark_of


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (short, 0, "0"),
        (short, 999, "999"),
        (short, 1_000, "1k"),
        (short, 12_345, "12.3k"),
        (short, 1.234, "1.23"),
        (short, -2_500_000, "-2.5M"),
        (short, 0.001, "1.0e-03"),
        (microseconds, 850, "850 µs"),
        (microseconds, 12_300, "12.3 ms"),
        (microseconds, 4_560_000, "4.56 s"),
        (microseconds, 192_000_000, "3.2 min"),
        (percent, 0.1234, "12.3 %"),
        (percent, 0.00012, "0.012 %"),
        (percent, 0, "0.0 %"),
        (size, 80 * 2**30, "80 GiB"),
        (size, 12, "12 B"),
        (watts, 350, "350 W"),
        (watts, 21_700, "21.7 kW"),
        (energy, 1_044, "0.29 Wh"),
        (energy, 3_600, "1 Wh"),
        (energy, 78_120_000, "21.7 kWh"),
        (ago, 0, "now"),
        (ago, 12_000, "12 s"),
        (ago, 300_000, "5 min"),
        (ago, 9 * 86_400_000, "9 d"),
    ],
)
def test_a_number_is_short_and_has_its_unit(write: Callable[[float | None], str], value: float, text: str) -> None:
    """Three digits that count."""
    assert write(value) == text


@pytest.mark.parametrize("write", [short, microseconds, percent, size, watts, energy, ago])
def test_what_is_not_known_is_a_dash(write: Callable[[float | None], str]) -> None:
    """Never a zero."""
    assert write(None) == "–"


def test_not_a_number_is_not_known() -> None:
    """It can come of a database's 0 / 0."""
    assert short(math.nan) == microseconds(math.nan) == percent(math.nan) == "–"


def test_names_show_what_can_not_be_seen() -> None:
    """Control characters and marks that turn the direction of writing."""
    assert clean("a\x00b\u202ec\n") == "a\\x00b\\u202ec\\n"
    assert clean(None) == "–"
    assert clean("x" * 201) == "x" * 199 + "…"


def test_long_ids_keep_both_ends() -> None:
    """Ids of one sender differ at the end."""
    assert middle("6871b202e53000000004ae74") == "6871b2…000004ae74"
    assert middle("short") == "short"


def test_percentiles_become_cells_and_what_was_not_found_is_unknown() -> None:
    """None where nothing was found, and where a sketch was empty."""
    assert percentile_cells(("ttft", "e2e", "tpot"), [([1.0, 2.0], 20), None, ([], 0)]) == {
        "ttft_p50": 1.0, "ttft_p95": 2.0, "ttft_p99": None, "ttft_counted": 20, "e2e_counted": 0, "tpot_counted": 0,
        **{f"{name}_{each}": None for name in ("e2e", "tpot") for each in ("p50", "p95", "p99")},
    }  # fmt: skip


def test_a_percentile_of_few_values_says_so() -> None:
    """Which they are depends on the percentile; as a duration it stays the word."""
    cells = {counted: percentile_cells(("ttft",), [([1.0, 2.0, 3.0], counted)]) for counted in (1, 19, 20, 99, 100)}

    shown = {counted: [one[f"ttft_{each}"] for each in ("p50", "p95", "p99")] for counted, one in cells.items()}
    assert shown == {1: [FEW] * 3, 19: [1.0, FEW, FEW], 20: [1.0, 2.0, FEW], 99: [1.0, 2.0, FEW], 100: [1.0, 2.0, 3.0]}
    assert [percentile(7.0, counted, "p99") for counted in (34, 99, 100)] == [FEW, FEW, 7.0]
    assert percentile(None, 5, "p99") is None
    assert microseconds(FEW) == "few"


@pytest.mark.parametrize(
    ("row", "name"),
    [
        (("changed", "engine_version 0.31.0 -> 0.32.0; load_ms 4 -> 5", "main"), "0.32.0"),
        (("changed", "model_version main -> v2", "v2"), "v2"),
        (("changed", None, "main"), "main"),
        (("marked", "canary", None), "canary"),
        (("marked", "a -> b", None), "a -> b"),
        (("marked", None, None), "marked"),
    ],
)
def test_a_mark_is_named_by_what_is_new(row: tuple[str, str | None, str | None], name: str) -> None:
    """What an engine changed to stands on a chart, also where its model stays."""
    kind, message, version = row

    assert mark_of({"begun_ms": 7, "a_kind": kind, "a_message": message, "model_version": version}) == (7, name)
