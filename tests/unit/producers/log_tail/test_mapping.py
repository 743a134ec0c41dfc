from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.log_tail.mapping import AGENT_FIELDS, Line, field_map, made_id, rows_of
from schemas.codec.build import block_from_rows
from schemas.errors import ConfigError
from schemas.events.event_types import LLM_REQUESTS

LABELS = {"host": "h", "cluster": None, "region": None}
LOG = "/var/log/engine.jsonl"
LEAST = {"at_ms": "t ms", "model": "=m"}


def one(fields: dict[str, str], document: Any) -> tuple[dict[str, Any] | None, dict[str, int]]:
    """What is known of the row that a line gives, and what was left out."""
    line = document if isinstance(document, bytes) else orjson.dumps(document)
    rows, left_out = rows_of(field_map(fields), [Line(7, line)], LABELS, LOG)
    assert block_from_rows(LLM_REQUESTS.fields, rows).rows == len(rows)
    known = {name: value for name, value in rows[0].items() if value is not None} if rows else None
    return known, dict(left_out)


def test_a_line_becomes_a_row() -> None:
    """Paths, indices, names with dots, units, constants; numbers in quotes; what is missing is unknown."""
    fields = {
        "at_ms": "ts",
        "model": r"request.model\.name",
        "engine_id": "=engine-1",
        "ttft_us": "timing.0 s",
        "e2e_us": "timing.1 ms",
        "queue_us": "timing.2 ns",
        "tpot_us": "tpot",
        "input_tokens": "usage.prompt",
        "output_tokens": "usage.completion",
        "cached_tokens": "usage.cached",
        "http_status": "code",
        "finish_reason": "why",
        "request_id": "id",
        "api": "route",
        "tenant": "tenant",
        "trace_id": "=",
    }
    del fields["trace_id"]
    document = {
        "ts": "2026-11-21T12:00:03.400+01:00",
        "request": {"model.name": "llama"},
        "timing": [0.25, 1_500, 1_499],
        "tpot": 7,
        "usage": {"prompt": "12", "completion": 3},
        "code": 200,
        "why": "eos",
        "id": 77,
        "route": "/v1/else",
        "tenant": "",
    }

    assert one(fields, document) == (
        {
            "at_ms": 1_795_258_803_400,
            "host": "h",
            "origin": "measured",
            "reported_by": "log",
            "model": "llama",
            "engine_id": "engine-1",
            "ttft_us": 250_000,
            "e2e_us": 1_500_000,
            "queue_us": 1,
            "tpot_us": 7,
            "input_tokens": 12,
            "output_tokens": 3,
            "http_status": 200,
            "finish_reason": "stop",
            "request_id": "77",
            "api": "other",
            "status": "ok",
        },
        {},
    )


@pytest.mark.parametrize(
    ("how", "value", "at_ms"),
    [
        ("t", "1970-01-01T00:00:01", 1_000),
        ("t", "1970-01-01 00:00:01.2345678", 1_234),
        ("t iso", "1970-01-01T01:00:01Z", 3_601_000),
        ("t s", 1.5, 1_500),
        ("t s", "2", 2_000),
        ("t ms", 1_500, 1_500),
        ("t us", 1_499_999, 1_500),
        ("t ns", 1_500_000_000, 1_500),
        ("t %d/%b/%Y:%H:%M:%S %z", "01/Jan/1970:00:00:02 +0000", 2_000),
        ("t %Y-%m-%d %H:%M:%S", "1970-01-01 00:00:03", 3_000),
    ],
)
def test_times_in_many_formats(how: str, value: object, at_ms: int) -> None:
    """Without a zone it is UTC."""
    row, left_out = one(LEAST | {"at_ms": how}, {"t": value})

    assert row is not None
    assert (row["at_ms"], left_out) == (at_ms, {})


@pytest.mark.parametrize(
    ("how", "value"),
    [
        ("t", "yesterday"),
        ("t", 5),
        ("t s", True),
        ("t s", -1),
        ("t s", 1e300),
        ("t ms", "0x1"),
        ("t %Y", "x"),
        ("t s", [1]),
    ],
)
def test_a_line_without_a_time_gives_no_row(how: str, value: object) -> None:
    """It belongs to no window; none is made up."""
    assert one(LEAST | {"at_ms": how}, {"t": value}) == (None, {"at_ms": 1, "no at_ms": 1})


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "no JSON"),
        (b"\xff", "no JSON"),
        (b'{"t": NaN}', "no JSON"),
        (b"[1]", "no object"),
        (b'"x"', "no object"),
        (b"{}", "no at_ms"),
        (b'{"t": null}', "no at_ms"),
    ],
)
def test_a_broken_line_costs_itself(line: bytes, reason: str) -> None:
    """Counted by reason; the next line is read."""
    rows, left_out = rows_of(field_map(LEAST), [Line(0, line), Line(9, b'{"t":1}')], LABELS, LOG)

    assert [row["at_ms"] for row in rows] == [1]
    assert left_out == {reason: 1}


@pytest.mark.parametrize(
    ("document", "status", "error_kind"),
    [
        ({}, "ok", None),
        ({"s": "timeout"}, "timeout", None),
        ({"s": "Success"}, "ok", None),
        ({"s": "cancelled"}, "aborted", None),
        ({"s": 200}, "ok", None),
        ({"s": 0}, "ok", None),
        ({"s": "DONE"}, "ok", None),
        ({"s": True}, "ok", None),
        ({"s": False}, "error", None),
        ({"s": "503"}, "rejected", None),
        ({"c": 500}, "error", "server"),
        ({"c": 429}, "rejected", "overload"),
        ({"e": "oom"}, "error", "oom"),
        ({"e": "CUDA out of memory"}, "error", "oom"),
        ({"s": "ok", "e": "network"}, "ok", "network"),
    ],
)
def test_how_a_request_ended(document: dict[str, object], status: str, error_kind: str | None) -> None:
    """As logged, else derived from HTTP status, error kind and finish reason."""
    fields = LEAST | {"status": "s", "http_status": "c", "error_kind": "e"}
    row, left_out = one(fields, {"t": 1} | document)

    assert row is not None
    assert (row["status"], row.get("error_kind"), left_out) == (status, error_kind, {})


@pytest.mark.parametrize("unknown", ["internal_error", "KILLED", 7, 600, -1, ["ok"], {}])
def test_a_status_that_is_not_known_is_an_error(unknown: object) -> None:
    """Whoever names a success otherwise sees it at once; a failure that counts as good nobody sees."""
    row, left_out = one(LEAST | {"status": "s"}, {"t": 1, "s": unknown})

    assert row is not None
    assert (row["status"], row["error_kind"], left_out) == ("error", "other", {"status": 1})


@pytest.mark.parametrize("unknown", [0, 1_000, "none", True, []])
def test_so_is_an_http_status_that_is_none(unknown: object) -> None:
    """An empty text says no more than its absence."""
    row, left_out = one(LEAST | {"http_status": "c"}, {"t": 1, "c": unknown})
    empty, nothing = one(LEAST | {"http_status": "c"}, {"t": 1, "c": ""})

    assert row is not None
    assert empty is not None
    assert (row["status"], row["error_kind"], left_out) == ("error", "other", {"http_status": 1})
    assert (empty["status"], nothing) == ("ok", {})


@pytest.mark.parametrize(
    ("known", "status", "error_kind"),
    [
        ({"c": 200}, "ok", None),
        ({"c": 503}, "rejected", "overload"),
        ({"e": "oom"}, "error", "oom"),
        ({"f": "stop"}, "ok", None),
        ({"f": "abort"}, "aborted", None),
        ({"f": "killed"}, "error", "other"),
    ],
)
def test_what_else_is_known_decides_instead_of_an_unknown_status(
    known: dict[str, object], status: str, error_kind: str | None
) -> None:
    """HTTP status, error kind and finish reason, where they are words that mean something."""
    fields = LEAST | {"status": "s", "http_status": "c", "error_kind": "e", "finish_reason": "f"}
    row, left_out = one(fields, {"t": 1, "s": "perhaps"} | known)

    assert row is not None
    assert (row["status"], row.get("error_kind"), left_out) == (status, error_kind, {"status": 1})


def test_a_status_nested_deep_is_unknown() -> None:
    """Whatever reads it as text would fail."""
    line = Line(0, b'{"t": 1, "s": ' + b"[" * 1_000 + b"]" * 1_000 + b"}")

    (row,), left_out = rows_of(field_map(LEAST | {"status": "s"}), [line], LABELS, LOG)

    assert (row["status"], left_out) == ("error", {"status": 1})


def test_values_that_a_field_may_not_have_are_unknown_and_counted() -> None:
    """The rest of the row is kept."""
    fields = LEAST | {
        "ttft_us": "a s",
        "input_tokens": "b",
        "tenant": "c",
        "start": "d",
        "http_status": "e",
        "status": "f",
        "output_tokens": "g",
    }
    document = {"t": 1, "a": 9e9, "b": True, "c": {}, "d": "tepid", "e": 7, "f": "perhaps", "g": -1}
    row, left_out = one(fields, document)

    assert row is not None
    assert set(row) == {"at_ms", "model", "host", "origin", "reported_by", "request_id", "status", "error_kind"}
    assert left_out == dict.fromkeys(
        ["ttft_us", "input_tokens", "tenant", "start", "http_status", "status", "output_tokens"], 1
    )


def test_a_line_without_an_id_gets_one_of_its_place_and_text() -> None:
    """The same when it is read again; another for the same text elsewhere, in another log and on another host."""
    line = Line(7, b'{"t":1}')
    row, _ = one(LEAST, line.text)

    assert row is not None
    assert row["request_id"] == made_id(line, "h", LOG) == made_id(Line(7, b'{"t":1}'), "h", LOG)
    later, elsewhere = made_id(line._replace(offset=8), "h", LOG), made_id(line, "i", LOG)
    assert len({row["request_id"], later, elsewhere, made_id(line, "h", "/var/log/other.jsonl")}) == 4


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"model": "=m"}, "fields"),
        ({"at_ms": "t"}, "fields"),
        (LEAST | {"nonsense": "x"}, "fields.nonsense"),
        (LEAST | {"host": "x"}, "fields.host"),
        (LEAST | {"itl_bins": "x"}, "fields.itl_bins"),
        (LEAST | {"ttft_us": "x minutes"}, "fields.ttft_us"),
        (LEAST | {"input_tokens": "x s"}, "fields.input_tokens"),
        (LEAST | {"tenant": "x ms"}, "fields.tenant"),
        (LEAST | {"tenant": ""}, "fields.tenant"),
        (LEAST | {"at_ms": "t noon"}, "fields.at_ms"),
        (LEAST | {"start": "=tepid"}, "fields.start"),
        (LEAST | {"tenant": "="}, "fields.tenant"),
    ],
)
def test_a_table_that_cannot_be_meant_is_refused(fields: dict[str, str], key: str) -> None:
    """At start, by name."""
    with pytest.raises(ConfigError) as refused:
        field_map(fields)

    assert refused.value.key == key


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abt"), inner, max_size=3),
    max_leaves=6,
)


@given(JSON, st.sampled_from(["t", "t s", "t %Y", "t.a.0 ns"]))
def test_any_document_gives_a_row_that_fits_or_is_counted(document: object, how: str) -> None:
    """Nothing raises."""
    names = {field.name for field in LLM_REQUESTS.fields} - AGENT_FIELDS
    fields = dict.fromkeys(sorted(names | {"user"}), "a.b")
    line = Line(0, orjson.dumps({"t": document, "a": {"b": document}}))
    rows, left_out = rows_of(field_map(fields | {"at_ms": how}), [line], LABELS, LOG)

    assert block_from_rows(LLM_REQUESTS.fields, rows).rows == len(rows)
    assert rows or left_out
