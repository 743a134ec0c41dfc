"""Metrics that no convention of ours knows, as rows of ``custom.metrics``. Pure but for the series that it remembers.

A gauge, and a sum that may fall, is a level; a sum that only grows is an increase. Of a histogram its count and its sum
are increases of ``NAME.count`` and ``NAME.sum``: rate and mean, not its buckets. At most ``series_max`` series are
taken; points of more, and those whose attributes are longer than a label, are counted as not mapped.
"""

from __future__ import annotations

import math

from producers.collector import Row
from producers.metric_units import in_kept_units
from producers.otlp.json_signals import CUMULATIVE, Attributes, Point
from producers.otlp.points import Points
from producers.otlp.semconv import Unmapped
from producers.series import digest_of

ATTRIBUTES_BYTES_MAX = 256
VALUE_MAX = 9e12
"""Its millionths fit 64 bits."""
CONVENTIONS = "gen_ai."
"""Names that are ours to map or to leave."""


class CustomPoints:
    """``points`` makes differences of cumulative series, of what is taken alone."""

    def __init__(self, labels: Attributes, points: Points, series_max: int) -> None:
        self._labels = labels
        self._points = points
        self._series_max = series_max
        self._known: set[bytes] = set()  # by their digests

    def rows_of(self, point: Point) -> list[Row]:
        """The rows of a point: none of the first of a cumulative series. Raises ``Unmapped``."""
        if point.metric.startswith(CONVENTIONS) or not self._series_max:
            raise Unmapped("no field for this metric", broken=False)
        attributes = _attributes_text(point.attributes)
        if len(attributes.encode("utf-8", "replace")) > ATTRIBUTES_BYTES_MAX:
            raise Unmapped("attributes longer than a label", broken=False)
        amounts = _amounts(point)
        rows = [self._row(point, name, attributes) for name, _, _ in amounts]
        series = {digest_of(str(row[name]) for name in ("service", "metric", "unit", "attributes")) for row in rows}
        if len(self._known) + len(series - self._known) > self._series_max:
            raise Unmapped("more series than metric_series_max", broken=False)
        found = [self._found(row, point, field, amount) for row, (_, field, amount) in zip(rows, amounts, strict=True)]
        self._known |= series
        return [row for row in found if row is not None]

    def _found(self, row: Row, point: Point, field: str, amount: int) -> Row | None:
        if not field:
            return in_kept_units(row | {"value_micro": amount})
        found = self._points.increase(point, field, amount)
        if found is None:
            return None
        row = row | {"increase_micro": _bounded(found[0])}
        return row if field == "count" else in_kept_units(row)  # observations are no bytes, whatever they are of

    def _row(self, point: Point, name: str, attributes: str) -> Row:
        service = point.resource.get("service.name")
        return dict(self._labels) | {
            "at_ms": point.at_ns // 1_000_000,
            "metric": name,
            "service": service if isinstance(service, str) and service else None,
            "unit": point.unit or None,
            "attributes": attributes or None,
            "origin": "measured",
        }


def _amounts(point: Point) -> list[tuple[str, str, int]]:
    """(name, field, millionths) of a point; no field: a level. Raises ``Unmapped``."""
    name = point.metric
    if point.kind == "gauge" or (point.kind == "sum" and not point.monotonic and point.temporality == CUMULATIVE):
        return [(name, "", _bounded(_micro(point.total)))]
    if point.kind == "sum" and point.monotonic:
        amounts = [(name, "sum", _micro(point.total))]
    elif point.kind in ("histogram", "exponential_histogram"):
        amounts = [(f"{name}.count", "count", point.count * 1_000_000)]
        if point.total is not None:
            amounts.append((f"{name}.sum", "sum", _micro(point.total)))
    else:
        raise Unmapped("neither a level nor an increase", broken=False)
    if any(amount < 0 for _, _, amount in amounts):
        raise Unmapped("an increase below 0", broken=True)
    return amounts


def _micro(total: float | None) -> int:
    """Of any size: of a cumulative total only what it grows by has bounds."""
    if total is None or not math.isfinite(total):
        raise Unmapped("no value", broken=True)
    whole = math.floor(total)
    return whole * 1_000_000 + round((total - whole) * 1_000_000)


def _bounded(micro: int) -> int:
    if abs(micro) > VALUE_MAX * 1_000_000:
        raise Unmapped("a value beyond bounds", broken=True)
    return micro


def _attributes_text(attributes: Attributes) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(attributes.items()) if value is not None)
