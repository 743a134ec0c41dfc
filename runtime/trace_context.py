"""Trace context: which records are traced, the ids of their spans, and the header that carries them. Pure.

Every id follows from what it stands for, none hangs on chance: a batch that is sent again has the same trace and the
same span, and so has a commit that is done again. A trace id's last 56 bits decide whether its batch is sampled: those
that are not below one less the ratio. That is the rule of OpenTelemetry's consistent probability sampling on W3C Trace
Context Level 2 (flag ``random``), so that a collector that samples again by it keeps whole traces.

The header is ``traceparent`` of W3C Trace Context Level 1 (https://www.w3.org/TR/trace-context/#traceparent-header):
``00-<32 hex digits>-<16 hex digits>-<2 hex digits of flags>``. What is malformed, or not sampled, is no context at all;
a later version's is read by its first four parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, NamedTuple

from schemas.contract.headers import TRACEPARENT
from schemas.contract.record import Headers

_SAMPLED = 0x01
_RANDOM_BITS = 56
_RANDOM = (1 << _RANDOM_BITS) - 1
_MASK = (1 << 64) - 1
_HEX = frozenset(b"0123456789abcdef")
_PARENT_BYTES = 55
_INVALID_VERSION = b"ff"


class TraceContext(NamedTuple):
    """A sampled span: its trace and itself, never 0."""

    trace_id: int
    span_id: int

    @property
    def header(self) -> tuple[str, bytes]:
        """The header that makes what is sent with it follow this span: sampled, and its trace id as good as random."""
        return TRACEPARENT, b"00-%032x-%016x-03" % self


def threshold(ratio: float) -> int:
    """For ``is_sampled``: lets through this share (0 to 1) of all traces."""
    return round(ratio * (1 << _RANDOM_BITS))


def is_sampled(trace_id: int, threshold: int) -> bool:
    """Whether a trace is among the sampled; the answer of a lower threshold is contained in that of a higher."""
    return (trace_id & _RANDOM) + threshold > _RANDOM


def seed_of(source: str, boot: int) -> int:
    """For ``drawn``: of one start of one spool."""
    return int.from_bytes(_hash("batch", source, boot, size=8))


def drawn(seed: int, seq: int) -> int:
    """The last 56 bits of the trace id of record ``seq``, as good as random: splitmix64 at this place of its sequence
    (Steele, Lea, Flood 2014, https://doi.org/10.1145/2660193.2660195). Half a microsecond, of every record."""
    z = (seed + (seq + 1) * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return (z ^ (z >> 31)) >> (64 - _RANDOM_BITS)


def batch_context(source: str, boot: int, seq: int) -> TraceContext:
    """The trace that begins with a record of our edge, and the span of its sending, by the record's identity."""
    digest = _hash("batch", source, boot, seq, size=17)
    upper, span_id = int.from_bytes(digest[:9]), int.from_bytes(digest[9:])
    return TraceContext((upper or 1) << _RANDOM_BITS | drawn(seed_of(source, boot), seq), span_id or 1)


def span_within(trace_id: int, *what: object) -> TraceContext:
    """A span of this trace, distinguished by ``what``."""
    return TraceContext(trace_id, int.from_bytes(_hash(trace_id, *what, size=8)) or 1)


def trace_of(*what: object) -> TraceContext:
    """A span that begins a trace of its own."""
    digest = _hash(*what, size=24)
    return TraceContext(int.from_bytes(digest[:16]) or 1, int.from_bytes(digest[16:]) or 1)


def context_of(headers: Headers) -> TraceContext | None:
    """The sampled context that a record's headers carry; None when there is none, it is malformed, not sampled, or
    said twice."""
    found: TraceContext | None = None
    seen = False
    for name, value in headers:
        if name == TRACEPARENT:
            if seen:
                return None
            seen, found = True, parse(value)
    return found


def parse(value: bytes | None) -> TraceContext | None:
    """The context of a ``traceparent``; None when it is malformed or says that it is not sampled."""
    if value is None or len(value) < _PARENT_BYTES:
        return None
    parts = value.split(b"-")
    if [len(part) for part in parts[:4]] != [2, 32, 16, 2] or not all(map(_HEX.issuperset, parts[:4])):
        return None
    version, trace, span, flags = parts[:4]
    if version == _INVALID_VERSION or (version == b"00" and len(parts) != 4) or not int(flags, 16) & _SAMPLED:
        return None
    context = TraceContext(int(trace, 16), int(span, 16))
    return context if context.trace_id and context.span_id else None


def _hash(*what: object, size: int) -> bytes:
    return blake2b(_joined(what), digest_size=size).digest()


def _joined(what: Sequence[object]) -> bytes:
    return "\0".join(map(str, what)).encode()


LINKS_MAX = 32
"""Sampled batches that one commit, or one insert, links to. More are counted as ``too_many``."""

Attribute = str | int | float | tuple[str, ...]
Kind = Literal["producer", "consumer", "client"]


@dataclass(frozen=True, slots=True)
class Span:
    """A span that has ended. Times are ms since the epoch, of the machine that measured them: an end before its
    start, by clocks that differ, is shown as no time at all. ``links`` are spans that it goes on from."""

    name: str
    kind: Kind
    context: TraceContext
    parent: TraceContext | None
    start_ms: float
    end_ms: float
    links: tuple[TraceContext, ...] = ()
    attributes: Mapping[str, Attribute] | None = None
    moments: tuple[tuple[str, float], ...] = ()
    """Events within it: name, and when (ms since the epoch)."""
    failed: bool = False
    """Whether its status is an error."""
