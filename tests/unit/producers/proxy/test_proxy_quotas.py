"""Quotas: names of addresses, what is open by address and tenant, rates against an exact count."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.proxy import errors, quotas
from producers.proxy.quotas import Quotas, Rate, client_of
from runtime.proxy_config import ProxyConfig


@pytest.mark.parametrize(
    ("peer", "name"),
    [
        (("10.0.0.1", 4), "10.0.0.1"),
        (("::ffff:10.0.0.1", 4, 0, 0), "10.0.0.1"),
        (("2001:db8:1:2:3:4:5:6", 4, 0, 0), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 4, 0, 2), "fe80::/64"),
        ("/run/a.sock", None),
        (None, None),
    ],
    ids=["IPv4", "IPv4 in IPv6", "IPv6", "of a link", "a socket in the file system", "none"],
)
def test_who_a_client_is(peer: object, name: str | None) -> None:
    """An address of IPv6 is as good as any other of its network."""
    assert client_of(peer) == name


def of(**limits: Any) -> Quotas:
    return Quotas(ProxyConfig(**limits))


def test_each_limit_counts_what_is_open() -> None:
    """At the limit one more is refused; one that ends makes room, for the name it had."""
    held = of(open_requests_max=4, address_open_requests_max=3, tenant_open_requests_max=2)

    taken = [held.take("a", "t"), held.take("a", "t"), held.take("a", "t"), held.take("a", "u"), held.take("a", "u")]
    taken += [held.take("b", "u"), held.take("b", "v")]
    before = held.arrives("b", "v", 0.0)
    held.release("a", "t")

    assert taken == [None, None, errors.TENANT_BUSY, None, errors.ADDRESS_BUSY, None, errors.TOO_MANY_OPEN]
    assert (before, held.open) == (errors.TOO_MANY_OPEN, 3)
    assert held.take("b", "t") is None


def test_connections_of_an_address_are_counted_until_they_end() -> None:
    """Those that were refused too: they end like others."""
    held = of(address_connections_max=1)

    first, second, other = held.connect("a"), held.connect("a"), held.connect("b")
    held.disconnect("a")
    held.disconnect("a")

    assert (first, second, other) == (None, errors.ADDRESS_CONNECTIONS, None)
    assert (held.connect("a"), held.connect(None)) == (None, None)


def test_a_rate_says_when_to_come_again() -> None:
    """In whole seconds, rounded up; the tenant's after the address's."""
    held = of(address_requests_per_s=10, tenant_requests_per_s=0.4, rate_burst_s=0)

    found = [held.arrives(address, "t", now_s) for address, now_s in (("a", 0.0), ("a", 0.0), ("b", 0.1), ("b", 2.5))]

    reasons = [(each.reason, each.retry_after_s) if each is not None else None for each in found]
    assert reasons == [None, ("address_requests_per_s", 1), ("tenant_requests_per_s", 3), None]


@given(st.integers(1, 50), st.integers(0, 20), st.lists(st.integers(0, 40), max_size=200))
def test_a_rate_lets_through_what_it_says(per_s: int, burst_s: int, pauses: list[int]) -> None:
    """In any span of time at most its rate times the span and a burst, and never fewer than would fit a bucket."""
    rate, now_ms, passed = Rate(per_s, burst_s), 0, []
    depth = max(per_s * burst_s, 1)
    bucket, last_ms = float(depth), 0
    for pause_ms in pauses:
        now_ms += pause_ms
        bucket, last_ms = min(depth, bucket + (now_ms - last_ms) * per_s / 1_000), now_ms
        expected = bucket >= 1 - 1e-6
        bucket -= expected
        assert (rate.wait_s("n", now_ms / 1_000) == 0) == expected
        passed.append(expected)


def test_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is forgotten for a new one, and may come again."""
    monkeypatch.setattr(quotas, "NAMES_MAX", 2)
    rate = Rate(0.001, 0)

    waits = [rate.wait_s(name, 0.0) > 0 for name in ("a", "b", "a", "c", "a", "c")]

    assert waits == [False, False, True, False, False, True]


def test_without_limits_nothing_is_refused() -> None:
    """The defaults: addresses are not even read."""
    held = of()

    assert all(held.arrives("a", "t", 0.0) is None and held.take("a", "t") is None for _ in range(1_000))
    assert (held.by_address, held.by_tenant) == (False, False)
