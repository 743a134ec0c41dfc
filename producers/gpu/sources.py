"""Types of the field table: where NVML has a number, and how numbers make a field."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from sys import intern
from typing import Literal

ALL_LINKS = 0xFFFF_FFFF
"""As the scope of an NVLink field: the sum over all links."""
LINKS_MAX = 18
"""Links of one GPU (NVLink 4 and 5)."""

Nature = Literal["gauge", "counter"]


@dataclass(frozen=True, slots=True)
class Call:
    """A part of what a call of NVML returns. ``key`` names it in ``producers.gpu.calls``."""

    key: str
    function: str


@dataclass(frozen=True, slots=True)
class Value:
    """An NVML field, read together with all others in one call: ``value * times // per``."""

    id: int
    link: int | None = None
    times: int = 1
    per: int = 1

    @property
    def key(self) -> str:
        """Names it in a reading."""
        return intern(f"field {self.id}" if self.link in (None, ALL_LINKS) else f"field {self.id} link {self.link}")

    @property
    def scope(self) -> int:
        """The scope passed to NVML: the link, all links, or 0."""
        return 0 if self.link is None else self.link


@dataclass(frozen=True, slots=True)
class Gpm:
    """A GPM metric, per cent between two readings (Hopper and newer)."""

    id: int

    @property
    def key(self) -> str:
        """Names it in a reading."""
        return intern(f"gpm {self.id}")


Source = Call | Value | Gpm
Option = tuple[Source, ...]
Group = tuple[Option, ...]


@dataclass(frozen=True, slots=True)
class GpuField:
    """``name`` and ``unit`` as in ``gpu.samples``. ``most_per_s``: a counter that grows faster was misread.
    ``unknown``: the driver's marker for a gauge it does not have."""

    name: str
    unit: str
    nature: Nature
    groups: tuple[Group, ...]
    dcgm: str | None
    meaning: str
    trap: str = ""
    most_per_s: int = 0
    unknown: int | None = None

    def sources(self) -> Iterator[Source]:
        """All that it can be made of."""
        for group in self.groups:
            for option in group:
                yield from option
