"""Units of energy on a bill, and what that energy emits: exact whole numbers, one rounding. Pure.

Python integers, which do not overflow. Money is ``stream_jobs.costs.bill``.
"""

from __future__ import annotations

from stream_jobs.prices.amounts import half_even

KWH_MJ = 3_600_000_000
"""Millijoules of a kilowatt-hour."""

PUE_ONE = 1_000_000
"""A PUE of 1, in millionths."""


def emitted_ug(ug_per_kwh: int, energy_mj: int, pue_micro: int = PUE_ONE) -> int:
    """Micrograms of CO2e of ``energy_mj`` at the meter of the building, which is times the PUE; half to even."""
    return half_even(ug_per_kwh * energy_mj * pue_micro, KWH_MJ * PUE_ONE)
