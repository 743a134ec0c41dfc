"""GenAI metrics as samples of engines, by the same pinned conventions. Pure but for the series it remembers.

Only what adds up is taken: tokens (``gen_ai.client.token.usage``) and finished requests
(``gen_ai.server.request.duration``). Latency histograms have buckets of their own, coarser than ours: they are counted
as not mapped. Cumulative points become differences to the point before (``totals``).
"""

from __future__ import annotations

import runtime.addresses
from producers.collector import Row
from producers.otlp.json_signals import CUMULATIVE, DELTA, Attributes, Point
from producers.otlp.semconv import Unmapped
from producers.otlp.totals import Total, Totals
from producers.series import digest_of

SERIES_MAX = 4_096
"""Cumulative series remembered; the one not seen for longest is forgotten and begins with its next point."""
INTERVAL_MS_MAX = 3_600_000
SAMPLED = frozenset({"gen_ai.server.request.duration", "gen_ai.client.token.usage"})
"""Metrics that become samples of engines."""


def _amount(point: Point) -> tuple[str, int]:
    """(our field, amount). Raises ``Unmapped``."""
    if point.metric == "gen_ai.server.request.duration":
        return "finished_requests", point.count
    kind = point.attributes.get("gen_ai.token.type")
    field = {"input": "prompt_tokens", "output": "generation_tokens", "completion": "generation_tokens"}.get(str(kind))
    if point.metric != "gen_ai.client.token.usage" or field is None:
        raise Unmapped("no field for this metric", broken=False)
    if point.total is None or not 0 <= point.total < 2**44:
        raise Unmapped("a sum that is none", broken=True)
    return field, round(point.total)


class Points:
    """Turns points into rows of ``engine.samples``."""

    def __init__(self, labels: Attributes, series_max: int = SERIES_MAX) -> None:
        self._labels = labels
        self.totals = Totals(series_max)

    def sample_of(self, point: Point) -> Row | None:
        """The sample of a point; None for the first of a cumulative series. Raises ``Unmapped``."""
        field, amount = _amount(point)
        found = self.increase(point, field, amount)
        if found is None:
            return None
        amount, since_ns = found
        return self._row(point) | {field: amount, "interval_ms": (point.at_ns - since_ns) // 1_000_000}

    def increase(self, point: Point, field: str, amount: int) -> tuple[int, int] | None:
        """By how much a point's amount grew, and since when; None for the first of a cumulative series. Raises
        ``Unmapped``."""
        if not 0 < point.start_ns <= point.at_ns or point.temporality not in (DELTA, CUMULATIVE):
            raise Unmapped("times or temporality that make no difference", broken=True)
        since_ns = point.start_ns
        if point.temporality == CUMULATIVE:
            before = self.totals.take(_identity(point, field), point.start_ns, Total(point.at_ns, amount))
            if before is None:
                return None
            if amount >= before.amount:
                since_ns, amount = before.at_ns, amount - before.amount
        if (point.at_ns - since_ns) // 1_000_000 > INTERVAL_MS_MAX:
            raise Unmapped("an interval above an hour", broken=True)
        return amount, since_ns

    def _row(self, point: Point) -> Row:
        attributes = point.attributes
        model = attributes.get("gen_ai.response.model") or attributes.get("gen_ai.request.model")
        return dict(self._labels) | {
            "at_ms": point.at_ns // 1_000_000,
            "model": model if isinstance(model, str) else None,
            "origin": "measured",
        }


def _identity(point: Point, field: str) -> bytes:
    resource = sorted(f"{name}={value}" for name, value in point.resource.items())
    parts = sorted(f"{name}={value}" for name, value in point.attributes.items())
    return digest_of((point.metric, field, *point.scope, *resource, "", *parts))


def address_of(attributes: Attributes) -> str | None:
    """Where the caller reached the engine: ``server.address`` with its port, or OpenLLMetry's URL
    ``gen_ai.openai.api_base``; IPv6 in brackets. None when it does not report it."""
    address, port = attributes.get("server.address"), attributes.get("server.port")
    if isinstance(address, str) and address:
        name = runtime.addresses.bracketed(address.strip("[]"))
        return f"{name}:{port}" if isinstance(port, int) else name
    base = attributes.get("gen_ai.openai.api_base")
    try:
        return runtime.addresses.address_of(base) if isinstance(base, str) and base.startswith("http") else None
    except ValueError:
        return None
