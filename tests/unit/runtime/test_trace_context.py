from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.trace_context import (
    TraceContext,
    batch_context,
    context_of,
    is_sampled,
    parse,
    span_within,
    threshold,
    trace_of,
)
from schemas.contract.headers import NATIVE, Identity, decode_headers, encode_headers

SOURCE = "ab" * 16
TRACE, SPAN = b"4bf92f3577b34da6a3ce929d0e0e4736", b"00f067aa0ba902b7"
CONTEXT = TraceContext(int(TRACE, 16), int(SPAN, 16))
GOOD = b"00-" + TRACE + b"-" + SPAN + b"-01"


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1))
def test_what_is_written_is_read_again(trace_id: int, span_id: int) -> None:
    """Any context survives its header."""
    context = TraceContext(trace_id, span_id)

    assert parse(context.header[1]) == context


def test_the_examples_of_the_recommendation_are_read() -> None:
    """Sampled is a context, with other flags beside it too; a later version's is read by its first four parts."""
    assert parse(GOOD) == CONTEXT
    assert parse(GOOD[:-2] + b"03") == CONTEXT
    assert parse(b"cc" + GOOD[2:]) == CONTEXT
    assert parse(b"cc" + GOOD[2:] + b"-what-the-future-will-be-like") == CONTEXT


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(None, id="no value"),
        pytest.param(b"", id="empty"),
        pytest.param(GOOD[:-1], id="one byte short"),
        pytest.param(GOOD + b"-", id="version 00 with something behind"),
        pytest.param(GOOD + b"0", id="flags of three digits"),
        pytest.param(GOOD[:-2] + b"00", id="not sampled"),
        pytest.param(GOOD[:-2] + b"02", id="random, not sampled"),
        pytest.param(GOOD[:-2] + b"0x", id="flags are no digits"),
        pytest.param(b"ff" + GOOD[2:], id="the version that is none"),
        pytest.param(GOOD.upper(), id="upper case"),
        pytest.param(GOOD.replace(b"-", b"_"), id="other separators"),
        pytest.param(GOOD.replace(TRACE, b"0" * 32), id="trace 0"),
        pytest.param(GOOD.replace(SPAN, b"0" * 16), id="span 0"),
        pytest.param(GOOD.replace(b"4b", b"+b", 1), id="a sign"),
        pytest.param(GOOD.replace(TRACE, TRACE[:-2] + b"\xc2\xb2"), id="a digit beyond ASCII"),
        pytest.param(b"-" * 60, id="only separators"),
        pytest.param(b"\xff" * 10_000, id="long nonsense"),
    ],
)
def test_what_is_malformed_or_not_sampled_is_no_context(value: bytes | None) -> None:
    """Nobody's header makes anything raise."""
    assert parse(value) is None


@given(st.binary(max_size=80))
def test_no_bytes_make_it_raise(value: bytes) -> None:
    """A context, or none."""
    found = parse(value)

    assert found is None or (found.trace_id > 0 and found.span_id > 0)


def test_the_context_is_found_wherever_it_stands_and_only_once() -> None:
    """Order does not matter; said twice, nobody knows which one is meant."""
    header = CONTEXT.header

    assert context_of((("schema", b"a/1"), header)) == CONTEXT
    assert context_of((header, ("schema", b"a/1"))) == CONTEXT
    assert context_of((header, header)) is None
    assert context_of((("traceparent", b"x"), header)) is None
    assert context_of(()) is None


def test_the_header_changes_nothing_of_what_a_record_is() -> None:
    """Followed or not, malformed or not: the same schema, identity and count."""
    plain = encode_headers("a/1", NATIVE, Identity(SOURCE, 1, 5, (1, 5)), 3)

    for header in (CONTEXT.header, ("traceparent", b"rubbish")):
        assert decode_headers((*plain, header)) == decode_headers(plain)


def test_ids_follow_from_what_they_stand_for() -> None:
    """The same again for the same, another for any other; ``1, 23`` is not ``12, 3``."""
    contexts = [batch_context(SOURCE, 1, 23), batch_context(SOURCE, 12, 3), batch_context("cd" * 16, 1, 23)]
    contexts += [trace_of("commit", "g", 1), trace_of("commit", "g", 2), span_within(7, "g", 1), span_within(7, "g", 2)]

    assert batch_context(SOURCE, 1, 23) == contexts[0]
    assert len({context.span_id for context in contexts}) == 7
    assert span_within(7, "g", 1).trace_id == span_within(7, "g", 2).trace_id == 7


def test_the_share_of_sampled_batches_is_the_ratio() -> None:
    """None below the smallest, all at 1; in between so many as five deviations allow; more at a higher ratio."""
    traces = [batch_context(SOURCE, 1, seq).trace_id for seq in range(20_000)]
    sampled = {ratio: {t for t in traces if is_sampled(t, threshold(ratio))} for ratio in (0.001, 0.1, 1.0)}

    assert [t for t in traces if is_sampled(t, 0)] == []
    assert sampled[1.0] == set(traces)
    assert abs(len(sampled[0.1]) - 2_000) < 5 * (20_000 * 0.1 * 0.9) ** 0.5
    assert abs(len(sampled[0.001]) - 20) < 5 * 20**0.5
    assert sampled[0.001] < sampled[0.1]
