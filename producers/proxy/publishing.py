"""RowPublisher: gathers finished rows into batches for at most a second and puts them on the disk spool.

A kill loses rows that are still gathering; a batch that was put survives and counts as *produced*.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from producers.batch import Batch, BatchBuilder
from producers.publish.puts import PutsAtOnce
from runtime.clock import Clock, SystemClock
from schemas.events.event_types import LLM_REQUESTS

_log = logging.getLogger(__name__)
_LOOK_EVERY_S = 0.1


class RowPublisher:
    """Takes rows at once and publishes them from a task of its own."""

    def __init__(self, publisher: PutsAtOnce, *, clock: Clock | None = None) -> None:
        self._publisher = publisher
        self._clock = clock or SystemClock()
        self._builder = BatchBuilder(LLM_REQUESTS)
        self._cut: list[Batch] = []
        self._declared = 0

    def take(self, row: dict[str, Any]) -> None:
        """One finished request."""
        self._cut += self._builder.add(row, self._clock.monotonic_s() * 1_000)

    def publish_due(self) -> None:
        """Put the batches that are full or have waited long enough."""
        self._put(self._builder.due(self._clock.monotonic_s() * 1_000))

    def flush(self) -> None:
        """Put everything."""
        self._put(self._builder.flush())

    async def run(self) -> None:
        """Publish what is due, until cancelled. A defect costs the rows at hand, not those that come after them."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            try:
                self.publish_due()
            except Exception:
                _log.exception("publishing rows failed, please report it; these rows are lost")

    def _put(self, more: list[Batch]) -> None:
        batches, self._cut = [*self._cut, *more], []
        for batch in batches:
            self._publisher.put_at_once(batch)  # who waited for the disk here would gather rows without a bound
        oversized = self._builder.oversized_events - self._declared
        if oversized:
            self._declared += oversized
            self._publisher.shed(LLM_REQUESTS.topic, oversized)


def with_request_log(take: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    """``take``, with one log line for each row: ids, labels, tokens and latencies. There is no text in a row."""

    def logged(row: dict[str, Any]) -> None:
        _log.info("request", extra={"request": {key: row[key] for key in LOGGED if row.get(key) is not None}})
        take(row)

    return logged


LOGGED = (
    "request_id", "trace_id", "at_ms", "api", "model", "model_requested", "tenant", "engine_id", "status",
    "error_kind", "http_status", "finish_reason", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens",
    "tokens_from", "chunks", "ttft_us", "ttfo_us", "tpot_us", "icl_max_us", "e2e_us",
)  # fmt: skip
