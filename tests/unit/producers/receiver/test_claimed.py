"""Reports of claimed requests, read one by one: as the arrays read them, or not at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producers.receiver.claimed import _HEAD, FEW, claimed_reports
from producers.receiver.client_fields import parse_client_fields
from producers.receiver.datagram import HEADER, REQUEST, read, texts_of, with_senders
from producers.receiver.gaps import Gaps
from producers.receiver.once import Once
from producers.receiver.server import follow
from tests.unit.producers.receiver.sent import Recorded, finished

PLUGIN = {"request_id": "chatcmpl-r", "reported_by": "plugin", "queue_us": 5}
HEADER_AND_MORE = 90
DEEP = b"[" * 150 + b"]" * 150


def once_with_claims(*names: str) -> Once:
    once = Once()
    for name in names:
        once.claim(name, lambda _name, _row: None)
    return once


def reported(*said: dict[str, Any], **shape: Any) -> list[bytes]:
    client = Recorded()
    for each in said:
        client.hand_over(finished(**shape, **each))
    return client.sent[:]  # without the farewell


def looked_at(datagrams: list[bytes], once: Once, pids: list[int] | None = None) -> Any:
    ends = np.cumsum([len(each) for each in datagrams], dtype=np.int64).tolist()
    return claimed_reports(bytearray(b"".join(datagrams)), ends, pids or [0] * len(datagrams), once)


def test_both_readers_have_the_same_header() -> None:
    """Field by field."""
    whole = bytes(range(HEADER.itemsize))
    (head,) = np.frombuffer(whole, HEADER)

    assert _HEAD.unpack(whole) == tuple(head.tolist())


def test_reports_of_claimed_requests_are_read() -> None:
    """With the process that sent them by the kernel's word, else by their own."""
    datagrams = reported(PLUGIN, {**PLUGIN, "request_id": "1_chatcmpl-r"})

    first, second = looked_at(datagrams, once_with_claims("r"), [77, 0])

    assert (first.row["queue_us"], second.row["request_id"]) == (5, "1_chatcmpl-r")
    assert (first.arrival.client[0], second.arrival.client[0]) == (77, 4_242)
    assert (first.pid, second.pid) == (77, 0)
    assert (first.arrival.seq, second.arrival.seq) == (0, 1)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param([PLUGIN, {**PLUGIN, "request_id": "chatcmpl-s"}], id="one is of another request"),
        pytest.param([{"model": "m"}], id="it has no id"),
        pytest.param([PLUGIN, PLUGIN | {"tenant": orjson.loads(DEEP)}], id="one is nested deep"),
        pytest.param([], id="there is nothing"),
        pytest.param([PLUGIN] * (FEW + 1), id="there are many"),
    ],
)
def test_all_else_is_left_to_the_arrays(said: list[dict[str, Any]]) -> None:
    """Nothing of such a slice is taken here."""
    assert looked_at(reported(*said), once_with_claims("r")) is None


def test_what_the_sdk_claimed_for_itself_is_no_claim() -> None:
    """A request that the SDK reported: what else comes of it is judged with the rest."""
    once = Once()
    once.judge([{"request_id": "r"}], lambda _at: b"", 0.0)

    assert looked_at(reported(PLUGIN), once) is None


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["r", "chatcmpl-r", "cmpl-r-0"]), st.booleans()), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 4 * HEADER_AND_MORE), st.integers(0, 255)), max_size=2),
    st.integers(0, 3),
)
def test_whatever_comes_is_read_as_the_arrays_read_it(
    said: list[tuple[str, bool]], damage: list[tuple[int, int]], sender: int
) -> None:
    """Damaged or not, with times or none: rows, sequences and what is kept are the same, or the slice is not taken."""
    rows = [{"request_id": name, "reported_by": "plugin"} for name, _ in said]
    datagrams = [
        part
        for row, (_, timed) in zip(rows, said, strict=True)
        for part in reported(row, gaps_us=[5, 7] if timed else None, marks=[1, 2] if timed else None)
    ]
    data, ends = bytearray(b"".join(datagrams)), np.cumsum([len(each) for each in datagrams], dtype=np.int64)
    for at, value in damage:
        data[at % len(data)] = value
    pids = [sender] * len(ends)

    found = claimed_reports(data, ends.tolist(), pids, once_with_claims("r"))

    buffer = np.frombuffer(data, np.uint8)
    with_senders(buffer, ends, np.array(pids, np.uint32))
    arrays = read(buffer, ends)
    sent, sound = parse_client_fields(texts_of(buffer, arrays))
    if not damage:
        assert found is not None
    if found is not None:
        assert not arrays.rejected
        assert sound.all()
        assert (arrays.heads["kind"] == REQUEST).all()
        assert [report.row for report in found] == sent
        order = sorted(range(len(found)), key=lambda at: found[at].arrival.client)
        kept = Gaps().take(found[at].arrival for at in order)
        assert [keep for _, keep in sorted(zip(order, kept, strict=True))] == follow(arrays, Gaps()).tolist()
