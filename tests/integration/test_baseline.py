"""``fleetpulse baseline`` against the paced engine of the proxy's bench, in a process of its own, and ``plan``.

Covers fleetpulse.commands.baseline and fleetpulse.commands.plan.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetpulse.baseline.curve import RATES
from fleetpulse.cli import app
from lab.bench.proxy_engine import Pace
from schemas.sketch import RELATIVE_ERROR_MAX

RUNNER = CliRunner()


@contextmanager
def engine(pace: Pace) -> Iterator[str]:
    """Its address."""
    words = json.dumps({"tokens": pace.tokens, "first_ms": pace.first_ms, "gap_ms": pace.gap_ms})
    with subprocess.Popen(
        [sys.executable, "-m", "lab.bench.proxy_engine", words], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def _baseline(url: str, *more: str) -> tuple[int, dict[str, object]]:
    words = ["baseline", url, "--model", "mock", "--concurrency", "1,4", "--requests", "8", "--output-tokens", "10"]
    answer = RUNNER.invoke(app, [*words, *more, "--json"])
    return answer.exit_code, json.loads(answer.stdout)


def _scaled(measured: Path, to: Path, *, rates: float, **factors: float) -> None:
    """Write a measured curve with latencies and rates times these factors, as another engine's would be."""
    curve = json.loads(measured.read_text())
    for point in curve["points"]:
        for latency, factor in factors.items():
            point[latency] = {percentile: us * factor for percentile, us in point[latency].items()}
        point |= {rate: rates * point[rate] for rate in RATES if point[rate] is not None}
    to.write_text(json.dumps(curve))


@pytest.mark.integration
def test_a_slower_engine_is_worse_than_its_curve(tmp_path: Path) -> None:
    """An engine's pace is a floor of what is measured of it; beside the curve of a slower engine it compares as good,
    beside that of an engine with quicker gaps as worse (exit 1) in ITL and E2E."""
    kept, slow, quick, near = (tmp_path / f"{name}.json" for name in ("curve", "slow", "quick", "near"))
    with engine(Pace(10, 60.0, 60.0)) as url:
        code, found = _baseline(url, "--out", str(kept))
        _scaled(kept, slow, ttft_us=1_000, itl_us=1_000, e2e_us=1_000, rates=0.001)
        _scaled(kept, quick, ttft_us=1_000, itl_us=0.001, e2e_us=0.001, rates=0.001)
        _scaled(kept, near, ttft_us=1_000, itl_us=0.3, e2e_us=0.6, rates=0.001)
        again, same = _baseline(url, "--compare", str(slow), "--margin", "150")
        worse, slower = _baseline(url, "--compare", str(quick), "--margin", "150")
        _, nearer = _baseline(url, "--compare", str(near), "--margin", "150")
    planned = RUNNER.invoke(app, ["plan", "--curve", str(kept), "--traffic", "100", "--gpus-per-engine", "2", "--json"])
    strict = RUNNER.invoke(app, ["plan", "--curve", str(kept), "--traffic", "1", "--ttft-ms", "1"])

    points = found["points"]
    assert isinstance(points, list)
    assert (code, [(one["concurrency"], one["requests"], one["failed"]) for one in points]) == (
        0,
        [(1, 8, 0), (4, 8, 0)],
    )
    for one in points:
        assert one["ttft_us"]["p50"] >= 60_000
        assert one["e2e_us"]["p50"] >= 60_000 + 9 * 60_000
        assert one["itl_us"]["p50"] < one["e2e_us"]["p50"]
        longest_us = one["itl_us"]["p99"] / (1 - RELATIVE_ERROR_MAX)
        assert one["ttft_us"]["p99"] + 9 * longest_us >= 60_000 + 9 * 60_000
        assert one["output_tokens_per_s"] == pytest.approx(10 * one["requests_per_s"], rel=0.01)
    assert (again, [one for one in same["compared"] if one["worse"]]) == (0, [])  # type: ignore[attr-defined]
    best = max(one["requests_per_s"] for one in points)
    engines = ceil(100 / (best * 0.8))
    assert (planned.exit_code, json.loads(planned.stdout)["engines"]) == (0, engines)
    assert json.loads(planned.stdout)["gpus"] == 2 * engines
    assert strict.exit_code == 1
    assert worse == 1
    named = {(one["concurrency"], one["measure"]) for one in slower["compared"] if one["worse"]}  # type: ignore[attr-defined]
    assert named >= {(each, measure) for each in (1, 4) for measure in ("itl_us p50", "e2e_us p50")}
    assert not {measure for _, measure in named} & {"ttft_us p50", "failed"}
    judged = {one["measure"]: one for one in nearer["compared"] if one["concurrency"] == 1}  # type: ignore[attr-defined]
    for one in (judged["itl_us p50"], judged["e2e_us p50"]):
        assert one["worse"] is (one["after"] > 2.5 * one["before"]), one


@pytest.mark.integration
def test_another_experiment_is_not_compared(tmp_path: Path) -> None:
    """Exit 2, and what differs; nobody there is exit 1."""
    kept = tmp_path / "curve.json"
    with engine(Pace(10, 1.0, 1.0)) as url:
        _baseline(url, "--out", str(kept))
        other = RUNNER.invoke(app, ["baseline", url, "--model", "other", "--compare", str(kept)])
    gone = RUNNER.invoke(app, ["baseline", url, "--model", "mock"])

    assert "another experiment: model mock and other" in str(other.exception)
    assert "did not answer a request" in str(gone.exception)
