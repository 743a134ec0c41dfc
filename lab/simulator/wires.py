"""What of a step's telemetry leaves its host, when, and with which times.

A host that is down sends nothing. One that is cut off keeps what it measures and hands all of it over, oldest first
and with its own times, in the first step after. One whose clock is off writes that clock's times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from lab.simulator.knobs import Floats
from lab.simulator.wide import Wide, select
from schemas.codec.block import Numbers


class Wires:
    """The way out of every host. ``held[host]`` are the batches of one that is cut off, in order."""

    def __init__(self, hosts: int) -> None:
        self._hosts = hosts
        self._held: dict[int, list[Wide]] = {}

    def pass_on(self, wides: Sequence[Wide], knobs: dict[str, Floats]) -> list[Wide]:
        """The batches that get out in this step: those kept before, then those of now. ``knobs`` by host."""
        down, cut, skew_s = knobs["down"] > 0, knobs["cut"] > 0, knobs["skew_s"]
        if not (down.any() or cut.any() or skew_s.any() or self._held):
            return list(wides)
        released = [held for host in sorted(self._held) if not cut[host] for held in self._held.pop(host)]
        for wide in wides:
            host = _host_of(wide)
            skewed = _skewed(wide, skew_s[host])
            self._hold(skewed, host, cut & ~down)
            released.append(select(skewed, ~(down | cut)[host]))
        return [wide for wide in released if wide.rows]

    def _hold(self, wide: Wide, host: npt.NDArray[np.int64], cut: npt.NDArray[np.bool_]) -> None:
        for index in np.flatnonzero(cut).tolist():
            mine = host == index
            if mine.any():
                self._held.setdefault(index, []).append(select(wide, mine))


def _host_of(wide: Wide) -> npt.NDArray[np.int64]:
    return np.repeat(np.arange(len(wide.ends)), np.diff(wide.ends, prepend=0))


def _skewed(wide: Wide, seconds: Floats) -> Wide:
    if not seconds.any():
        return wide
    at_ms = wide.columns["at_ms"]
    assert isinstance(at_ms, Numbers)
    moved = Numbers(np.maximum(at_ms.values + np.rint(seconds * 1_000.0).astype(np.int64), 0))
    return replace(wide, columns={**wide.columns, "at_ms": moved})
