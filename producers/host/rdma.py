"""RDMA ports (InfiniBand, RoCE, EFA) from ``/sys/class/infiniband``: bytes both ways, and what went wrong.

Units and names: Linux, Documentation/ABI/stable/sysfs-class-infiniband (``port_xmit_data`` and ``port_rcv_data`` count
words of four bytes); NVIDIA, "Understanding mlx5 Linux counters" (``hw_counters``); Linux, efa_verbs.c (EFA has no
``counters``: it counts bytes in ``hw_counters``). Reading a file may ask the adapter's firmware: they are read seldom.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

WORD_BYTES = 4
PORTS_MAX = 64
"""Of one host, by name; more are not read."""
_SENT = (("counters/port_xmit_data", WORD_BYTES), ("hw_counters/tx_bytes", 1))
_RECEIVED = (("counters/port_rcv_data", WORD_BYTES), ("hw_counters/rx_bytes", 1))
ERRORS = (
    # The link itself.
    "counters/symbol_error",
    "counters/link_error_recovery",
    "counters/link_downed",
    "counters/local_link_integrity_errors",
    "counters/excessive_buffer_overrun_errors",
    "counters/port_rcv_errors",
    "counters/port_rcv_remote_physical_errors",
    "counters/port_xmit_discards",
    # Packets that were lost on the way: what stalls a collective.
    "hw_counters/out_of_sequence",
    "hw_counters/packet_seq_err",
    "hw_counters/implied_nak_seq_err",
    "hw_counters/local_ack_timeout_err",
    "hw_counters/req_transport_retries_exceeded",
)


@dataclass(frozen=True, slots=True)
class Port:
    """Since some start. None: the adapter does not count it. ``errors`` by file: each may be set back alone."""

    tx_bytes: int | None
    rx_bytes: int | None
    errors: Mapping[str, int]


def read_ports(infiniband: Path = Path("/sys/class/infiniband")) -> dict[str, Port]:
    """Every port by adapter and number, such as ``mlx5_0/1``. Empty without adapters."""
    folders = sorted(infiniband.glob("*/ports/*"))[:PORTS_MAX]
    return {f"{folder.parent.parent.name}/{folder.name}": _port(folder) for folder in folders}


def _port(folder: Path) -> Port:
    errors = {name: count for name in ERRORS if (count := _number_in(folder / name)) is not None}
    return Port(_bytes(folder, _SENT), _bytes(folder, _RECEIVED), errors)


def _bytes(folder: Path, sources: Iterable[tuple[str, int]]) -> int | None:
    """From the first of these that the adapter has."""
    known = ((_number_in(folder / name), each) for name, each in sources)
    return next((count * each for count, each in known if count is not None), None)


def _number_in(path: Path) -> int | None:
    """None where there is no such file, or where it says that there is no number (``N/A (no PMA)``)."""
    try:
        return int(path.read_bytes())
    except (OSError, ValueError):
        return None
