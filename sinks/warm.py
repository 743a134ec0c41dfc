"""What a process does before it lands its first batch."""

from __future__ import annotations

from runtime.process import RARELY, keep_freed, settle
from schemas.codec import wire
from schemas.codec.block import Block
from schemas.codec.build import block_from_rows
from schemas.contract.headers import NATIVE, NDJSON, Identity, encode_headers
from schemas.contract.record import Record
from schemas.events.event_types import GPU_SAMPLES
from schemas.limits import DEFAULT_LIMITS
from sinks.landing import land_raw

_AT_MS = 1_700_000_000_000


def warm() -> None:
    """Make this process one that lands batches: memory is kept for the next, an event of each format that is read by
    compiled code was landed to nowhere, and what is there by then is no longer searched for cycles."""
    keep_freed()
    row = {field.name: "warm" if field.required and not field.kind.numpy else None for field in GPU_SAMPLES.fields}
    block = block_from_rows(GPU_SAMPLES.fields, [{**row, "at_ms": _AT_MS}])
    records = [_record(content_type, block, seq) for seq, content_type in enumerate((NATIVE, NDJSON))]
    land_raw(GPU_SAMPLES.topic, records, {}, _AT_MS, DEFAULT_LIMITS)
    settle(RARELY)


def _record(content_type: str, block: Block, seq: int) -> Record:
    headers = encode_headers(GPU_SAMPLES.schema, content_type, Identity("0" * 32, 1, seq, (1, 0)), block.rows)
    return Record(
        GPU_SAMPLES.topic, 0, seq, _AT_MS, None, wire.encode(content_type, GPU_SAMPLES.fields, block), headers
    )
