"""How many items an OTLP body holds, counted on its bytes before anything is made of them. Pure.

An empty span is two bytes, and a thousand times as much once it is read: 4 KiB of gzip hold two million of them.
Source: opentelemetry-proto 1.9, ``trace/v1``, ``metrics/v1`` and ``common/v1``.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from producers.otlp.json_signals import Unreadable

ITEMS_MAX = 200_000
"""Of one request, in attributes; more: 400. Exporters send some 15,000 (512 spans), collectors ten times as many."""
_WHOLE = 10
"""Attributes that a span or a point stands for."""
_DEPTH_MAX = 100
"""Messages inside one another; protobuf refuses more."""
_JSON_OPENINGS_MAX = 4 * ITEMS_MAX

Shape: TypeAlias = "dict[int, tuple[int, Shape]]"
"""Of a message: by field number what an item there counts, and the shape of it."""

_VALUE: Shape = {}
_ATTRIBUTE: Shape = {2: (0, _VALUE)}
_VALUE |= {5: (0, {1: (1, _VALUE)}), 6: (0, {1: (1, _ATTRIBUTE)})}
_EXEMPLAR: Shape = {7: (1, _ATTRIBUTE)}
_RESOURCE: Shape = {1: (1, _ATTRIBUTE)}
_SCOPE: Shape = {3: (1, _ATTRIBUTE)}
_SPAN: Shape = {9: (1, _ATTRIBUTE), 11: (1, {3: (1, _ATTRIBUTE)}), 13: (1, {4: (1, _ATTRIBUTE)})}
_NUMBER: Shape = {7: (1, _ATTRIBUTE), 5: (1, _EXEMPLAR)}
_HISTOGRAM: Shape = {9: (1, _ATTRIBUTE), 8: (1, _EXEMPLAR)}
_EXPONENTIAL: Shape = {1: (1, _ATTRIBUTE), 11: (1, _EXEMPLAR)}
_SUMMARY: Shape = {7: (1, _ATTRIBUTE), 6: (1, {})}
_METRIC: Shape = {
    **{number: (0, {1: (_WHOLE, _NUMBER)}) for number in (5, 7)},
    9: (0, {1: (_WHOLE, _HISTOGRAM)}),
    10: (0, {1: (_WHOLE, _EXPONENTIAL)}),
    11: (0, {1: (_WHOLE, _SUMMARY)}),
    12: (1, _ATTRIBUTE),
}


def _request(of: Shape) -> Shape:
    return {1: (_WHOLE, {1: (0, _RESOURCE), 2: (_WHOLE, {1: (0, _SCOPE), 2: (_WHOLE, of)})})}


TRACES, METRICS = _request(_SPAN), _request(_METRIC)


def demand_few(body: bytes, shape: Shape) -> None:
    """Raises ``Unreadable`` for a protobuf body of this shape with more than ``ITEMS_MAX``, and one that is cut off or
    nested without end.

    Takes a microsecond for each item, up to the bound.
    """
    view, left = memoryview(body), ITEMS_MAX
    waiting = [(0, len(body), shape, 0)]
    while waiting:
        at, end, fields, depth = waiting.pop()
        while at < end:
            key, at = _varint(view, at, end)
            kind = key & 7
            if kind != 2:
                at = _behind(view, at, end, kind)
                continue
            size, at = _varint(view, at, end)
            inner = fields.get(key >> 3)
            if inner is not None:
                left -= inner[0]
                if left < 0:
                    raise Unreadable(f"more than {ITEMS_MAX} items in one request: send smaller batches")
                if depth >= _DEPTH_MAX:
                    raise Unreadable(f"more than {_DEPTH_MAX} messages inside one another")
                if size:
                    waiting.append((at, min(at + size, end), inner[1], depth + 1))
            at += size


def _behind(view: Any, at: int, end: int, kind: int) -> int:
    """Where a field that holds no items ends."""
    if kind == 0:
        return _varint(view, at, end)[1]
    if kind in (1, 5):
        return at + (8 if kind == 1 else 4)
    raise Unreadable("not protobuf: a group, or no field at all")


def _varint(view: Any, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 70:
        byte = view[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise Unreadable("not protobuf: cut off")


def demand_few_in_json(body: bytes) -> None:
    """The same for JSON, by what opens objects and lists; texts count with them. Raises ``Unreadable``."""
    if body.count(b"{") + body.count(b"[") > _JSON_OPENINGS_MAX or body.count(b",") > _JSON_OPENINGS_MAX:
        raise Unreadable(f"more than {ITEMS_MAX} items in one request: send smaller batches")
