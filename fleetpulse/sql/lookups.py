"""Lookups beside an answer: where data lies that a range has none of, and names that words may be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fleetpulse.queries import dashboard, names_in_words
from fleetpulse.queries.data_ends import QUERY, Lack, Span, lack
from fleetpulse.queries.scope import NAMES
from fleetpulse.sql.database import Reader
from fleetpulse.sql.query import pairs
from schemas.errors import ConfigError
from schemas.limits import DAY_MS, HOUR_MS
from stream_jobs.prices.model import is_example

NAMES_OF_MS = 30 * DAY_MS
"""Names are those of so long before the end of the range, at least."""


def lacking(database: Reader, kinds: Iterable[str], span: Span) -> Lack | None:
    """What of these kinds a range has none of; None where it has some of each."""
    wanted = tuple(kinds)
    return lack(_rows(database, QUERY, {"from_ms": span[0]}), wanted, span) if wanted else None


def names(database: Reader, parts: Sequence[str], span: Span) -> list[dict[str, Any]]:
    """Names that hold any of these texts, each with its kind, of the range and what was before it."""
    begin = max(0, min(span[0], span[1] - NAMES_OF_MS)) // HOUR_MS * HOUR_MS
    return _rows(database, "names", {"from_ms": begin, "to_ms": span[1], "parts": list(parts)}) if parts else []


def in_full(database: Callable[[], Reader], params: Sequence[str], span: Span) -> list[str]:
    """Parameters of people (``name=value``) with names of models, tenants, hosts ... in full, where a part of one was
    given, of those of this range; nothing is looked up where there are no names. Raises ``ConfigError`` for a part of
    several."""
    given = {kind: value for kind, value in pairs(params).items() if kind in NAMES and value}
    wanted = names_in_words.candidates([*given.values()], lambda _word: False)
    found = names(database(), wanted, span) if wanted else []
    return [_in_full(param, found) if param.partition("=")[0] in given else param for param in params]


def _in_full(param: str, found: Sequence[Mapping[str, Any]]) -> str:
    kind, _, value = param.partition("=")
    meant = names_in_words.in_full(value, (row["name"] for row in found if row["kind"] == kind))
    if len(meant) > 1:
        raise ConfigError("--param", param, f"{names_in_words.may_mean(kind, meant)}: say which")
    return f"{kind}={meant[0]}" if meant else param


def unknown_names(database: Reader, given: Mapping[str, str], span: Span) -> list[str]:
    """What is said of values (by parameter) that may be part of a name of a model, tenant, host ... of this range, and
    are none that is known: they were taken as they are. Nothing is looked up where no parameter is a name."""
    wanted = {kind: value for kind, value in given.items() if kind in NAMES and value}
    parts = names_in_words.candidates([*wanted.values()], lambda _word: False)
    found = names(database, parts, span) if parts else []
    said = []
    for kind, value in wanted.items():
        near = names_in_words.in_full(value, (row["name"] for row in found if row["kind"] == kind))
        if near and value not in near:
            said.append(f"{kind}={value} is taken as it is; it {names_in_words.may_mean(kind, near)}")
    return said


def with_examples(database: Reader, span: Span) -> bool:
    """Whether bills of a range were rated with the shipped example prices, which nobody charges."""
    rows = _rows(database, "cost_prices", {"from_ms": span[0], "to_ms": span[1]})
    return any(is_example(row["version"]) for row in rows)


def _rows(database: Reader, name: str, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    query = dashboard.query(name)
    span_ms = given.get("to_ms", given["from_ms"]) - given["from_ms"]
    return database.sql(query.at_levels(span_ms, given), query.values(given, span_ms)).records()
