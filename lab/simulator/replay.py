"""Traces of requests, sent again as they arrived, only faster; files are read as a stream.

Two formats: the Azure LLM inference traces (arrival time and token counts alone), and JSON lines with our own field
names. Gaps between arrivals are divided by the speed; every event gets the moment of its sending as its time.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from producers.batch import Batch, BatchBuilder, BatchLimits
from producers.publish.publisher import Publisher
from runtime.clock import Clock
from schemas.errors import ConfigError
from schemas.events.event_types import LLM_REQUESTS

_log = logging.getLogger(__name__)

AZURE_HEADER = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_NAP_MAX_S = 0.2
_LOOK_EVERY_ROWS = 256


class TraceRow(NamedTuple):
    """A request of an Azure trace; ``at_us`` is its arrival since the epoch (the file names no zone: read as UTC)."""

    at_us: int
    input_tokens: int
    output_tokens: int


class Arrival(NamedTuple):
    """When a request of a trace arrived, and what is known of it by our field names."""

    at_us: int
    fields: Mapping[str, Any]


@dataclass(slots=True)
class Progress:
    """Running counts of one replay. ``trace_s`` is how far it has come in the trace's own time."""

    events: int = 0
    shed_events: int = 0
    trace_s: float = 0.0


def read_azure(path: Path) -> Iterator[TraceRow]:
    """The rows of a file of the Azure traces, in its order. Raises ConfigError naming the line that is wrong."""
    with path.open(encoding="ascii", errors="replace", newline=None) as lines:
        yield from azure_rows(lines, str(path))


def azure_rows(lines: Iterable[str], name: str = "the trace") -> Iterator[TraceRow]:
    """The rows of an Azure trace: CRLF or LF, seven fractional digits (the seventh is dropped), last line unended."""
    for number, line in enumerate(lines, start=1):
        cells = line.strip().split(",")
        if number == 1:
            if tuple(cells) != AZURE_HEADER:
                raise ConfigError("replay.file", name, f"must begin with {','.join(AZURE_HEADER)}")
            continue
        if cells == [""]:
            continue
        try:
            at, input_tokens, output_tokens = cells
            yield TraceRow(_azure_time_us(at), int(input_tokens), int(output_tokens))
        except ValueError as error:
            raise ConfigError("replay.file", name, f"line {number} must be a time and two counts ({error})") from error


def _azure_time_us(text: str) -> int:
    seconds, _, fraction = text.partition(".")
    moment = datetime.strptime(seconds, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    return int(moment.timestamp()) * 1_000_000 + int(fraction[:6].ljust(6, "0"))


def jsonl_arrivals(lines: Iterable[bytes], name: str = "the trace") -> Iterator[Arrival]:
    """Requests as JSON lines of our field names; ``at_ms`` says when they arrived. Other fields are not judged here:
    what does not fit is rejected by the pipeline. Raises ConfigError for a line that is no object with ``at_ms``."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            fields = orjson.loads(line)
            yield Arrival(int(fields["at_ms"]) * 1_000, fields)
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigError(
                "replay.file", name, f"line {number} must be a JSON object with at_ms ({error})"
            ) from error


def read_arrivals(path: Path, format: str) -> Iterator[Arrival]:
    """The requests of a file (``azure`` or ``jsonl``), in its order."""
    if format == "azure":
        for row in read_azure(path):
            yield Arrival(row.at_us, {"input_tokens": row.input_tokens, "output_tokens": row.output_tokens})
    elif format == "jsonl":
        with path.open("rb") as lines:
            yield from jsonl_arrivals(lines, str(path))
    else:
        raise ConfigError("replay.format", format, "must be azure or jsonl")


def speed_of(text: str) -> float:
    """The number that gaps are divided by; infinite for ``max``. Raises ConfigError."""
    if text == "max":
        return math.inf
    try:
        speed = float(text)
    except ValueError:
        speed = math.nan
    if not 0 < speed < math.inf:
        raise ConfigError("replay.speed", text, "must be a number above 0, or max")
    return speed


def due_s(first_us: int, at_us: int, speed: float) -> float:
    """When a request is sent, in seconds after the first of the trace; one out of order is sent at once."""
    return max(0, at_us - first_us) / 1_000_000 / speed


async def replay(
    file: Path,
    format: str,
    speed: str,
    model: str,
    publisher: Publisher,
    clock: Clock,
    stop: asyncio.Event,
    on_progress: Callable[[Progress], None] | None = None,
) -> Progress:
    """Send the file's requests until its end or ``stop``; waits rather than shed while the spool is full.

    ``model`` and the other required labels are filled in where the trace has none.
    """
    factor = speed_of(speed)
    sending = _Sending(publisher, clock, on_progress)
    begin_s = clock.monotonic_s()
    first_us: int | None = None
    labels = {"host": socket.gethostname(), "model": model, "status": "ok", "origin": "measured"}
    for number, arrival in enumerate(read_arrivals(file, format)):
        if first_us is None:
            first_us = arrival.at_us
        due = begin_s + due_s(first_us, arrival.at_us, factor)
        if clock.monotonic_s() < due or number % _LOOK_EVERY_ROWS == 0:
            await sending.until(due, stop)
        if stop.is_set():
            break
        request_id = f"{publisher.spool.source[:12]}-{publisher.spool.boot}-{number}"
        row = {"request_id": request_id} | labels | dict(arrival.fields) | {"at_ms": clock.now_ms()}
        sending.progress.trace_s = (arrival.at_us - first_us) / 1_000_000
        await sending.add(row)
    await sending.finish()
    _log.info("the trace is replayed", extra={"file": str(file), "events": sending.progress.events})
    return sending.progress


class _Sending:
    """Requests into batches, batches into the spool, on time."""

    def __init__(self, publisher: Publisher, clock: Clock, on_progress: Callable[[Progress], None] | None) -> None:
        self._publisher = publisher
        self._clock = clock
        self._builder = BatchBuilder(LLM_REQUESTS, limits=BatchLimits.of())
        self._on_progress = on_progress or (lambda _progress: None)
        self.progress = Progress()

    async def add(self, row: Mapping[str, Any]) -> None:
        await self._put(self._builder.add(row, self._now_ms()))

    async def until(self, moment_s: float, stop: asyncio.Event) -> None:
        """Wait for the moment, sending meanwhile what has waited for company long enough."""
        while not stop.is_set():
            await self._put(self._builder.due(self._now_ms()))
            left_s = moment_s - self._clock.monotonic_s()
            if left_s <= 0:
                return
            await asyncio.sleep(min(left_s, _NAP_MAX_S))

    async def finish(self) -> None:
        await self._put(self._builder.flush())

    def _now_ms(self) -> float:
        return self._clock.monotonic_s() * 1_000

    async def _put(self, batches: list[Batch]) -> None:
        for batch in batches:
            await self._publisher.put(batch.topic, batch.key, batch, wait=True)
            self.progress.events += batch.count
        if self._builder.oversized_events > self.progress.shed_events:
            self._publisher.shed(LLM_REQUESTS.topic, self._builder.oversized_events - self.progress.shed_events)
            self.progress.shed_events = self._builder.oversized_events
        self._on_progress(self.progress)
