"""What a process does before it lands its first batch."""

from __future__ import annotations

from runtime.process import RARELY, keep_freed, settle
from schemas.codec import native
from schemas.codec.build import block_from_rows
from schemas.contract.headers import NATIVE, Identity, encode_headers
from schemas.contract.record import Record
from schemas.events.event_types import GPU_SAMPLES
from schemas.limits import DEFAULT_LIMITS
from sinks.landing import land_raw

_AT_MS = 1_700_000_000_000


def warm() -> None:
    """Make this process one that lands batches: memory is kept for the next, one event was landed to nowhere, and what
    is there by then is no longer searched for cycles."""
    keep_freed()
    row = {field.name: "warm" if field.required and not field.kind.numpy else None for field in GPU_SAMPLES.fields}
    value = native.encode(GPU_SAMPLES.fields, block_from_rows(GPU_SAMPLES.fields, [{**row, "at_ms": _AT_MS}]))
    headers = encode_headers(GPU_SAMPLES.schema, NATIVE, Identity("0" * 32, 1, 0, (1, 0)), 1)
    land_raw(
        GPU_SAMPLES.topic, [Record(GPU_SAMPLES.topic, 0, 0, _AT_MS, None, value, headers)], {}, _AT_MS, DEFAULT_LIMITS
    )
    settle(RARELY)
