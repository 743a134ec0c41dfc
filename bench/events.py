"""Made-up records for benches: request events and GPU samples with a wanted number of series, as Native blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from schemas import native
from schemas.block import Bins, Block, Column, Labels, Numbers, Texts
from schemas.build import rows_of
from schemas.events import BY_TOPIC, GPU_SAMPLES, LLM_REQUESTS
from schemas.fields import Event, Kind, Role
from schemas.headers import NATIVE, Identity, encode_headers
from schemas.record import Record

START_MS = 1_800_000_000_000
EVENTS_PER_SECOND = 10_000
GAP_BINS = 8


def request_records(rng: np.random.Generator, events: int, per_record: int, series: int) -> list[Record]:
    """Records of request events, one host each; about ``series`` series in either grouping set."""
    hosts = max(series // 10, 1)
    return [
        _record(LLM_REQUESTS, number, _requests(rng, number, per_record, hosts, max(series // 40, 1)))
        for number in range(events // per_record)
    ]


def gpu_records(rng: np.random.Generator, events: int, per_record: int, series: int) -> list[Record]:
    """Records of GPU samples, one host of ``per_record`` GPUs each."""
    hosts = max(series // per_record, 1)
    return [
        _record(GPU_SAMPLES, number, _samples(rng, number, per_record, hosts)) for number in range(events // per_record)
    ]


def columnar_json(record: Record) -> bytes:
    """The events of a record as columnar JSON."""
    event = BY_TOPIC[record.topic]
    rows = rows_of(event.fields, native.decode(record.value or b"", event.fields))
    return orjson.dumps(
        {field.name: [row[field.name] for row in rows] for field in event.fields}, option=orjson.OPT_NON_STR_KEYS
    )


def _record(event: Event, number: int, block: Block) -> Record:
    at = block.columns["at_ms"]
    assert isinstance(at, Numbers)
    identity = Identity(f"{number % 97:032x}", 1, number, (1, number))
    headers = encode_headers(event.schema, NATIVE, identity, block.rows)
    value = native.encode(event.fields, block)
    return Record(event.topic, 0, number, int(at.values.max()) + 300, None, value, headers)


def _at(rng: np.random.Generator, number: int, rows: int) -> npt.NDArray[np.int64]:
    begin = START_MS + number * rows * 1_000 // EVENTS_PER_SECOND
    return begin + rng.integers(0, 1_000, rows)


def _one(word: str, rows: int) -> Labels:
    return Labels(np.ones(rows, np.uint8), [None, word.encode()])


def _some(rng: np.random.Generator, words: list[str], rows: int, nulls: float = 0.0) -> Labels:
    picked = rng.integers(1, len(words) + 1, rows)
    picked[rng.random(rows) < nulls] = 0
    used, codes = np.unique(picked, return_inverse=True)
    known = [words[code - 1].encode() for code in used.tolist() if code]
    shift = 0 if used[0] == 0 else 1
    return Labels((codes + shift).astype(np.uint8), [None, *known])


def _blank(event: Event, rows: int) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    for field in event.fields:
        if field.kind is Kind.LABEL:
            columns[field.name] = Labels(np.zeros(rows, np.uint8), [None])
        elif field.kind is Kind.BINS:
            columns[field.name] = Bins(np.zeros(rows, np.int64), np.empty(0, np.int16), np.empty(0, np.uint64))
        elif field.kind in (Kind.TEXT, Kind.OPTIONAL_TEXT):
            columns[field.name] = Texts(b"", np.zeros(rows, np.int64), np.zeros(rows, np.bool_))
        else:
            columns[field.name] = Numbers(np.zeros(rows, field.kind.numpy), np.zeros(rows, np.bool_))
    return columns


def _requests(rng: np.random.Generator, number: int, rows: int, hosts: int, tenants: int) -> Block:
    host = int(rng.integers(hosts))
    columns = _blank(LLM_REQUESTS, rows)
    columns["at_ms"] = Numbers(_at(rng, number, rows))
    for name, median in (("ttft_us", 300_000), ("tpot_us", 30_000), ("e2e_us", 5_000_000), ("queue_us", 20_000)):
        values = np.minimum(rng.lognormal(np.log(median), 0.8, rows), 3.6e9).astype(np.uint32)
        columns[name] = Numbers(values, rng.random(rows) > 0.02)
    for name, median in (("ttfo_us", 400_000), ("prefill_us", 250_000), ("decode_us", 4_000_000)):
        values = np.minimum(rng.lognormal(np.log(median), 0.8, rows), 3.6e9).astype(np.uint32)
        columns[name] = Numbers(values, np.ones(rows, np.bool_))
    for name, mean in (("input_tokens", 2_000), ("cached_tokens", 500), ("output_tokens", 300)):
        columns[name] = Numbers(rng.geometric(1 / mean, rows).astype(np.uint32), np.ones(rows, np.bool_))
    failed = rng.random(rows) < 0.01
    columns |= {
        "http_status": Numbers(np.where(failed, 500, 200).astype(np.uint32), np.ones(rows, np.bool_)),
        "finish_reason": Labels(np.where(failed, 2, 1).astype(np.uint8), [None, b"stop", b"error"]),
        "trace_id": _traces(rng, rows),
        "cluster": _one("cluster-a", rows),
        "region": _one("eu-west-1", rows),
        "host": _one(f"host-{host:05d}", rows),
        "engine_id": _some(rng, [f"engine-{host:05d}-{n}" for n in range(2)], rows),
        "placement_group": _one(f"host-{host:05d}", rows),
        "model": _one(f"model-{host % 4}", rows),
        "model_version": _one("2026-01", rows),
        "precision": _one("fp8", rows),
        "tenant": _some(rng, [f"tenant-{n:05d}" for n in range(tenants)], rows),
        "slo_class": _some(rng, ["interactive", "batch"], rows),
        "status": Labels(np.where(failed, 2, 1).astype(np.uint8), [None, b"ok", b"error"]),
        "error_kind": Labels(failed.astype(np.uint8), [None, b"server"]),
        "start": _one("warm", rows),
        "origin": _one("simulated", rows),
        "itl_bins": _gaps(rng, rows),
        "request_id": _ids(number, rows),
    }
    return Block(rows, columns)


def _gaps(rng: np.random.Generator, rows: int) -> Bins:
    """Neighbouring bins about 30 ms per request."""
    first = rng.integers(468, 484, rows)
    keys = (first[:, None] + np.arange(GAP_BINS)).astype(np.int16).ravel()
    ends = np.arange(1, rows + 1, dtype=np.int64) * GAP_BINS
    return Bins(ends, keys, rng.integers(1, 60, rows * GAP_BINS).astype(np.uint64))


def _ids(number: int, rows: int) -> Texts:
    texts = [f"{number:08x}{row:08x}".encode() for row in range(rows)]
    return Texts(b"".join(texts), np.cumsum([len(text) for text in texts]).astype(np.int64), None)


def _traces(rng: np.random.Generator, rows: int) -> Texts:
    return Texts(
        rng.bytes(16 * rows).hex().encode(), np.arange(1, rows + 1, dtype=np.int64) * 32, np.ones(rows, np.bool_)
    )


def _samples(rng: np.random.Generator, number: int, rows: int, hosts: int) -> Block:
    host = number % hosts
    columns = _blank(GPU_SAMPLES, rows)
    columns["at_ms"] = Numbers(_at(rng, number, rows))
    for field in GPU_SAMPLES.of(Role.GAUGE, Role.DIFFERENCE):
        columns[field.name] = Numbers(
            rng.integers(0, field.high or 100, rows).astype(field.kind.numpy), np.ones(rows, np.bool_)
        )
    uuids: list[Any] = [f"GPU-{host:08x}-{n}".encode() for n in range(rows)]
    columns |= {
        "cluster": _one("cluster-a", rows),
        "region": _one("eu-west-1", rows),
        "host": _one(f"host-{host:05d}", rows),
        "engine_id": _one(f"engine-{host:05d}-0", rows),
        "placement_group": _one(f"host-{host:05d}", rows),
        "gpu_uuid": Labels(np.arange(1, rows + 1).astype(np.uint8), [None, *uuids]),
        "gpu_model": _one("NVIDIA H100 80GB HBM3", rows),
        "workload": _one("inference", rows),
        "origin": _one("simulated", rows),
    }
    return Block(rows, columns)
