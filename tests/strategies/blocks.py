"""Hypothesis strategies for rows and blocks: a field of every kind, edge values first; and full rows of any event."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from schemas.fields import Field, Kind, Role
from schemas.sketch import BIN_MAX, ZERO_BIN


def _field(name: str, kind: Kind) -> Field:
    return Field(name, kind, Role.ATTRIBUTE, "", "a column of this kind")


EVERY_KIND: tuple[Field, ...] = tuple(
    sorted(
        (_field(kind.name.lower(), kind) for kind in Kind),
        key=lambda field: field.kind in (Kind.LABEL, Kind.BINS) or field.kind.item is not None,
    )
)
"""One field of each kind."""

WITHOUT_LISTS = tuple(field for field in EVERY_KIND if field.kind.item is None)
"""One field of each kind that the compiled walk reads."""


def values_of(field: Field) -> st.SearchStrategy[Any]:
    """Any value that the field's kind can hold, null included where it may be."""
    if field.kind.item is not None:
        return st.lists(values_of(_field("item", field.kind.item)), max_size=4)
    if field.kind is Kind.LABEL:
        return st.none() | st.text(max_size=6) | st.sampled_from(["", "a", "b" * 200])
    if field.kind is Kind.TEXT:
        return st.text(max_size=6) | st.sampled_from(["", "x" * 127, "x" * 128, "y" * 20_000])
    if field.kind is Kind.OPTIONAL_TEXT:
        return st.none() | st.text(max_size=6) | st.sampled_from(["", "x" * 128])
    if field.kind is Kind.BINS:
        return st.dictionaries(st.integers(ZERO_BIN, BIN_MAX), st.integers(1, 2**32), max_size=5).map(
            lambda bins: dict(sorted(bins.items()))
        )
    bits = int(field.kind.numpy[2:]) * 8
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if field.kind.numpy[1] == "i" else (0, 2**bits - 1)
    numbers = st.sampled_from([low, high, 0, 1]) | st.integers(low, high)
    return st.none() | numbers if field.kind.optional else numbers


def rows_of_every_kind(
    max_size: int = 12, fields: tuple[Field, ...] = EVERY_KIND
) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Rows with a value for each of the fields."""
    row = st.fixed_dictionaries({field.name: values_of(field) for field in fields})
    return st.lists(row, max_size=max_size)


def valid_row(fields: tuple[Field, ...], rng: random.Random, at_ms: int) -> dict[str, Any]:
    """A row that admission accepts at append time ``at_ms``; about one optional value in five is null."""
    return {field.name: _valid_value(field, rng, at_ms) for field in fields}


def valid_rows(fields: tuple[Field, ...], count: int, seed: int, at_ms: int) -> list[dict[str, Any]]:
    """``count`` rows from a seed."""
    rng = random.Random(seed)
    return [valid_row(fields, rng, at_ms) for _ in range(count)]


def _valid_value(field: Field, rng: random.Random, at_ms: int) -> Any:
    if field.role is Role.TIME:
        return at_ms - rng.randrange(1_000)
    if not field.required and field.kind.optional and rng.random() < 0.2:
        return None
    if field.kind.item is not None:
        item = replace(field, kind=field.kind.item)
        return [_valid_value(item, rng, at_ms) for _ in range(rng.randrange(4))]
    if field.kind is Kind.LABEL:
        return rng.choice(field.allowed or ("one", "two", f"{field.name}-{rng.randrange(5)}"))
    if field.kind is Kind.BINS:
        keys = sorted(rng.sample(range(ZERO_BIN, BIN_MAX + 1), rng.randrange(8)))
        return {key: rng.randint(1, 1_000) for key in keys}
    if field.kind in (Kind.TEXT, Kind.OPTIONAL_TEXT):
        return f"{rng.getrandbits(128):x}" + "é" * rng.randrange(2)
    low = 0 if field.low is None else field.low
    return rng.randint(low, low + 1_000_000 if field.high is None else field.high)
