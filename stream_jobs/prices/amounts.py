"""Amounts as people write them (``2.49 USD/GPU-hour``), as exact integers of a tiny unit. Pure.

No floating point anywhere: digits of the text become digits of an integer. More digits than the unit holds are
refused, never rounded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from stream_jobs.yaml_files.nodes import Node
from stream_jobs.yaml_files.problems import WrongError, nearest, quoted
from stream_jobs.yaml_files.scalars import word

NANO_DIGITS = 9
MICRO_DIGITS = 6
WHOLE_DIGITS_MAX = 6
"""Digits before the point: no GPU-hour costs a million dollars, and bills stay within 64 bits."""

USD = "USD"
_NUMBER = re.compile(r"([+-]?)(\d+)(?:\.(\d+))?", re.ASCII)
_MONEY = re.compile(r"(\S+)\s+([^\s/]+)/(\S+)")
_CURRENCY = re.compile(r"[A-Z]{3}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Money:
    """``nano`` billionths of a ``currency``, per what the section says."""

    nano: int
    currency: str
    said: str
    at: str


def scaled(text: str, digits: int) -> int:
    """The number times ten to ``digits``, exactly. Raises ``ValueError`` with what to change."""
    found = _NUMBER.fullmatch(text)
    if not found:
        raise ValueError("is no number; write plain digits like 2.49, without exponent, comma or blanks")
    sign, whole, part = found[1], found[2], found[3] or ""
    if sign == "-":
        raise ValueError("is negative; write what it costs, or null where that is unknown")
    if len(part) > digits:
        raise ValueError(f"has more than {digits} digits behind the point; write fewer, nothing is rounded for you")
    if len(whole.lstrip("0")) > WHOLE_DIGITS_MAX:
        raise ValueError(f"has more than {WHOLE_DIGITS_MAX} digits before the point; check its unit")
    return int(whole) * 10**digits + int(part.ljust(digits, "0") or "0")


def number(node: Node, what: str, digits: int) -> int:
    """A bare number, times ten to ``digits``. Raises ``WrongError``."""
    text = word(node, what)
    try:
        return scaled(text, digits)
    except ValueError as error:
        raise WrongError(node.at, f"{what} {quoted(text)} {error}") from None


def measured(node: Node, what: str, unit: str, digits: int) -> int:
    """A number with its unit written, like ``380 gCO2e/kWh``, times ten to ``digits``. Raises ``WrongError``."""
    text = word(node, what)
    first, _, rest = text.partition(" ")
    if rest.strip() != unit:
        raise WrongError(node.at, f"{what} {quoted(text)} must be a number and its unit, like `380 {unit}`")
    try:
        return scaled(first, digits)
    except ValueError as error:
        raise WrongError(node.at, f"{what} {quoted(first)} {error}") from None


def money(node: Node, what: str, unit: str, currencies: tuple[str, ...]) -> Money:
    """An amount with currency and unit, like ``2.49 USD/GPU-hour``. Raises ``WrongError``."""
    text = word(node, what)
    found = _MONEY.fullmatch(text)
    if not found:
        raise WrongError(node.at, f"{what} {quoted(text)} must be like `2.49 {USD}/{unit}`")
    if found[2] not in currencies:
        raise WrongError(node.at, f"{what}: {_unknown(found[2], currencies)}")
    if found[3] != unit:
        raise WrongError(node.at, f"{what}: unit {quoted(found[3])} is not known here; write {unit}")
    try:
        return Money(scaled(found[1], NANO_DIGITS), found[2], text, node.at)
    except ValueError as error:
        raise WrongError(node.at, f"{what} {quoted(found[1])} {error}") from None


def currency(node: Node) -> str:
    """A currency's three capital letters; dollars need no rate. Raises ``WrongError``."""
    text = word(node, "currency")
    if not _CURRENCY.fullmatch(text) or text == USD:
        raise WrongError(node.at, f"currency {quoted(text)} must be three capital letters like EUR, other than {USD}")
    return text


def in_usd(nano: int, rate_nano: int) -> int:
    """Nano-dollars of an amount in another currency; half to even, once, when the file is read."""
    return half_even(nano * rate_nano, 10**NANO_DIGITS)


def half_even(numerator: int, denominator: int) -> int:
    """The nearest whole number; of two equally near ones the even one. ``denominator`` > 0."""
    whole, left = divmod(numerator, denominator)
    return whole + (2 * left > denominator or (2 * left == denominator and whole % 2))


def _unknown(name: str, currencies: tuple[str, ...]) -> str:
    if not _CURRENCY.fullmatch(name):
        return f"currency {quoted(name)} is not known; {nearest(name, currencies)}"
    return f"currency {quoted(name)} has no exchange rate in this file; add it under exchange_rates"
