from __future__ import annotations

from typing import Any

import pytest

from fleetpulse.commands.progress import Progress
from lab.bench import agent, proxy
from lab.bench.command_parts import EDGE, edge, measured_edge
from schemas.errors import ConfigError

TOLD = {"nvml_calls_per_s": 100.0, "delay_cpu_us": 10.0, "collectors": [], "heavy_modules": []}


@pytest.mark.parametrize(
    ("spent_s", "peak_bytes", "within"),
    [
        ([0.005] * 2, 120 * 2**20, {"cpu": True, "memory": True}),
        ([0.001, 0.001, 0.014], 1, {"cpu": False, "memory": True}),
        ([0.0, 0.006, 0.006], 120 * 2**20 + 1, {"cpu": True, "memory": False}),
    ],
    ids=["on the bounds", "the mean is above, the median is not", "memory is above, and the median"],
)
def test_the_mean_second_and_the_peak_are_judged(
    spent_s: list[float], peak_bytes: int, within: dict[str, bool]
) -> None:
    """Half a per cent of a core, 120 MiB."""
    memory = {"resident_bytes": 1, "resident_peak_bytes": peak_bytes}

    assert agent._result(spent_s, memory, TOLD, False, 8)["within"] == within


def test_the_delays_are_told_apart() -> None:
    """100 calls a second at 10 us are a thousandth of a core."""
    figures = agent._result([0.004, 0.005, 0.009], {"resident_bytes": 1, "resident_peak_bytes": 1}, TOLD, False, 8)

    assert figures["cpu_share_median"] == 0.005
    assert figures["cpu_share_of_delays"] == 0.001
    assert figures["cpu_share_median_without_delays"] == 0.004
    assert figures["cpu_us"] == [4_000, 5_000, 9_000]


def test_a_part_that_there_is_not_is_named_with_those_that_are() -> None:
    """Before anything is measured."""
    assert list(EDGE) == ["agent", "agent_engine", "proxy", "sdk"]
    with pytest.raises(ConfigError, match="agent, agent_engine, proxy, sdk"):
        edge(Progress(), 1, 1, ["agent", "nothing"])


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ({}, []),
        ({"added_ttft_p99_us": 1_000.1}, ["proxy.added_ttft_p99_us"]),
        ({"added_chunk_p99_us": 1_001}, ["proxy.added_chunk_p99_us"]),
        ({"chunks_per_cpu_s": None}, ["proxy.chunks_per_cpu_s"]),
        ({"chunks_per_cpu_s": 19_999}, ["proxy.chunks_per_cpu_s"]),
        ({"streams_identical": False}, ["proxy.streams_identical"]),
        ({"events": 63}, ["proxy.events"]),
    ],
)
def test_the_proxy_is_held_to_its_bounds(
    change: dict[str, Any], broken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On each of them, and one beyond each."""
    figures = {"added_ttft_p99_us": 1_000, "added_chunk_p99_us": 1_000, "chunks_per_cpu_s": 20_000, "events": 64}
    whole = figures | {"events_expected": 64, "streams_identical": True, "targets": proxy.TARGETS} | change
    monkeypatch.setattr(proxy, "run", lambda rounds: whole | {"rounds": rounds})

    found = edge(Progress(), 1, 2 * proxy.ROUND_S + 1, ["proxy"])

    assert (found.result["proxy"]["rounds"], found.wrong) == (2, {"beyond its bound": broken})


def test_bounds_that_are_not_kept_are_named() -> None:
    """By part; parts without bounds keep them."""
    result = {"a": {"within": {"cpu": True, "memory": False}, "x": 1.5, "flag": True, "list": [1]}, "b": {"y": "z"}}

    found = measured_edge(result)
    ((_, _, rows),) = found.tables

    assert found.wrong == {"beyond its bound": ["a.memory"]}
    assert rows == [("a", "x", 1.5), ("b", "y", "z")]
