"""Token bucket, responses and signatures: numbers on the edge and one beside it."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.delivery.request import sign, verify
from sinks.delivery.schedule import RETRY_AFTER_MAX_MS, Bucket, Response, Verdict, retry_after_ms

NOW_MS = 1_800_000_000_000
BODY = b'{"a": 1}'
KEY = b"0123456789abcdef"


def test_a_bucket_gives_a_burst_and_then_its_rate() -> None:
    """Two at once, then one each half second."""
    bucket, times = Bucket(2.0, 2, 0), []

    at_ms = 0
    for _ in range(5):
        at_ms = bucket.free_ms(at_ms)
        bucket.take()
        times.append(at_ms)

    assert times == [0, 0, 500, 1_000, 1_500]


@given(st.floats(0.01, 1_000), st.integers(1, 50), st.lists(st.integers(0, 5_000), min_size=1, max_size=60))
def test_no_more_goes_out_than_burst_and_rate(rate: float, burst: int, pauses: list[int]) -> None:
    """In any time, whenever it is called."""
    bucket, at_ms, sent = Bucket(rate, burst, 0), 0, 0
    for pause in pauses:
        at_ms = bucket.free_ms(at_ms + pause)
        assert bucket.free_ms(at_ms) == at_ms
        bucket.take()
        sent += 1

    assert sent <= burst + at_ms * rate / 1_000 + 1e-6


def test_a_clock_that_is_set_back_gives_and_takes_nothing() -> None:
    """The tokens there are stay."""
    bucket = Bucket(1.0, 1, 1_000)
    bucket.take()

    assert [bucket.free_ms(0), bucket.free_ms(400)] == [1_000, 1_000]


@pytest.mark.parametrize(
    ("status", "verdict", "of_target", "misconfigured"),
    [
        (0, Verdict.RETRY, True, False),
        (199, Verdict.RETRY, True, False),
        (200, Verdict.DELIVERED, False, False),
        (202, Verdict.DELIVERED, False, False),
        (299, Verdict.DELIVERED, False, False),
        (300, Verdict.RETRY, True, True),
        (308, Verdict.RETRY, True, True),
        (399, Verdict.RETRY, True, True),
        (400, Verdict.REJECTED, False, False),
        (401, Verdict.RETRY, True, True),
        (403, Verdict.RETRY, True, True),
        (404, Verdict.RETRY, True, True),
        (405, Verdict.RETRY, True, True),
        (406, Verdict.REJECTED, False, False),
        (407, Verdict.RETRY, True, True),
        (408, Verdict.RETRY, False, False),
        (410, Verdict.RETRY, True, True),
        (413, Verdict.REJECTED, False, False),
        (422, Verdict.REJECTED, False, False),
        (429, Verdict.RETRY, True, False),
        (499, Verdict.REJECTED, False, False),
        (500, Verdict.RETRY, False, False),
        (501, Verdict.RETRY, False, False),
        (503, Verdict.RETRY, True, False),
    ],
)
def test_what_a_response_means(status: int, verdict: Verdict, of_target: bool, misconfigured: bool) -> None:
    """Only 4xx about the message are final; address, token and load are the target's failure."""
    response = Response(status)

    assert (response.verdict, response.of_target, response.misconfigured) == (verdict, of_target, misconfigured)


@pytest.mark.parametrize(("status", "of_target"), [(500, True), (408, True), (400, False), (200, False)])
def test_retry_after_is_about_the_whole_target(status: int, of_target: bool) -> None:
    """Of a response that is tried again."""
    assert Response(status, "", 1_000).of_target is of_target


@pytest.mark.parametrize(
    ("header", "pause"),
    [
        (None, None),
        ("0", 0),
        (" 7 ", 7_000),
        ("99999999999999999999", RETRY_AFTER_MAX_MS),
        ("Fri, 15 Jan 2027 08:00:09 GMT", 9_000),
        ("Fri, 15 Jan 2027 07:00:00 GMT", 0),
        ("Fri, 15 Jan 2100 08:00:00 GMT", RETRY_AFTER_MAX_MS),
        ("-1", None),
        ("soon", None),
        ("", None),
        ("²", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, pause: int | None) -> None:
    """At most an hour; nonsense is ignored."""
    assert retry_after_ms(header, NOW_MS) == pause


def test_a_signature_is_a_plain_hmac_that_anybody_can_make() -> None:
    """Over the time in seconds, a dot and the body."""
    digest = hmac.new(KEY, b'1800000000.{"a": 1}', hashlib.sha256).hexdigest()

    assert sign(KEY, BODY, 1_800_000_000) == f"t=1800000000,v1={digest}"


@pytest.mark.parametrize(
    ("key", "body", "now_s", "good"),
    [
        pytest.param(KEY, BODY, 1_000, True, id="at once"),
        pytest.param(KEY, BODY, 1_300, True, id="as late as allowed"),
        pytest.param(KEY, BODY, 1_301, False, id="a second too late"),
        pytest.param(KEY, BODY, 699, False, id="too early"),
        pytest.param(KEY, BODY + b" ", 1_000, False, id="another body"),
        pytest.param(KEY + b"x", BODY, 1_000, False, id="another key"),
    ],
)
def test_a_signature_holds_for_its_key_body_and_time(key: bytes, body: bytes, now_s: int, good: bool) -> None:
    """And for nothing else."""
    assert verify(key, body, sign(KEY, BODY, 1_000), now_s) is good


@pytest.mark.parametrize("header", ["", "t=1000", "v1=ab", "t=x,v1=y", "t=1000,v1=" + "0" * 64, "t=" + "9" * 40])
def test_what_is_no_signature_verifies_nothing(header: str) -> None:
    """Whatever its form."""
    assert verify(KEY, BODY, header, 1_000) is False
