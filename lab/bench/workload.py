"""The workloads of the bench, as wide batches of events: one second of all senders at a time. Pure and seeded.

*bulk*: few senders, 500 requests per record. *fleet*: 1,250 hosts, each sending every second one record of 8 GPU
samples and one of 40 requests. Labels are as in a real fleet: two engines per host, tenants of very unequal size, a
few requests in a hundred fail; sketches of gaps have as many bins as those of the simulated engines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.simulator.wide import Of, Wide, completed, constant_label, entity_label, hex_texts, number, optional
from schemas.codec.block import Bins, Block, Labels, Numbers
from schemas.events.event_types import GPU_SAMPLES, LLM_REQUESTS
from schemas.fields import Role
from schemas.sketch import bin_of

Random = np.random.Generator
Floats = npt.NDArray[np.float64]

MODELS = ("llama-3.1-8b", "llama-3.3-70b", "qwen3-32b", "mixtral-8x22b", "deepseek-v3", "gemma-3-27b")
PRECISIONS = ("bf16", "fp8", "fp8", "bf16", "fp8", "bf16")
REGIONS = ("eu-west", "us-east", "ap-south")
CLASSES = ("interactive", "standard", "batch")
HOSTS_PER_CLUSTER = 250
ENGINES_PER_HOST = 2
GPUS_PER_HOST = 8
TENANTS = 24

# What can become of a request: share, status, error_kind, finish_reason.
_FATES: tuple[tuple[float, str, str | None, str | None], ...] = (
    (0.70, "ok", None, "stop"),
    (0.27, "ok", None, "length"),
    (0.010, "aborted", "client", "abort"),
    (0.008, "error", "server", "error"),
    (0.002, "error", "oom", "error"),
    (0.005, "timeout", "timeout", None),
    (0.005, "rejected", "overload", None),
)
_STARTS = ("warm", "cold")
_COLD_SHARE = 0.005


@dataclass(frozen=True, slots=True)
class Profile:
    """A workload: what every host sends each second. ``seconds`` of event time make the default amount."""

    name: str
    hosts: int
    requests_per_record: int
    gpus_per_host: int
    seconds: int

    @property
    def topics(self) -> tuple[str, ...]:
        """The source topics it writes to."""
        return ("llm.requests", "gpu.samples") if self.gpus_per_host else ("llm.requests",)

    @property
    def events_per_s(self) -> int:
        """Events of one second of all hosts."""
        return self.hosts * (self.requests_per_record + self.gpus_per_host)


BULK = Profile("bulk", hosts=64, requests_per_record=500, gpus_per_host=0, seconds=40)
FLEET = Profile("fleet", hosts=1_250, requests_per_record=40, gpus_per_host=GPUS_PER_HOST, seconds=30)
SERIES = Profile("series", hosts=6_250, requests_per_record=1, gpus_per_host=GPUS_PER_HOST, seconds=1)
"""50,000 GPUs, each a series of its own: two of these make the job's 100,000 series."""
PROFILES = {profile.name: profile for profile in (BULK, FLEET, SERIES)}


@dataclass(frozen=True, slots=True)
class Emission:
    """The events of one record. ``host`` counts from 0."""

    topic: str
    host: int
    name: str
    block: Block


@dataclass(slots=True)
class Workload:
    """The events of a profile, second by second; ``steps`` may be called once."""

    profile: Profile
    seed: int
    first_host: int = 0
    """Number of the first host, so that two workloads can have hosts of their own."""
    hosts: tuple[str, ...] = field(init=False)
    _random: Random = field(init=False)
    _engine: dict[str, Of] = field(init=False)
    _gpu: dict[str, Of] = field(init=False)
    _tenants: Labels = field(init=False)
    _tenant_shares: Floats = field(init=False)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)
        self.hosts = tuple(f"host-{self.first_host + index:04d}" for index in range(self.profile.hosts))
        self._engine = _labels([self._engine_row(index) for index in range(self.profile.hosts * ENGINES_PER_HOST)])
        gpus = [self._gpu_row(index) for index in range(self.profile.hosts * self.profile.gpus_per_host)]
        self._gpu = _labels(gpus, GPUS_PER_HOST) if gpus else {}
        shares = 1.0 / np.arange(1, TENANTS + 1)
        self._tenant_shares = shares / shares.sum()

    def steps(self, from_ms: int, seconds: int) -> Iterator[list[Emission]]:
        """The records of each of these seconds, shuffled as hosts would send them."""
        assert from_ms % 1_000 == 0
        for second in range(seconds):
            emissions = [
                Emission(wide.topic, host, self.hosts[host], block)
                for wide in self._wides(from_ms + second * 1_000)
                for host, block in wide.blocks(1_000)
            ]
            yield [emissions[index] for index in self._random.permutation(len(emissions))]

    def _wides(self, at_ms: int) -> Iterator[Wide]:
        yield self._requests(at_ms)
        if self.profile.gpus_per_host:
            yield self._samples(at_ms)

    def _place(self, host: int) -> dict[str, str | None]:
        cluster = host // HOSTS_PER_CLUSTER
        return {"cluster": f"cluster-{cluster}", "region": REGIONS[cluster % len(REGIONS)], "host": self.hosts[host]}

    def _engine_row(self, index: int) -> dict[str, str | None]:
        host, model = index // ENGINES_PER_HOST, index % len(MODELS)
        engine = f"{self.hosts[host]}-engine-{index % ENGINES_PER_HOST}"
        return self._place(host) | {
            "engine_id": engine,
            "placement_group": engine,
            "model": MODELS[model],
            "model_version": f"2026-0{model + 1}",
            "precision": PRECISIONS[model],
        }

    def _gpu_row(self, index: int) -> dict[str, str | None]:
        host, slot = divmod(index, GPUS_PER_HOST)
        engine = f"{self.hosts[host]}-engine-{slot * ENGINES_PER_HOST // GPUS_PER_HOST}"
        return self._place(host) | {
            "engine_id": engine,
            "placement_group": engine,
            "gpu_uuid": f"GPU-{self.first_host + host:08x}-3f5a-11ef-9c1d-{index:012x}",
            "gpu_model": "NVIDIA H100 80GB HBM3",
            "workload": "inference",
        }

    def _requests(self, at_ms: int) -> Wide:
        profile, random = self.profile, self._random
        each, rows = profile.requests_per_record, profile.hosts * profile.requests_per_record
        engine = np.repeat(np.arange(profile.hosts), each) * ENGINES_PER_HOST + random.integers(0, 2, rows)
        fate = np.searchsorted(np.cumsum([share for share, *_ in _FATES[:-1]]), random.random(rows), side="right")
        times = np.sort(random.integers(0, 1_000, (profile.hosts, each)), axis=1).ravel() + at_ms
        numbers, tpot_us = _request_numbers(random, rows, served=fate < 3)
        columns: dict[str, Any] = {"at_ms": number(times, "<i8"), **numbers, **self._engine}
        columns |= self._request_labels(rows, fate)
        tokens = np.asarray(numbers["output_tokens"].values, np.int64)
        columns["itl_bins"] = _gaps(random, tpot_us, np.maximum(tokens - 1, 0))
        columns["request_id"] = hex_texts(b"req-", random.integers(0, 256, (rows, 12), np.uint8))
        columns["trace_id"] = hex_texts(b"", random.integers(0, 256, (rows, 16), np.uint8))
        ends = np.arange(1, profile.hosts + 1, dtype=np.int64) * each
        return Wide("llm.requests", engine, ends, completed(LLM_REQUESTS, columns, rows))

    def _request_labels(self, rows: int, fate: npt.NDArray[np.int64]) -> dict[str, Labels]:
        random = self._random
        tenant = random.choice(TENANTS, rows, p=self._tenant_shares)
        return {
            "tenant": Labels((tenant + 1).astype(np.uint8), [None, *(b"tenant-%02d" % t for t in range(TENANTS))]),
            "slo_class": _coded(list(CLASSES), tenant % len(CLASSES)),
            "status": _coded([status for _, status, *_ in _FATES], fate),
            "error_kind": _coded([kind for *_, kind, _ in _FATES], fate),
            "finish_reason": _coded([finish for *_, finish in _FATES], fate),
            "start": _coded(list(_STARTS), (random.random(rows) < _COLD_SHARE).astype(np.int64)),
            "origin": constant_label("simulated", rows),
        }

    def _samples(self, at_ms: int) -> Wide:
        profile, random = self.profile, self._random
        rows = profile.hosts * profile.gpus_per_host
        moment = np.repeat(random.integers(0, 1_000, profile.hosts), profile.gpus_per_host) + at_ms
        busy = np.clip(random.normal(0.8, 0.1, rows), 0.0, 1.0)
        columns: dict[str, Any] = {"at_ms": number(moment, "<i8"), **_sample_numbers(random, busy), **self._gpu}
        columns["origin"] = constant_label("simulated", rows)
        ends = np.arange(1, profile.hosts + 1, dtype=np.int64) * profile.gpus_per_host
        return Wide("gpu.samples", np.arange(rows), ends, completed(GPU_SAMPLES, columns, rows))


def _labels(rows: list[dict[str, str | None]], per_host: int = ENGINES_PER_HOST) -> dict[str, Of]:
    host_of = [index // per_host for index in range(len(rows))]
    return {name: Of(entity_label([row[name] for row in rows], host_of, len(rows) // per_host)) for name in rows[0]}


def _coded(values: list[str | None] | list[str], picks: npt.NDArray[np.int64]) -> Labels:
    words: dict[bytes | None, int] = {None: 0}
    codes = [words.setdefault(None if value is None else value.encode(), len(words)) for value in values]
    return Labels(np.array(codes, np.uint8)[picks], list(words))


def _lognormal(random: Random, median: float, sigma: float, rows: int) -> Floats:
    return np.asarray(median * np.exp(random.normal(0.0, sigma, rows)))


def _request_numbers(
    random: Random, rows: int, *, served: npt.NDArray[np.bool_]
) -> tuple[dict[str, Numbers], npt.NDArray[np.int64]]:
    """The numeric columns of requests but for the time, and the typical gap of each (0: it has none)."""
    queue = _lognormal(random, 8_000, 1.2, rows)
    prefill = _lognormal(random, 150_000, 0.8, rows)
    tpot = _lognormal(random, 22_000, 0.4, rows)
    output = np.where(served, 1 + _lognormal(random, 180, 0.9, rows), 0).astype(np.int64)
    reasoning = np.where(random.random(rows) < 0.2, output // 2, 0)
    inputs = 1 + _lognormal(random, 900, 1.1, rows).astype(np.int64)
    decode = tpot * np.maximum(output - 1, 0)
    many = served & (output >= 2)
    columns = {
        "ttft_us": optional(queue + prefill, served, "<u4"),
        "tpot_us": optional(tpot, many, "<u4"),
        "e2e_us": number(np.minimum(queue + prefill + decode, 3.6e9), "<u4"),
        "queue_us": optional(queue, random.random(rows) < 0.99, "<u4"),
        "ttfo_us": optional(queue + prefill + tpot * reasoning, served, "<u4"),
        "prefill_us": optional(prefill, served, "<u4"),
        "decode_us": optional(decode, many, "<u4"),
        "input_tokens": number(inputs, "<u4"),
        "cached_tokens": number(np.where(random.random(rows) < 0.3, inputs // 2, 0), "<u4"),
        "output_tokens": number(output, "<u4"),
        "reasoning_tokens": number(reasoning, "<u4"),
        "http_status": number(np.where(served, 200, 503), "<u4"),
    }
    return columns, np.where(many, tpot, 0).astype(np.int64)


def _gaps(random: Random, tpot_us: npt.NDArray[np.int64], gaps: npt.NDArray[np.int64]) -> Bins:
    """A sketch of each request's gaps between tokens: as many bins as the simulated engines fill (29 on average), or
    as there are gaps."""
    sizes = np.minimum(np.where(tpot_us > 0, random.integers(18, 46, len(tpot_us)), 0), gaps)
    ends = np.cumsum(sizes)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(ends[-1]) - (ends - sizes)[owner]
    keys = (bin_of(tpot_us) - sizes // 2)[owner] + place
    spare = np.maximum(gaps - sizes, 0) // np.maximum(sizes, 1)
    counts = 1 + random.integers(0, 2 * spare[owner] + 1)
    return Bins(ends, keys.astype(np.int16), counts.astype(np.uint64))


def _sample_numbers(random: Random, busy: Floats) -> dict[str, Numbers]:
    rows = len(busy)
    values: dict[str, Floats | float] = {
        "util_gpu_pct": 100 * busy,
        "util_memory_pct": 60 * busy,
        "power_mw": 110_000 + 560_000 * busy,
        "power_limit_mw": 700_000,
        "temperature_c": 35 + 40 * busy,
        "temperature_memory_c": 45 + 42 * busy,
        "clock_sm_mhz": 1_980 - 200 * busy,
        "clock_memory_mhz": 2_619,
        "sm_active_ppm": 900_000 * busy,
        "tensor_active_ppm": 450_000 * busy,
        "memory_used_bytes": 60e9 + 15e9 * busy,
        "memory_total_bytes": 85_520_809_984,
        "interval_ms": 1_000,
        "energy_mj": 110_000 + 560_000 * busy,
        "throttled_us": np.where(random.random(rows) < 0.05, 20_000, 0),
        "pcie_tx_bytes": 2e8 * busy,
        "pcie_rx_bytes": 3e8 * busy,
        "nvlink_tx_bytes": 4e10 * busy,
        "nvlink_rx_bytes": 4e10 * busy,
        "clock_reasons": np.where(random.random(rows) < 0.05, 4, 0),
    }
    named = {f.name: f for f in GPU_SAMPLES.fields}
    return {
        name: number(np.broadcast_to(np.asarray(value), rows), named[name].kind.numpy) for name, value in values.items()
    }


assert {f.name for f in GPU_SAMPLES.of(Role.TIME)} == {"at_ms"}
