"""Readings of engines, counted one by one, and their requests beside them. Plain loops, no SQL, no formula of ours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lab.oracle.groups import grouped
from lab.oracle.machines import WINDOW_MS, Sample, by_window, mean, most_throttled, throttle_known, throttled_pct
from lab.oracle.value import Key, Value, exactly, merged, percentile, percentile_of_bins


@dataclass(frozen=True, slots=True)
class EngineSample:
    """One row of ``engine.samples`` that was accepted."""

    at_ms: int
    engine_id: str | None
    model: str
    running: int | None = None
    waiting: int | None = None
    kv_used_ppm: int | None = None
    preemptions: int | None = None
    prompt_tokens: int | None = None
    prefix_hit_tokens: int | None = None


class Ended(Protocol):
    """What is read of a request here."""

    @property
    def at_ms(self) -> int: ...
    @property
    def model(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def engine_id(self) -> str | None: ...
    @property
    def ttft_us(self) -> int | None: ...
    @property
    def tpot_us(self) -> int | None: ...
    @property
    def e2e_us(self) -> int | None: ...
    @property
    def itl_bins(self) -> Mapping[int, int]: ...


def queues(samples: Sequence[EngineSample]) -> dict[Key, float]:
    """How full each engine was, and what waited. What nobody knows is not there."""
    found: dict[Key, float] = {}
    for of, group in grouped((f"engine={one.engine_id}", one) for one in samples).items():
        for metric, name in (("most_waiting", "waiting"), ("kv_most_ppm", "kv_used_ppm")):
            if known := [value for one in group if (value := getattr(one, name)) is not None]:
                found[metric, of] = max(known)
        sums = {name: [value for one in group if (value := getattr(one, name)) is not None]
                for name in ("preemptions", "prompt_tokens", "prefix_hit_tokens")}  # fmt: skip
        found["preemptions", of] = sum(sums["preemptions"])
        if prompts := sum(sums["prompt_tokens"]):
            found["prefix_hit_pct", of] = 100 * sum(sums["prefix_hit_tokens"]) / prompts
    return found


def at_once(samples: Iterable[EngineSample]) -> Mapping[tuple[int, str], int]:
    """By window and engine the power of two nearest to what it ran at one time, all of its models together."""
    ran = grouped(
        ((one.at_ms // WINDOW_MS * WINDOW_MS, one.engine_id, one.model), one.running)
        for one in samples
        if one.engine_id is not None
    )
    batches: dict[tuple[int, str], float] = {}
    for (window_ms, engine, _), values in ran.items():
        if (running := mean(values)) is not None:
            batches[window_ms, engine] = batches.get((window_ms, engine), 0) + running
    return {key: 2 ** round(math.log2(max(1, batch))) for key, batch in batches.items()}


def by_batch(requests: Iterable[Ended], samples: Iterable[EngineSample]) -> dict[Key, Value]:
    """Requests of each model by what their engine ran at one time; latencies are of those answered in full."""
    batches = at_once(samples)
    groups = grouped(
        (f"model_at_once={one.model} {batch}", one)
        for one in requests
        if (batch := batches.get((one.at_ms // WINDOW_MS * WINDOW_MS, one.engine_id or ""))) is not None
    )
    found: dict[Key, Value] = {}
    for of, group in groups.items():
        well = [one for one in group if one.status == "ok"]
        found["ended", of] = exactly(len(group))
        for name in ("ttft_us", "e2e_us"):
            if values := sorted(value for one in well if (value := getattr(one, name)) is not None):
                found[f"{name}_p95", of] = percentile(values, 0.95)
        if bins := merged(one.itl_bins for one in well):
            found["itl_us_p50", of] = percentile_of_bins(bins, 0.5)
    return found


def beside_the_worst(requests: Iterable[Ended], samples: Sequence[Sample]) -> dict[Key, Value]:
    """Window by window the engine's GPU that was throttled the longest in one of them, and that engine's requests."""
    windows = by_window(one for one in samples if one.engine_id is not None)
    worst = most_throttled(windows)
    ended = grouped(((one.at_ms // WINDOW_MS * WINDOW_MS, one.engine_id or ""), one) for one in requests)
    found: dict[Key, Value] = {}
    for (window_ms, gpu), served in windows.items():
        if gpu != worst:
            continue
        of, own = f"{gpu}={window_ms}", ended.get((window_ms, str(served[0].engine_id)), [])
        found["beside_requests", of] = exactly(len(own))
        clock = mean(one.clock_sm_mhz for one in served)
        throttled = throttled_pct(throttle_known({(window_ms, gpu): served}))
        found |= {} if clock is None else {("beside_clock_mhz", of): exactly(clock)}
        found |= {} if throttled is None else {("beside_throttled_pct", of): exactly(throttled)}
        if values := sorted(one.tpot_us for one in own if one.tpot_us is not None):
            found["beside_tpot_us_p95", of] = percentile(values, 0.95)
    return found
