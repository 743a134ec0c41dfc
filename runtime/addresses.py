"""Addresses of HTTP servers in the configuration, and the names of engines behind them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit


def http_address(value: str, *, path: str = "", instead: str = "") -> str:
    """The address without a slash at its end. Raises ``ValueError`` for one that is none, and for credentials in it.

    ``path``: what may follow the port, for the sentence; ``instead``: where credentials belong.
    """
    try:
        parts = urlsplit(value)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        (parts.hostname or "").encode("idna")  # as the resolver encodes it: no empty label, none above 63 characters
    except ValueError:
        good = False
    if not good:
        raise ValueError(f"must be http://host:port{path} or https://host:port{path}")
    if parts.username or parts.password:
        raise ValueError(f"must not hold credentials{instead}")
    return value.rstrip("/")


def engine_id_of(url: str, host: str) -> str:
    """``host:port`` of an engine's address, the port of the scheme where it has none; an address that only this machine
    reaches has the name of this machine, ``host``, so that the engine is named alike by all who measure it. IPv6 in
    brackets."""
    address = address_of(url)
    return f"{host}:{address.rpartition(':')[2]}" if is_this_machine(urlsplit(url).hostname or "") else address


def address_of(url: str) -> str:
    """``name:port`` of an HTTP address, the port of the scheme where it has none; IPv6 in brackets."""
    parts = urlsplit(url)
    name = parts.hostname or ""
    return f"{bracketed(name)}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


def bracketed(name: str) -> str:
    """The name as it stands before a port."""
    return f"[{name}]" if ":" in name else name


def ip_of(name: str) -> IPv4Address | IPv6Address | None:
    """The IP address that is written so; None for any other name."""
    try:
        return ip_address(name)
    except ValueError:
        return None


def is_this_machine(name: str) -> bool:
    """Whether this name or IP address means the machine itself: loopback, or the wildcard, which connects to it."""
    return is_loopback(name) or is_wildcard(name)


def says_this_machine(address: str) -> bool:
    """Whether ``name:port`` means the machine, or the network namespace, of whoever says it."""
    return is_this_machine(address.lower().rpartition(":")[0].strip("[]"))


def is_loopback(name: str) -> bool:
    """Whether only this machine reaches what listens on this name or IP address."""
    address = unmapped(name)
    return name == "localhost" if address is None else address.is_loopback


def is_wildcard(name: str) -> bool:
    """Whether what listens on this IP address listens on every one, however it is written: ``::0`` is ``::``."""
    address = unmapped(name)
    return address is not None and address.is_unspecified


def unmapped(name: str) -> IPv4Address | IPv6Address | None:
    """As ``ip_of``; of an IPv4 address within IPv6 the former."""
    address = ip_of(name)
    return getattr(address, "ipv4_mapped", None) or address
