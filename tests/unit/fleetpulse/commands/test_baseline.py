"""What the table of a curve shows."""

from __future__ import annotations

import pytest

from fleetpulse.baseline.curve import Curve, Point, Setup
from fleetpulse.commands.baseline import show_curve

LATENCY = {"p50": 1_000, "p95": 2_000, "p99": 3_000}


def test_percentiles_of_few_requests_read_few(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of those that were good; gaps between tokens are many more than requests."""
    monkeypatch.setenv("COLUMNS", "200")
    points = [
        Point(at, 100, failed, 1.0, 9.0, ttft_us=LATENCY, itl_us=LATENCY, e2e_us=LATENCY)
        for at, failed in ((1, 0), (2, 1), (4, 81))
    ]

    show_curve(Curve(Setup("m"), tuple(points)), [], None, 5.0)

    rows = [[cell.strip() for cell in line.split("│")] for line in capsys.readouterr().out.splitlines()]
    shown = [line for line in map(" ".join, rows) if "100" in line]
    assert [line.count("few") for line in shown] == [0, 2, 4]
