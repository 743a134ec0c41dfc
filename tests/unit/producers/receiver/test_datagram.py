"""The SDK's datagram: what is taken, and a reason for all that is not."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetpulse_track import handover, requests
from producers.receiver import datagram
from producers.receiver.datagram import REASONS, chunks_of, json_bytes_of, read, texts_of
from tests.unit.producers.receiver import sent


def one(**said: Any) -> bytes:
    client = sent.Recorded()
    client.hand_over(sent.finished([10, 5], end_us=1, **said))
    return client.sent[0]


def numbered(seq: int, lost: int = 0) -> bytes:
    return changed(one(), 32, *struct.pack("<QQ", seq, lost))


def refused(*datagrams: bytes) -> dict[str, int]:
    return dict(read(*sent.together(list(datagrams))).rejected)


def changed(data: bytes, at: int, *values: int) -> bytes:
    return data[:at] + bytes(values) + data[at + len(values) :]


def fields_of(layout: str | np.dtype[Any]) -> list[tuple[int, int]]:
    """Offset and size of each field; those of a ``struct`` one behind the other, its magic with the version."""
    if isinstance(layout, str):
        sizes = [4, *(np.dtype(f"<{letter}").itemsize for letter in layout.removeprefix("<4s"))]
        return [(sum(sizes[:at]), size) for at, size in enumerate(sizes)]
    magic, version, *others = ((at, kind.itemsize) for kind, at, *_ in (layout.fields or {}).values())
    return [(magic[0], magic[1] + version[1]), *others]


def test_both_sides_have_the_same_format() -> None:
    """The SDK is a distribution of its own: layout and constants stand twice and are the same."""
    assert fields_of(handover.HEADER.format) == fields_of(datagram.HEADER)
    assert datagram.MAGIC + bytes([datagram.VERSION]) == handover.MAGIC
    assert (handover.REQUEST, handover.FAREWELL) == (datagram.REQUEST, datagram.FAREWELL)
    assert (handover.MARKED, handover.MERGED) == (datagram.MARKED, datagram.MERGED)
    assert (requests.TOKENS_MASK, requests.CHOICE_SHIFT) == (datagram.TOKENS_MASK, datagram.CHOICE_SHIFT)
    assert (requests.CHOICE_MAX, requests.REASONING) == (datagram.CHOICE_MASK, datagram.REASONING_BIT)


def test_the_longest_datagram_of_the_sdk_fits() -> None:
    """As many times and marks as the SDK keeps, and as much JSON, stay within what the agent reads."""
    longest = handover.HEADER.size + requests.TIMES_MAX * 12 + requests.JSON_BYTES_MAX

    assert longest <= datagram.DATAGRAM_BYTES_MAX


def test_a_header_says_what_the_client_said() -> None:
    """Every field of the header comes back."""
    client = sent.Recorded()
    client.hand_over(sent.finished([10, 5, 7], marks=[1, 2, 3], end_us=4, model="m"))
    text = b'{"status":"ok","model":"m"}'

    heads = read(*sent.together(client.sent)).heads

    assert heads[0].item() == (
        b"FPD",
        ord("1"),
        datagram.REQUEST,
        datagram.MARKED,
        len(text),
        3,
        3,
        sent.PID,
        0,
        sent.START_NS,
        0,
        0,
        sent.AT_MS,
        sent.BEGIN_NS,
        sent.BEGIN_NS + 26_000,
    )


def test_chunks_and_texts_come_back_in_order() -> None:
    """Times, marks and JSON of several requests; one without chunks between two with."""
    client = sent.Recorded()
    marks = [sent.mark(3), sent.mark(reasoning=True, choice=2)]
    client.hand_over(sent.finished([10, 5], marks=marks, model="a"))
    client.hand_over(sent.finished(model="b"))
    client.hand_over(sent.finished([7], model="c"))
    buffer, ends = sent.together(client.sent)
    found = read(buffer, ends)

    chunks = chunks_of(buffer, found)

    assert chunks.offsets.tolist() == [0, 2, 2, 3]
    assert (chunks.at_ns - sent.BEGIN_NS).tolist() == [10_000, 15_000, 7_000]
    assert chunks.tokens is not None
    assert chunks.choices is not None
    assert chunks.tokens.tolist() == [3, 0, 0]
    assert chunks.choices.tolist() == [0, 2, 0]
    assert chunks.reasoning.tolist() == [False, True, False]
    assert [bytes(text) for text in texts_of(buffer, found)] == [
        b'{"status":"ok","model":"a"}',
        b'{"status":"ok","model":"b"}',
        b'{"status":"ok","model":"c"}',
    ]


def test_how_long_its_json_is_stands_in_the_header() -> None:
    """Of one alone."""
    data = one(model="m")

    assert json_bytes_of(data) == handover.HEADER.unpack_from(data)[3] > 0


def test_an_empty_buffer_holds_nothing() -> None:
    """No datagrams: no heads, nothing rejected."""
    found = read(np.zeros(0, np.uint8), np.zeros(0, np.int64))

    assert len(found) == 0
    assert found.rejected == {}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"", "not_ours", id="an empty datagram is not ours"),
        pytest.param(b"GET / HTTP/1.1\r\n", "not_ours", id="another protocol is not ours"),
        pytest.param(bytes(100), "not_ours", id="zeros are not ours"),
        pytest.param(b"FPD", "cut", id="a part of the magic is cut"),
        pytest.param(b"FPD1" + bytes(67), "cut", id="one byte less than a header is cut"),
        pytest.param(b"FPD2" + bytes(68), "version", id="the next version is not read"),
        pytest.param(one()[:-1], "cut", id="a byte less than the header says is cut"),
        pytest.param(one() + b"x", "trailing", id="a byte more than the header says is trailing"),
        pytest.param(changed(one(), 4, 3), "contents", id="an unknown kind"),
        pytest.param(changed(one(), 5, 4), "contents", id="an unknown flag"),
        pytest.param(changed(one(), 4, 2), "contents", id="a farewell with a body"),
        pytest.param(changed(one(), 12, 1, 0, 0, 0), "contents", id="fewer chunks than times"),
        pytest.param(changed(one(), 40, 1), "contents", id="more lost than ended"),
        pytest.param(changed(one(), 20, 1), "contents", id="more lost since the last than in all"),
        pytest.param(changed(one(), 55, 0x7F), "contents", id="an end beyond all clocks"),
        pytest.param(numbered(datagram.SEQ_MAX + 1), "contents", id="a request beyond all numbers"),
        pytest.param(numbered(2**62, lost=2**62), "contents", id="losses beyond all numbers"),
    ],
)
def test_what_is_not_sound_has_a_reason(data: bytes, reason: str) -> None:
    """Each fault by its name, and a good neighbour is taken all the same."""
    good = one(model="good")

    found = read(*sent.together([good, data, good]))

    assert dict(found.rejected) == {reason: 1}
    assert found.starts.tolist() == [0, len(good) + len(data)]


def test_the_greatest_number_is_taken() -> None:
    """On the bound, both in order and dropped."""
    found = read(*sent.together([numbered(datagram.SEQ_MAX, lost=datagram.SEQ_MAX)]))

    assert (found.heads["seq"].tolist(), found.heads["lost"].tolist()) == ([datagram.SEQ_MAX],) * 2


def test_every_reason_is_explained() -> None:
    """A reason that can be counted is in the table."""
    counted = set(datagram._STRUCTURAL) | {"too_long", "broken_json", "duplicate", "series", "internal"}

    assert counted == set(REASONS)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=200), st.builds(lambda tail: b"FPD1" + tail, st.binary(max_size=120)))))
def test_any_bytes_are_taken_or_counted(datagrams: list[bytes]) -> None:
    """Whatever comes: taken + rejected = all, and what is taken can be read to its end."""
    buffer, ends = sent.together(datagrams)

    found = read(buffer, ends)

    assert len(found) + sum(found.rejected.values()) == len(datagrams)
    assert len(chunks_of(buffer, found).at_ns) == int(found.heads["times"].sum())
    assert len(texts_of(buffer, found)) == len(found)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 130), st.integers(0, 255)), min_size=1, max_size=4), st.integers(0, 120))
def test_damage_changes_at_most_the_damaged(damage: list[tuple[int, int]], cut: int) -> None:
    """Flipped bytes and a cut in one datagram: its neighbours come through as they were."""
    data = bytearray(one(model="m"))
    for at, value in damage:
        data[at % len(data)] = value
    good = one(model="good")
    buffer, ends = sent.together([good, bytes(data[: len(data) - cut]), good])

    found = read(buffer, ends)

    texts = [bytes(text) for text in texts_of(buffer, found)]
    assert (texts[0], texts[-1]) == (b'{"status":"ok","model":"good"}',) * 2
    assert len(found) + sum(found.rejected.values()) == 3
