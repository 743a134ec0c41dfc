"""Amounts as exact integers of a tiny unit: digits of a text become digits of an integer, with no float between. Pure.

More digits than the unit holds are refused, never rounded.
"""

from __future__ import annotations

import re

from stream_jobs.yaml_files.errors import quoted

NANO_DIGITS = 9
MICRO_DIGITS = 6
WHOLE_DIGITS_MAX = 6
"""Digits before the point: no GPU-hour costs a million dollars, and bills stay within 64 bits."""
KWH_MJ = 3_600_000_000
"""Millijoules of a kilowatt-hour."""
PUE_ONE = 1_000_000
"""A PUE of 1, in millionths."""
KWH_BELOW = 922 * 10**9
"""Nano-dollars, or micrograms of CO2e, of a kilowatt-hour are fewer: 64 bits hold them times a PUE of 10, in
millionths."""
HOUR_BELOW = 10 ** (WHOLE_DIGITS_MAX + NANO_DIGITS)
"""Nano-dollars of an hour are fewer, in whatever currency it was written."""
_NUMBER = re.compile(r"([+-]?)(\d+)(?:\.(\d+))?", re.ASCII)


def scaled(text: str, digits: int) -> int:
    """The number times ten to ``digits``, exactly. Raises ``ValueError`` with what to change."""
    found = _NUMBER.fullmatch(text)
    if not found:
        raise ValueError(f"{quoted(text)} is no number; write plain digits like 2.49, no exponent, comma or blank")
    sign, whole, part = found[1], found[2], found[3] or ""
    if sign == "-":
        raise ValueError(f"{quoted(text)} is negative; write what it costs, or null where that is unknown")
    if len(part) > digits:
        raise ValueError(f"{quoted(text)} has more than {digits} digits behind the point; write fewer, none is rounded")
    if len(whole.lstrip("0")) > WHOLE_DIGITS_MAX:
        raise ValueError(f"{quoted(text)} has more than {WHOLE_DIGITS_MAX} digits before the point; check its unit")
    return int(whole) * 10**digits + int(part.ljust(digits, "0") or "0")


def half_even(numerator: int, denominator: int) -> int:
    """The nearest whole number; of two equally near ones the even one. ``denominator`` > 0."""
    whole, left = divmod(numerator, denominator)
    return whole + (2 * left > denominator or (2 * left == denominator and whole % 2))
