"""How large sums get over a year of 100,000 GPUs that serve a million requests a second: by unit of a column."""

from __future__ import annotations

import re

GPUS, SECONDS, READINGS_PER_S = 100_000, 366 * 86_400, 10
HOURS = SECONDS // 3_600
REQUESTS_PER_S, IN_FLIGHT = 1_000_000, 10_000_000
INT64_MAX = 2**63 - 1

_READ = GPUS * SECONDS * READINGS_PER_S
TOTALS: tuple[tuple[str, int], ...] = (
    ("token_ms", IN_FLIGHT * 100_000 * SECONDS * 1_000),
    ("amount", IN_FLIGHT * 100_000 * SECONDS * 1_000),  # of a part of a bill: tokens, or token milliseconds
    ("gpu_ms", GPUS * SECONDS * 1_000),
    ("bytes", 288 * 10**9 * _READ),
    ("us", IN_FLIGHT * SECONDS * 10**6),
    ("ns", IN_FLIGHT * SECONDS * 10**9),
    ("ms", GPUS * SECONDS * 1_000),
    ("mw", 1_500_000 * _READ),
    ("mj", 1_500_000 * GPUS * SECONDS),
    ("ug", 15 * 10**8 * GPUS * HOURS),  # 1.5 kW at a kilogram for each kWh
    ("nusd", 15 * 10**9 * GPUS * HOURS),  # a GPU at 15 dollars an hour
    ("ppm", 10**6 * _READ),
    ("milli", 1_000_000 * _READ),
    ("micro", 10**6 * 1_000_000 * _READ),
    ("pct", 100 * _READ),
    ("c", 120 * _READ),
    ("mhz", 10_000 * _READ),
    ("tokens", REQUESTS_PER_S * 10_000 * SECONDS),
)
_COUNTED = GPUS * SECONDS * 1_000
"""Of what has no unit: faults, steps, retransmitted packets."""


def total_of(column: str) -> int:
    """The exact sum of a column over the year, by the last words of its name."""
    name = column.removesuffix("_sum")
    return next((total for unit, total in TOTALS if name == unit or name.endswith(f"_{unit}")), _COUNTED)


def wraps(sql: str) -> bool:
    """Whether a sum of one of the columns named in an expression does not fit Int64."""
    if re.search(r"\btotal:Identifier\b", sql):  # any column
        return True
    return any(total_of(word) > INT64_MAX for word in re.findall(r"[a-z]\w*", sql))
