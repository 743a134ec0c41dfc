"""Amounts as people read them: dollars of nano-dollars, costs of a million tokens, kilowatt-hours. Pure.

Division happens here and nowhere before: sums are whole nano-dollars until they are shown. None stays None, and is
shown as a dash.
"""

from __future__ import annotations

from datetime import UTC, datetime
from math import floor, log10

from schemas.limits import HOUR_MS
from stream_jobs.prices.amounts import KWH_MJ

USD_NUSD = 10**9
MILLION = 1_000_000
KG_UG = 10**9
UNKNOWN = "–"


def ratio(part: int | float | None, whole: int | float | None) -> float | None:
    """``part / whole``; None where one is not known or the whole is 0."""
    return None if part is None or not whole else part / whole


def per_million(nusd: int | None, units: int | None) -> float | None:
    """Dollars of a million units."""
    each = ratio(nusd, units)
    return None if each is None else each * MILLION / USD_NUSD


def usd_of(nusd: int | float | None) -> float | None:
    """Dollars as a float, for JSON and charts."""
    return None if nusd is None else nusd / USD_NUSD


def usd(nusd: int | float | None) -> str:
    """``$1,234.56``; below a dollar with four significant digits, so that what is small is not lost."""
    return UNKNOWN if nusd is None else dollars(nusd / USD_NUSD)


def dollars(amount: float | None) -> str:
    """The same of dollars."""
    if amount is None:
        return UNKNOWN
    size = abs(amount)
    text = f"{size:,.2f}" if size >= 1 else "0.00" if not size else _small(size)
    return f"-${text}" if amount < 0 else f"${text}"


def _small(size: float) -> str:
    places = min(9, 3 - floor(log10(size)))
    return f"{size:.{places}f}".rstrip("0").ljust(4, "0")


def share(part: float | None) -> str:
    """``12.3 %``."""
    return UNKNOWN if part is None else f"{100 * part:.1f} %"


def count(number: int | float | None) -> str:
    """Whole numbers with separators; from ten million on in millions."""
    if number is None:
        return UNKNOWN
    return f"{number / MILLION:,.1f} M" if abs(number) >= 10 * MILLION else f"{number:,.0f}"


def decimal(number: float | None, unit: str = "") -> str:
    """Three significant digits below a hundred, whole numbers above, with a unit."""
    if number is None:
        return UNKNOWN
    text = f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"
    return f"{text} {unit}".rstrip()


def gpu_hours(ms: int | None) -> str:
    """``12.5 h``; below an hour minutes."""
    if ms is None:
        return UNKNOWN
    return f"{ms / HOUR_MS:,.1f} h" if ms >= HOUR_MS or not ms else f"{60 * ms / HOUR_MS:.1f} min"


def energy(mj: int | None) -> str:
    """``12.50 kWh``; below a hundredth watt-hours."""
    if mj is None:
        return UNKNOWN
    return f"{mj / KWH_MJ:,.2f} kWh" if mj >= KWH_MJ // 100 or not mj else f"{1_000 * mj / KWH_MJ:.3g} Wh"


def carbon(ug: int | None) -> str:
    """``12.5 kg`` of CO2e; below a kilogram grams."""
    if ug is None:
        return UNKNOWN
    return decimal(ug / KG_UG, "kg") if ug >= KG_UG else decimal(1_000 * ug / KG_UG, "g")


def instant(at_ms: int | None) -> str:
    """``2026-01-31 06:00`` (UTC)."""
    return UNKNOWN if at_ms is None else datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M")
