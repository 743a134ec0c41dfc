"""The exact arithmetic of a bill. Pure.

Every term of a bill is a whole number of *bill units*, ``1 / BILL_UNITS`` of a nano-dollar, so that terms add without
any rounding: ``BILL_UNITS`` holds the milliseconds of an hour, the millijoules of a kilowatt-hour and the millionths
of a PUE at once. The one rounding is at the end: a finished bill is rounded half to even to the nano-dollar; what it is
split into afterwards is apportioned from that whole number. Python integers, which do not overflow.
"""

from __future__ import annotations

from collections.abc import Iterable

from stream_jobs.prices.amounts import half_even

HOUR_MS = 3_600_000
KWH_MJ = 3_600_000_000
"""Millijoules of a kilowatt-hour."""

PUE_ONE = 1_000_000
"""A PUE of 1, in millionths."""

BILL_UNITS = KWH_MJ * PUE_ONE
_HOUR_UNITS = BILL_UNITS // HOUR_MS


def prorate(nusd_per_hour: int, ms: int) -> tuple[int, int]:
    """Whole nano-dollars of ``ms`` milliseconds, and what is left in 1/3,600,000 nano-dollars: exact together."""
    return divmod(nusd_per_hour * ms, HOUR_MS)


def time_units(nusd_per_hour: int, ms: int) -> int:
    """Bill units of a GPU or host over ``ms`` milliseconds."""
    return nusd_per_hour * ms * _HOUR_UNITS


def energy_units(nusd_per_kwh: int, energy_mj: int, pue_micro: int = PUE_ONE) -> int:
    """Bill units of ``energy_mj`` at the meter of the building: times the PUE."""
    return nusd_per_kwh * energy_mj * pue_micro


def bill_nusd(units: Iterable[int]) -> int:
    """The bill: terms added exactly, then rounded once, half to even, to the nano-dollar."""
    return half_even(sum(units), BILL_UNITS)


def emitted_ug(ug_per_kwh: int, energy_mj: int, pue_micro: int = PUE_ONE) -> int:
    """Micrograms of CO2e of that energy with its PUE, half to even."""
    return half_even(ug_per_kwh * energy_mj * pue_micro, BILL_UNITS)
