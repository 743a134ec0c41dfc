"""The question of ``bench peers`` in plain Faust; runs in an environment of its own (``peers-faust.txt``).

``python peers_faust.py SETTINGS``. An agent adds each record's events to a table with tumbling windows, as the
documentation has it; a timer sends the rows that changed. ``on_window_close`` is not used: it goes by the wall clock,
and is called for the partition whose keys are removed first only. A record is in one window here (a host's second).
"""

from __future__ import annotations

import json
import sys
from typing import Any

EMIT_EVERY_S = 2.0
Held = list[Any]
"""Events, count, total, tokens and the values of a series."""


def grouped(events: list[dict[str, Any]], dimensions: list[str]) -> dict[str, Held]:
    """The events of a record by series (its dimensions as JSON)."""
    found: dict[str, Held] = {}
    for event in events:
        held = found.setdefault(json.dumps([*map(event.get, dimensions)]), [0, 0, 0, 0, []])
        held[0] += 1
        held[3] += event["output_tokens"] or 0
        if (value := event["ttft_us"]) is not None:
            held[1] += 1
            held[2] += value
            held[4].append(value)
    return found


def row(window_ms: int, series: str, held: Held, levels: list[float]) -> dict[str, Any]:
    """A row, with exact quantiles."""
    events, count, total, tokens, values = held
    ordered = sorted(values)
    quantiles = [ordered[int(q * (count - 1))] for q in levels] if count else []
    numbers = {"events": events, "count": count, "total": total, "tokens": tokens, "quantiles": quantiles}
    return {"window_ms": window_ms, "series": json.loads(series), **numbers}


def program(settings: dict[str, Any]) -> Any:
    """The Faust application."""
    import faust
    import orjson
    from faust.serializers import codecs

    class Ndjson(codecs.Codec):
        def _loads(self, s: bytes) -> Any:
            return [orjson.loads(line) for line in s.splitlines()]

    codecs.register("ndjson", Ndjson())
    size_ms, dimensions, levels = settings["window_ms"], settings["dimensions"], settings["levels"]
    app = faust.App(
        settings["group"],
        broker=f"kafka://{settings['bootstrap']}",
        store="memory://",
        datadir=settings["folder"],
        topic_partitions=settings["partitions"],
        topic_disable_leader=True,
        consumer_group_instance_id="peers",
        broker_session_timeout=settings["session_ms"] / 1_000,
        web_enabled=False,
    )
    source = app.topic(settings["source"], key_type=bytes, value_type=None, value_serializer="ndjson")
    output = app.topic(settings["output"], key_type=None, value_serializer="json")
    table = app.Table("windows", default=list, partitions=settings["partitions"])
    windows = table.tumbling(size_ms / 1_000, expires=3_600.0).relative_to(lambda one: one.value[0]["at_ms"] / 1_000)
    changed: dict[tuple[int, str], Held] = {}

    @app.agent(source)
    async def aggregate(records: Any) -> None:
        async for events in records:
            window_ms = events[0]["at_ms"] // size_ms * size_ms
            for series, held in grouped(events, dimensions).items():
                before = windows[series].value()
                now = [a + b for a, b in zip(before, held, strict=True)] if before else held
                windows[series] = now
                changed[window_ms, series] = now

    @app.timer(interval=EMIT_EVERY_S)
    async def emit() -> None:
        taken = dict(changed)
        changed.clear()
        for (window_ms, series), held in taken.items():
            await output.send(value=row(window_ms, series, held, levels))

    return app


if __name__ == "__main__":
    application = program(json.loads(sys.argv[1]))
    sys.argv[1:] = ["worker", "--loglevel", "info"]
    application.main()
