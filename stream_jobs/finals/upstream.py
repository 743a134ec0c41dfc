"""What a record of ``window.partials`` says of the commit that it belongs to, and whether commits follow one another.

A commit of the windows job sends some records (*parts* ``1/N`` to ``N/N``, without another of its source between) to a
partition, or none. Numbers of a source rise; every record says the number of the one before it in its partition. The
first that an owner sends there does not know it, and 0.1.0 never says it: of such a record the offsets ``[FROM, TO)``
stand behind those of the commit before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from schemas.contract.record import Record, unknown_schema
from schemas.errors import ContractError
from schemas.rows.gpu_shares import SHARES
from schemas.rows.tables import EXEMPLARS, PARTIALS, Table
from schemas.rows.usage import USAGE

Source = tuple[str, int]
"""A source topic and a partition of it."""

TABLES: dict[str, Table] = {**{table.schema: table for table in PARTIALS.values()}, EXEMPLARS.schema: EXEMPLARS}
"""What finals are made of, by schema."""

PASSED_OVER = frozenset({USAGE.schema, SHARES.schema})
"""What stands in ``window.partials`` beside that, for others: only the headers are read."""


@dataclass(frozen=True, slots=True)
class UpstreamHeaders:
    """The headers of a partials record, see ``stream_jobs.windows.messages``. ``watermark_ms`` is 0 where none
    is announced, ``previous`` None where it is not known."""

    schema: str
    source: Source
    offset_from: int
    offset_to: int
    part: int
    parts: int
    number: int
    watermark_ms: int
    previous: int | None


def read(record: Record) -> UpstreamHeaders:
    """The headers. Raises ``ContractError`` for a record that the windows job of this version did not write."""
    found = dict(record.headers)
    where = record.where
    schema = found.get("schema", b"").decode("ascii", "replace")
    if schema not in TABLES and schema not in PASSED_OVER:
        raise unknown_schema(where, schema, (*TABLES, *PASSED_OVER))
    try:
        first, _, end = found["offsets"].partition(b"-")
        part, _, parts = found.get("part", b"1/1").partition(b"/")
        return UpstreamHeaders(
            schema=schema,
            source=(found["source-topic"].decode(), int(found["source-partition"])),
            offset_from=int(first),
            offset_to=int(end),
            part=int(part),
            parts=int(parts),
            number=int(found.get("number", b"0")),
            watermark_ms=int(found.get("watermark", b"0")),
            previous=int(found["previous"]) if found.get("previous") else None,
        )
    except (KeyError, ValueError) as error:
        raise ContractError(f"{where}: a header is missing or no number: {error}; who wrote it?") from error


class Cursor(NamedTuple):
    """Where a source's last record stood: the commit's end, its part of how many, its number."""

    offset_to: int
    part: int
    parts: int
    number: int


def cursor_of(headers: UpstreamHeaders) -> Cursor:
    """Where this record stands."""
    return Cursor(headers.offset_to, headers.part, headers.parts, headers.number)


def follows(before: Cursor | None, headers: UpstreamHeaders) -> bool:
    """Whether nothing is missing between the source's last record and this one. Before the first all is well."""
    if before is None:
        return True
    if headers.previous is not None:
        return headers.previous == before.number
    if headers.part > 1:
        goes_on = headers.part == before.part + 1 and headers.parts == before.parts
        return goes_on and headers.offset_to == before.offset_to and headers.number == before.number + 1
    return before.part == before.parts and headers.offset_from >= before.offset_to and headers.number > before.number
