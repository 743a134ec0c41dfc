"""Heads of requests without what they offer."""

from __future__ import annotations

import pytest

from runtime.http_heads import without_offer

LINE = b"GET /a HTTP/1.1\r\n"
OFFER = [(b"Upgrade", b"h2c"), (b"HTTP2-Settings", b"AAMA")]


@pytest.mark.parametrize(
    ("connection", "expected"),
    [
        pytest.param([b"Upgrade, HTTP2-Settings"], b"", id="nothing but the offer"),
        pytest.param([b"close, upgrade", b"http2-settings,, X"], b"Connection: close, X\r\n", id="in several"),
        pytest.param([], b"", id="none"),
    ],
)
def test_a_head_without_its_offer_says_the_rest(connection: list[bytes], expected: bytes) -> None:
    """Headers in order and as they were written, repeated ones too."""
    headers = [(b"Host", b"p"), (b"X", b"1"), *OFFER, *((b"Connection", each) for each in connection)]

    assert without_offer(LINE, [*headers, (b"x", b"2")]) == LINE + b"Host: p\r\nX: 1\r\nx: 2\r\n" + expected + b"\r\n"
