"""The bill of an engine and minute: what its GPUs cost, each GPU's cost shared out among those that hold it.

First every *physical GPU and minute* is priced: GPU time at the price of an hour, energy at the tariff times PUE, and
the host's overhead, each rounded once, half to even, to the nano-dollar; energy at the meter is energy times PUE,
emissions that at the grid's intensity, to the millijoule and microgram likewise. Then each amount of that GPU is shared
out by largest remainder among its *holders*: one engine in the usual case, MIG devices by their compute slices with the
slices that nobody holds left to the host's idle bill, engines side by side by the memory they hold or by their share of
SM time. So the bills of a minute add up to the GPUs of that minute exactly, whoever shares what; a tensor-parallel
group over several hosts is nothing special: its GPUs name one bill.

A price that is missing makes that term ``UNKNOWN`` for this GPU. It is not part of the bill, and the GPU time and
energy without a price stand beside it; a bill of which nothing was priced is ``UNKNOWN``, never 0. Emissions of a bill
are ``UNKNOWN`` where any of its measured energy lacks intensity or PUE: bills that have any have all of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from schemas.limits import HOUR_MS
from stream_jobs.costs.apportion import added, apportion
from stream_jobs.costs.wide import UNKNOWN, Flags, Ints, rounded
from stream_jobs.prices.amounts import KWH_MJ, PUE_ONE

MIG_SLICES = 7
MIG_SLICES_OF = {"A30": 4, "RTX PRO 6000": 4, "RTX PRO 5000": 2, "RTX PRO 4500": 2}
"""Compute slices of a GPU in MIG mode, by words of its product name; all others have seven. NVIDIA MIG User Guide,
"Supported GPUs" and "Supported MIG Profiles"."""
_SLICES_HELD = re.compile(rf"([1-{MIG_SLICES}])[cg](?:\.|\Z)")


@dataclass(frozen=True, slots=True)
class GpuMinutes:
    """Columns of one length, a row for each physical GPU and minute. ``UNKNOWN``: not measured, or no price."""

    gpu_ms: Ints
    energy_mj: Ints
    gpu_nusd_per_hour: Ints
    host_nusd_per_hour: Ints
    """Overhead of the host (processor, memory, network, rack) for each GPU; 0 where the price includes it."""
    energy_nusd_per_kwh: Ints
    pue_micro: Ints
    grid_ugco2e_per_kwh: Ints


@dataclass(frozen=True, slots=True)
class Holders:
    """Who holds a GPU: rows sorted by ``gpu`` (row of ``GpuMinutes``), ``bill`` (index), ``weight`` >= 0."""

    gpu: Ints
    bill: Ints
    weight: Ints


@dataclass(frozen=True, slots=True)
class Bills:
    """Columns of one length. The three costs and ``total_nusd`` are ``UNKNOWN`` where no GPU had that price.

    ``unpriced_gpu_ms`` had no price of its GPU or host, ``unpriced_energy_mj`` no tariff or PUE, ``unmeasured_gpu_ms``
    no energy reading; ``total_nusd`` adds what is known. ``meter_mj`` and ``carbon_ug`` are of all of ``energy_mj``, or
    ``UNKNOWN``.
    """

    gpu_nusd: Ints
    host_nusd: Ints
    energy_nusd: Ints
    total_nusd: Ints
    gpu_ms: Ints
    energy_mj: Ints
    meter_mj: Ints
    carbon_ug: Ints
    unpriced_gpu_ms: Ints
    unpriced_energy_mj: Ints
    unmeasured_gpu_ms: Ints


def bills_of(gpus: GpuMinutes, holders: Holders, bills: int) -> Bills:
    """Bills 0 to ``bills`` - 1. ``ValueError`` when a GPU with an amount has no holder of any weight.

    Bounds: a GPU's term below 2**50 nano-dollars is fast, beyond 2**63 is an ``OverflowError``.
    """

    def shared(amounts: Ints) -> Ints:
        return shared_among(amounts, holders, bills)

    def lacking(amounts: Ints) -> Ints:
        """Measured energy of GPUs that have no such amount."""
        return _or_nothing(shared(np.where((amounts == UNKNOWN) & ~unmeasured, energy, 0)))

    hourly, energy = gpus.gpu_ms, gpus.energy_mj
    unmeasured = energy == UNKNOWN
    gpu_nusd, host_nusd = _timed(hourly, gpus.gpu_nusd_per_hour), _timed(hourly, gpus.host_nusd_per_hour)
    energy_nusd = _energy(energy, gpus.energy_nusd_per_kwh, gpus.pue_micro)
    meter_mj = _energy(energy, np.full_like(energy, KWH_MJ), gpus.pue_micro)
    carbon_ug = _energy(energy, gpus.grid_ugco2e_per_kwh, gpus.pue_micro)
    shares = shared(gpu_nusd), shared(host_nusd), shared(energy_nusd)
    unpriced = (gpu_nusd == UNKNOWN) | (host_nusd == UNKNOWN)
    return Bills(
        gpu_nusd=shares[0],
        host_nusd=shares[1],
        energy_nusd=shares[2],
        total_nusd=_known_sum(shares),
        gpu_ms=_or_nothing(shared(hourly)),
        energy_mj=shared(energy),
        meter_mj=np.where(lacking(meter_mj) > 0, UNKNOWN, shared(meter_mj)),
        carbon_ug=np.where(lacking(carbon_ug) > 0, UNKNOWN, shared(carbon_ug)),
        unpriced_gpu_ms=_or_nothing(shared(np.where(unpriced, hourly, 0))),
        unpriced_energy_mj=lacking(energy_nusd),
        unmeasured_gpu_ms=_or_nothing(shared(np.where(unmeasured, hourly, 0))),
    )


def shared_among(amounts: Ints, holders: Holders, bills: int) -> Ints:
    """Amounts of GPUs by bill, each GPU's by the weights of its holders; ``UNKNOWN`` where none of a bill is known."""
    assert (np.diff(holders.gpu) >= 0).all()
    starts = np.searchsorted(holders.gpu, np.arange(len(amounts) + 1))
    weightless = added(holders.weight, holders.gpu, len(amounts))[holders.gpu] == 0  # nobody knows: equal shares
    known = amounts != UNKNOWN
    parts = apportion(np.where(known, amounts, 0), np.where(weightless, 1, holders.weight), starts)
    any_known = np.bincount(holders.bill[known[holders.gpu]], minlength=bills) > 0
    return np.where(any_known, added(parts, holders.bill, bills), UNKNOWN)


def _known_sum(columns: Sequence[Ints]) -> Ints:
    known: Flags = np.any([column != UNKNOWN for column in columns], axis=0)
    return np.where(known, np.sum([_or_nothing(column) for column in columns], axis=0), UNKNOWN)


def _or_nothing(column: Ints) -> Ints:
    return np.where(column == UNKNOWN, 0, column)


def _timed(ms: Ints, nusd_per_hour: Ints) -> Ints:
    priced = nusd_per_hour != UNKNOWN
    cost = rounded(ms, np.where(priced, nusd_per_hour, 0), np.full_like(ms, HOUR_MS))
    return np.where(priced, cost, UNKNOWN)


def _energy(energy_mj: Ints, per_kwh: Ints, pue_micro: Ints) -> Ints:
    """What energy at the meter comes to."""
    known = (energy_mj != UNKNOWN) & (per_kwh != UNKNOWN) & (pue_micro != UNKNOWN)
    at_the_meter = np.where(known, per_kwh, 0) * np.where(known, pue_micro, 0)  # price files are held below 64 bits
    cost = rounded(np.where(known, energy_mj, 0), at_the_meter, np.full_like(energy_mj, KWH_MJ * PUE_ONE))
    return np.where(known, cost, UNKNOWN)


def slices_of(gpu_model: str) -> int:
    """Compute slices that a GPU of this product name has in MIG mode."""
    words = set(gpu_model.split())
    return next((count for name, count in MIG_SLICES_OF.items() if words.issuperset(name.split())), MIG_SLICES)


def slices_held(mig_profile: str) -> int | None:
    """Compute slices of a MIG device: 3 for ``3g.40gb``, 1 for ``1c.3g.40gb``; None for a name without any, or with
    more than a GPU has.

    A compute instance (``1c.3g``) is a part of a GPU instance: it counts what it has itself, so that several of one
    instance do not count twice.
    """
    found = _SLICES_HELD.match(mig_profile)
    return None if found is None else int(found[1])


def side_by_side(values: Sequence[int | None]) -> list[int]:
    """Weights of engines on one GPU from what each held of its memory (it keeps others out even when idle), or of SMs.

    Equal weights where one holder's value is not known, or all are 0: half a measurement favours whoever has none.
    """
    known = [one for one in values if one is not None]
    return known if len(known) == len(values) and any(known) else [1] * len(values)
