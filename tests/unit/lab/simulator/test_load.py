"""Who arrives: traces arrive as recorded, Poisson as told; shares, seasons and routes are kept."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from lab.simulator.arrivals import Router, requests_of, surge
from lab.simulator.engine_state import ABORTED, CLIENT, SERVER
from lab.simulator.load import CHAT_INPUT, CHAT_OUTPUT, DAY_US, Arrivals, PoissonLoad, Share, Trace, TraceLoad
from lab.simulator.plan import EnginePlan, FleetPlan, Habits, HostPlan
from schemas.errors import ConfigError

SHARES = (Share("a", 3.0), Share("b", 1.0))
FIRST = Trace.of([(1_000_000, 10, 1), (1_500_000, 20, 2), (4_000_000, 30, 3)])
SECOND = Trace.of([(1_200_000, 40, 4)])


def trace_load(speed: float = 1.0, *, repeat: bool = True) -> TraceLoad:
    return TraceLoad({"x": FIRST, "y": SECOND}, {"x": (Share("a", 1.0),), "y": (Share("b", 1.0),)}, speed, repeat)


def collect(load: TraceLoad | PoissonLoad, start_us: int, cuts: list[int]) -> list[tuple[int, int, int, int]]:
    source = load.source(np.random.default_rng(1), start_us)
    rows: list[tuple[int, int, int, int]] = []
    for begin, end in pairwise(cuts):
        part = source.between(begin, end)
        assert ((part.at_us >= begin) & (part.at_us < end)).all()
        columns = (part.at_us, part.model, part.input_tokens, part.output_tokens)
        rows += zip(*(column.tolist() for column in columns), strict=True)
    return rows


@pytest.mark.parametrize("cuts", [[0, 10_000_000], [0, 1, 200_000, 200_001, 500_000, 10_000_000]])
def test_traces_arrive_side_by_side_as_recorded(cuts: list[int]) -> None:
    """Gaps of both traces are kept from their common origin, wherever the time is cut."""
    rows = collect(trace_load(repeat=False), 0, cuts)

    assert rows == [(0, 0, 10, 1), (200_000, 1, 40, 4), (500_000, 0, 20, 2), (3_000_000, 0, 30, 3)]


def test_speed_divides_the_gaps() -> None:
    """At speed 10 the trace takes a tenth of its time."""
    rows = collect(trace_load(10.0, repeat=False), 7_000_000, [7_000_000, 20_000_000])

    assert [row[0] - 7_000_000 for row in rows] == [0, 20_000, 50_000, 300_000]


def test_a_trace_begins_again_at_its_end() -> None:
    """Round after round, one mean gap after the last arrival."""
    rows = collect(trace_load(), 0, [0, 5_000_000, 9_000_000])

    round_us = 3_000_000 + 3_000_000 // 4
    assert [row[0] for row in rows] == [
        at + round_ * round_us for round_ in range(3) for at in (0, 200_000, 500_000, 3_000_000)
    ][: len(rows)]
    assert len(rows) == 11


def test_a_trace_that_lacks_its_shares_is_refused() -> None:
    """So is a speed of 0."""
    with pytest.raises(ValueError, match="shares"):
        TraceLoad({"x": FIRST}, {})
    with pytest.raises(ValueError, match="speed"):
        trace_load(0.0)


def test_poisson_keeps_rate_and_shares() -> None:
    """200 seconds at 50 a second: counts within five standard deviations, each model its share."""
    rows = collect(PoissonLoad(50.0, SHARES), 0, list(range(0, 200_000_001, 1_000_000)))

    first = sum(model == 0 for _, model, _, _ in rows)
    assert abs(len(rows) - 10_000) < 5 * 100
    assert abs(first - 0.75 * len(rows)) < 5 * (len(rows) * 0.1875) ** 0.5


def test_the_season_swings_around_the_mean_and_peaks_at_its_hour() -> None:
    """Highest at 14:00 UTC, lowest twelve hours later, the mean of the day unchanged."""
    load = PoissonLoad(10.0, SHARES, season=0.4)
    hours = [load.rate(hour * DAY_US // 24) for hour in range(24)]

    assert max(hours) == hours[14] == pytest.approx(14.0)
    assert min(hours) == hours[2] == pytest.approx(6.0)
    assert sum(hours) / 24 == pytest.approx(10.0)


def test_a_weekend_is_saturday_and_sunday() -> None:
    """From a Monday on: five days as they are, two with their share; without a share all alike."""
    monday = 4 * DAY_US

    quiet = [PoissonLoad(10.0, SHARES, weekend=0.5).rate(monday + day * DAY_US + 1) for day in range(8)]
    alike = {PoissonLoad(10.0, SHARES).rate(monday + day * DAY_US + 1) for day in range(7)}

    assert quiet == [10.0] * 5 + [5.0] * 2 + [10.0]
    assert alike == {10.0}


def test_lengths_have_their_median_and_mean() -> None:
    """Of 200,000 drawn prompts, within one per cent (mean: two, for the clipped tail)."""
    drawn = CHAT_INPUT.draw(np.random.default_rng(1), 200_000)

    assert np.median(drawn) == pytest.approx(CHAT_INPUT.median, rel=0.01)
    assert drawn.mean() == pytest.approx(CHAT_INPUT.mean, rel=0.02)
    assert CHAT_OUTPUT.draw(np.random.default_rng(1), 200_000).max() == CHAT_OUTPUT.most


def test_a_surge_adds_its_share() -> None:
    """+150 % of one model: one or two more for each arrival, at times of their own, none of another model."""
    some = Arrivals(np.arange(1_000), np.arange(1_000, dtype=np.int16) % 2, np.arange(1_000), np.full(1_000, 6))
    more = surge(some, np.array([1.5, 0.0]), np.random.default_rng(1), (0, 10**9))

    counts = np.bincount(more.input_tokens)
    assert set(counts[::2].tolist()) == {2, 3}
    assert set(counts[1::2].tolist()) == {1}
    assert abs(counts[::2].sum() - 1_250) < 5 * (500 * 0.25) ** 0.5
    assert (np.diff(more.at_us) >= 0).all()
    assert len(np.unique(more.at_us)) == len(more.at_us)
    assert np.array_equal(more.model, more.input_tokens % 2)


def test_requests_are_spread_by_speed_and_room() -> None:
    """In proportion to speed, less to the crowded, evenly over every stretch of arrivals."""
    router = Router([np.array([0, 1, 2])], np.array([2.0, 1.0, 1.0]))
    model = np.zeros(400, np.int16)

    even = router.route(model, np.zeros(3), np.full(3, 2))
    crowded = router.route(model, np.array([1.0, 0.0, 0.0]), np.full(3, 2))

    assert np.bincount(even).tolist() == pytest.approx([200, 100, 100], abs=2)
    for start in range(0, 400, 40):
        assert np.bincount(even[start : start + 40], minlength=3).tolist() == pytest.approx([20, 10, 10], abs=3)
    assert np.bincount(crowded).tolist() == pytest.approx([80, 160, 160], abs=2)


@pytest.mark.parametrize(("ready", "chosen"), [([2, 1, 0], {0}), ([0, 1, 0], {1}), ([1, 1, 0], {0, 1})])
def test_the_best_engines_there_are_get_the_requests(ready: list[int], chosen: set[int]) -> None:
    """Loaded ones before those that load, those before lost ones."""
    router = Router([np.array([0, 1, 2])], np.ones(3))

    assert set(router.route(np.zeros(50, np.int16), np.zeros(3), np.array(ready)).tolist()) == chosen


def test_habits_are_shares_of_all_requests(small_plan: Callable[..., FleetPlan]) -> None:
    """Aborted, failed and faulty requests within five standard deviations; cached tokens are whole blocks below the
    prompt; cut replies are shorter than asked for."""
    plan = small_plan(habits=Habits(aborted=0.2, server_error=0.1, client_error=0.05, prefix_hit=0.5))
    count = 20_000
    arrivals = Arrivals(np.arange(count), np.zeros(count, np.int16), np.full(count, 100), np.full(count, 50))

    rows = requests_of(arrivals, np.zeros(count, np.int64), np.zeros(3), plan, 5, np.random.default_rng(1))

    for fate, share in ((ABORTED, 0.2), (SERVER, 0.1), (CLIENT, 0.05)):
        assert abs((rows["fate"] == fate).sum() - share * count) < 5 * (count * share * (1 - share)) ** 0.5
    assert set(rows["cached_tokens"].tolist()) == {0, 16, 32, 48, 64, 80, 96}
    cut = rows["target_tokens"][(rows["fate"] == ABORTED) | (rows["fate"] == SERVER)]
    assert (cut.min(), cut.max()) == (1, 50)
    assert set(rows["target_tokens"][(rows["fate"] != ABORTED) & (rows["fate"] != SERVER)].tolist()) == {50}
    assert rows["number"][[0, -1]].tolist() == [5, 5 + count - 1]


HOST = HostPlan("h", "c", "r", "H100", 2)
ENGINE = EnginePlan("e", "h", "llama-3.1-8b-instruct", "v", "fp8", 0)


@pytest.mark.parametrize(
    ("hosts", "engines", "models", "key"),
    [
        ((), (ENGINE,), (), "hosts"),
        ((HOST, HOST), (ENGINE,), (), "hosts"),
        ((HOST,), (ENGINE, ENGINE), (), "engines"),
        ((HOST,), (EnginePlan("e", "nowhere", ENGINE.model, "v", "fp8", 0),), (), "engines.host"),
        ((HOST,), (EnginePlan("e", "h", "gpt-0", "v", "fp8", 0),), (), "engines.model"),
        ((HOST,), (EnginePlan("e", "h", ENGINE.model, "v", "fp3", 0),), (), "engines.precision"),
        ((HOST,), (EnginePlan("e", "h", ENGINE.model, "v", "fp8", 2),), (), "engines.first_gpu"),
        ((HOST,), (ENGINE, EnginePlan("f", "h", ENGINE.model, "v", "fp8", 0, 2)), (), "engines.first_gpu"),
        ((HostPlan("h", "c", "r", "K80"),), (ENGINE,), (), "hosts.gpu_type"),
        ((HOST,), (ENGINE,), ("qwen2.5-coder-7b-instruct",), "load"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_by_name(
    hosts: tuple[HostPlan, ...], engines: tuple[EnginePlan, ...], models: tuple[str, ...], key: str
) -> None:
    """Each mistake names its key."""
    load = PoissonLoad(1.0, tuple(Share(model, 1.0) for model in (ENGINE.model, *models)))

    with pytest.raises(ConfigError) as raised:
        FleetPlan(hosts, engines, load)

    assert raised.value.key == key


def test_a_model_that_does_not_fit_is_refused() -> None:
    """70 B parameters in 16 bit are more than an H100 holds."""
    big = EnginePlan("e", "h", "llama-3.3-70b-instruct", "v", "bf16", 0)

    with pytest.raises(ValueError, match="does not fit"):
        FleetPlan((HOST,), (big,), PoissonLoad(1.0, (Share("llama-3.3-70b-instruct", 1.0),)))


@pytest.mark.parametrize("habits", [{"aborted": 1.1}, {"aborted": 0.6, "server_error": 0.5}])
def test_habits_beyond_all_requests_are_refused(habits: dict[str, float]) -> None:
    """Shares lie in [0, 1], together too."""
    with pytest.raises(ConfigError):
        Habits(**habits)
