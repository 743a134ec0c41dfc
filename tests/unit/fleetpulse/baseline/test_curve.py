"""The file of a curve, the list of concurrencies, and what of a later curve is worse."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from fleetpulse.baseline.curve import (
    CONCURRENCY_MAX,
    Curve,
    Point,
    Setup,
    comparable,
    concurrencies,
    curve_of,
    differences,
    text_of,
)
from schemas.errors import ConfigError

SETUP = Setup("m", "http://e:1", "2026-11-24T00:00:00+00:00", "0.32.0", "H100", 1, 512, 128)
POINT = Point(
    4, 200, 0, 100.0, 2.0, 1_024.0, 256.0,
    ttft_us={"p50": 100_000, "p95": 200_000, "p99": 210_000},
    itl_us={"p50": 10_000, "p95": 12_000, "p99": 20_000},
    e2e_us={"p50": 1_400_000, "p95": 1_500_000, "p99": 1_500_000},
)  # fmt: skip
CURVE = Curve(SETUP, (POINT,))


def test_a_curve_comes_back_from_its_file() -> None:
    """Also beside keys of a newer file."""
    newer = orjson.dumps(orjson.loads(text_of(CURVE)) | {"later": 1})

    assert curve_of(text_of(CURVE), "c.json") == curve_of(newer, "c.json") == CURVE


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b'{"format": "fleetpulse.baseline/2"}',
        b'{"format": "fleetpulse.baseline/1", "model": "m"}',
        b'{"format": "fleetpulse.baseline/1", "model": "m", "points": []}',
        b'{"format": "fleetpulse.baseline/1", "model": "m", "points": [{"concurrency": 1}]}',
        text_of(Curve(SETUP, (POINT, POINT))),
        text_of(Curve(SETUP, (replace(POINT, concurrency=0),))),
    ],
    ids=["empty", "a list", "another format", "no points", "none", "half a point", "twice", "nobody at once"],
)
def test_a_file_that_is_no_curve_is_named(text: bytes) -> None:
    """The error says which file."""
    with pytest.raises(ConfigError, match=r"c\.json"):
        curve_of(text, "c.json")


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("1", (1,)),
        ("1,2,4..32", (1, 2, 4, 8, 16, 32)),
        ("1..6", (1, 2, 4, 6)),
        ("8, 2,2", (2, 8)),
        ("3..3", (3,)),
    ],
)
def test_a_range_doubles_up_to_its_end(text: str, steps: tuple[int, ...]) -> None:
    """Rising, each once, the end included."""
    assert concurrencies(text) == steps


@pytest.mark.parametrize("text", ["", "a", "0", "-1", "1..", "..4", "1..x", str(CONCURRENCY_MAX + 1), "1,,2", "²"])
def test_other_concurrencies_are_refused(text: str) -> None:
    """The error names the option."""
    with pytest.raises(ConfigError, match="--concurrency"):
        concurrencies(text)


def test_a_curve_is_not_worse_than_itself() -> None:
    """Every number both have is compared: six latencies, two rates."""
    found = differences(CURVE, CURVE, 0.0)

    assert len(found) == 8
    assert not any(each.worse for each in found)


@pytest.mark.parametrize(
    ("changed", "worse"),
    [
        ({"ttft_us": {**POINT.ttft_us, "p95": 230_000}}, []),
        ({"ttft_us": {**POINT.ttft_us, "p95": 230_001}}, ["ttft_us p95"]),
        ({"ttft_us": {**POINT.ttft_us, "p95": 1}}, []),
        ({"itl_us": {**POINT.itl_us, "p50": None}}, []),
        ({"output_tokens_per_s": 200.0, "requests_per_s": 1.8}, ["output_tokens_per_s"]),
        ({"failed": 3}, ["failed"]),
    ],
    ids=["at the margin", "above it", "faster", "not measured", "less throughput", "more failures"],
)
def test_worse_is_above_the_margin_in_the_bad_direction(changed: dict[str, object], worse: list[str]) -> None:
    """15 %: more latency, less throughput, more failures."""
    after = Curve(SETUP, (replace(POINT, **changed),))  # type: ignore[arg-type]

    assert [each.measure for each in differences(CURVE, after, 0.15) if each.worse] == worse


@pytest.mark.parametrize(
    ("requests", "failed", "judged"), [(200, 0, True), (199, 0, False), (200, 1, False), (16, 0, False)]
)
@pytest.mark.parametrize("few_before", [True, False], ids=["of the earlier curve", "of this one"])
def test_p95_is_judged_where_ten_good_requests_lie_above_it(
    requests: int, failed: int, judged: bool, few_before: bool
) -> None:
    """In both curves; medians are of any number, and gaps between tokens are more than requests."""
    slow = {each: 2 * us for each, us in POINT.ttft_us.items() if us is not None}
    slower = replace(POINT, ttft_us=slow, e2e_us={**POINT.e2e_us, "p95": 3_000_000}, itl_us={"p95": 24_000})
    few = replace(POINT if few_before else slower, requests=requests, failed=failed)
    was, now = (few, slower) if few_before else (POINT, few)

    found = {each.measure: each for each in differences(Curve(SETUP, (was,)), Curve(SETUP, (now,)), 0.15)}

    assert [found[name].worse for name in ("ttft_us p50", "itl_us p95")] == [True, True]
    assert [found[name].worse for name in ("ttft_us p95", "e2e_us p95")] == [judged, judged]
    assert {name for name, each in found.items() if not each.judged} == (
        set() if judged else {"ttft_us p95", "e2e_us p95"}
    )


def test_less_than_a_millisecond_is_not_worse() -> None:
    """A fast engine's latency may double by the timer alone."""
    fast = Curve(SETUP, (replace(POINT, ttft_us={"p50": 500, "p95": 500}),))
    slower = Curve(SETUP, (replace(POINT, ttft_us={"p50": 1_499, "p95": 1_500}),))

    assert [each.measure for each in differences(fast, slower, 0.15) if each.worse] == ["ttft_us p95"]


def test_only_the_same_concurrency_is_compared() -> None:
    """Nothing is said of another one."""
    assert differences(CURVE, Curve(SETUP, (replace(POINT, concurrency=8),)), 0.15) == []


def test_another_experiment_is_not_comparable() -> None:
    """What is unknown on one side says nothing; the engine's version may differ, it is what is tried."""
    assert comparable(SETUP, replace(SETUP, engine_version="0.33.0", at=None, gpus=None)) == []
    assert comparable(SETUP, replace(SETUP, prompt_tokens=64)) == ["prompt_tokens 512 and 64"]
