"""The examples per topic are what they say: accepted, or rejected with their reason, in every format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson

import schemas
from schemas.codec.native import encode
from schemas.codec.ndjson import decode
from schemas.contract.admission import Admitted, admit, read_headers
from schemas.contract.headers import JSON_COLUMNS, NATIVE, NDJSON, Identity, RecordHeaders, encode_headers
from schemas.contract.record import Record
from schemas.contract.verdicts import REASONS, Verdict
from schemas.events.event_types import EVENTS
from schemas.fields import Event
from schemas.limits import DEFAULT_LIMITS

FOLDER = Path(schemas.__file__).parent / "examples"
DOCUMENTS = {event.topic: json.loads((FOLDER / f"{event.topic}.json").read_text()) for event in EVENTS}
ACCEPTED = [(event, example["event"]) for event in EVENTS for example in DOCUMENTS[event.topic]["accepted"]]
REJECTED = [(event, example) for event in EVENTS for example in DOCUMENTS[event.topic]["rejected"]]


def admitted(event: Event, content_type: str, value: bytes) -> Admitted:
    document = DOCUMENTS[event.topic]
    headers = encode_headers(document["schema"], content_type, Identity("0" * 32, 1, 0, (1, 0)), 1)
    record = Record(event.topic, 0, 0, document["appended_ms"], None, value, headers)
    read = read_headers(event, [record], DEFAULT_LIMITS)
    assert isinstance(read[0], RecordHeaders)
    return admit(event, [record], [read[0]], DEFAULT_LIMITS)


def values(event: Event, row: dict[str, Any]) -> dict[str, bytes]:
    return {NDJSON: orjson.dumps(row), JSON_COLUMNS: orjson.dumps({name: [value] for name, value in row.items()})}


def test_accepted_examples_are_accepted() -> None:
    """In JSON lines, JSON columns and Native alike."""
    for event, row in ACCEPTED:
        native = encode(event.fields, decode(orjson.dumps(row), event.fields))

        for content_type, value in {**values(event, row), NATIVE: native}.items():
            found = admitted(event, content_type, value)
            assert found.rejects == [], (event.topic, row)
            assert found.verdicts.tolist() == [Verdict.ACCEPTED], (event.topic, row)


def test_rejected_examples_are_rejected_for_their_reason() -> None:
    """The same reason in JSON lines and JSON columns, and the event is kept as it was sent."""
    for event, example in REJECTED:
        row = {**DOCUMENTS[event.topic]["accepted"][0]["event"], **example.get("change", {})}
        for name in example.get("without", []):
            del row[name]

        for content_type, value in values(event, row).items():
            found = admitted(event, content_type, value)
            said = [(reject.row, reject.events, reject.reason) for reject in found.rejects]
            assert said == [(0, 1, example["reason"])], (event.topic, example["why"])
            assert found.verdicts.tolist() == [Verdict.REJECTED], (event.topic, example["why"])
            assert orjson.loads(found.rejects[0].kept) == row, (event.topic, example["why"])


def test_examples_use_reasons_of_the_closed_set() -> None:
    """Every reason that a single event can have is shown by some example."""
    shown = {example["reason"] for document in DOCUMENTS.values() for example in document["rejected"]}

    assert shown <= set(REASONS)
    assert shown == {"missing_field", "wrong_type", "out_of_range", "not_allowed", "too_long", "bad_bins"}


def test_the_first_example_shows_every_field() -> None:
    """A reader sees each field of the topic filled at least once."""
    for event in EVENTS:
        first = DOCUMENTS[event.topic]["accepted"][0]["event"]
        assert set(first) == {field.name for field in event.fields}, event.topic
