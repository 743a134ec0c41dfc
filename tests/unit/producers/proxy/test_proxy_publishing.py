"""Rows into batches: gathered for a while, put whole, logged without text."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import pytest

from producers.batch import Batch
from producers.proxy.publishing import LOGGED, RowPublisher, with_request_log
from producers.publish.puts import PutsAtOnce
from schemas.codec import native
from schemas.events.event_types import LLM_REQUESTS
from tests.virtual_clock import VirtualClock


@dataclass
class Recording(PutsAtOnce):
    batches: list[Batch] = field(default_factory=list)
    shed_events: int = 0

    def put_at_once(self, batch: Batch) -> bool:
        self.batches.append(batch)
        return True

    def shed(self, topic: str, events: int) -> None:
        self.shed_events += events


def row(**more: Any) -> dict[str, Any]:
    return {
        "at_ms": 1,
        "host": "h",
        "model": "m",
        "status": "ok",
        "origin": "measured",
        "request_id": "r",
        "itl_bins": {},
        **more,
    }


async def test_rows_wait_for_company_and_no_longer() -> None:
    """Within a second they go, as one batch of one key."""
    clock, sink = VirtualClock(), Recording()
    rows = RowPublisher(sink, clock=clock)

    rows.take(row())
    clock.advance(600)
    rows.take(row(request_id="s"))
    rows.publish_due()
    early = list(sink.batches)
    clock.advance(400)
    rows.publish_due()

    assert early == []
    assert [(batch.topic, batch.key, batch.count) for batch in sink.batches] == [("llm.requests", b"h", 2)]
    assert native.decode(sink.batches[0].value, LLM_REQUESTS.fields).rows == 2


async def test_full_batches_and_the_rest_go_at_the_end() -> None:
    """A batch is cut when it is full; flush sends what is left."""
    clock, sink = VirtualClock(), Recording()
    rows = RowPublisher(sink, clock=clock)

    for _ in range(1_001):
        rows.take(row())
    rows.publish_due()
    full = [batch.count for batch in sink.batches]
    rows.flush()

    assert full == [1_000]
    assert [batch.count for batch in sink.batches] == [1_000, 1]


async def test_what_no_record_holds_is_declared() -> None:
    """Once."""
    sink = Recording()
    rows = RowPublisher(sink, clock=VirtualClock())

    rows.take(row(request_id="x" * 9_000_000))
    rows.flush()
    rows.flush()

    assert (sink.batches, sink.shed_events) == ([], 1)


def test_a_line_holds_names_tokens_and_times(caplog: pytest.LogCaptureFixture) -> None:
    """What is known of ``LOGGED``, nothing else; the row goes on unchanged."""
    caplog.set_level(logging.INFO)
    taken: list[dict[str, Any]] = []
    given = row(ttft_us=5, tenant=None, prompt="secret")

    with_request_log(taken.append)(given)

    (record,) = caplog.records
    assert record.__dict__["request"] == {"request_id": "r", "at_ms": 1, "model": "m", "status": "ok", "ttft_us": 5}
    assert taken == [given]
    assert "prompt" not in LOGGED
