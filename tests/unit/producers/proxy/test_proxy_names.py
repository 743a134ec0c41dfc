"""The names of a request, where the client brings none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.proxy.tenants import identity_of
from runtime.trace_context import TraceContext

CHANCE = bytes(range(40))
OWN_ID = bytes(range(16)).hex()
OWN_TRACE = bytes(range(16, 32)).hex()
TRACE = "0af7651916cd43dd8448eb211c80319c"


def test_names_are_added_where_there_are_none() -> None:
    """Both headers, from the chance that came."""
    found = identity_of({}, CHANCE, sampled=True)

    assert (found.request_id, found.trace_id) == (OWN_ID, OWN_TRACE)
    assert found.added == [
        (b"X-Request-ID", OWN_ID.encode()),
        (b"traceparent", f"00-{OWN_TRACE}-{CHANCE[32:].hex()}-01".encode()),
    ]
    assert identity_of({}, CHANCE, sampled=False).added[1][1].endswith(b"-00")


def test_names_that_came_are_kept() -> None:
    """Nothing is added then; later versions of a trace are read too."""
    values = {b"x-request-id": b"a-1", b"traceparent": f"01-{TRACE}-b7ad6b7169203331-01-more".encode()}

    found = identity_of(values, CHANCE, sampled=True)

    assert (found.request_id, found.trace_id, found.added) == ("a-1", TRACE, [])


def test_a_followed_request_stands_between_its_client_and_its_engine() -> None:
    """Its span is a child of the client's, and what the engine gets names it as the parent, with the client's flags."""
    values = {b"x-request-id": b"a-1", b"traceparent": f" 00-{TRACE}-b7ad6b7169203331-03 ".encode()}
    own = int(CHANCE[32:].hex(), 16)

    found = identity_of(values, CHANCE, sampled=True, followed=True)

    assert (found.trace_id, found.span) == (TRACE, TraceContext(int(TRACE, 16), own))
    assert found.parent == TraceContext(int(TRACE, 16), 0xB7AD6B7169203331)
    assert found.added == [(b"traceparent", f"00-{TRACE}-{CHANCE[32:].hex()}-03".encode())]
    assert found.without == {b"traceparent"}


def test_a_trace_that_begins_here_begins_with_the_request() -> None:
    """Where it is to be recorded."""
    root = TraceContext(int(OWN_TRACE, 16), int(CHANCE[32:].hex(), 16))

    found = [identity_of({}, CHANCE, sampled=sampled, followed=True) for sampled in (True, False)]

    assert [(one.span, one.parent, one.without) for one in found] == [(root, None, set()), (None, None, set())]
    assert [one.added for one in found] == [identity_of({}, CHANCE, sampled=sampled).added for sampled in (True, False)]


@pytest.mark.parametrize("trace", [f"00-{TRACE}-b7ad6b7169203331-00".encode(), b"00-zz", b""])
def test_what_is_not_sampled_or_broken_is_not_followed(trace: bytes) -> None:
    """It goes on as it came."""
    values = {b"x-request-id": b"a", b"traceparent": trace}

    assert identity_of(values, CHANCE, sampled=True, followed=True) == identity_of(values, CHANCE, sampled=True)


BAD_TRACES = [
    b"",
    b"00",
    f"ff-{TRACE}-b7ad6b7169203331-01".encode(),
    b"00-" + b"0" * 32 + b"-b7ad6b7169203331-01",
    f"00-{TRACE}-{'0' * 16}-01".encode(),
    f"00-{TRACE.upper()}-b7ad6b7169203331-01".encode(),
]


@pytest.mark.parametrize("trace", BAD_TRACES)
def test_a_broken_trace_is_unknown(trace: bytes) -> None:
    """It is neither believed nor replaced."""
    found = identity_of({b"traceparent": trace, b"x-request-id": b"a"}, CHANCE, sampled=True)

    assert (found.trace_id, found.added) == (None, [])


@given(st.binary(max_size=200))
def test_any_id_gives_a_sound_one(sent: bytes) -> None:
    """The client's, or ours: printable, not too long, never empty."""
    found = identity_of({b"x-request-id": sent, b"traceparent": sent}, CHANCE, sampled=True)

    assert found.request_id in (sent.decode("latin-1"), OWN_ID)
    assert 0 < len(found.request_id) <= 128
    assert found.request_id.isprintable()


@pytest.mark.parametrize("sent", [b"a b", b"", b"a" * 129, b"a, b"])
@pytest.mark.parametrize("followed", [False, True])
def test_an_id_that_is_none_is_replaced_for_the_engine_too(sent: bytes, followed: bool) -> None:
    """It would report the request under that id, and the proxy under its own: two events."""
    found = identity_of({b"x-request-id": sent, b"traceparent": b"-"}, CHANCE, sampled=True, followed=followed)

    assert (found.request_id, found.added) == (OWN_ID, [(b"X-Request-ID", OWN_ID.encode())])
    assert found.without == {b"x-request-id"}
    assert identity_of({b"x-request-id": sent}, CHANCE, sampled=True, followed=followed).without == {b"x-request-id"}
