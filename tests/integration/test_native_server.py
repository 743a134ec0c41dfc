"""Our three formats against the real server: it takes what we write and we read what it writes."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.codec import native, wire
from schemas.codec.build import block_from_rows, rows_of
from schemas.codec.native_walk import measure
from schemas.contract.headers import JSON_COLUMNS, NATIVE, NDJSON
from schemas.events.event_types import EVENTS, LLM_REQUESTS
from schemas.fields import Event, Field
from tests.strategies.blocks import EVERY_KIND, valid_rows

pytestmark = pytest.mark.integration

FORMATS = {NATIVE: "Native", NDJSON: "JSONEachRow", JSON_COLUMNS: "JSONColumns"}
AT_MS = 1_700_000_000_000
EXTREMES = [
    {
        **{"int64": -(2**63), "uint32": 2**32 - 1, "uint64": 2**64 - 1, "optional_uint32": None},
        **{"optional_uint64": 2**64 - 1, "optional_int32": -(2**31), "optional_int64": None, "label": None},
        **{"text": "", "optional_text": None, "bins": {-1: 1, 1016: 2**32}},
        **{"list_int64": [-(2**63), 2**63 - 1], "list_optional_int64": [None, 0, None], "list_label": ["a", None, ""]},
    },
    {
        **{"int64": 2**63 - 1, "uint32": 0, "uint64": 0, "optional_uint32": 0, "optional_uint64": None},
        **{"optional_int32": None, "optional_int64": -(2**63), "label": "", "text": "é\n\t\0\"'", "optional_text": ""},
        **{"bins": {}, "list_int64": [], "list_optional_int64": [], "list_label": []},
    },
]
BY_FORMAT = pytest.mark.parametrize("content_type", FORMATS, ids=FORMATS.values())


def create(clickhouse: Any, fields: tuple[Field, ...], name: str = "t") -> None:
    columns = ", ".join(f"{field.name} {field.kind.value}" for field in fields)
    clickhouse.command(
        f"CREATE TABLE {name} ({columns}, place UInt64 MATERIALIZED rowNumberInAllBlocks()) "
        "ENGINE = MergeTree ORDER BY place",
    )


def insert(clickhouse: Any, content_type: str, body: bytes) -> None:
    settings = {"async_insert": 0, "wait_end_of_query": 1}
    clickhouse.raw_insert("t", insert_block=body, fmt=FORMATS[content_type], settings=settings)


def read(clickhouse: Any, content_type: str, fields: tuple[Field, ...]) -> bytes:
    names = ", ".join(field.name for field in fields)
    settings = {"output_format_json_quote_64bit_integers": 0, "max_threads": 1}
    found: bytes = clickhouse.raw_query(
        f"SELECT {names} FROM t ORDER BY place", fmt=FORMATS[content_type], settings=settings
    )
    return found


@BY_FORMAT
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.topic)
def test_the_server_takes_and_gives_back_every_event(clickhouse: Any, event: Event, content_type: str) -> None:
    """Rows that went through a table come back unchanged, in each format both ways."""
    rows = valid_rows(event.fields, 300, 1, AT_MS)
    create(clickhouse, event.fields)

    insert(clickhouse, content_type, wire.encode(content_type, event.fields, block_from_rows(event.fields, rows)))

    found = wire.decode(content_type, read(clickhouse, content_type, event.fields), event.fields)
    assert rows_of(event.fields, found) == rows


@BY_FORMAT
def test_extreme_values_survive_the_server(clickhouse: Any, content_type: str) -> None:
    """Least and greatest numbers, null beside empty, odd characters, bins at both ends."""
    create(clickhouse, EVERY_KIND)

    insert(clickhouse, content_type, wire.encode(content_type, EVERY_KIND, block_from_rows(EVERY_KIND, EXTREMES)))

    found = wire.decode(content_type, read(clickhouse, content_type, EVERY_KIND), EVERY_KIND)
    assert rows_of(EVERY_KIND, found) == EXTREMES


def test_blocks_in_one_body_land_together(clickhouse: Any) -> None:
    """Several blocks behind one another, dictionaries of their own, are one insert."""
    batches = [valid_rows(LLM_REQUESTS.fields, count, count, AT_MS) for count in (1, 40, 500)]
    create(clickhouse, LLM_REQUESTS.fields)

    bodies = [native.encode(LLM_REQUESTS.fields, block_from_rows(LLM_REQUESTS.fields, rows)) for rows in batches]
    insert(clickhouse, NATIVE, b"".join(bodies))

    names = ", ".join(field.name for field in LLM_REQUESTS.fields)
    rows = clickhouse.query(f"SELECT {names} FROM t ORDER BY request_id").named_results()
    expected = sorted((row for batch in batches for row in batch), key=lambda row: row["request_id"].encode())
    assert list(rows) == expected


def test_a_merged_block_is_taken(clickhouse: Any) -> None:
    """concat makes a block that the server reads like any other."""
    batches = [valid_rows(LLM_REQUESTS.fields, 20, seed, AT_MS) for seed in (1, 2)]
    blocks = [block_from_rows(LLM_REQUESTS.fields, rows) for rows in batches]
    merged = native.concat(LLM_REQUESTS.fields, blocks)
    create(clickhouse, LLM_REQUESTS.fields)

    insert(clickhouse, NATIVE, native.encode(LLM_REQUESTS.fields, merged))

    found = native.decode(read(clickhouse, NATIVE, LLM_REQUESTS.fields), LLM_REQUESTS.fields)
    assert rows_of(LLM_REQUESTS.fields, found) == batches[0] + batches[1]


def test_the_servers_own_blocks_are_canonical(clickhouse: Any) -> None:
    """What the server writes for our columns is read by the compiled walk."""
    rows = valid_rows(LLM_REQUESTS.fields, 100, 1, AT_MS)
    create(clickhouse, LLM_REQUESTS.fields)
    insert(clickhouse, NATIVE, native.encode(LLM_REQUESTS.fields, block_from_rows(LLM_REQUESTS.fields, rows)))

    assert measure(LLM_REQUESTS.fields, [read(clickhouse, NATIVE, LLM_REQUESTS.fields)]).rows.tolist() == [100]


STRANGE = (
    "SELECT toInt64(number + 1) AS uint32, toFloat64(5) AS uint64, toString(number) AS label, "
    "toDateTime64('2024-01-01 00:00:00', 3, 'UTC') AS skipped_time, [number, 2] AS skipped_array, "
    "map('a', (1, 'x')) AS skipped_map, CAST('a' AS Enum8('a' = 1)) AS skipped_enum, true AS skipped_bool, "
    "toUUID('61f0c404-5cb3-11e7-907b-a6006ad3dba0') AS skipped_uuid, toFixedString('abc', 5) AS skipped_fixed, "
    "toDecimal128(1.5, 3) AS skipped_decimal, CAST((1, [2]) AS Tuple(a UInt8, b Array(UInt8))) AS skipped_tuple, "
    "CAST(NULL AS Nullable(IPv6)) AS skipped_address, "
    "toLowCardinality('w') AS text, toNullable(toInt8(-7)) AS optional_int64 FROM numbers(3)"
)


def test_blocks_of_any_query_are_read(clickhouse: Any) -> None:
    """Other orders and widths, strings for labels, and unknown columns of many types are skipped."""
    wanted = {"uint32", "uint64", "label", "text", "optional_int64", "optional_uint32"}
    fields = tuple(field for field in EVERY_KIND if field.name in wanted)

    decoded = native.decode(clickhouse.raw_query(STRANGE, fmt="Native", settings={"max_block_size": 100}), fields)

    expected = {"uint64": 5, "text": "w", "optional_int64": -7, "optional_uint32": None}
    assert rows_of(fields, decoded) == [{**expected, "uint32": n + 1, "label": str(n)} for n in range(3)]
