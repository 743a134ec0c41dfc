"""Ports that nobody listens on, for servers of tests and for addresses where nobody answers."""

from __future__ import annotations

import secrets

from fleetpulse.stack import ports


def unused_ports(count: int = 1) -> list[int]:
    """So many, from a random place: workers that look at the same moment, for servers that take seconds to listen, find
    others. All are below those that Linux gives to outgoing connections, which might connect to themselves."""
    return ports.free_ports(count, start=secrets.randbelow(1 << 16))
