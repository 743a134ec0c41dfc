"""Who a row is about: host, GPU or MIG instance, and where it belongs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from producers.gpu.device import Found
from producers.gpu.transitions import Happening

Row = dict[str, Any]
Placement = Mapping[str, Mapping[str, str | None]]


class GpuIdentity:
    """``placement`` is looked at for every row: it may change. An instance without a place has its GPU's."""

    def __init__(self, labels: Mapping[str, str | None], placement: Placement) -> None:
        self._labels = dict(labels)
        self._placement = placement

    def row(self, device: Found, values: Mapping[str, Any]) -> Row:
        """A row of a measurement, with its ``at_ms`` among the values."""
        return {**values, "origin": "measured", **self._who(device)}

    def event(self, device: Found, at_ms: int, happening: Happening) -> Row:
        """A row of ``gpu.events``."""
        row = {
            "at_ms": at_ms,
            "origin": "measured",
            **self._who(device),
            "kind": happening.kind,
            "severity": happening.severity,
            "action": happening.action,
            "message": happening.message,
        }
        return row if happening.code is None else {**row, "code": happening.code}

    def _who(self, device: Found) -> Row:
        who: Row = {"gpu_uuid": device.uuid, "gpu_model": device.model, **self._labels}
        if device.parent_uuid is not None:
            who |= {"parent_uuid": device.parent_uuid, "mig_profile": device.mig_profile}
        place = self._placement.get(device.uuid) or self._placement.get(device.parent_uuid or "")
        return {**who, **place} if place else who
