"""The state of a detector, and its form as bytes: a head, one part per rule, one per view of a window that runs.

A part is a JSON head and arrays as they are, compressed together. Equal states give equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import zstandard

from schemas.codec import native
from schemas.errors import ContractError
from stream_jobs.insight.frame import Finding
from stream_jobs.insight.project import View
from stream_jobs.insight.rule_detector import RuleDetector, state_hash
from stream_jobs.insight.spans import Parts, Span
from stream_jobs.rules.model import Function, Measure, Rule

VERSION = 1
_MAGIC = b"FPJ1"
_LEVEL = 1

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass
class FleetDetectorState:
    """Judges by name of their rule, spans by the length of their windows. ``incomplete_since_ms`` is the start of the
    first of the incomplete windows in a row. ``given_up`` are findings of rules that were changed or removed while they
    fired, to be resolved with the next window."""

    detectors: dict[str, RuleDetector]
    spans: dict[int, Span]
    last_ms: int | None = None
    incomplete_since_ms: int | None = None
    given_up: list[Finding] = field(default_factory=list)


def dump(detector: FleetDetectorState) -> list[bytes]:
    """All parts; the first says how many there are."""
    parts = [_rule_part(one) for _, one in sorted(detector.detectors.items())]
    parts += [_view_part(span, view) for span in detector.spans.values() for view in span.parts]
    head = {
        "version": VERSION,
        "parts": len(parts),
        "last_ms": detector.last_ms,
        "incomplete_since_ms": detector.incomplete_since_ms,
        "given_up": [asdict(finding) for finding in detector.given_up],
    }
    return [_packed(head, b""), *parts]


def load(detector: FleetDetectorState, parts: Sequence[bytes]) -> None:
    """Fills a detector that has not judged yet."""
    opened = [_unpacked(part) for part in parts]
    if not opened or opened[0][0].get("version") != VERSION or opened[0][0].get("parts") != len(parts) - 1:
        raise ContractError("the parts of the detector's state do not belong together, or are of another version")
    head = opened[0][0]
    detector.last_ms = head["last_ms"]
    detector.incomplete_since_ms = head["incomplete_since_ms"]
    detector.given_up = [_finding(found) for found in head["given_up"]]
    for one, data in opened[1:]:
        if "rule" in one:
            _load_rule(detector, one, data)
        else:
            _load_view(detector, one, data)


def _packed(head: Mapping[str, Any], data: bytes) -> bytes:
    opening = json.dumps(head, separators=(",", ":"), sort_keys=True).encode()
    whole = b"".join((len(opening).to_bytes(4, "little"), opening, data))
    return _MAGIC + zstandard.ZstdCompressor(level=_LEVEL).compress(whole)


def _unpacked(part: bytes) -> tuple[dict[str, Any], memoryview]:
    if part[:4] != _MAGIC:
        raise ContractError("a part of the detector's state does not begin as one")
    try:
        whole = zstandard.ZstdDecompressor().decompress(part[4:])
    except zstandard.ZstdError as error:
        raise ContractError("a part of the detector's state is damaged") from error
    stop = 4 + int.from_bytes(whole[:4], "little")
    head: dict[str, Any] = json.loads(whole[4:stop])
    return head, memoryview(whole)[stop:]


def _rule_part(detector: RuleDetector) -> bytes:
    if detector.packed is None:
        head, arrays = detector.dump()
        shapes = [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]
        detector.packed = _packed({**head, "arrays": shapes}, b"".join(array.tobytes() for array in arrays.values()))
    return detector.packed


def _arrays(head: Mapping[str, Any], data: memoryview) -> dict[str, npt.NDArray[Any]]:
    found, position = {}, 0
    for name, dtype, shape in head["arrays"]:
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(data, dtype=dtype, count=count, offset=position).reshape(shape)
        position += array.nbytes
        found[name] = array.copy()
    return found


def _load_rule(detector: FleetDetectorState, head: Mapping[str, Any], data: memoryview) -> None:
    ours = detector.detectors.get(head["rule"])
    if ours is not None and state_hash(ours.rule) == head["hash"]:
        ours.load(head, _arrays(head, data))
        return
    lost = RuleDetector(_a_rule(head), (), 1)
    lost.load(head, _arrays(head, data), learned=False)
    detector.given_up += lost.ended()


def _a_rule(head: Mapping[str, Any]) -> Rule:
    """Enough of a rule that is no more to name what fired."""
    none = Measure("value", "", Function.COUNT)
    options = {"above": 0.0}
    return Rule(
        head["rule"], "threshold", (none,), tuple(head["by"]), "", "", window_ms=head["window_ms"], options=options
    )


def _view_part(span: Span, view: View) -> bytes:
    parts = span.parts[view]
    head = {
        "span_ms": span.length_ms,
        "start_ms": span.start_ms,
        "complete": span.complete,
        "whole": span.whole,
        "heard": span.heard,
        "view_heard": parts.heard,
        "view": _view_text(view),
    }
    return _packed(head, native.encode(view.fields, parts.whole(view)))


def _load_view(detector: FleetDetectorState, head: Mapping[str, Any], data: memoryview) -> None:
    span = detector.spans.get(head["span_ms"])
    if span is None:
        return
    if span.start_ms is None:
        span.begin(head["start_ms"], from_start=True)
        span.complete, span.whole, span.heard = head["complete"], head["whole"], head["heard"]
    for view in span.views:
        if _view_text(view) == head["view"]:
            span.parts[view] = Parts(head["view_heard"], [native.decode(bytes(data), view.fields)])


def _view_text(view: View) -> str:
    return repr((view.key, [field.name for field in view.fields]))


def _finding(found: dict[str, Any]) -> Finding:
    labels = tuple((name, value) for name, value in found["labels"])
    return Finding(**{**found, "labels": labels})
