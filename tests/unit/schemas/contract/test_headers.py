"""Headers: what our producers write is read back; what cannot be trusted is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.contract import headers as headers_module
from schemas.contract.headers import (
    CLOCK_SKEW,
    NATIVE,
    NDJSON,
    Identity,
    RecordHeaders,
    clock_skew_ms,
    decode_any,
    decode_headers,
    encode_headers,
)
from schemas.contract.record import Headers
from schemas.errors import RejectedError

ORDINALS = st.integers(0, 10**18 - 1)
SOURCE = "0123456789abcdef" * 2


@given(ORDINALS, ORDINALS, st.data(), st.integers(0, 1_000))
def test_what_is_encoded_is_decoded_again(boot: int, seq: int, data: st.DataObject, count: int) -> None:
    """Identity, low-water mark and count survive."""
    low = data.draw(st.tuples(st.integers(0, boot), ORDINALS).filter(lambda low: low <= (boot, seq)))
    identity = Identity(SOURCE, boot, seq, low)

    headers = encode_headers("llm.requests/1", NATIVE, identity, count)

    assert decode_headers(headers) == RecordHeaders("llm.requests/1", NATIVE, identity, count)


def test_order_and_unknown_headers_make_no_difference() -> None:
    """Any client may write them in any order and add its own, with or without a value."""
    headers = encode_headers("a/1", NDJSON, Identity(SOURCE, 1, 2, (1, 2)), 3)

    shuffled = (("traceparent", b"00-1"), ("other", None), *reversed(headers))

    assert decode_headers(shuffled) == decode_headers(headers)


def test_a_third_party_needs_schema_and_content_type_only() -> None:
    """A record without source has no identity; its count is optional."""
    headers = (("schema", b"a/1"), ("content-type", b"x"))

    assert decode_headers(headers) == RecordHeaders("a/1", "x", None, None)
    assert decode_headers((*headers, ("count", b"4"))).count == 4


ODD_BYTES = st.sampled_from(
    [None, b"", b"0", b"1", b"01", b"5", b"+5", b"1_0", b" 1", b"1.5", b"1.05", b"1.6", b"1.", b".", b"1.1.1", b"01.5"]
) | st.from_regex(rb"[0-9]{17,20}([.][0-9]{17,20})?", fullmatch=True)


@given(st.dictionaries(st.sampled_from(["schema", "content-type", "source", "boot", "seq", "low", "count"]), ODD_BYTES))
def test_what_is_remembered_changes_no_answer(odd: dict[str, bytes | None]) -> None:
    """The quick way for canonical headers answers, or refuses, as the careful reader does, at first and from memory."""
    good = encode_headers("a/1", NDJSON, Identity(SOURCE, 1, 5, (1, 5)), 3)
    decode_headers(good)
    headers: Any = tuple({**dict(good), **odd}.items())

    assert [_answer(decode_headers, headers), _answer(decode_headers, headers)] == [_answer(decode_any, headers)] * 2


def _answer(decode: Callable[[Headers], RecordHeaders], headers: Headers) -> RecordHeaders | str:
    try:
        return decode(headers)
    except RejectedError as error:
        return str(error)


def test_memory_of_senders_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is full it is forgotten, and the answers stay the same."""
    monkeypatch.setattr(headers_module, "_SENDERS_MAX", 4)
    monkeypatch.setattr(headers_module, "_senders", {})

    for count in (*range(9), *range(9)):
        headers = encode_headers("a/1", NDJSON, Identity(SOURCE, 1, 5, (1, 5)), count)
        assert decode_headers(headers).count == count
        assert len(headers_module._senders) <= 4


BAD = [
    ("source", b"A" * 32, "source must be"),
    ("source", b"a" * 31, "source must be"),
    ("source", b"", "source must be"),
    ("source", None, "source has no value"),
    ("boot", b"-1", "boot must be"),
    ("boot", b"1.5", "boot must be"),
    ("boot", b"", "boot must be"),
    ("seq", b"1" * 19, "seq must be"),
    ("seq", " ²".encode(), "seq must be"),
    ("low", b"3", "low must be"),
    ("low", b"3.", "low must be"),
    ("low", b"3.1.1", "low must be"),
    ("low", b"2.0", "low lies above"),
    ("low", b"1.6", "low lies above"),
    ("count", b"forty", "count must be"),
    ("count", None, "count has no value"),
    ("schema", b"s" * 129, "schema is longer"),
    ("schema", "schéma".encode(), "schema is longer"),
    ("content-type", None, "content-type has no value"),
]


@pytest.mark.parametrize(("name", "value", "detail"), BAD)
def test_a_header_that_is_not_what_it_must_be_is_refused(name: str, value: bytes | None, detail: str) -> None:
    """The detail names the header."""
    good = dict(encode_headers("a/1", NDJSON, Identity(SOURCE, 1, 5, (1, 5)), 3))

    with pytest.raises(RejectedError, match=f"headers: {detail}"):
        decode_headers(tuple({**good, name: value}.items()))


@pytest.mark.parametrize("name", ["schema", "content-type", "boot", "seq", "low", "count"])
def test_a_record_with_source_needs_all_headers(name: str) -> None:
    """Each one missing is named."""
    good = encode_headers("a/1", NDJSON, Identity(SOURCE, 1, 5, (1, 5)), 3)

    with pytest.raises(RejectedError, match=name):
        decode_headers(tuple(header for header in good if header[0] != name))


@pytest.mark.parametrize(
    ("value", "skew_ms"),
    [(b"-600000", -600_000), (b"1500", 1_500), (b"", 0), (None, 0), (b"1.5", 0), (b"--5", 0), (b"9" * 16, 0)],
)
def test_a_senders_clock_is_what_it_says_or_unknown(value: bytes | None, skew_ms: int) -> None:
    """A record is none the worse for a skew that cannot be read."""
    headers = (*encode_headers("a/1", NDJSON, Identity(SOURCE, 1, 2, (1, 2)), 3), (CLOCK_SKEW, value))

    assert clock_skew_ms(headers) == skew_ms
    assert clock_skew_ms(headers[:-1]) == 0
    assert decode_headers(headers) == decode_headers(headers[:-1])


def test_a_header_twice_is_refused() -> None:
    """Nobody can tell which one was meant."""
    with pytest.raises(RejectedError, match="schema is there twice"):
        decode_headers((("schema", b"a"), ("schema", b"a")))
