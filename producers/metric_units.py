"""Units in which metrics of applications are kept. Pure.

A value of ``custom.metrics`` is at most 17.6 million units, so that a day of them adds up in 64 bits. Of bytes that is
less than any process takes: what says that it is in bytes, as OpenTelemetry's metrics do (``By``), is kept in MiB, to a
byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

MIB = 2**20
_KEPT_AS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("B", "By", "byte", "bytes"), "MiB"),
        **dict.fromkeys(("B/s", "By/s", "byte/s", "bytes/s"), "MiB/s"),
    }
)
_AMOUNTS = ("value_micro", "increase_micro")


def in_kept_units(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row of ``custom.metrics``, that of bytes in MiB. Values that are no whole numbers stay as they are."""
    unit = row.get("unit")
    kept = _KEPT_AS.get(unit) if isinstance(unit, str) else None
    if kept is None:
        return dict(row)
    amounts = {name: (row[name] + MIB // 2) // MIB for name in _AMOUNTS if type(row.get(name)) is int}
    return {**row, "unit": kept, **amounts}
