"""The fleet on virtual time: load, engines, GPUs and faults, step by step, as batches of events.

One step: turn the knobs of the faults that are on, let arrivals find an engine, run all engines to the end of the
step (``engine_kernel``), write down what ended, and read every engine and GPU. Pure: all randomness comes from the
seed, all time from the caller; the same plan, seed, start and step length give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lab.simulator import engine_kernel as kernel
from lab.simulator.arrivals import Router, overrun, requests_of, surge
from lab.simulator.engine_state import BINS, ENGINE, SINCE_LAST_SAMPLE, Output, new_output, new_state
from lab.simulator.entities import Directories, Directory, Workloads
from lab.simulator.faults import Fault
from lab.simulator.gpus import GpuMeters, gpus_of
from lab.simulator.knobs import Floats, Knobs, Positions
from lab.simulator.load import Arrivals
from lab.simulator.plan import STARVED_STEP_US, STEP_OVERHEAD_US, FleetPlan, engine_rates
from lab.simulator.requests import request_wide
from lab.simulator.samples import (
    EccStorms,
    Reading,
    engine_wide,
    gpu_event_wide,
    gpu_wide,
    host_process_wide,
    host_wide,
    process_wide,
)
from lab.simulator.training import Training
from lab.simulator.wide import Wide, select
from schemas.codec.block import Numbers
from schemas.errors import ConfigError

STEP_MS = 1_000
RECORD_ROWS_MAX = 500
TYPICAL_PROMPT, TYPICAL_REPLY, TYPICAL_BATCH = 900, 150, 64
"""What an engine's speed is judged by when requests are shared out."""


@dataclass(frozen=True, slots=True)
class Step:
    """All that the fleet emits in ``[from_ms, to_ms)``: one wide batch per topic at most, and before them what hosts
    that were cut off had kept."""

    from_ms: int
    to_ms: int
    hosts: tuple[str, ...]
    wides: tuple[Wide, ...]


class _Streams(NamedTuple):
    """One stream of randomness per use, so that a fault in one place does not stir what happens in another."""

    build: np.random.Generator
    load: np.random.Generator
    surge: np.random.Generator
    fate: np.random.Generator
    trace: np.random.Generator
    host: np.random.Generator
    overrun: np.random.Generator
    training: np.random.Generator


def _streams(seed: int) -> _Streams:
    children = np.random.SeedSequence(seed).spawn(len(_Streams._fields))
    return _Streams(*(np.random.default_rng(child) for child in children))


class Fleet:
    """A fleet that has not started; ``steps`` may be called once."""

    def __init__(self, plan: FleetPlan, seed: int) -> None:
        self._plan = plan
        self._streams = _streams(seed)
        self._gpus = gpus_of(plan, self._streams.build)
        self._meters = GpuMeters(self._gpus)
        self._knobs = Knobs(plan, self._gpus)
        if missed := self._knobs.untargeted():
            raise ConfigError("faults.value", missed[0].value, f"no {missed[0].field} of the fleet has that name")
        self._state = new_state(_engines(plan, self._streams.build), plan.output_tokens_max)
        self._load_us = self._state.engines["load_us"]
        self._batch_max = self._state.engines["batch_max"].copy()
        self._router = Router(_engines_by_model(plan), _speed(self._state.engines))
        self._directories = Directories(plan, self._gpus)
        self._directory: Directory = self._directories.of(np.zeros(len(plan.engines), np.bool_))
        self._workloads = Workloads(plan, self._gpus)
        self._training = Training(plan, self._streams.training)
        self._wires = Wires(len(plan.hosts))
        self._tag = int.from_bytes(self._streams.build.bytes(6))
        self._number = 0
        self._open_gaps = 0
        self._down = np.zeros(len(plan.engines), np.bool_)
        self._lost = np.zeros(len(self._gpus.host), np.bool_)
        self._ecc = EccStorms(len(self._gpus.host))
        self._restarting = np.zeros(len(plan.engines), np.bool_)
        self._started = False

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The labels: what goes wrong, where and when."""
        return self._plan.faults

    @property
    def gpu_uuids(self) -> list[str]:
        """Of all GPUs, host by host and slot by slot."""
        return self._gpus.uuid

    def steps(self, from_ms: int, to_ms: int, step_ms: int = STEP_MS) -> Iterator[Step]:
        """The steps of ``[from_ms, to_ms)``; a last part of a step is left out."""
        assert not self._started, "a fleet runs once"
        self._started = True
        self._tag ^= from_ms & (2**48 - 1)  # ids of another run with the same seed are others
        self._state.engines["now_us"] = from_ms * 1_000
        cold = np.array([engine.cold for engine in self._plan.engines], np.bool_)
        self._state.engines["loaded_us"] = from_ms * 1_000 + np.where(cold, self._load_us, 0)
        source = self._plan.load.source(self._streams.load, from_ms * 1_000)
        for begin_ms in range(from_ms, to_ms - step_ms + 1, step_ms):
            end_ms = begin_ms + step_ms
            yield self._step(begin_ms, end_ms, source.between(begin_ms * 1_000, end_ms * 1_000))

    def _step(self, begin_ms: int, end_ms: int, arrivals: Arrivals) -> Step:
        positions = self._knobs.at(begin_ms)
        span_us, streams = (begin_ms * 1_000, end_ms * 1_000), self._streams
        arrivals = surge(arrivals, positions.load["surge"], streams.surge, span_us)
        arrivals = overrun(arrivals, positions.tenant["overrun"], self._plan.tenants, streams.overrun, span_us)
        self._turn(positions)
        self._directory = self._directories.of(positions.engine["deployed"] > 0)
        output = self._output(len(arrivals.at_us))
        events = self._lose_and_find(begin_ms, positions, output)
        requests, ends = self._dispatch(arrivals, positions)
        self._open_gaps += int(np.minimum(requests["target_tokens"], BINS).sum())
        kernel.advance(self._state, requests, ends, end_ms * 1_000, output)
        self._open_gaps -= int(np.minimum(output.rows["target_tokens"][: output.cursor[0]], BINS).sum())
        steps = self._train(begin_ms, end_ms, positions)
        wides = [wide for wide in (events, self._finished(output), steps) if wide is not None and wide.rows]
        wides += self._samples(begin_ms, end_ms, positions)
        return Step(begin_ms, end_ms, self._directory.hosts, tuple(self._wires.pass_on(wides, positions.host)))

    def _turn(self, positions: Positions) -> None:
        """Set the engines' knobs; a group is as slow as its slowest GPU."""
        engines = self._state.engines
        clock = (1.0 - positions.gpu["heat"]) * (1.0 - positions.gpu["brake"])
        slowest = np.ones(len(engines))
        on = self._gpus.engine >= 0
        np.minimum.at(slowest, self._gpus.engine[on], np.maximum(clock[on], 0.01))
        sharing = self._gpus.sharing
        np.minimum.at(slowest, sharing.engine, np.maximum(clock[sharing.gpu], 0.01))
        slower = (1.0 + positions.engine["slowdown"]) * (1.0 + positions.engine["deployed"])
        engines["slowdown"] = slower * (1.0 + positions.engine["slow_kernels"]) / slowest
        starved = positions.engine["starved"]
        engines["batch_max"] = np.maximum(1, np.rint(self._batch_max * (1.0 - starved)))
        engines["overhead_us"] = np.where(starved > 0, STARVED_STEP_US, STEP_OVERHEAD_US)
        engines["cache_limit"] = engines["cache_tokens_max"] * (1.0 - positions.engine["cache_lost"])

    def _output(self, arrivals: int) -> Output:
        engines = self._state.engines
        return new_output(
            arrivals + int((engines["active"] + engines["queued"]).sum()), self._open_gaps + arrivals * BINS
        )

    def _lose_and_find(self, begin_ms: int, positions: Positions, output: Output) -> Wide | None:
        """Stop engines whose GPU is lost or that restart, start those that may run again; events of the GPUs."""
        engines = self._state.engines
        lost = positions.gpu["lost"] > 0
        restart = positions.engine["restart"] > 0
        down = np.zeros(len(engines), np.bool_)
        down[self._gpus.engine[lost & (self._gpus.engine >= 0)]] = True
        down[self._gpus.sharing.engine[lost[self._gpus.sharing.gpu]]] = True
        down |= (positions.host["down"] > 0)[self._directory.engine_host]
        stopped = (down & ~self._down) | (restart & ~self._restarting)
        for e in np.flatnonzero(stopped):
            kernel.stop_engine(self._state, int(e), output)
        again = stopped | (self._down & ~down)
        engines["loaded_us"][again] = begin_ms * 1_000 + self._load_us[again]
        engines["lost"] = down
        gone, found = lost & ~self._lost, self._lost & ~lost
        self._down, self._lost, self._restarting = down, lost, restart
        storm = self._ecc.due(begin_ms, positions.gpu["ecc"] > 0) & ~lost
        return gpu_event_wide(self._directory, begin_ms, gone, found, storm)

    def _dispatch(self, arrivals: Arrivals, positions: Positions) -> tuple[npt.NDArray[np.void], npt.NDArray[np.int64]]:
        """Requests sorted by engine, and where each engine's end."""
        engines = self._state.engines
        crowding = (engines["active"] + 4.0 * engines["queued"]) / self._batch_max
        ready = np.where(engines["lost"] > 0, 0, np.where(engines["loaded_us"] > engines["now_us"], 1, 2))
        engine = self._router.route(arrivals.model, crowding, ready)
        error_share = positions.engine["error_share"]
        requests = requests_of(arrivals, engine, error_share, self._plan, self._number, self._streams.fate)
        self._number += len(requests)
        order = np.argsort(engine, kind="stable")
        return requests[order], np.cumsum(np.bincount(engine, minlength=len(engines)))

    def _finished(self, output: Output) -> Wide:
        directory = self._directory
        return request_wide(output, directory.requests, len(directory.hosts), b"%012x" % self._tag, self._streams.trace)

    def _train(self, begin_ms: int, end_ms: int, positions: Positions) -> Wide | None:
        training = self._training
        gone = self._lost[training.gpu] | (positions.host["down"] > 0)[training.host]
        return training.run(begin_ms, end_ms, positions.rank["loader"], gone)

    def _samples(self, begin_ms: int, end_ms: int, positions: Positions) -> list[Wide]:
        engines = self._state.engines
        reading = Reading(begin_ms, end_ms, engines, self._gpus, positions, self._lost, self._training)
        gpus = gpu_wide(self._directory, self._workloads, reading, self._meters)
        wides = [gpus, engine_wide(self._directory, reading)]
        if (processes := process_wide(self._directory, reading)) is not None:
            wides.append(processes)
        if self._plan.host_samples:
            wides += [
                host_wide(self._directory, reading, self._streams.host),
                host_process_wide(self._directory, reading),
            ]
        for name in SINCE_LAST_SAMPLE:
            engines[name] = 0
        return [wide for wide in wides if wide.rows]


def _engines(plan: FleetPlan, random: np.random.Generator) -> npt.NDArray[np.void]:
    engines = np.zeros(len(plan.engines), ENGINE)
    hosts = {host.name: host for host in plan.hosts}
    for row, engine in zip(engines, plan.engines, strict=True):
        able = engine_rates(engine, hosts[engine.host])
        for name in ("batch_max", "queue_max", "chunk_tokens"):
            row[name] = getattr(engine, name)
        for name in ("cache_tokens_max", "load_us", "weights_us", "cache_us_per_token", "prefill_us_per_token"):
            row[name] = getattr(able, name)
    engines["overhead_us"] = STEP_OVERHEAD_US
    engines["slowdown"] = 1.0
    engines["next_finish"] = engines["next_deadline_us"] = kernel.NEVER
    engines["random"] = random.integers(0, 2**64, len(engines), np.uint64)
    return engines


def _engines_by_model(plan: FleetPlan) -> list[npt.NDArray[np.int64]]:
    names = [engine.model for engine in plan.engines]
    return [np.array([i for i, name in enumerate(names) if name == model]) for model in plan.load.models()]


def _speed(engines: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Typical requests per second of each engine."""
    context = TYPICAL_BATCH * (TYPICAL_PROMPT + TYPICAL_REPLY)
    step_us = engines["overhead_us"] + engines["weights_us"] + context * engines["cache_us_per_token"]
    busy_us = TYPICAL_PROMPT * engines["prefill_us_per_token"] + TYPICAL_REPLY * step_us / TYPICAL_BATCH
    return np.asarray(1e6 / busy_us)


class Wires:
    """The way out of every host: one that is down sends nothing, one whose clock is off writes that clock's times, one
    that is cut off keeps all (``_held``, in order) and hands it over, with its own times, in the first step after."""

    def __init__(self, hosts: int) -> None:
        self._hosts = hosts
        self._held: dict[int, list[Wide]] = {}

    def pass_on(self, wides: Sequence[Wide], knobs: dict[str, Floats]) -> list[Wide]:
        """The batches that get out in this step: those kept before, then those of now. ``knobs`` by host."""
        down, cut, skew_s = knobs["down"] > 0, knobs["cut"] > 0, knobs["skew_s"]
        if not (down.any() or cut.any() or skew_s.any() or self._held):
            return list(wides)
        released = [held for host in sorted(self._held) if not cut[host] for held in self._held.pop(host)]
        for wide in wides:
            host = np.repeat(np.arange(len(wide.ends)), np.diff(wide.ends, prepend=0))
            skewed = _skewed(wide, skew_s[host])
            self._hold(skewed, host, cut & ~down)
            released.append(select(skewed, ~(down | cut)[host]))
        return [wide for wide in released if wide.rows]

    def _hold(self, wide: Wide, host: npt.NDArray[np.int64], cut: npt.NDArray[np.bool_]) -> None:
        for index in np.flatnonzero(cut).tolist():
            mine = host == index
            if mine.any():
                self._held.setdefault(index, []).append(select(wide, mine))


def _skewed(wide: Wide, seconds: Floats) -> Wide:
    if not seconds.any():
        return wide
    at_ms = wide.columns["at_ms"]
    assert isinstance(at_ms, Numbers)
    moved = Numbers(np.maximum(at_ms.values + np.rint(seconds * 1_000.0).astype(np.int64), 0))
    return replace(wide, columns={**wide.columns, "at_ms": moved})
