"""A span that has ended, as it is handed to a tracer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from runtime.trace_context import TraceContext

LINKS_MAX = 32
"""Sampled batches that one commit, or one insert, links to. More are counted as ``too_many``."""

Attribute = str | int
Kind = Literal["producer", "consumer"]


@dataclass(frozen=True, slots=True)
class Span:
    """A span that has ended. Times are ms since the epoch, of the machine that measured them: an end before its
    start, by clocks that differ, is shown as no time at all. ``links`` are spans that it goes on from."""

    name: str
    kind: Kind
    context: TraceContext
    parent: TraceContext | None
    start_ms: int
    end_ms: int
    links: tuple[TraceContext, ...] = ()
    attributes: Mapping[str, Attribute] | None = None
