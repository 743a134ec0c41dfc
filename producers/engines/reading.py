"""Turn a scrape into a reading: which engine it is, and every field by model. Pure.

A row belongs to one *identity*: the pair (model, version) as the engine labels it. Below a row stand *series*, one per
set of the remaining labels: data-parallel ranks (vLLM's ``engine``, SGLang's ``dp_rank``), finish reasons, cache tiers.
They are kept apart here, because each counter is followed by itself, and become one number in ``rows.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from producers.engines.mappings import ENGINES, START_TIME, EngineKind, FieldMapping, Source
from producers.exposition import Sample
from schemas.errors import FleetpulseError

FAMILIES_SHOWN_MAX = 20
NUMBER_MAX = 2**63 - 1
STARTED_AT_S_MAX = 2**33
"""Seconds since 1970 (in 2242): a start after that, or before 1970, is none. A page may hold any number."""
MODELS_MAX = 256
"""Models of one page that get a row; samples of more are counted. A page may name as many as it has lines."""
CLIENTS = ("python_", "process_")
"""What the client library of an engine says of itself and of the process."""

Identity = tuple[str | None, str | None]
Series = Mapping[str, int | None]
"""Value by series; None: the engine's value is no number of this kind."""


class UnknownEngineError(FleetpulseError):
    """The scrape is of no engine that has a mapping. ``families`` are the names it had, sorted."""

    def __init__(self, families: Iterable[str], why: str = "the metrics are of no engine known here") -> None:
        self.families = tuple(sorted(families))
        shown = ", ".join(self.families[:FAMILIES_SHOWN_MAX]) or "none"
        more = len(self.families) - FAMILIES_SHOWN_MAX
        tail = f" and {more} more" if more > 0 else ""
        super().__init__(f"{why}; set the engine's kind, or another url. Names seen: {shown}{tail}")


@dataclass(frozen=True, slots=True)
class Reading:
    """One scrape. ``fields[identity][name][series]``; ``wrong`` counts by field the values that became None, and
    under ``model`` the samples that belong to none of several models, or to one beyond ``MODELS_MAX``. ``whole`` is
    False when lines of the scrape could not be read: a series that is missing may be one of them."""

    kind: str
    started_at_s: float | None
    fields: Mapping[Identity, Mapping[str, Series]]
    wrong: Mapping[str, int]
    whole: bool = True


def detect(names: Iterable[str]) -> EngineKind:
    """The engine that these sample names are of. Raises ``UnknownEngineError`` for none and for several."""
    seen = frozenset(names)
    found = [engine for engine in ENGINES if engine.signs & seen]
    if len(found) == 1:
        return found[0]
    if found:
        raise UnknownEngineError(seen, f"the metrics are of {' and '.join(engine.kind for engine in found)} at once")
    raise UnknownEngineError(seen)


def confirm(engine: EngineKind, names: Iterable[str], *, whole: bool = True) -> None:
    """Raises ``UnknownEngineError`` where these sample names are of something else, or there are none in a page that is
    not ``whole``. An engine that has counted nothing yet may have no more than its client library's own."""
    seen = frozenset(names)
    said = {name for name in seen if not name.startswith(CLIENTS)}
    if said.isdisjoint(engine.signs | engine.names) and (said or not whole):
        raise UnknownEngineError(seen, f"the metrics are not of {engine.kind}")


def read(samples: Iterable[Sample], engine: EngineKind | None = None, *, whole: bool = True) -> Reading:
    """The fields of a scrape, of ``engine`` or else of the one it is found to be.

    ``*_created`` and every other name without a mapping are ignored. Raises ``UnknownEngineError``.
    """
    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(sample.name, []).append(sample)
    engine = engine or detect(by_name)
    if any(_is_routers(engine, sample) for sign in engine.signs for sample in by_name.get(sign, ())):
        raise UnknownEngineError(by_name, f"the metrics are of a router, not of the {engine.kind} behind it")
    wrong: dict[str, int] = {}
    fields: dict[Identity, dict[str, dict[str, int | None]]] = {}
    for mapping in engine.fields:
        for identity, series in _series_of(engine, mapping, by_name, wrong).items():
            if identity in fields or len(fields) < MODELS_MAX:
                fields.setdefault(identity, {})[mapping.name] = series
            else:
                wrong["model"] = wrong.get("model", 0) + len(series)
    return Reading(engine.kind, _started_at_s(by_name), _attributed(engine, fields, by_name, wrong), wrong, whole)


def _is_routers(engine: EngineKind, sample: Sample) -> bool:
    return engine.model_label not in sample.labels and not engine.routers.isdisjoint(sample.labels)


def _series_of(
    engine: EngineKind, mapping: FieldMapping, by_name: Mapping[str, list[Sample]], wrong: dict[str, int]
) -> dict[Identity, dict[str, int | None]]:
    out: dict[Identity, dict[str, int | None]] = {}
    for source in _chosen(mapping, by_name):
        for sample in _matching(source, by_name):
            value = whole_number(sample.value, source.scale)
            if value is None:
                wrong[mapping.name] = wrong.get(mapping.name, 0) + 1
            series = out.setdefault(identity_of(engine, sample), {})
            key = _series_key(engine, sample)
            series[key] = _highest(series[key], value) if key in series else value
    return out


def _chosen(mapping: FieldMapping, by_name: Mapping[str, list[Sample]]) -> tuple[Source, ...]:
    """The first alternative that the scrape has."""
    enough = all if mapping.whole else any
    for alternative in mapping.alternatives:
        if enough(any(_matching(source, by_name)) for source in alternative):
            return alternative
    return ()


def _matching(source: Source, by_name: Mapping[str, list[Sample]]) -> Iterable[Sample]:
    for sample in by_name.get(source.name, ()):
        if all(sample.labels.get(label, "") in values for label, values in source.where.items()):
            yield sample


def identity_of(engine: EngineKind, sample: Sample) -> Identity:
    """(model, version) from the sample's labels; None where they lack one."""
    model = sample.labels.get(engine.model_label) if engine.model_label else None
    version = sample.labels.get(engine.version_label) if engine.version_label else None
    return model or None, version or None


def _series_key(engine: EngineKind, sample: Sample) -> str:
    apart = engine.ranks | {engine.model_label, engine.version_label}
    labels = sorted((label, value) for label, value in sample.labels.items() if label not in apart)
    return sample.name + "".join(f"\0{label}\0{value}" for label, value in labels)


def _highest(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


def whole_number(value: float, scale: int = 1) -> int | None:
    """``value * scale`` as a whole number from 0; None for NaN, infinities, negative and too large ones."""
    scaled = value * scale
    if not math.isfinite(scaled) or scaled < 0:
        return None
    number = round(scaled)
    return number if number <= NUMBER_MAX else None


def _started_at_s(by_name: Mapping[str, list[Sample]]) -> float | None:
    """None where it is missing, no time, or reported by several processes behind one address."""
    starts = by_name.get(START_TIME, [])
    known = len(starts) == 1 and 0 <= starts[0].value <= STARTED_AT_S_MAX
    return float(starts[0].value) if known else None


def _attributed(
    engine: EngineKind,
    fields: dict[Identity, dict[str, dict[str, int | None]]],
    by_name: Mapping[str, list[Sample]],
    wrong: dict[str, int],
) -> Mapping[Identity, Mapping[str, Series]]:
    """Rows of anchored models only; what names no model goes to the only one, or, among several, to none."""
    if engine.anchor is not None:
        anchors = {identity_of(engine, sample) for sample in by_name.get(engine.anchor, ())}
        fields = {identity: each for identity, each in fields.items() if identity in anchors}
    named = [identity for identity in fields if identity[0] is not None]
    nameless = fields.get((None, None))
    if nameless is None or not named:
        return fields
    del fields[None, None]
    if len(named) > 1:
        wrong["model"] = wrong.get("model", 0) + sum(map(len, nameless.values()))
        return fields
    for name, series in nameless.items():
        fields[named[0]].setdefault(name, {}).update(series)
    return fields
