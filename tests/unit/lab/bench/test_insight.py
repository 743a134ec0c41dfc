"""``lab.bench.insight``: figures beside their bounds."""

from __future__ import annotations

from typing import Any

from lab.bench import insight


def a_result(per_s: float, each_bytes: float, snapshot_bytes: int, load_s: float) -> dict[str, Any]:
    snapshot = {"bytes": snapshot_bytes, "dump_s": 0.1, "load_s": load_s}
    return {
        "by_rule": {"deviation": {"per_s": per_s}},
        "together": {"per_s": per_s},
        "projection": {"gpu.samples": 1_000.0},
        "memory": {"deviation": {"bytes": 100.0, "bytes_after_an_hour": each_bytes}},
        "snapshot": {"with season": snapshot},
    }


def test_what_is_on_its_bound_holds() -> None:
    """Rates at least, memory, size and time at most."""
    assert insight.outside(a_result(200_000.0, 1_024.0, 100_000_000, 2.0)) == []


def test_what_is_beyond_its_bound_is_named() -> None:
    """Each by its own name."""
    names = ["deviation", "together", "memory of deviation", "snapshot with season"]

    assert insight.outside(a_result(199_999.0, 1_024.1, 100_000_001, 0.1)) == names
    assert insight.outside(a_result(200_000.0, 1.0, 1, 2.1)) == ["snapshot with season"]


def test_all_figures_are_shown() -> None:
    """With their bounds."""
    found = insight.rows(a_result(200_000.4, 1_000.0, 5, 2.0))

    assert [(value, bound) for _, value, bound in found] == [
        (200_000, ">= 200,000"),
        (200_000, ">= 200,000"),
        (1_000, ""),
        (1_000, "<= 1,024"),
        (5, "<= 100,000,000"),
        (0.1, "<= 2.0"),
        (2.0, "<= 2.0"),
    ]


def test_a_small_run_counts_what_it_did() -> None:
    """Series times windows times rules."""
    case = insight._cases()[0]

    found = insight._rate(case, case.rules[:2], 50, 2, 1)

    assert found["series_windows"] == 200
    assert found["per_s"] == 200 / found["cpu_s"]
    assert insight._projection(case, 50, 1, 1) > 0
