"""Metrics of an application's own: one datagram a value, to the agent of this host.

A level (``metric``) or an increase since the last one (``count``). Attributes tell series apart: few values each, as an
agent keeps a bounded number of series and drops and counts the rest.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from typing import Any

from fleetpulse_track.handover import METRIC, Client, hand_over_json

NAME_CHARS_MAX = 128
ATTRIBUTES_MAX = 8
ATTRIBUTES_BYTES_MAX = 256
VALUE_MAX = 9e12
"""Beyond, a value does not fit the 64 bits of its millionths, and is left out."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def metric(
    name: str, value: float, *, unit: str | None = None, client: Client | None = None, **attributes: Any
) -> None:
    """A level as it is now."""
    _hand_over("value_micro", name, value, unit, client, attributes)


def count(
    name: str, increase: float = 1, *, unit: str | None = None, client: Client | None = None, **attributes: Any
) -> None:
    """What came to a total since the last time: 0 or more."""
    with contextlib.suppress(Exception):
        if increase >= 0:
            _hand_over("increase_micro", name, increase, unit, client, attributes)


def _hand_over(
    field: str, name: str, value: float, unit: str | None, client: Client | None, attributes: dict[str, Any]
) -> None:
    with contextlib.suppress(Exception):  # the caller's work goes on, whatever is wrong with ours
        number = float(value)
        if not math.isfinite(number) or abs(number) > VALUE_MAX:
            return
        known = {"metric": str(name)[:NAME_CHARS_MAX], "unit": unit, "service": service(), field: round(number * 1e6)}
        known["attributes"] = attributes_text(attributes)
        text = _encode({key: each for key, each in known.items() if each is not None}).encode("utf-8", "replace")
        hand_over_json(METRIC, text, client=client)


def attributes_text(attributes: dict[str, Any]) -> str | None:
    """Sorted ``key=value``, separated by commas; None without any. What does not fit the bounds is left out."""
    pairs = [f"{key}={value}" for key, value in sorted(attributes.items()) if value is not None][:ATTRIBUTES_MAX]
    while pairs and len(",".join(pairs).encode("utf-8", "replace")) > ATTRIBUTES_BYTES_MAX:
        pairs.pop()
    return ",".join(pairs) or None


def service() -> str:
    """What this application is called: ``FLEETPULSE_SERVICE``, ``OTEL_SERVICE_NAME``, else its program's name."""
    named = os.environ.get("FLEETPULSE_SERVICE") or os.environ.get("OTEL_SERVICE_NAME")
    return named or os.path.basename(sys.argv[0] if sys.argv else "") or "python"  # noqa: PTH119
