"""``bench stages``: what each stage of the windows job costs one core, without a broker.

One partition of four is made beforehand and handed over as fetches bring it. Beside the stages stand admission of the
other formats and a bare ``orjson.loads``. Processor time in microseconds per event; everything was compiled before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import orjson
import psutil

from lab.bench.feed import FORMATS, messages
from lab.bench.workload import Profile, Workload
from schemas.contract.admission import read_headers
from schemas.contract.headers import NATIVE
from schemas.contract.record import Record
from schemas.events.event_types import BY_TOPIC
from schemas.limits import Limits
from stream_jobs.step import Commit
from stream_jobs.windows.judge import judge
from stream_jobs.windows.step import WindowsStep
from stream_jobs.windows.warm import warm

FROM_MS = 1_800_000_000_000
PARTITIONS = 4
FETCH_EVENTS = 20_000
COMMIT_EVENTS = 50_000
LIMITS = Limits(process_series_max=10_000_000, series_max=200_000, label_cardinality_max=400_000)
_OUTPUTS = {"window.partials": 4, "books": 1, "rejected": 1}
_APPENDED_AFTER_MS = 1_300


def measure(profile: Profile, seconds: int, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Numbers by topic, for ``seconds`` of event time."""
    found = {}
    warm()
    for topic in profile.topics:
        say(f"{topic}: {seconds} s of events")
        records = records_of(profile, topic, seconds, seed, NATIVE)
        _folded(records[: len(records) // 10])  # every cache is warm
        found[topic] = _folded(records) | _admitted(profile, topic, seed)
    return {"profile": profile.name, "seconds": seconds, "by_topic": found}


def records_of(profile: Profile, topic: str, seconds: int, seed: int, content_type: str) -> list[Record]:
    """What stands in one partition of the topic."""
    partitions = dict.fromkeys(profile.topics, PARTITIONS)
    every = messages(Workload(profile, seed), FROM_MS, seconds, content_type, partitions, "stages")
    mine = [one for one in every if one.topic == topic and one.partition == 0]
    return [
        Record(
            topic, 0, at, FROM_MS + at * seconds // len(mine) * 1_000 + _APPENDED_AFTER_MS, None, one.value, one.headers
        )
        for at, one in enumerate(mine)
    ]


def _admitted(profile: Profile, topic: str, seed: int) -> dict[str, float]:
    """A second of events: headers alone, admission by format, and the yardstick."""
    event = BY_TOPIC[topic]
    by_format = {name: records_of(profile, topic, 1, seed, content) for name, content in FORMATS.items()}
    events = _events(by_format["native"])
    texts = [one.value or b"" for one in by_format["columns"]]
    return {
        "headers_us": _least_us(lambda: read_headers(event, by_format["native"], LIMITS), events),
        **{
            f"admission_{name}_us": _least_us(partial(judge, event, by_format[name], LIMITS), events)
            for name in FORMATS
        },
        "orjson_us": _least_us(lambda: [orjson.loads(text) for text in texts], events),
    }


def _folded(records: Sequence[Record]) -> dict[str, Any]:
    """Every record through the step, with a commit every ``COMMIT_EVENTS``; then a snapshot and its loading."""
    events, per_record = _events(records), _events(records[:1])
    fetch = max(FETCH_EVENTS // per_record, 1)
    fetches = [records[at : at + fetch] for at in range(0, len(records), fetch)]
    step, topic = WindowsStep(LIMITS, _OUTPUTS), records[0].topic
    state, changes, memory = step.new(topic, 0), step.changes(), psutil.Process().memory_info().rss
    spent_s = dict.fromkeys(("admission", "fold", "commit"), 0.0)
    partial_rows = output_bytes = changes_bytes = number = 0
    for count, some in enumerate(fetches, 1):
        begun_s = time.process_time()
        judged = judge(state.plan.event, some, LIMITS)
        judged_s = time.process_time()
        step.fold_judged(state, judged, changes)
        spent_s["admission"] += judged_s - begun_s
        spent_s["fold"] += time.process_time() - judged_s
        if count % max(COMMIT_EVENTS // (fetch * per_record), 1) == 0 or count == len(fetches):
            partial_rows += sum(segment.rows for segment in changes.segments)
            changes_bytes = max(changes_bytes, changes.bytes)
            begun_s = time.process_time()
            outputs = step.rows(state, changes, Commit(topic, 0, 0, count, number, 0, False))
            spent_s["commit"] += time.process_time() - begun_s
            number += len(outputs)
            output_bytes += sum(len(one.value or b"") for one in outputs)
            changes = step.changes()
    memory = psutil.Process().memory_info().rss - memory
    begun_s = time.process_time()
    parts = step.dump(state)
    dumped_s = time.process_time()
    step.load(topic, 0, parts)
    return {
        "events": events,
        "events_per_record": per_record,
        "value_bytes_per_event": sum(len(one.value or b"") for one in records) / events,
        "series": sum(table.count - 1 for table in state.series.tables),
        "partial_rows": partial_rows,
        **{f"{stage}_us": 1e6 * taken_s / events for stage, taken_s in spent_s.items()},
        "changes_bytes_max": changes_bytes,
        "output_bytes": output_bytes,
        "snapshot_bytes": sum(map(len, parts)),
        "snapshot_s": dumped_s - begun_s,
        "load_s": time.process_time() - dumped_s,
        "memory_grown_bytes": memory,
    }


def _events(records: Sequence[Record]) -> int:
    return sum(int(dict(record.headers)["count"]) for record in records)


def _least_us(call: Callable[[], object], events: int, times: int = 7) -> float:
    """The least of several runs: other load on the machine only adds."""
    taken_s = []
    for _ in range(times):
        begun_s = time.process_time()
        call()
        taken_s.append(time.process_time() - begun_s)
    return 1e6 * min(taken_s) / events
