"""JSON lines of third parties: all or none."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from producers.identity.directory import Directory
from producers.identity.joiner import Joiner
from producers.receiver.client_fields import Where
from producers.receiver.lines import Refusal, read_lines
from schemas.codec.build import rows_of
from schemas.contract.engines import Engine
from schemas.events.event_types import LLM_REQUESTS
from schemas.limits import DEFAULT_LIMITS

WHERE = Where("h-1", None, "r-1", joiner=Joiner("receiver", lambda: Directory([Engine("e", "h-1", "g")])))
NOW_MS = 1_700_000_000_000
GOOD: dict[str, Any] = {"at_ms": NOW_MS - 5, "model": "m", "status": "ok", "request_id": "r", "itl_bins": {"5": 2}}


def read(*rows: dict[str, Any] | bytes) -> Any:
    lines = [row if isinstance(row, bytes) else orjson.dumps(row) for row in rows]
    return read_lines(b"\n".join(lines), WHERE, NOW_MS, DEFAULT_LIMITS)


def test_good_lines_become_one_block() -> None:
    """With what the agent says; a line without a time ended now; empty lines are nothing."""
    found = read(GOOD | {"host": "h-9", "engine_id": "e"}, b"", {k: v for k, v in GOOD.items() if k != "at_ms"}, b" ")

    names = ("at_ms", "model", "host", "region", "origin", "engine_id", "placement_group", "itl_bins", "e2e_us")
    assert [[row[name] for name in names] for row in rows_of(LLM_REQUESTS.fields, found.block)] == [
        [NOW_MS - 5, "m", "h-1", "r-1", "measured", "e", "g", {5: 2}, None],
        [NOW_MS, "m", "h-1", "r-1", "measured", None, None, {5: 2}, None],
    ]
    assert found.refusals == ()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        pytest.param(b"{", "syntax", id="broken JSON"),
        pytest.param(b"[1]", "wrong_type", id="no object"),
        pytest.param({"status": "fine"}, "not_allowed", id="a word outside its closed set"),
        pytest.param({"model": None}, "missing_field", id="a required label is missing"),
        pytest.param({"model": "m" * 257}, "too_long", id="a label is too long"),
        pytest.param({"request_id": ""}, "missing_field", id="a required text is empty"),
        pytest.param({"request_id": "r" * 4_097}, "too_long", id="a text is too long"),
        pytest.param({"ttft_us": -1}, "out_of_range", id="a negative number"),
        pytest.param({"ttft_us": 3_600_000_001}, "out_of_range", id="a duration above an hour"),
        pytest.param({"ttft_us": "1"}, "wrong_type", id="a text for a number"),
        pytest.param({"ttft_us": 1.5}, "wrong_type", id="a fraction"),
        pytest.param({"http_status": 99}, "out_of_range", id="no HTTP status"),
        pytest.param({"itl_bins": {"1017": 1}}, "bad_bins", id="a bin outside the grid"),
        pytest.param({"itl_bins": {"3": 0}}, "bad_bins", id="an empty bin"),
        pytest.param(b'{"engine_id": ' + b"[" * 1_000 + b"]" * 1_000 + b"}", "wrong_type", id="nested deep"),
        pytest.param({"at_ms": None}, "missing_field", id="a null time"),
    ],
)
def test_one_bad_line_refuses_all(line: dict[str, Any] | bytes, reason: str) -> None:
    """It is named by its number and its reason."""
    bad = line if isinstance(line, bytes) else GOOD | line

    found = read(GOOD, b"", bad, GOOD)

    assert [(each.line, each.reason) for each in found.refusals] == [(3, reason)]
    assert (found.block.rows, list(found.rows)) == (0, [])


@pytest.mark.parametrize("value", [0, 3_600_000_000])
def test_values_on_their_bounds_are_taken(value: int) -> None:
    """Both ends of a duration."""
    assert read(GOOD | {"ttft_us": value}).refusals == ()


@pytest.mark.parametrize("body", [b"", b"\n\n", b"  \n"])
def test_an_empty_body_is_refused(body: bytes) -> None:
    """Nothing to take."""
    assert read(body).refusals == [Refusal(1, "empty", "the body holds no line")]


def test_as_many_lines_as_a_batch_holds() -> None:
    """A thousand are taken; one more is refused, by its number."""
    most = DEFAULT_LIMITS.batch_events_max

    assert read(*[GOOD] * most).block.rows == most
    assert [(each.line, each.reason) for each in read(*[GOOD] * (most + 1)).refusals] == [(most + 1, "too_many")]


def test_every_bad_line_is_named_once() -> None:
    """A line with two faults has one refusal."""
    found = read(GOOD | {"status": "x", "ttft_us": -1}, GOOD | {"ttft_us": "x", "request_id": ""}, GOOD)

    assert [each.line for each in found.refusals] == [1, 2]
