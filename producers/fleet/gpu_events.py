"""The events of simulated GPUs: lost, found, and storms of memory errors, as the agent would tell them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from producers.fleet.entities import Directory
from producers.fleet.samples import ends_of, in_order
from producers.fleet.wide import Wide, WideColumn, constant_label
from schemas.block import Labels, Numbers, Texts
from schemas.events import GPU_EVENTS

XID_FALLEN_OFF = 79
"""GPU has fallen off the bus (NVIDIA, "XID Errors", r570)."""
STORM_TOLD_MS = 60_000
"""A storm of memory errors that goes on is told again after this."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Telling:
    """One event of a kind: its columns."""

    kind: bytes
    code: int
    severity: bytes
    action: bytes
    message: bytes


_LOST = (
    _Telling(b"xid", XID_FALLEN_OFF, b"critical", b"reboot_node", b"GPU has fallen off the bus"),
    _Telling(b"gpu_lost", 0, b"critical", b"reboot_node", b"GPU is lost"),
)
_FOUND = (_Telling(b"gpu_found", 0, b"info", b"none", b"GPU is back"),)
_STORM = (_Telling(b"ecc", 0, b"warning", b"watch", b"memory errors are corrected at a high rate"),)


class EccStorms:
    """When each GPU's storm was told last."""

    def __init__(self, gpus: int) -> None:
        self._told_ms = np.full(gpus, -(2**62), np.int64)

    def due(self, at_ms: int, on: Mask) -> Mask:
        """The GPUs whose storm is to be told now; it counts as told. A storm that begins anew is told at once."""
        due = on & (at_ms - self._told_ms >= STORM_TOLD_MS)
        self._told_ms[due] = at_ms
        self._told_ms[~on] = -(2**62)
        return due


def gpu_event_wide(directory: Directory, at_ms: int, gone: Mask, found: Mask, storm: Mask) -> Wide | None:
    """XID 79 and ``gpu_lost`` for every GPU that is gone, ``gpu_found`` for every one that came back, ``ecc`` for every
    one with a storm to tell, GPU by GPU; None when there is nothing to tell."""
    told = [
        (gpu, one)
        for mask, tellings in ((gone, _LOST), (found, _FOUND), (storm, _STORM))
        for gpu in np.flatnonzero(mask).tolist()
        for one in tellings
    ]
    if not told:
        return None
    told.sort(key=lambda pair: pair[0])
    entity = np.array([gpu for gpu, _ in told], np.int64)
    tellings = [one for _, one in told]
    codes = np.array([one.code for one in tellings], np.uint32)
    columns: dict[str, WideColumn] = {
        "at_ms": Numbers(np.full(len(entity), at_ms, np.int64)),
        "code": Numbers(codes, codes > 0),
        "kind": _labels([one.kind for one in tellings]),
        "severity": _labels([one.severity for one in tellings]),
        "origin": constant_label("simulated", len(entity)),
        "action": _labels([one.action for one in tellings]),
        "message": Texts(
            b"".join(one.message for one in tellings), np.cumsum([len(one.message) for one in tellings], dtype=np.int64)
        ),
    }
    ends = ends_of(directory.gpu_host[entity], directory)
    return Wide(GPU_EVENTS.topic, entity, ends, in_order(GPU_EVENTS, columns, directory.gpu, len(entity)))


def _labels(words: list[bytes]) -> Labels:
    known: list[bytes | None] = [None, *dict.fromkeys(words)]
    return Labels(np.array([known.index(word) for word in words], np.uint8), known)
