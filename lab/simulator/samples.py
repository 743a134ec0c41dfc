"""Readings of engines, GPUs and hosts at the end of a step, and the events of GPUs, as wide batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.simulator.entities import Directory, Workloads
from lab.simulator.gpus import PROCESSES_EVERY_MS, GpuMeters, Gpus, Work
from lab.simulator.knobs import Positions
from lab.simulator.plan import STEP_OVERHEAD_US
from lab.simulator.training import THREAD_BUSY, Training
from lab.simulator.wide import EntityLabel, Of, Wide, WideColumn, completed, constant_label
from schemas.codec.block import Numbers
from schemas.codec.values import column_of
from schemas.events.event_types import (
    ENGINE_SAMPLES,
    GPU_EVENTS,
    GPU_PROCESSES,
    GPU_SAMPLES,
    HOST_PROCESSES,
    HOST_SAMPLES,
)
from schemas.fields import Event

HOST_PROCESSORS = 192
IDLE_THREAD, BUSY_THREAD, OTHER_THREADS = 0.05, 0.45, 0.3
"""Cores: what the busiest thread of an engine takes idle and, beside that, at full load; its other threads. Assumed."""
PROCESS_BYTES = 6 * 1024**3
SEGMENT_BYTES = 1_448
HOST_MEMORY_BYTES = 2 * 1024**4
WIRE_BYTES_PER_TOKEN = 180
"""A streamed chunk of one token as server-sent event."""
PROMPT_BYTES_PER_TOKEN = 5


@dataclass(frozen=True, slots=True)
class Reading:
    """What there is to read at ``to_ms``. ``lost`` GPUs, and engines that have one, are silent."""

    from_ms: int
    to_ms: int
    engines: npt.NDArray[np.void]
    gpus: Gpus
    positions: Positions
    lost: npt.NDArray[np.bool_]
    training: Training

    @property
    def interval_ms(self) -> int:
        """Length of the interval that the differences cover."""
        return self.to_ms - self.from_ms

    def loaded_share(self) -> npt.NDArray[np.float64]:
        """How much of its weights each engine has loaded."""
        loading_us = np.maximum(self.engines["loaded_us"] - self.to_ms * 1_000, 0)
        return np.asarray(1.0 - np.minimum(loading_us / np.maximum(self.engines["load_us"], 1), 1.0))

    def starting(self) -> npt.NDArray[np.bool_]:
        """Engines whose processes are there and do not serve yet."""
        engines = self.engines
        return np.asarray((engines["lost"] == 0) & (engines["loaded_us"] > self.to_ms * 1_000))

    def cache_held(self) -> npt.NDArray[np.int64]:
        """Tokens' worth of cache of each engine that is taken, by requests or by a fault."""
        engines = self.engines
        return np.asarray(engines["cache_tokens"] + engines["cache_tokens_max"] - engines["cache_limit"])


def gpu_wide(directory: Directory, workloads: Workloads, reading: Reading, meters: GpuMeters) -> Wide:
    """One sample of every GPU that is there."""
    gpus = reading.gpus
    values = meters.read(_work(reading))
    known = {
        "temperature_memory_c": gpus.has_memory_sensor,
        "sm_active_ppm": gpus.has_gpm,
        "tensor_active_ppm": gpus.has_gpm,
        "dram_active_ppm": gpus.has_gpm,
        "nvlink_errors": gpus.has_link,
        "nvlink_tx_bytes": gpus.has_link,
        "nvlink_rx_bytes": gpus.has_link,
    }
    if (storms := reading.positions.gpu["ecc"]).any():  # without one, nobody looks at the counter
        values["ecc_corrected"], known["ecc_corrected"] = storms * reading.interval_ms / 1_000.0, storms > 0
    entity, starting = np.flatnonzero(~reading.lost), reading.starting()
    labels = directory.gpu | ({"workload": workloads.of(starting)} if starting.any() else {})
    return _wide(GPU_SAMPLES, reading.to_ms, labels, directory.gpu_host, entity, values, known, directory)


def _work(reading: Reading) -> Work:
    """The engines' work as each of their GPUs saw it."""
    engines, gpus, loaded = reading.engines, reading.gpus, reading.loaded_share()
    on = gpus.engine >= 0

    def spread(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.where(on, values[gpus.engine], 0)

    def summed(name: str) -> npt.NDArray[Any]:
        """With the work of engines beside the first."""
        found = spread(engines[name])
        np.add.at(found, gpus.sharing.gpu[beside], engines[name][gpus.sharing.engine[beside]])
        return found

    beside, training = ~gpus.sharing.first, reading.training
    busy_us = summed("busy_us") - spread(_waited_us(engines)).astype(np.int64)
    prefill_us = summed("prefill_us")
    busy_us[training.gpu] = np.rint(training.computed_us + training.waited_us)
    prefill_us[training.gpu] = np.floor(training.computed_us)
    fits = np.minimum(1.0, reading.interval_ms * 1_000 / np.maximum(busy_us, 1))
    return Work(
        interval_ms=reading.interval_ms,
        busy_us=np.minimum(busy_us, reading.interval_ms * 1_000),
        prefill_us=prefill_us * fits,
        memory_us=summed("memory_us") * fits,
        moved_tokens=summed("moved_tokens"),
        cache_tokens=spread(reading.cache_held()),
        alive=spread(engines["lost"] == 0).astype(np.bool_),
        loaded_share=spread(loaded),
        heat=reading.positions.gpu["heat"],
        brake=reading.positions.gpu["brake"],
        leak=reading.positions.gpu["leak"],
        no_tensor=spread(reading.positions.engine["slow_kernels"] > 0).astype(np.bool_),
        lanes_lost=reading.positions.gpu["lanes_lost"],
        link_errors=reading.positions.gpu["link_errors"],
        beside_bytes=_beside_bytes(reading, loaded),
    )


def _waited_us(engines: npt.NDArray[np.void]) -> npt.NDArray[np.float64]:
    """Of an engine's steps what its GPUs waited for a saturated core."""
    host_us = engines["busy_us"] - engines["prefill_us"] - engines["memory_us"]
    return np.asarray(host_us * (1.0 - STEP_OVERHEAD_US / engines["overhead_us"]))


def _beside_bytes(reading: Reading, loaded: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    sharing = reading.gpus.sharing
    held = sharing.held_bytes(loaded, reading.cache_held())
    counts = ~sharing.first & (reading.engines["lost"][sharing.engine] == 0)
    found = np.zeros(len(reading.gpus.host), np.int64)
    np.add.at(found, sharing.gpu[counts], held[counts])
    found[reading.training.gpu] = reading.training.held_bytes
    return found


def process_wide(directory: Directory, reading: Reading) -> Wide | None:
    """The processes on GPUs that engines share, every ``PROCESSES_EVERY_MS``; None where there are none.
    ``sm_util_pct`` is that of the last step."""
    sharing, engines = reading.gpus.sharing, reading.engines
    if not len(sharing) or reading.to_ms // PROCESSES_EVERY_MS == reading.from_ms // PROCESSES_EVERY_MS:
        return None
    values = {
        "memory_bytes": sharing.held_bytes(reading.loaded_share(), reading.cache_held()),
        "sm_util_pct": np.minimum(engines["busy_us"][sharing.engine] // (reading.interval_ms * 10), 100),
    }
    there = (engines["lost"][sharing.engine] == 0) & ~reading.lost[sharing.gpu]
    host_of = reading.gpus.host[sharing.gpu]
    entity = np.flatnonzero(there)
    return _wide(GPU_PROCESSES, reading.to_ms, directory.process, host_of, entity, values, {}, directory)


def engine_wide(directory: Directory, reading: Reading) -> Wide:
    """One sample of every engine whose GPUs are there."""
    engines = reading.engines
    values = {
        "running": engines["active"],
        "waiting": engines["queued"],
        "kv_used_ppm": reading.cache_held() * 1_000_000 // engines["cache_tokens_max"],
        "interval_ms": np.full(len(engines), reading.interval_ms),
        "preemptions": engines["preemptions"],
        "prompt_tokens": engines["prompt_tokens"],
        "prefix_hit_tokens": engines["hit_tokens"],
        "generation_tokens": engines["made_tokens"],
        "finished_requests": engines["finished"],
    }
    entity = np.flatnonzero(engines["lost"] == 0)
    return _wide(ENGINE_SAMPLES, reading.to_ms, directory.engine, directory.engine_host, entity, values, {}, directory)


def host_wide(directory: Directory, reading: Reading, random: np.random.Generator) -> Wide:
    """One sample of every host: a few processors serve the engines, the network carries prompts and tokens."""
    hosts = len(directory.hosts)
    engines = reading.engines

    def total(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        return np.bincount(directory.engine_host, values.astype(np.float64), hosts).astype(np.float64)

    busy = total(engines["busy_us"]) / (reading.interval_ms * 1_000)
    used = (1.0 + 1.5 * busy) / HOST_PROCESSORS * random.uniform(0.9, 1.1, hosts)
    rows = np.full(hosts, 1)
    sent, core = total(engines["made_tokens"]) * WIRE_BYTES_PER_TOKEN, np.full(hosts, IDLE_THREAD)
    np.maximum.at(core, directory.engine_host, core_busy(reading))
    np.maximum.at(core, reading.training.host, loader_busy(reading))
    values = {
        "cpu_core_busy_max_ppm": 1e6 * core,
        "tcp_retransmits": rows * 0,
        "tcp_segments_out": sent / SEGMENT_BYTES,
        "cpu_busy_ppm": np.minimum(used, 1.0) * 1e6,
        "cpu_iowait_ppm": random.uniform(0.0, 500.0, hosts),
        "load_1m_milli": used * HOST_PROCESSORS * 1_000,
        "processors": rows * HOST_PROCESSORS,
        "memory_used_bytes": rows * (64 * 1024**3) + total(engines["queued"] + engines["active"]) * 2**20,
        "memory_total_bytes": rows * HOST_MEMORY_BYTES,
        "swap_used_bytes": rows * 0,
        "disk_queue_milli": random.uniform(0.0, 50.0, hosts),
        "interval_ms": rows * reading.interval_ms,
        "network_tx_bytes": sent,
        "network_rx_bytes": total(engines["prompt_tokens"]) * PROMPT_BYTES_PER_TOKEN,
        "network_errors": rows * 0,
        "disk_read_bytes": rows * 0,
        "disk_write_bytes": random.integers(0, 2**20, hosts),
        "disk_busy_ms": rows * 0,
        "swap_in_bytes": rows * 0,
    }
    entity = np.arange(hosts)
    return _wide(HOST_SAMPLES, reading.to_ms, directory.host, entity, entity, values, {}, directory)


def core_busy(reading: Reading) -> npt.NDArray[np.float64]:
    """How busy the thread that feeds each engine is, as a share of one core: all of it while the engine is starved."""
    steps_us = reading.engines["busy_us"] / (reading.interval_ms * 1_000)
    starved = (reading.positions.engine["starved"] > 0) & (reading.engines["active"] > 0)
    return np.where(starved, 1.0, IDLE_THREAD + BUSY_THREAD * np.minimum(steps_us, 1.0))


def loader_busy(reading: Reading) -> npt.NDArray[np.float64]:
    """How busy the thread that loads the batches of each rank is, as a share of one core."""
    there = reading.training.held_bytes > 0
    return np.where(there, np.where(reading.positions.rank["loader"] > 0, 1.0, THREAD_BUSY), 0.0)


def host_process_wide(directory: Directory, reading: Reading) -> Wide:
    """The process that feeds each engine, and that of each rank of a training job, on its host."""
    engines, training = reading.engines, reading.training
    core = np.concatenate([core_busy(reading), loader_busy(reading)])[directory.host_process_order]
    rows = np.full(len(core), 1)
    queued = np.concatenate([engines["queued"], np.zeros(len(training.host), np.int64)])[directory.host_process_order]
    there = np.concatenate([engines["lost"] == 0, training.held_bytes > 0])[directory.host_process_order]
    host_of = np.concatenate([directory.engine_host, training.host])[directory.host_process_order]
    values = {
        "cpu_ppm": 1e6 * (core + OTHER_THREADS),
        "cpu_thread_max_ppm": 1e6 * core,
        "memory_rss_bytes": rows * PROCESS_BYTES + queued * 2**20,
        "interval_ms": rows * reading.interval_ms,
        "read_bytes": rows * 0,
        "write_bytes": rows * 0,
    }
    labels, entity = directory.host_process, np.flatnonzero(there)
    return _wide(HOST_PROCESSES, reading.to_ms, labels, host_of, entity, values, {}, directory)


def _wide(
    event: Event,
    at_ms: int,
    labels: dict[str, EntityLabel],
    host_of: npt.NDArray[np.int64],
    entity: npt.NDArray[np.int64],
    values: dict[str, npt.NDArray[Any]],
    known: dict[str, npt.NDArray[np.bool_]],
    directory: Directory,
) -> Wide:
    """Measures by field name, of all emitters, as the rows of those that are there."""
    columns: dict[str, WideColumn] = {
        "at_ms": Numbers(np.full(len(entity), at_ms, np.int64)),
        "origin": constant_label("simulated", len(entity)),
    }
    everyone = len(entity) == len(host_of)
    for name, column in values.items():
        whole = np.asarray(column) if everyone else np.asarray(column)[entity]
        mask = known.get(name)
        if mask is not None:
            mask = mask[entity]
            whole = np.where(mask, whole, 0)
        columns[name] = Numbers(whole.astype(event.field(name).kind.numpy), mask)
    return Wide(event.topic, entity, ends_of(host_of[entity], directory), in_order(event, columns, labels, len(entity)))


def ends_of(host: npt.NDArray[np.int64], directory: Directory) -> npt.NDArray[np.int64]:
    """Where the rows of each host end; ``host`` of every row, rising."""
    return np.cumsum(np.bincount(host, minlength=len(directory.hosts)))


def in_order(
    event: Event, columns: dict[str, WideColumn], labels: dict[str, EntityLabel], rows: int
) -> dict[str, WideColumn]:
    """All fields of the event in wire order: those given, labels of who emitted, and null."""
    given = {name: Of(label) for name, label in labels.items()} | columns
    return completed(event, given, rows)


XID_FALLEN_OFF = 79
"""GPU has fallen off the bus (NVIDIA, "XID Errors", r570)."""
STORM_REPORTED_MS = 60_000
"""A storm of memory errors that goes on is reported again after this."""

Mask = npt.NDArray[np.bool_]


_REPORTED = ("kind", "code", "severity", "action", "message")
_LOST = (
    ("xid", XID_FALLEN_OFF, "critical", "reboot_node", "GPU has fallen off the bus"),
    ("gpu_lost", None, "critical", "reboot_node", "GPU is lost"),
)
_FOUND = (("gpu_found", None, "info", "none", "GPU is back"),)
_STORM = (("ecc", None, "warning", "watch", "memory errors are corrected at a high rate"),)


class EccStorms:
    """When each GPU's storm was reported last."""

    def __init__(self, gpus: int) -> None:
        self._reported_ms = np.full(gpus, -(2**62), np.int64)

    def due(self, at_ms: int, on: Mask) -> Mask:
        """The GPUs whose storm is due now; it counts as reported. A new storm is reported at once."""
        due = on & (at_ms - self._reported_ms >= STORM_REPORTED_MS)
        self._reported_ms[due] = at_ms
        self._reported_ms[~on] = -(2**62)
        return due


def gpu_event_wide(directory: Directory, at_ms: int, gone: Mask, found: Mask, storm: Mask) -> Wide | None:
    """XID 79 and ``gpu_lost`` for every GPU that is gone, ``gpu_found`` for every one that came back, ``ecc`` for every
    one with a storm that is due, GPU by GPU; None without any."""
    pairs = [
        (gpu, one)
        for mask, reports in ((gone, _LOST), (found, _FOUND), (storm, _STORM))
        for gpu in np.flatnonzero(mask).tolist()
        for one in reports
    ]
    if not pairs:
        return None
    pairs.sort(key=lambda pair: pair[0])
    entity = np.array([gpu for gpu, _ in pairs], np.int64)
    columns: dict[str, WideColumn] = {
        "at_ms": Numbers(np.full(len(entity), at_ms, np.int64)),
        "origin": constant_label("simulated", len(entity)),
    }
    for name, values in zip(_REPORTED, zip(*(one for _, one in pairs), strict=True), strict=True):
        columns[name], _ = column_of(GPU_EVENTS.field(name), 0, values)
    ends = ends_of(directory.gpu_host[entity], directory)
    return Wide(GPU_EVENTS.topic, entity, ends, in_order(GPU_EVENTS, columns, directory.gpu, len(entity)))
