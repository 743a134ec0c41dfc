"""What admission costs per event, beside a bare ``orjson.loads`` of the same events as columnar JSON.

``python bench/admission.py [--json] [--seed 1]``. CPU time of this thread; one call admits what a fetch brings.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from schemas import wire
from schemas.admission import admit, read_headers
from schemas.build import block_from_rows
from schemas.events import GPU_SAMPLES, LLM_REQUESTS
from schemas.fields import Event
from schemas.headers import JSON_COLUMNS, NATIVE, NDJSON, Identity, RecordHeaders, encode_headers
from schemas.limits import DEFAULT_LIMITS
from schemas.record import Record

NOW_MS = 1_700_000_000_000
MODELS = ("llama-3.1-8b", "llama-3.3-70b", "qwen3-32b", "mixtral-8x22b")


def request(rng: random.Random, host: int) -> dict[str, Any]:
    """One request event of a host: four measured latencies, 12 bins of gaps, 24 tenants over the fleet."""
    engine = f"engine-{host}-{rng.randrange(2)}"
    first = rng.randint(0, 900)
    return {
        "at_ms": NOW_MS - rng.randrange(1_000),
        "ttft_us": rng.randint(20_000, 2_000_000),
        "tpot_us": rng.randint(5_000, 80_000) if rng.random() < 0.97 else None,
        "e2e_us": rng.randint(100_000, 60_000_000),
        "queue_us": rng.randint(0, 500_000),
        "input_tokens": rng.randint(10, 8_000),
        "cached_tokens": rng.randint(0, 1_000),
        "output_tokens": rng.randint(1, 1_000),
        "http_status": 200,
        "cluster": "c1",
        "region": "eu-west",
        "host": f"host-{host}",
        "engine_id": engine,
        "placement_group": engine,
        "model": MODELS[host % len(MODELS)],
        "model_version": "r1",
        "precision": "fp8",
        "tenant": f"tenant-{rng.randrange(24)}",
        "slo_class": rng.choice(("interactive", "batch")),
        "status": "ok",
        "finish_reason": rng.choice(("stop", "length")),
        "start": "warm",
        "origin": "simulated",
        "itl_bins": {first + 3 * i: rng.randint(1, 90) for i in range(12)},
        "request_id": f"{rng.getrandbits(128):032x}",
        "trace_id": f"{rng.getrandbits(128):032x}",
    }


def gpu_sample(rng: random.Random, host: int, number: int) -> dict[str, Any]:
    """One sample of GPU ``number`` of a host, every measure known."""
    sample: dict[str, Any] = {
        field.name: rng.randint(max(field.low or 0, 0), min(field.high or 10**6, 10**9))
        for field in GPU_SAMPLES.fields
        if field.kind.numpy and field.name != "at_ms"
    }
    return sample | {
        "at_ms": NOW_MS,
        "cluster": "c1",
        "region": "eu-west",
        "host": f"host-{host}",
        "engine_id": f"engine-{host}-{number // 4}",
        "placement_group": f"engine-{host}-{number // 4}",
        "gpu_uuid": f"GPU-{host:08x}-0000-0000-0000-{number:012x}",
        "gpu_model": "NVIDIA H100 80GB HBM3",
        "workload": "inference",
        "origin": "simulated",
    }


def batches(event: Event, hosts: int, per_record: int, seed: int) -> list[list[dict[str, Any]]]:
    """One batch per host."""
    rng = random.Random(seed)
    make = request if event is LLM_REQUESTS else None
    return [
        [make(rng, host) if make else gpu_sample(rng, host, number) for number in range(per_record)]
        for host in range(hosts)
    ]


def records_of(event: Event, rows: list[list[dict[str, Any]]], content_type: str) -> list[Record]:
    """The batches as records of one partition."""
    return [
        Record(
            event.topic,
            0,
            offset,
            NOW_MS,
            None,
            wire.encode(content_type, event.fields, block_from_rows(event.fields, batch)),
            encode_headers(event.schema, content_type, Identity(f"{offset:032x}", 1, 7, (1, 7)), len(batch)),
        )
        for offset, batch in enumerate(rows)
    ]


def cpu_us(call: Callable[[], object], events: int, repeats: int) -> float:
    """Least CPU microseconds per event of several runs."""
    best = float("inf")
    for _ in range(repeats):
        start = time.thread_time()
        call()
        best = min(best, time.thread_time() - start)
    return 1e6 * best / events


def admission(event: Event, records: list[Record], *, texts: bool) -> None:
    """What a job does with a fetch."""
    headers = [found for found in read_headers(event, records, DEFAULT_LIMITS) if isinstance(found, RecordHeaders)]
    admitted = admit(event, records, headers, DEFAULT_LIMITS, texts=texts)
    assert not admitted.rejects


def measure(name: str, event: Event, per_record: int, hosts: int, seed: int, repeats: int = 15) -> dict[str, Any]:
    """Microseconds per event and per record of one shape of traffic."""
    rows = batches(event, hosts, per_record, seed)
    native = records_of(event, rows, NATIVE)
    columns = [wire.encode(JSON_COLUMNS, event.fields, block_from_rows(event.fields, batch)) for batch in rows]
    events = hosts * per_record
    admitted = cpu_us(lambda: admission(event, native, texts=False), events, repeats)
    yardstick = cpu_us(lambda: [orjson.loads(value) for value in columns], events, repeats)
    few = 2_000 // per_record or 1
    lines, arrays = records_of(event, rows[:few], NDJSON), records_of(event, rows[:few], JSON_COLUMNS)
    return {
        "shape": name,
        "records": hosts,
        "events_per_record": per_record,
        "bytes_per_event": sum(len(record.value or b"") for record in native) / events,
        "native_us": admitted,
        "native_us_per_record": admitted * per_record,
        "native_with_texts_us": cpu_us(lambda: admission(event, native, texts=True), events, repeats),
        "headers_us": cpu_us(lambda: read_headers(event, native, DEFAULT_LIMITS), events, repeats),
        "orjson_us": yardstick,
        "ratio_to_orjson": yardstick / admitted,
        "columns_us": cpu_us(lambda: admission(event, arrays, texts=False), len(arrays) * per_record, 3),
        "ndjson_us": cpu_us(lambda: admission(event, lines, texts=False), len(lines) * per_record, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object per shape")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    shapes = (
        ("bulk requests", LLM_REQUESTS, 500, 40),
        ("fleet requests", LLM_REQUESTS, 40, 200),
        ("fleet GPU samples", GPU_SAMPLES, 8, 200),
        ("one small record", GPU_SAMPLES, 8, 1),
    )
    for name, event, per_record, hosts in shapes:
        result = measure(name, event, per_record, hosts, arguments.seed)
        if arguments.json:
            print(json.dumps(result))
        else:
            print(name, *(f"{key}={value:.3g}" for key, value in result.items() if key != "shape"), sep="  ")


if __name__ == "__main__":
    main()
