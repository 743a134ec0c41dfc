"""Quotas: how many requests and connections are open, in all, by client address and by tenant, and how fast they come.

A request counts as open once its body is here; until then it costs no engine anything, so that slow bodies keep nobody
out. One that is passed on while it arrives counts from its head on.

Rates are kept as one moment for each name, the generic cell rate algorithm (ITU-T I.371): a request moves it on by the
interval of its rate, and is refused where it would be more than ``rate_burst_s`` ahead. Pure: time is an argument.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from ipaddress import IPv6Address, ip_network

from producers.proxy import errors
from producers.proxy.wire import Refusal
from runtime.addresses import ip_of
from runtime.proxy_config import ProxyConfig

NAMES_MAX = 10_000
"""Names whose rate is followed; for a new one the name that came first is forgotten, and may send a burst again."""
_PREFIX_BITS = 64
"""Of an IPv6 address: whoever has one has all below it."""


def client_of(peer: object) -> str | None:
    """The name under which a peer address (host and port first) counts: IPv4 as it is, IPv6 by its network of 64 bits;
    None for none."""
    if not isinstance(peer, tuple) or not peer:
        return None
    address = ip_of(str(peer[0]).partition("%")[0])
    if not isinstance(address, IPv6Address):
        return None if address is None else str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ip_network((address, _PREFIX_BITS), strict=False))


class Rate:
    """At most ``per_s`` in a second from each name; ``burst_s`` seconds' worth of them at once. 0 per second: any."""

    def __init__(self, per_s: float, burst_s: float) -> None:
        self._interval_s = 1 / per_s if per_s else 0.0
        self._ahead_max_s = max(burst_s, self._interval_s)
        self._due_s: dict[str, float] = {}

    def wait_s(self, name: str | None, now_s: float) -> float:
        """0 where this one may come now, and is counted; else how long it would have to wait."""
        if not self._interval_s or name is None:
            return 0.0
        due_s = max(self._due_s.get(name, now_s), now_s) + self._interval_s
        early_s = due_s - now_s - self._ahead_max_s
        if early_s > 1e-9:  # not for a rounded sum of intervals
            return early_s
        if name not in self._due_s and len(self._due_s) >= NAMES_MAX:
            del self._due_s[next(iter(self._due_s))]
        self._due_s[name] = due_s
        return 0.0


class Quotas:
    """What is open now, and whether one more may come. Names are those of ``client_of`` and of tenants."""

    def __init__(self, limits: ProxyConfig) -> None:
        self.open = 0
        self.by_address = bool(
            limits.address_connections_max or limits.address_open_requests_max or limits.address_requests_per_s
        )
        self.by_tenant = bool(limits.tenant_open_requests_max or limits.tenant_requests_per_s)
        self._limits = limits
        self._connections: Counter[str] = Counter()
        self._of_address: Counter[str] = Counter()
        self._of_tenant: Counter[str] = Counter()
        self._address_rate = Rate(limits.address_requests_per_s, limits.rate_burst_s)
        self._tenant_rate = Rate(limits.tenant_requests_per_s, limits.rate_burst_s)

    def connect(self, address: str | None) -> Refusal | None:
        """Count a connection, accepted or not. Why it is not."""
        if address is None:
            return None
        self._connections[address] += 1
        most = self._limits.address_connections_max
        return errors.ADDRESS_CONNECTIONS if most and self._connections[address] > most else None

    def disconnect(self, address: str | None) -> None:
        """A connection that was counted has ended."""
        _less(self._connections, address)

    def arrives(self, address: str | None, tenant: str | None, now_s: float) -> Refusal | None:
        """A request's head is here. Why it is refused at once: it comes too soon, or could not be opened now."""
        for rate, name, refusal in (
            (self._address_rate, address, errors.ADDRESS_RATE),
            (self._tenant_rate, tenant, errors.TENANT_RATE),
        ):
            wait_s = rate.wait_s(name, now_s)
            if wait_s:
                return replace(refusal, retry_after_s=math.ceil(wait_s))
        return self._full(address, tenant)

    def take(self, address: str | None, tenant: str | None) -> Refusal | None:
        """Open a request, to be released later; or why not."""
        refusal = self._full(address, tenant)
        if refusal is None:
            self.open += 1
            for counted, name in ((self._of_address, address), (self._of_tenant, tenant)):
                if name is not None:
                    counted[name] += 1
        return refusal

    def release(self, address: str | None, tenant: str | None) -> None:
        """A request that was taken has ended."""
        self.open -= 1
        _less(self._of_address, address)
        _less(self._of_tenant, tenant)

    def _full(self, address: str | None, tenant: str | None) -> Refusal | None:
        limits = self._limits
        if self.open >= limits.open_requests_max:
            return errors.TOO_MANY_OPEN
        for most, counted, name, refusal in (
            (limits.address_open_requests_max, self._of_address, address, errors.ADDRESS_BUSY),
            (limits.tenant_open_requests_max, self._of_tenant, tenant, errors.TENANT_BUSY),
        ):
            if most and name is not None and counted[name] >= most:
                return refusal
        return None


def _less(counted: Counter[str], name: str | None) -> None:
    if name is None:
        return
    counted[name] -= 1
    if counted[name] <= 0:
        del counted[name]
