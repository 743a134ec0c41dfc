"""The question of ``bench peers`` in Quix Streams; runs in an environment of its own (``peers-quix.txt``).

``python peers_quix.py SETTINGS``. Records are keyed by host already and a series lives on one host, so nothing is
grouped again: each record becomes one part per window, parts are reduced per host in tumbling windows that close for
the whole partition, and a closed window becomes its rows. Exactly once, as the documentation has it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

Part = dict[str, list[Any]]
"""By series (its dimensions as JSON): events, count, total, tokens and the values."""


def parts(record: bytes, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """One part for each window that the events of a record lie in, with the time of its latest event."""
    import orjson

    size_ms, dimensions = settings["window_ms"], settings["dimensions"]
    found: dict[int, dict[str, Any]] = {}
    for line in record.splitlines():
        event = orjson.loads(line)
        window_ms = event["at_ms"] // size_ms * size_ms
        part = found.setdefault(window_ms, {"at_ms": event["at_ms"], "series": {}})
        part["at_ms"] = max(part["at_ms"], event["at_ms"])
        series = orjson.dumps([*map(event.get, dimensions)]).decode()
        held = part["series"].setdefault(series, [0, 0, 0, 0, []])
        held[0] += 1
        held[3] += event["output_tokens"] or 0
        if (value := event["ttft_us"]) is not None:
            held[1] += 1
            held[2] += value
            held[4].append(value)
    return list(found.values())


def merged(old: Part, part: dict[str, Any]) -> Part:
    """The state with a part added."""
    for series, held in part["series"].items():
        before = old.get(series)
        old[series] = held if before is None else [a + b for a, b in zip(before, held, strict=True)]
    return old


def rows(window_ms: int, state: Part, levels: list[float]) -> list[dict[str, Any]]:
    """The rows of a window, with exact quantiles."""
    found = []
    for series, (events, count, total, tokens, values) in state.items():
        ordered = sorted(values)
        quantiles = [ordered[int(q * (count - 1))] for q in levels] if count else []
        numbers = {"events": events, "count": count, "total": total, "tokens": tokens, "quantiles": quantiles}
        found.append({"window_ms": window_ms, "series": json.loads(series), **numbers})
    return found


def main(settings: dict[str, Any]) -> None:
    """Run until SIGTERM."""
    from quixstreams import Application

    app = Application(
        broker_address=settings["bootstrap"],
        consumer_group=settings["group"],
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=2.0,
        consumer_extra_config={"group.instance.id": "peers", "session.timeout.ms": settings["session_ms"]},
        producer_extra_config={"transaction.timeout.ms": 10_000},
        state_dir=settings["folder"],
        loglevel="INFO",
    )
    source = app.topic(settings["source"], value_deserializer="bytes", key_deserializer="str")
    output = app.topic(settings["output"], value_serializer="json", key_serializer="str")
    frame = app.dataframe(source)
    frame = frame.apply(lambda value: parts(value, settings), expand=True)
    frame = frame.set_timestamp(lambda value, key, timestamp, headers: value["at_ms"])
    window = frame.tumbling_window(settings["window_ms"], grace_ms=settings["grace_ms"])
    closed = window.reduce(merged, lambda part: part["series"]).final(closing_strategy="partition")
    levels = settings["levels"]
    closed = closed.apply(lambda value: rows(value["start"], value["value"], levels), expand=True)
    closed.to_topic(output)
    app.run()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
