"""Numbers with units as people write them, and columns' units. Pure tables.

A level is written with a unit of its column's family and kept in the column's own unit. Where a bare number could mean
two things (``0.9`` of a column in ppm) it is refused.
"""

from __future__ import annotations

import re
from math import isfinite

TIME = {"us": 1.0, "ms": 1e3, "s": 1e6, "m": 6e7, "h": 3.6e9}
BYTES = {
    "bytes": 1.0,
    "B": 1.0,
    "kB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
    "TiB": 2.0**40,
}
SHARE = "share"
"""Unit of a measure between 0 and 1."""
PER_SECOND = "/s"

FAMILIES: dict[str, dict[str, float]] = {
    "us": TIME,
    "ms": {unit: factor / 1e3 for unit, factor in TIME.items()},
    "ppm": {"ppm": 1.0, "%": 1e4},
    "%": {"%": 1.0},
    SHARE: {"": 1.0, "%": 0.01},
    "C": {"C": 1.0, "°C": 1.0},
    "mW": {"mW": 1.0, "W": 1e3, "kW": 1e6},
    "mJ": {"mJ": 1.0, "J": 1e3, "kJ": 1e6, "Wh": 3.6e6, "kWh": 3.6e9},
    "MHz": {"MHz": 1.0, "GHz": 1e3},
    "bytes": BYTES,
    "1/1000": {"": 1e3, "milli": 1.0},
    "1e-6": {"": 1e6, "micro": 1.0},
    "lanes": {"": 1.0, "lanes": 1.0},
    "": {"": 1.0},
    "tokens": {"": 1.0, "tokens": 1.0},
    "requests": {"": 1.0, "requests": 1.0},
}
"""By a column's unit: what may be written, and how much of the column's unit it is. ``""`` is a bare number."""

_SCALES = ({"us": 1.0, "ms": 1e3}, {"ppm": 1.0, "%": 1e4})
"""Units of a scale can be divided by one another: their sizes."""

_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)\s*(.*)", re.ASCII | re.DOTALL)
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def family(unit: str) -> dict[str, float]:
    """What may be written behind a number for a measure in ``unit``. Unnamed units of ratios take bare numbers."""
    if unit in FAMILIES:
        return FAMILIES[unit]
    if unit.endswith(PER_SECOND):
        inner = FAMILIES.get(unit[: -len(PER_SECOND)].removeprefix("1"), {"": 1.0})
        bare = {"": inner[""]} if "" in inner else {}
        return bare | {word + PER_SECOND: factor for word, factor in inner.items()}
    return {"": 1.0, unit: 1.0}


def quotient(above: str, below: str) -> float | None:
    """One ``above`` divided by one ``below``, where that is a plain number; None where it has a unit of its own."""
    if above == below:
        return 1.0
    return next((scale[above] / scale[below] for scale in _SCALES if {above, below} <= scale.keys()), None)


def split(text: str) -> tuple[float, str] | None:
    """Number and unit as written; None for what is no finite number."""
    found = _NUMBER.fullmatch(text.strip())
    if not found:
        return None
    number = float(found[1])
    return (number, found[2].strip()) if isfinite(number) else None


def level(text: str, unit: str) -> float | None:
    """The level in ``unit``; None for no number or a unit that is not of the family."""
    found = split(text)
    words = family(unit)
    if found is None or found[1] not in words:
        return None
    factor = words[found[1]]
    return found[0] * factor if factor >= 1 else found[0] / round(1 / factor)


def seconds(text: str) -> float | None:
    """Seconds of ``90s``, ``5m``, ``2h``, ``1d`` or a bare number of seconds; None for anything else."""
    found = split(text)
    if found is None:
        return None
    factor = 1.0 if not found[1] else _SECONDS.get(found[1])
    return None if factor is None else found[0] * factor


def level_text(value: float, unit: str) -> str:
    """As people would write it: the shortest writing that is read back as the same number; a share above 1 in per cent,
    as options need it."""
    words = family(unit)
    written = [f"{_plain(float(f'{value / factor:.12g}'))}{word}" for word, factor in words.items()]
    exact = [text for text in written if level(text, unit) == value]
    large = unit == SHARE and value > 1
    return min(
        exact or [f"{value!r}{_base(words)}"], key=lambda text: (large and "%" not in text, len(text), "%" not in text)
    )


def duration_text(value_s: float) -> str:
    """Seconds in the largest unit that divides them."""
    for word, factor in reversed(_SECONDS.items()):
        if value_s and value_s % factor == 0:
            return f"{_plain(value_s / factor)}{word}"
    return f"{_plain(value_s)}s"


def _plain(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _base(words: dict[str, float]) -> str:
    return next((word for word, factor in words.items() if factor == 1.0), "")
