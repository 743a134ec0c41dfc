"""What the proxy counts of itself, and how it says that it fares."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from producers.proxy import errors
from producers.proxy.client_side import ClientSide
from producers.proxy.server import STILL_MAX_S, ProxyServer
from producers.proxy.stats import ProxyStats
from producers.proxy.wire import Refusal
from runtime.counters import Counters
from runtime.proxy_config import ProxyConfig, UpstreamConfig
from tests.unit.producers.proxy.test_proxy_sides import ANSWER, PLAIN, Setting, Wire

GET = b"GET /v1/models HTTP/1.1\r\nHost: p\r\n\r\n"
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


async def test_every_request_is_counted_once_by_what_its_client_was_answered() -> None:
    """Those of other paths too, and those whose client left before it was answered."""
    setting = Setting()
    value = setting.counters.value

    setting.client.data_received(PLAIN)
    open_now = value("proxy_open_requests")
    setting.upstream.data_received(ANSWER)
    await asyncio.sleep(0)
    setting.client.data_received(GET)
    setting.upstream.data_received(NOT_FOUND)
    await asyncio.sleep(0)
    setting.client.data_received(PLAIN)
    setting.client.connection_lost(None)

    assert (open_now, value("proxy_open_requests")) == (1, 0)
    assert value("proxy_requests", api="chat", status=200) == 1
    assert value("proxy_requests", api="other", status=404) == 1
    assert value("proxy_requests", api="chat", status="none") == 1


async def test_what_the_proxy_answers_itself_is_counted_by_reason() -> None:
    """A limit by the limit's name, all else by the code that the client reads."""
    setting = Setting(connections_max=1)

    ClientSide(setting.server).connection_made(Wire())  # type: ignore[arg-type]
    setting.client.data_received(PLAIN)
    setting.upstream.data_received(b"no HTTP")

    value = setting.counters.value
    assert value("proxy_refused", reason="connections_max") == 1
    assert value("proxy_refused", reason="upstream_malformed") == 1
    assert value("proxy_requests", api="chat", status=502) == 1


def test_each_limit_has_its_own_reason() -> None:
    """Every answer of the proxy's own has a reason that no other has, whatever code it shares."""
    refusals = [value for value in vars(errors).values() if isinstance(value, Refusal)]

    reasons = [refusal.reason for refusal in refusals]

    assert len(set(reasons)) == len(reasons)
    assert {"open_requests_max", "bodies_bytes_max", "connections_max", "descriptors", "request_timeout"} <= set(
        reasons
    )
    overloaded = [refusal for refusal in refusals if refusal.code == "overloaded"]
    assert [refusal.message.partition("; ")[2] for refusal in overloaded] == ["try again soon"] * 4


async def test_an_upstream_is_down_from_the_last_failure_to_the_first_success() -> None:
    """Up before the first request."""
    setting = Setting(failures_max=2)
    (upstream,) = setting.server.choice.upstreams
    seen = []

    def note() -> None:
        seen.append(b'upstream_down{upstream="e:1"} 1.0' in setting.counters.render())

    note()
    for _ in range(3):
        setting.server.health.failed(upstream, OSError("refused"))
        note()
    setting.server.health.connected(upstream)
    note()

    assert seen == [False, False, True, True, False]
    assert b'upstream_down{upstream="e:1"} 0.0' in setting.counters.render()


def test_what_could_not_be_read_is_counted() -> None:
    """Each reason as often as it came."""
    counters = Counters()

    ProxyStats(counters, ()).unread({"broken_json": 2, "no_object": 1})

    assert counters.value("proxy_unread", reason="broken_json") == 2
    assert counters.value("proxy_unread", reason="no_object") == 1


class Timed(ProxyServer):
    """A proxy with a clock of the test's own."""

    at_s = 0.0

    def now_s(self) -> float:
        return self.at_s


def timed(**limits: Any) -> Timed:
    config = ProxyConfig(upstreams=(UpstreamConfig(url="http://e:1"),), failures_max=1, down_s=5, **limits)
    return Timed(config, [].append, host="h", tenant_secret=b"s", counters=Counters())


def test_a_blocked_loop_is_reported() -> None:
    """Above the limit, not on it."""
    server = timed()

    server.at_s = STILL_MAX_S
    on_it = server.why_dead()
    server.at_s += 1

    assert (on_it, server.why_dead()) == (None, "the event loop has been blocked for 16 s")


@pytest.mark.enable_socket
async def test_ready_is_who_listens_and_has_an_upstream_to_try() -> None:
    """Not before it listens, not while every upstream is left alone, not once it is stopping."""
    server = timed(port=0)
    seen = [server.why_not_ready()]

    await server.start()
    seen.append(server.why_not_ready())
    server.health.failed(server.choice.upstreams[0], OSError("refused"))
    seen.append(server.why_not_ready())
    server.at_s = 5.0
    seen.append(server.why_not_ready())
    await server.stop()
    seen.append(server.why_not_ready())

    assert seen == ["not listening yet", None, "every upstream is down", None, "stopping"]
