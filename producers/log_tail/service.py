"""Log tail: reads a log file, maps its lines to rows, spools them, saves the position.

Each line is spooled exactly once, except:
- kill -9 between spooling lines and saving the position: the lines of one chunk (``chunk_bytes``) are spooled again, in
  other records. They count twice in windows; in raw rows they share a ``request_id``, the line's own or one made from
  its offset and text. No line is lost. Steps of training have no id: they stand twice in raw rows, too.
- the agent stops while the spool is full: records already spooled of an unfinished chunk are spooled again.
- a power cut: lines read since the position last reached the disk (some 30 s) are spooled again; where the position
  reached the disk before the spool's last second did, that second's lines are lost.

While the spool is full, reading stops and nothing is shed: the log keeps unread lines until it is removed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from producers.agent.publishing import Parcel, packed
from producers.batch import Batch
from producers.collector import Collected
from producers.identity.joiner import Joiner
from producers.log_tail.mapping import Line, field_map, rows_of
from producers.log_tail.steps import step_map, steps_of
from producers.log_tail.tail import REQUESTS, Chunk, LogTailSettings, Tail, decode, encode
from producers.publish.puts import Puts
from producers.publish.reconnect import comes
from producers.requests.client_names import ClientNames
from producers.spool.slots import Slots
from runtime.clock import Clock, SystemClock
from runtime.counters import COUNTERS, Counters
from schemas.errors import ConfigError
from schemas.events.event_types import LLM_REQUESTS, TRAINING_STEPS

_log = logging.getLogger(__name__)

SLOT_BYTES = 1_024


@dataclass(slots=True)
class _Trouble:
    """``now``: why the log cannot be read; None while it can. The same trouble is logged once."""

    now: str | None = None


@dataclass(frozen=True, slots=True)
class _Work:
    chunk: Chunk
    parcel: Parcel
    left_out: dict[str, int]


async def run_log_tail(
    publisher: Puts,
    settings: LogTailSettings,
    stop: asyncio.Event,
    *,
    joiner: Joiner | None = None,
    names: ClientNames | None = None,
    clock: Clock | None = None,
    counters: Counters = COUNTERS,
) -> None:
    """Until ``stop``. Raises ``ConfigError`` where the settings cannot be meant or the position cannot be kept."""
    clock, joiner, names = clock or SystemClock(), joiner or Joiner("log_tail"), names or ClientNames()
    rows_in = rows_reader(settings, clock, joiner, names)
    slots = await asyncio.to_thread(_open_slots, settings)
    tail, trouble = Tail(settings, decode(slots.read())), _Trouble()
    try:
        while not stop.is_set():
            now_ms = round(clock.monotonic_s() * 1_000)
            work = await asyncio.to_thread(_next, tail, rows_in, now_ms, counters, trouble)
            if work is None:
                _keep(slots, tail, counters)
                await comes(stop, settings.poll_ms / 1_000)
                continue
            if not await _publish(publisher, work.parcel, stop):
                return
            tail.accept(work.chunk)
            _keep(slots, tail, counters)
            _count(counters, work.left_out)
    finally:
        tail.close()
        slots.close()


def _open_slots(settings: LogTailSettings) -> Slots:
    try:
        settings.position.parent.mkdir(parents=True, exist_ok=True)
        return Slots.open(settings.position, SLOT_BYTES)
    except OSError as error:
        raise ConfigError("agent.log_tails.position", str(settings.position), f"must be writable ({error})") from error


RowsIn = Callable[[Sequence[Line]], tuple[Collected, Mapping[str, int]]]
"""The rows of lines, and what was left out, by reason."""


def rows_reader(settings: LogTailSettings, clock: Clock, joiner: Joiner, names: ClientNames) -> RowsIn:
    """How this log's lines become rows. Raises ``ConfigError`` for fields that cannot be meant."""
    key, labels = "agent.log_tails.fields", settings.labels
    if settings.format != REQUESTS:
        steps = step_map(settings.format, settings.fields, key)

        def of_training(lines: Sequence[Line]) -> tuple[Collected, Mapping[str, int]]:
            rows, left_out = steps_of(settings.format, steps, lines, labels, clock.now_ms())
            return Collected(TRAINING_STEPS, rows), left_out

        return of_training
    mapped = field_map(settings.fields, key)

    def of_requests(lines: Sequence[Line]) -> tuple[Collected, Mapping[str, int]]:
        rows, left_out = rows_of(mapped, lines, labels, str(settings.path))
        for row in rows:
            names.hash_user(row)
            names.judge(row)
            joiner.join(row, settings.engine)
        return Collected(LLM_REQUESTS, rows), left_out

    return of_requests


def _next(tail: Tail, rows_in: RowsIn, now_ms: int, counters: Counters, trouble: _Trouble) -> _Work | None:
    """In a thread: the next lines as batches."""
    try:
        chunk = tail.read(now_ms)
    except OSError as error:
        if str(error) != trouble.now:
            _log.warning("log file unreadable, retrying", extra={"path": str(tail.path), "error": str(error)})
        trouble.now = str(error)
        counters.add("sampler_errors", sampler="log_tail", field="file")
        return None
    trouble.now = None
    if chunk is None:
        return None
    collected, left_out = rows_in(chunk.lines)
    return _Work(chunk, packed([collected] if collected.rows else []), {**chunk.left_out, **left_out})


async def _publish(publisher: Puts, parcel: Parcel, stop: asyncio.Event) -> bool:
    """False when ``stop`` came while the spool had no room: what was not spooled is read again at the next start."""
    stopped = asyncio.ensure_future(stop.wait())
    try:
        for batch in parcel.batches:
            if not await _put(publisher, batch, stopped):
                return False
    finally:
        stopped.cancel()
    for topic, events in parcel.unfit:
        publisher.shed(topic, events)
    return True


async def _put(publisher: Puts, batch: Batch, stopped: asyncio.Future[Any]) -> bool:
    put: asyncio.Future[Any] = asyncio.ensure_future(publisher.put(batch.topic, batch.key, batch, wait=True))
    try:
        await asyncio.wait([put, stopped], return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not put.done():
            put.cancel()  # takes it back as long as it waits for room; what is on its way to the disk is spooled
            await asyncio.wait([put])
    if put.cancelled():
        return False
    put.result()
    return True


def _keep(slots: Slots, tail: Tail, counters: Counters) -> None:
    """A disk that does not take the position is asked again, at the next chunk or look: who began anew from the one
    before would spool what is spooled."""
    if tail.position is None:
        return
    value = encode(tail.position)
    if value != slots.read():
        try:
            slots.write(value, durable=False)
        except OSError:
            counters.add("sampler_errors", sampler="log_tail", field="position")


def _count(counters: Counters, left_out: dict[str, int]) -> None:
    for reason, times in left_out.items():
        counters.add("sampler_errors", times, sampler="log_tail", field=reason)
