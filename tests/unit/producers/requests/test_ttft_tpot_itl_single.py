from __future__ import annotations

from unittest.mock import patch

from hypothesis import given

from producers.requests import ttft_tpot_itl_single
from producers.requests.ttft_tpot_itl_single import LONG_ENTRIES, Entries, RequestLatencies, request_latencies
from tests.unit.producers.requests.oracle import CONTENT, EMPTY, Entry, Request, answer, requests


def of(request: Request) -> RequestLatencies:
    came = [entry for entry in request.entries if entry.kind != EMPTY]
    entries = Entries(
        [entry.at_ns for entry in came],
        bytearray(entry.kind for entry in came),
        [entry.tokens for entry in came],
        [entry.choice for entry in came],
    )
    return request_latencies(entries, request.received_ns, request.ended_ns, request.output, request.reasoning)


@given(requests())
def test_latencies_of_one_request(request: Request) -> None:
    """In plain numbers as by arrays: what the definitions say."""
    expected = answer(request)

    assert of(request)._asdict() == expected
    with patch.object(ttft_tpot_itl_single, "LONG_ENTRIES", 1):
        assert of(request)._asdict() == expected


def test_long_requests_go_by_arrays() -> None:
    """On the border and beside it the results are the same."""
    for count in (LONG_ENTRIES - 1, LONG_ENTRIES, LONG_ENTRIES + 1):
        request = Request(0, [Entry(i * 1_234_567, CONTENT) for i in range(count)], count * 1_234_567, 3 * count)

        assert of(request)._asdict() == answer(request)
