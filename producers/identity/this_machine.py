"""Names under which clients reach this machine, as the system reports them."""

from __future__ import annotations

import contextlib
import socket
from ipaddress import ip_address

import psutil

from runtime.addresses import bracketed


def names_of_this_machine() -> list[str]:
    """Its name and its addresses beyond loopback, as they stand before a port; what cannot be read is missing."""
    found = [socket.gethostname()]
    with contextlib.suppress(OSError, psutil.Error):
        for each in (one for several in psutil.net_if_addrs().values() for one in several):
            if each.family in (socket.AF_INET, socket.AF_INET6):
                name = each.address.partition("%")[0]
                address = ip_address(name)
                if not (address.is_loopback or address.is_link_local or address.is_unspecified):
                    found.append(bracketed(name))
    return list(dict.fromkeys(found))
