"""What to read from one GPU, given what it is known not to support. Pure.

A plan starts hopeful (the best option of everything) and gets worse by what the GPU refuses, until nothing new is
refused: then it is read every second without a vain question.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

from producers.gpu.fields import FIELDS, REMAP_FAILED
from producers.gpu.sources import Call, Gpm, GpuField, Group, Option, Value


@dataclass(frozen=True, slots=True)
class Plan:
    """``parts``: the keys whose sum is a field, by its name. ``missing``: fields that no option gives."""

    parts: Mapping[str, tuple[str, ...]]
    values: tuple[Value, ...]
    calls: frozenset[str]
    gpms: tuple[int, ...]
    missing: tuple[str, ...]


def plan_for(refused: Collection[str], fields: tuple[GpuField, ...] = FIELDS) -> Plan:
    """The best plan that asks for none of the keys in ``refused``."""
    chosen = {field.name: [_option(group, refused) for group in field.groups] for field in fields}
    sources = dict.fromkeys(source for options in chosen.values() for option in options for source in option)
    if REMAP_FAILED.key not in refused:
        sources[REMAP_FAILED] = None
    parts = {name: tuple(source.key for option in options for source in option) for name, options in chosen.items()}
    return Plan(
        parts={name: keys for name, keys in parts.items() if keys},
        values=tuple(source for source in sources if isinstance(source, Value)),
        calls=frozenset(source.key for source in sources if isinstance(source, Call)),
        gpms=tuple(source.id for source in sources if isinstance(source, Gpm)),
        missing=tuple(name for name, keys in parts.items() if not keys),
    )


@lru_cache(maxsize=64)
def shared_plan(refused: frozenset[str]) -> Plan:
    """``plan_for``, one for all devices that refuse the same: they are walked one after another."""
    return plan_for(refused)


def _option(group: Group, refused: Collection[str]) -> Option:
    """The sources left of the first option of which any is left."""
    left = (tuple(source for source in option if source.key not in refused) for option in group)
    return next((option for option in left if option), ())
