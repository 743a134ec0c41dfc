"""The events of simulated GPUs: lost, found, and storms of memory errors, as the agent would report them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lab.simulator.entities import Directory
from lab.simulator.samples import ends_of, in_order
from lab.simulator.wide import Wide, WideColumn, constant_label
from schemas.codec.block import Labels, Numbers, Texts
from schemas.events.event_types import GPU_EVENTS

XID_FALLEN_OFF = 79
"""GPU has fallen off the bus (NVIDIA, "XID Errors", r570)."""
STORM_REPORTED_MS = 60_000
"""A storm of memory errors that goes on is reported again after this."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Report:
    """One event of a kind: its columns."""

    kind: bytes
    code: int
    severity: bytes
    action: bytes
    message: bytes


_LOST = (
    _Report(b"xid", XID_FALLEN_OFF, b"critical", b"reboot_node", b"GPU has fallen off the bus"),
    _Report(b"gpu_lost", 0, b"critical", b"reboot_node", b"GPU is lost"),
)
_FOUND = (_Report(b"gpu_found", 0, b"info", b"none", b"GPU is back"),)
_STORM = (_Report(b"ecc", 0, b"warning", b"watch", b"memory errors are corrected at a high rate"),)


class EccStorms:
    """When each GPU's storm was reported last."""

    def __init__(self, gpus: int) -> None:
        self._reported_ms = np.full(gpus, -(2**62), np.int64)

    def due(self, at_ms: int, on: Mask) -> Mask:
        """The GPUs whose storm is due now; it counts as reported. A new storm is reported at once."""
        due = on & (at_ms - self._reported_ms >= STORM_REPORTED_MS)
        self._reported_ms[due] = at_ms
        self._reported_ms[~on] = -(2**62)
        return due


def gpu_event_wide(directory: Directory, at_ms: int, gone: Mask, found: Mask, storm: Mask) -> Wide | None:
    """XID 79 and ``gpu_lost`` for every GPU that is gone, ``gpu_found`` for every one that came back, ``ecc`` for every
    one with a storm that is due, GPU by GPU; None without any."""
    pairs = [
        (gpu, one)
        for mask, reports in ((gone, _LOST), (found, _FOUND), (storm, _STORM))
        for gpu in np.flatnonzero(mask).tolist()
        for one in reports
    ]
    if not pairs:
        return None
    pairs.sort(key=lambda pair: pair[0])
    entity = np.array([gpu for gpu, _ in pairs], np.int64)
    reports = [one for _, one in pairs]
    codes = np.array([one.code for one in reports], np.uint32)
    columns: dict[str, WideColumn] = {
        "at_ms": Numbers(np.full(len(entity), at_ms, np.int64)),
        "code": Numbers(codes, codes > 0),
        "kind": _labels([one.kind for one in reports]),
        "severity": _labels([one.severity for one in reports]),
        "origin": constant_label("simulated", len(entity)),
        "action": _labels([one.action for one in reports]),
        "message": Texts(
            b"".join(one.message for one in reports), np.cumsum([len(one.message) for one in reports], dtype=np.int64)
        ),
    }
    ends = ends_of(directory.gpu_host[entity], directory)
    return Wide(GPU_EVENTS.topic, entity, ends, in_order(GPU_EVENTS, columns, directory.gpu, len(entity)))


def _labels(words: list[bytes]) -> Labels:
    known: list[bytes | None] = [None, *dict.fromkeys(words)]
    return Labels(np.array([known.index(word) for word in words], np.uint8), known)
