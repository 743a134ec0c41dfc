"""Addresses of HTTP servers in the configuration."""

from __future__ import annotations

from urllib.parse import urlsplit


def http_address(value: str, *, path: str = "", instead: str = "") -> str:
    """The address without a slash at its end. Raises ``ValueError`` for one that is none, and for credentials in it.

    ``path``: what may follow the port, for the sentence; ``instead``: where credentials belong.
    """
    try:
        parts = urlsplit(value)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise ValueError(f"must be http://host:port{path} or https://host:port{path}")
    if parts.username or parts.password:
        raise ValueError(f"must not hold credentials{instead}")
    return value.rstrip("/")
