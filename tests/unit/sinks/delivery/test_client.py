"""HTTP client of a target and records of the topic: bounds, secrets, and malformed records."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from lab.drills.certificates import Authority
from runtime.runbook import Cause
from schemas.contract.alerts import encode
from schemas.errors import ConfigError, RejectedError
from sinks.delivery.backlog import Delivery, Undelivered
from sinks.delivery.client import DETAIL_MAX, RESPONSE_BYTES_MAX, Client
from sinks.delivery.cursor import Cursor
from sinks.delivery.request import Request
from sinks.delivery.schedule import Response
from sinks.delivery.sender import Sender, moment_of
from sinks.delivery.target import Resend, Target, Wait
from sinks.delivery.transition import deleted_fingerprint, transition_of
from tests.unit.sinks.delivery.delivery_cases import NOW_MS, a_target, an_alert, at, config, full_alert, record, when
from tests.virtual_clock import VirtualClock

SECRET_URL = "https://hooks.example/services/T000/B000/s3cr3t"
POST = Request(b"{}", "aa-1")


def response(status: int, text: str = "", **headers: str) -> httpx.Response:
    """A response whose body is still being received."""

    async def body() -> AsyncIterator[bytes]:
        yield text.encode()

    return httpx.Response(status, content=body(), headers=headers)


async def response_to(respond: Callable[[httpx.Request], httpx.Response], **settings: Any) -> Response:
    transport = httpx.MockTransport(respond)
    async with Client(config(**settings), VirtualClock(NOW_MS), transport=transport) as client:
        return await client.post(POST)


async def test_a_response_is_status_text_and_pause() -> None:
    """One line of text."""
    result = await response_to(lambda _: response(503, "come\n back ", **{"Retry-After": "3"}))

    assert result == Response(503, "come back", 3_000)


async def test_a_redirect_is_not_followed() -> None:
    """The request would go, with its secrets, where nobody configured it to."""
    requested: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        requested.append(str(request.url))
        return response(302, Location="http://elsewhere.example/")

    assert (await response_to(respond)).status == 302
    assert requested == ["http://target.example/hook"]


async def test_an_endless_response_is_read_for_a_bounded_part() -> None:
    """Four KiB; of them two hundred characters are kept."""
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        while True:
            read += 1_000
            yield b"x" * 1_000

    result = await response_to(lambda _: httpx.Response(500, content=endless()))

    assert (result.status, len(result.detail)) == (500, DETAIL_MAX)
    assert read <= RESPONSE_BYTES_MAX + 1_000


@pytest.mark.parametrize(
    "error",
    [httpx.ConnectError("refused"), httpx.ReadTimeout("slow"), httpx.RemoteProtocolError("odd"), OSError("gone")],
)
async def test_whatever_the_network_does_is_no_response(error: Exception) -> None:
    """Tried again, never raised."""

    def fail(_: httpx.Request) -> httpx.Response:
        raise error

    result = await response_to(fail)

    assert (result.status, result.verdict.value, result.detail) == (0, "retry", f"{type(error).__name__}: {error}")


async def test_no_secret_is_in_a_response_or_a_log(caplog: pytest.LogCaptureFixture) -> None:
    """Neither the address, whose path is a token, nor what a server says back."""
    caplog.set_level(logging.DEBUG, logger="sinks")
    body = f"no such hook {SECRET_URL} /services/T000/B000/s3cr3t with t0k3n-of-ours"

    result = await response_to(lambda _: response(404, body), endpoint_url=SECRET_URL, bearer_token="t0k3n-of-ours")

    assert "s3cr3t" not in result.detail + caplog.text
    assert "t0k3n" not in result.detail + caplog.text
    assert result.detail == "no such hook *** *** with ***"


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ("no webhook B0/S3CR3TT0K3N", "no webhook B0/***"),
        ("no key qu3ryv4lu3/x", "no key ***"),
        ("no key qu3ryv4lu3%2Fx", "no key ***"),
        ("S3CR3T\x00T0K3N and b3ar3r-b3a\x07r", "*** and ***"),
        ("services, api", "***, api"),
        (" " * 4_085 + "S3CR3TT0K3N", "***"),
        (" " * 4_086 + "S3CR3TT0K3N", "***"),
        (" " * 4_095 + "S3CR3TT0K3N", "***"),
        ("x" * 190 + " " * 3_900 + "b3ar3r", "x" * 190 + " ***"),
        ("x" * 190 + " " * 3_901 + "b3ar3r", "x" * 190 + " ***"),
        (" " * 4_085 + "b3ar3r-b3ar", "***"),
        ("x" * 195 + " S3CR3TT0K3N", "x" * 195 + " ***"),
    ],
)
async def test_no_part_of_an_address_that_may_be_a_token_comes_back(body: str, detail: str) -> None:
    """Segments and values of eight characters, whole, percent-decoded, in pieces or cut where reading ends."""
    url = "https://hooks.example/api/services/T0/B0/S3CR3TT0K3N?key=qu3ryv4lu3%2Fx&v=2"

    result = await response_to(lambda _: response(404, body), endpoint_url=url, bearer_token="b3ar3r-b3ar")

    assert result.detail == detail


def test_authorities_that_cannot_be_read_stop_the_start() -> None:
    """With the key and the file."""
    with pytest.raises(ConfigError, match=r"ca_file = '/nowhere.pem'"):
        Client(config(ca_file="/nowhere.pem"), VirtualClock(NOW_MS))


def test_authorities_that_are_renewed_are_loaded_before_the_next_handshake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No restart is needed."""
    before, after = Authority(tmp_path / "before"), Authority(tmp_path / "after")
    file = tmp_path / "ca.crt"
    file.write_bytes(before.certificate.read_bytes())
    contexts: list[ssl.SSLContext] = []
    monkeypatch.setattr(httpx, "AsyncClient", lambda verify, **_more: contexts.append(verify))
    Client(config(ca_file=file), VirtualClock(NOW_MS))

    file.write_bytes(after.certificate.read_bytes())
    contexts[0].wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="target")

    assert len(contexts[0].get_ca_certs()) == 2


async def test_a_sender_posts_and_publishes_and_counts() -> None:
    """The loop of a target over its state: one delivered, one rejected."""
    target = a_target()
    target.accept(at(0, an_alert("a")), when(0))
    target.accept(at(1, an_alert("b")), when(0))
    published: list[str] = []
    done = asyncio.Event()

    async def publish(name: str, undelivered: Undelivered) -> None:
        published.append(f"{name} {undelivered.delivery.fingerprint} {undelivered.detail}")
        done.set()

    def respond(request: httpx.Request) -> httpx.Response:
        return response(200 if json.loads(request.content)["fingerprint"] == "a" else 400)

    clock = VirtualClock(NOW_MS)
    async with Client(config(), clock, transport=httpx.MockTransport(respond)) as client:
        sender = Sender(target, client, publish, clock)
        task = asyncio.create_task(sender.run())
        await asyncio.wait_for(done.wait(), 5)
        task.cancel()
        await sender.drain(0)
    sender.update_counters()

    assert published == ["t b status 400: "]
    assert (target.counts["delivered"], target.counts["undelivered"]) == (1, 1)


async def _never(name: str, undelivered: Undelivered) -> None:
    raise AssertionError("nothing is given up here")


async def serve(target: Target, clock: VirtualClock, respond: Callable[[httpx.Request], httpx.Response]) -> None:
    """One round of sending again, as the loop of a target does it."""
    async with Client(target.config, clock, transport=httpx.MockTransport(respond)) as client:
        sender = Sender(target, client, _never, clock)
        step = target.next(moment_of(clock))
        assert isinstance(step, Resend)
        await sender._resend(step)


async def test_one_alert_that_is_rejected_does_not_end_sending_the_others_again() -> None:
    """Else Alertmanager would resolve them by itself. The one is found, given up once and excluded for a while."""
    target, clock, sent = (
        a_target("alertmanager", cursor=Cursor(300, 0), open_max=1_000),
        VirtualClock(NOW_MS),
        set[str](),
    )
    for offset in range(300):
        target.accept(at(offset, an_alert("bad" if offset == 7 else f"f{offset:03}")), when(0, NOW_MS))
    target.begin()

    def respond(request: httpx.Request) -> httpx.Response:
        found = {one["labels"]["fleetpulse_fingerprint"] for one in json.loads(request.content)}
        if "bad" not in found:
            sent.update(found)
        return response(413 if "bad" in found else 200)

    await serve(target, clock, respond)
    first, sent = sent, set()
    clock.advance(59_999)
    between = target.next(moment_of(clock))
    clock.advance(1)
    await serve(target, clock, respond)

    others = {f"f{offset:03}" for offset in range(300)} - {"f007"}
    assert (first, between, sent) == (others, Wait(60_000), others)
    assert [(one.delivery.fingerprint, one.reason, one.detail) for one in target.undelivered] == [
        ("bad", "rejected", "sent again, status 413: ")
    ]
    assert (target.open, target.counts["excluded"]) == (300, 2)


WRONG = "target t responds 401: check its address and token"


@pytest.mark.parametrize(("then", "reason"), [(401, WRONG), (0, WRONG), (503, None), (200, None), (400, None)])
async def test_a_misconfigured_target_is_reported_until_it_responds_otherwise(then: int, reason: str | None) -> None:
    """A wrong token needs somebody; no response is no evidence."""
    target, clock, statuses = a_target(), VirtualClock(NOW_MS), [401, then]

    def respond(_: httpx.Request) -> httpx.Response:
        if (status := statuses.pop(0)) == 0:
            raise httpx.ConnectError("gone")
        return response(status)

    async with Client(config(), clock, transport=httpx.MockTransport(respond)) as client:
        sender = Sender(target, client, _never, clock)
        for _ in range(2):
            await sender._post(lambda _: POST)

    assert sender.misconfigured == reason


async def test_a_target_that_takes_nothing_says_so_until_it_does(caplog: pytest.LogCaptureFixture) -> None:
    """In words that /readyz shows, and once in the log by the runbook's cause."""
    statuses, said = [500, 0, 200], []

    def respond(_: httpx.Request) -> httpx.Response:
        if (status := statuses.pop(0)) == 0:
            raise httpx.ConnectError("gone")
        return response(status)

    clock = VirtualClock(NOW_MS)
    async with Client(config(), clock, transport=httpx.MockTransport(respond)) as client:
        sender = Sender(a_target(), client, _never, clock)
        for _ in range(3):
            await sender._post(lambda _: POST)
            said.append(sender.failing)

    assert said == ["Alerts not delivered: t responds 500", "Alerts not delivered: t responds nothing", None]
    assert [line.__dict__["cause"] for line in caplog.records if line.levelname == "WARNING"] == [Cause.DELIVERY]


def test_a_record_is_a_transition_with_its_offset() -> None:
    """The alert, its bytes, offset and append time."""
    found = transition_of(record(encode(full_alert()), 7))

    assert (found.alert, found.record, found.offset, found.appended_ms) == (
        full_alert(),
        encode(full_alert()),
        7,
        NOW_MS,
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("fingerprint", 7),
        ("fingerprint", ""),
        ("fingerprint", "0123456789abcde"),
        ("fingerprint", "0123456789ABCDEF"),
        ("fingerprint", "0123456789abcdef\n"),
        ("fingerprint", "0123456789abcde\u0661"),
        ("fingerprint", "0123456789abcd\r\n"),
        ("severity", "fatal"),
        ("summary", None),
        ("number", "1"),
        ("number", True),
        ("number", 0),
        ("number", 2**31),
        ("count", -1),
        ("count", 2**63),
        ("count", "1"),
        ("evidence", []),
        ("summary", "x" * 65_537),
        ("labels", {str(n): "" for n in range(65)}),
        ("labels", {"host": "x" * 65_537}),
        ("members", [{"rule": "r", "severity": "info", "labels": {}, "since_ms": 0, "until_ms": None}] * 1_001),
        ("opened_ms", -1),
        ("since_ms", 10**18),
        ("at_ms", 1.5),
        ("resolved_ms", "now"),
        ("muted_until_ms", "ever"),
        ("value", "high"),
        ("labels", ["host"]),
        ("labels", {"host": 1}),
        ("members", [{"rule": "r", "severity": "info", "labels": {"a": 1}, "since_ms": 0, "until_ms": None}]),
        ("members", [{"rule": "r", "severity": "info", "labels": {}, "since_ms": "0", "until_ms": None}]),
        ("members", [{"rule": "r", "severity": "info", "labels": {}, "since_ms": 0, "until_ms": "1"}]),
        ("transition", "closed"),
        ("rule", ["r"]),
    ],
)
def test_a_record_with_a_field_of_another_type_is_rejected(field: str, value: Any) -> None:
    """Here, so that nothing later has to check."""
    fields = {**orjson.loads(encode(full_alert())), field: value}

    with pytest.raises(RejectedError):
        transition_of(record(orjson.dumps(fields)))


def test_a_record_on_the_bounds_is_read_one_beyond_is_not() -> None:
    """A MiB in all; labels, members and texts as large as they may be."""
    one = {"rule": "r", "severity": "info", "labels": {}, "since_ms": 0, "until_ms": None}
    wide = {"labels": {str(n): "" for n in range(64)}, "members": [one] * 1_000, "summary": "x" * 65_536}
    fields = {**orjson.loads(encode(full_alert())), **wide, "number": 2**31 - 1, "count": 2**63 - 1}
    whole = orjson.dumps(fields)

    assert transition_of(record(whole.ljust(1_048_576))).alert.number == 2**31 - 1
    with pytest.raises(RejectedError, match="1048577 bytes"):
        transition_of(record(whole.ljust(1_048_577)))


async def test_what_cannot_be_put_in_a_request_is_rejected_not_raised() -> None:
    """A key that is no header would end the whole delivery, again after each start."""
    async with Client(config(), VirtualClock(NOW_MS), transport=httpx.MockTransport(lambda _: response(200))) as client:
        result = await client.post(Request(b"{}", "\u00e9-1"))

    assert (result.status, result.verdict.value, result.detail[:14]) == (400, "rejected", "cannot be sent")


@pytest.mark.parametrize(
    ("value", "key", "deleted"),
    [(None, b"aa", "aa"), (b"", b"aa", "aa"), (None, None, None), (b"{}", b"aa", None)],
)
def test_a_tombstone_is_the_fingerprint_deleted(value: bytes | None, key: bytes | None, deleted: str | None) -> None:
    """By its key."""
    assert deleted_fingerprint(record(value, key=key)) == deleted


def test_the_record_of_what_was_not_delivered_is_whole() -> None:
    """Target, reason, attempts, and the transition as it stood."""
    delivery = Delivery(at(5, an_alert(), partition=1), 1, 0, 0, 0, attempts=3)

    value = json.loads(Undelivered(delivery, "too_old", "late").record("hook", NOW_MS))

    assert value == {
        "schema": "alerts.undelivered/1",
        "target": "hook",
        "reason": "too_old",
        "detail": "late",
        "attempts": 3,
        "at_ms": NOW_MS,
        "transition_id": "aa-1799999940000-1",
        "partition": 1,
        "offset": 5,
        "record": json.loads(encode(an_alert())),
    }
