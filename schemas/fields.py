"""A field and a table of fields: the one definition from which codecs, validation, DDL and documents follow.

A field has a *role* (what the pipeline does with it) and a *kind* (how it is stored). Columns of a block stand in the
order of the table: fixed-width first, dimensions next, maps and texts last, so that a reader that needs no texts
never walks them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Role(Enum):
    """What the pipeline does with a field."""

    TIME = "time"
    """The event time in milliseconds since the epoch, UTC. Exactly one per event, always first."""
    SKETCH = "sketch"
    """A magnitude whose distribution is kept: count, sum, min, max and sketch bins per series."""
    SKETCH_BINS = "sketch bins"
    """A sketch that arrives ready made as bins (bin index -> count); bins add."""
    GAUGE = "gauge"
    """A level at an instant: count, sum, min, max and last per series; bins as well where it is ``distributed``."""
    DIFFERENCE = "difference"
    """An amount since the previous reading; it only adds."""
    DIMENSION = "dimension"
    """A label that series may be grouped by."""
    ATTRIBUTE = "attribute"
    """Kept with the raw event, not aggregated."""


class Kind(Enum):
    """How a field is stored; the value is the ClickHouse type on the wire and in raw tables."""

    INT64 = "Int64"
    UINT32 = "UInt32"
    UINT64 = "UInt64"
    OPTIONAL_UINT32 = "Nullable(UInt32)"
    OPTIONAL_UINT64 = "Nullable(UInt64)"
    OPTIONAL_INT32 = "Nullable(Int32)"
    OPTIONAL_INT64 = "Nullable(Int64)"
    LABEL = "LowCardinality(Nullable(String))"
    TEXT = "String"
    OPTIONAL_TEXT = "Nullable(String)"
    BINS = "Map(Int16, UInt64)"
    LIST_INT64 = "Array(Int64)"
    LIST_OPTIONAL_INT64 = "Array(Nullable(Int64))"
    LIST_LABEL = "Array(LowCardinality(Nullable(String)))"

    @property
    def numpy(self) -> str:
        """The numpy dtype of the values, little-endian; empty for texts, labels and maps."""
        return _DTYPES.get(self, "")

    @property
    def optional(self) -> bool:
        """True when a value may be null."""
        return self.value.startswith("Nullable") or self is Kind.LABEL

    @property
    def item(self) -> Kind | None:
        """The kind of the elements of a list; None for what is no list."""
        return _ITEMS.get(self)


_DTYPES = {
    Kind.INT64: "<i8",
    Kind.UINT32: "<u4",
    Kind.UINT64: "<u8",
    Kind.OPTIONAL_UINT32: "<u4",
    Kind.OPTIONAL_UINT64: "<u8",
    Kind.OPTIONAL_INT32: "<i4",
    Kind.OPTIONAL_INT64: "<i8",
}

_ITEMS = {Kind.LIST_INT64: Kind.INT64, Kind.LIST_OPTIONAL_INT64: Kind.OPTIONAL_INT64, Kind.LIST_LABEL: Kind.LABEL}

# Width groups of the wire order: a block's columns must come in this order.
_ORDER = {Kind.LABEL: 1, Kind.BINS: 2, **dict.fromkeys(_ITEMS, 2), Kind.TEXT: 3, Kind.OPTIONAL_TEXT: 3}


@dataclass(frozen=True, slots=True)
class Field:
    """One column of an event.

    ``low``/``high`` bound accepted numbers (both ends included; ``None`` is the kind's own range). ``allowed`` closes
    the set of a label's values; empty means open. ``required`` labels and texts may not be null or empty. Of a
    ``distributed`` gauge the bins are kept as of a sketch. A ``bounded`` label has few values, though no closed set, or
    follows another label: engine, host or GPU. A column that ``may_be_absent`` reads 0 where rows of an earlier release
    lack it.
    """

    name: str
    kind: Kind
    role: Role
    unit: str
    meaning: str
    source: str = ""
    low: int | None = None
    high: int | None = None
    allowed: tuple[str, ...] = ()
    required: bool = False
    distributed: bool = False
    bounded: bool = False
    may_be_absent: bool = False

    def __hash__(self) -> int:
        """Of the name alone: tables of fields are keys of caches that every batch looks up."""
        return hash(self.name)


@dataclass(frozen=True, slots=True)
class Event:
    """An event type: its topic, version and fields. ``key`` names the fields that form the Kafka key."""

    topic: str
    version: int
    meaning: str
    key: tuple[str, ...]
    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        ranks = [_ORDER.get(field.kind, 0) for field in self.fields]
        assert ranks == sorted(ranks), f"{self.topic}: fixed-width columns first, texts last"
        assert self.fields[0].role is Role.TIME
        assert self.fields[0].kind is Kind.INT64
        names = [field.name for field in self.fields]
        assert len(names) == len(set(names)), f"{self.topic}: a name twice"

    @property
    def schema(self) -> str:
        """The value of the ``schema`` header, such as ``llm.requests/1``."""
        return f"{self.topic}/{self.version}"

    def of(self, *roles: Role) -> tuple[Field, ...]:
        """The fields with one of these roles, in wire order."""
        return tuple(field for field in self.fields if field.role in roles)

    def field(self, name: str) -> Field:
        """The field of that name; ``KeyError`` where there is none."""
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Table:
    """A row type: ``schema`` is the header value of records that carry it; fields stand in wire order."""

    name: str
    schema: str
    meaning: str
    fields: tuple[Field, ...]
