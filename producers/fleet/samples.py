"""Readings of engines, GPUs and hosts at the end of a step, and the events of GPUs, as wide batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from producers.fleet.entities import Directory
from producers.fleet.gpus import GpuMeters, Gpus, Work
from producers.fleet.knobs import Positions
from producers.fleet.wide import EntityLabel, Of, Wide, WideColumn, completed, constant_label
from schemas.block import Numbers
from schemas.events import ENGINE_SAMPLES, GPU_SAMPLES, HOST_SAMPLES
from schemas.fields import Event

HOST_PROCESSORS = 192
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

    @property
    def interval_ms(self) -> int:
        """Length of the interval that the differences cover."""
        return self.to_ms - self.from_ms

    def cache_held(self) -> npt.NDArray[np.int64]:
        """Tokens' worth of cache of each engine that is taken, by requests or by a fault."""
        engines = self.engines
        return np.asarray(engines["cache_tokens"] + engines["cache_tokens_max"] - engines["cache_limit"])


def gpu_wide(directory: Directory, reading: Reading, meters: GpuMeters) -> Wide:
    """One sample of every GPU that is there."""
    gpus = reading.gpus
    values = meters.read(_work(reading))
    known = {
        "temperature_memory_c": gpus.has_memory_sensor,
        "sm_active_ppm": gpus.has_gpm,
        "tensor_active_ppm": gpus.has_gpm,
        "nvlink_tx_bytes": gpus.has_link,
        "nvlink_rx_bytes": gpus.has_link,
    }
    if (storms := reading.positions.gpu["ecc"]).any():  # without one, nobody looks at the counter
        values["ecc_corrected"], known["ecc_corrected"] = storms * reading.interval_ms / 1_000.0, storms > 0
    entity = np.flatnonzero(~reading.lost)
    return _wide(GPU_SAMPLES, reading.to_ms, directory.gpu, directory.gpu_host, entity, values, known, directory)


def _work(reading: Reading) -> Work:
    """The engines' work as each of their GPUs saw it."""
    engines, gpus = reading.engines, reading.gpus
    on = gpus.engine >= 0
    loading_us = np.maximum(engines["loaded_us"] - reading.to_ms * 1_000, 0)
    loaded = 1.0 - np.minimum(loading_us / np.maximum(engines["load_us"], 1), 1.0)

    def spread(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.where(on, values[gpus.engine], 0)

    return Work(
        interval_ms=reading.interval_ms,
        busy_us=spread(engines["busy_us"]),
        prefill_us=spread(engines["prefill_us"]),
        memory_us=spread(engines["memory_us"]),
        moved_tokens=spread(engines["moved_tokens"]),
        cache_tokens=spread(reading.cache_held()),
        alive=spread(engines["lost"] == 0).astype(np.bool_),
        loaded_share=spread(loaded),
        heat=reading.positions.gpu["heat"],
        brake=reading.positions.gpu["brake"],
        leak=reading.positions.gpu["leak"],
    )


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
    values = {
        "cpu_busy_ppm": np.minimum(used, 1.0) * 1e6,
        "cpu_iowait_ppm": random.uniform(0.0, 500.0, hosts),
        "load_1m_milli": used * HOST_PROCESSORS * 1_000,
        "processors": rows * HOST_PROCESSORS,
        "memory_used_bytes": rows * (64 * 1024**3) + total(engines["queued"] + engines["active"]) * 2**20,
        "memory_total_bytes": rows * HOST_MEMORY_BYTES,
        "swap_used_bytes": rows * 0,
        "disk_queue_milli": random.uniform(0.0, 50.0, hosts),
        "interval_ms": rows * reading.interval_ms,
        "network_tx_bytes": total(engines["made_tokens"]) * WIRE_BYTES_PER_TOKEN,
        "network_rx_bytes": total(engines["prompt_tokens"]) * PROMPT_BYTES_PER_TOKEN,
        "network_errors": rows * 0,
        "disk_read_bytes": rows * 0,
        "disk_write_bytes": random.integers(0, 2**20, hosts),
        "disk_busy_ms": rows * 0,
        "swap_in_bytes": rows * 0,
    }
    entity = np.arange(hosts)
    return _wide(HOST_SAMPLES, reading.to_ms, directory.host, entity, entity, values, {}, directory)


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
    """All fields of the event in wire order: those told, labels of who emitted, and null."""
    told = {name: Of(label) for name, label in labels.items()} | columns
    return completed(event, told, rows)
