"""Write golden files for schema versions that have none: ``python -m tests.golden.make``.

A file is rows as JSON and, beside it, the bytes of all three formats. They show what the code of today writes. A layout
that only gained columns keeps its version: remove its files and write them again; what a release wrote must be readable
for ever and stands in ``tests/data/releases``. Any other change is a new version.
"""

from __future__ import annotations

import json
from pathlib import Path

import schemas
from schemas.codec import wire
from schemas.codec.build import block_from_rows
from schemas.contract.headers import JSON_COLUMNS, NATIVE, NDJSON
from schemas.events.event_types import EVENTS
from schemas.fields import Field
from schemas.rows.tables import TABLES
from tests.strategies.blocks import valid_rows

FOLDER = Path(__file__).parent
EXAMPLES = Path(schemas.__file__).parent / "examples"
AT_MS = 1_700_000_000_000
SUFFIXES = {NATIVE: "native", NDJSON: "ndjson", JSON_COLUMNS: "columns.json"}
LAYOUTS: dict[str, tuple[Field, ...]] = {
    **{event.schema: event.fields for event in EVENTS},
    **{table.schema: table.fields for table in TABLES},
}


def stem(schema: str) -> str:
    """Name of a schema version's files, without suffix."""
    return schema.replace("/", ".v")


def main() -> None:
    topics = {event.schema: event.topic for event in EVENTS}
    for schema, fields in LAYOUTS.items():
        path = FOLDER / f"{stem(schema)}.rows.json"
        if path.exists():
            continue
        rows = valid_rows(fields, 3, 1, AT_MS)
        if schema in topics:
            examples = json.loads((EXAMPLES / f"{topics[schema]}.json").read_text())["accepted"]
            names = {field.name for field in fields}
            rows += [{name: value for name, value in e["event"].items() if name in names} for e in examples]
        path.write_text(json.dumps(rows, indent=1) + "\n")
        for content_type, suffix in SUFFIXES.items():
            data = wire.encode(content_type, fields, block_from_rows(fields, json.loads(path.read_text())))
            (FOLDER / f"{stem(schema)}.{suffix}").write_bytes(data)


if __name__ == "__main__":
    main()
