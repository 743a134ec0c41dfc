"""Cost of the windows fold in CPU-seconds, beside a bare ``orjson.loads`` loop over the same events.

``python -m bench.fold --profile bulk|fleet|series [--json]``

``bulk`` and ``fleet`` are the workloads of ``fleetpulse bench``, one partition of four; ``series`` has small records
and a wanted number of series. Stages are measured apart: headers, decoding and verdicts (``judge``), folding
(``fold``), and the commit (``rows``). ``changes_bytes`` is the most that unsent changes held, ``memory_bytes`` by how
much the process grew meanwhile.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass

import numpy as np
import orjson
import psutil

from bench.events import START_MS, columnar_json, gpu_records, request_records
from fleetpulse.bench.workload import PROFILES, Workload
from schemas import native
from schemas.events import BY_TOPIC
from schemas.headers import NATIVE, Identity, encode_headers
from schemas.limits import Limits
from schemas.placement import place
from schemas.record import Record
from stream_jobs.step import Commit
from stream_jobs.windows.judge import judge
from stream_jobs.windows.step import WindowsStep
from stream_jobs.windows.warm import warm

PARTITIONS = {"window.partials": 4, "books": 1, "rejected": 1}
FETCH_EVENTS = 20_000


@dataclass
class Figures:
    topic: str
    events: int
    records: int
    events_per_record: int
    series: int
    partial_rows: int
    judge_us_per_event: float
    fold_us_per_event: float
    rows_us_per_event: float
    rows_us_per_partial: float
    job_us_per_record: float
    orjson_us_per_event: float
    ratio_to_orjson: float
    changes_bytes: int
    output_bytes: int
    snapshot_bytes: int
    snapshot_ms: float
    load_ms: float
    memory_bytes: int


def measure(records: list[Record], fetch_records: int, commit_fetches: int) -> Figures:
    """Fold all records in fetches, with a commit every so many; everything was compiled before."""
    events = sum(int(dict(record.headers)["count"]) for record in records)
    memory_before = process_memory_bytes()
    step = WindowsStep(Limits(series_max=200_000, words_max=400_000), PARTITIONS)
    topic = records[0].topic
    state, changes = step.new(topic, 0), step.changes()
    spent = dict.fromkeys(("judge", "fold", "rows"), 0.0)
    partial_rows = output_bytes = changes_bytes = number = 0
    fetches = [records[at : at + fetch_records] for at in range(0, len(records), fetch_records)]
    for count, fetch in enumerate(fetches, 1):
        began = time.process_time()
        judged = judge(state.plan.event, fetch, step.limits)
        split = time.process_time()
        step.fold_judged(state, judged, changes)
        spent["judge"] += split - began
        spent["fold"] += time.process_time() - split
        if count % commit_fetches == 0 or count == len(fetches):
            partial_rows += sum(segment.rows for segment in changes.segments)
            changes_bytes = max(changes_bytes, changes.bytes)
            began = time.process_time()
            outputs = step.rows(state, changes, Commit(topic, 0, 0, count, number, 0, False))
            spent["rows"] += time.process_time() - began
            number += len(outputs)
            output_bytes += sum(len(output.value) for output in outputs)
            changes = step.changes()
    memory_bytes = process_memory_bytes() - memory_before
    began = time.process_time()
    parts = step.dump(state)
    dumped = time.process_time()
    step.load(topic, 0, parts)
    loaded = time.process_time()
    yardstick = calibrate(records)
    job = sum(spent.values())
    return Figures(
        topic=topic,
        events=events,
        records=len(records),
        events_per_record=events // len(records),
        series=sum(table.count - 1 for table in state.series.tables),
        partial_rows=partial_rows,
        judge_us_per_event=spent["judge"] / events * 1e6,
        fold_us_per_event=spent["fold"] / events * 1e6,
        rows_us_per_event=spent["rows"] / events * 1e6,
        rows_us_per_partial=spent["rows"] / max(partial_rows, 1) * 1e6,
        job_us_per_record=job / len(records) * 1e6,
        orjson_us_per_event=yardstick / events * 1e6,
        ratio_to_orjson=yardstick / job,
        changes_bytes=changes_bytes,
        output_bytes=output_bytes,
        snapshot_bytes=sum(map(len, parts)),
        snapshot_ms=(dumped - began) * 1e3,
        load_ms=(loaded - dumped) * 1e3,
        memory_bytes=memory_bytes,
    )


def process_memory_bytes() -> int:
    """Resident memory of this process."""
    return int(psutil.Process().memory_info().rss)


def calibrate(records: list[Record]) -> float:
    """CPU-seconds of ``orjson.loads`` over the same events as columnar JSON, record by record."""
    texts = [columnar_json(record) for record in records[:400]]
    began = time.process_time()
    for text in texts:
        orjson.loads(text)
    return (time.process_time() - began) * len(records) / len(texts)


def workload_records(profile: str, seconds: int, seed: int) -> dict[str, list[Record]]:
    """By topic the records of one partition of four: what ``fleetpulse bench`` sends for so many seconds."""
    found: dict[str, list[Record]] = {}
    sequence = dict.fromkeys(range(PROFILES[profile].hosts), 0)
    for second, step in enumerate(Workload(PROFILES[profile], seed).steps(START_MS, seconds)):
        for emission in step:
            if place(emission.name.encode(), 4):
                continue
            event, records = BY_TOPIC[emission.topic], found.setdefault(emission.topic, [])
            seq = sequence[emission.host]
            sequence[emission.host] += 1
            headers = encode_headers(
                event.schema, NATIVE, Identity(f"{emission.host:032x}", 1, seq, (1, seq)), emission.block.rows
            )
            value = native.encode(event.fields, emission.block)
            appended_ms = START_MS + second * 1_000 + 1_300
            records.append(Record(emission.topic, 0, len(records), appended_ms, None, value, headers))
    return found


def made_records(series: int, events: int, seed: int) -> dict[str, list[Record]]:
    """By topic small records with a wanted number of series."""
    rng = np.random.default_rng(seed)
    return {
        "llm.requests": request_records(rng, events, 40, series),
        "gpu.samples": gpu_records(rng, events // 5, 8, series),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", choices=("bulk", "fleet", "series"), default="bulk")
    parser.add_argument("--seconds", type=int, default=24, help="of event time (bulk, fleet)")
    parser.add_argument("--events", type=int, default=600_000, help="request events (series)")
    parser.add_argument("--series", type=int, default=100_000, help="about, per grouping set (series)")
    parser.add_argument("--commit-events", type=int, default=50_000, help="events between two commits")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.profile == "series":
        by_topic = made_records(arguments.series, arguments.events, arguments.seed)
    else:
        by_topic = workload_records(arguments.profile, arguments.seconds, arguments.seed)
    warm()
    for records in by_topic.values():
        per_record = int(dict(records[0].headers)["count"])
        fetch = max(FETCH_EVENTS // per_record, 1)
        measure(records[:fetch], fetch, 1)
        figures = measure(records, fetch, max(arguments.commit_events // (fetch * per_record), 1))
        tell(figures, arguments.json)


def tell(figures: Figures, as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(figures)))
        return
    for name, value in asdict(figures).items():
        print(f"{name:22} {value:.3f}" if isinstance(value, float) else f"{name:22} {value}")
    print()


if __name__ == "__main__":
    main()
