"""Rows of costs from the ledger: minutes priced, billed and split, all at once. One row holds a bill and all its parts.

Several holders of a GPU (``share`` rows) pay by their weights; without such rows each pays for the time under its own
name, so that an engine that moved within a minute leaves the rest to the next one. Usage of an engine without GPUs in
that minute makes a row too: its bill is null, and its lines stand there as ``__unpriced__``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stream_jobs.costs.bill import Bills, GpuMinutes, Holders, bills_of
from stream_jobs.costs.ledger import Key, Owner, Told, in_order
from stream_jobs.costs.split import KINDS, NO_LINE, OWNERS, PARTS, WEIGHTS, Lines, Parts, Weights, split
from stream_jobs.costs.wide import UNKNOWN, ints

OK = "ok"
"""The status of requests that did not fail."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of a GPU at a moment; None: there is none."""

    gpu_nusd_per_hour: int | None
    host_nusd_per_hour: int | None
    energy_nusd_per_kwh: int | None
    pue_micro: int | None


PriceOf = Callable[[str | None, str | None, str | None, int], Prices]
"""By product name of the GPU, region, host and start of the minute (ms)."""


class PartRow(NamedTuple):
    """A part of a bill; see ``split``. None: not known, or not of any line. (A tuple: there are a million an hour.)"""

    part: str
    kind: str
    tenant: str | None
    model: str | None
    slo_class: str | None
    status: str | None
    cost_nusd: int | None
    energy_mj: int | None
    gpu_ms: int | None


@dataclass(frozen=True, slots=True)
class CostRow:
    """A bill and its parts: ``cost_nusd`` of parts adds up to ``total_nusd``, energy and GPU time to the bill's.

    Of the rows of a (use, owner, minute) the one with the greatest ``version`` counts.
    """

    use: str
    owner: str
    group: str
    minute_ms: int
    version: int
    revision: int
    final: bool
    weights_version: int
    total_nusd: int | None
    gpu_nusd: int | None
    host_nusd: int | None
    energy_nusd: int | None
    gpu_ms: int
    energy_mj: int | None
    unpriced_gpu_ms: int
    unpriced_energy_mj: int
    unmeasured_gpu_ms: int
    parts: tuple[PartRow, ...]


_BILL = tuple(Bills.__slots__)


def cost_rows(told: Sequence[Told], price_of: PriceOf, weights: Weights = WEIGHTS) -> list[CostRow]:
    """A row for each owner of each told minute, in their order, owners by name."""
    owners = [(number, owner) for number, one in enumerate(told) for owner in _owners(one)]
    index = {at: i for i, at in enumerate(owners)}
    bills = _bills(told, index, price_of)
    names, lines = _lines(told, index)
    starting = np.zeros(len(owners), dtype=np.int64)
    for number, one in enumerate(told):
        for key, (ms,) in one.minute.tables["startup"].items():
            starting[index[number, _owner(key)]] += ms or 0
    unused = ints([OWNERS[use] for _, (use, _) in owners])
    parts = split(bills, unused, starting, lines, weights)
    return _rows(told, owners, bills, _part_rows(parts, names), np.bincount(parts.bill, minlength=len(owners)), weights)


def _owner(key: Key) -> Owner:
    use, owner = key[:2]
    assert use is not None
    assert owner is not None
    return use, owner


def _owners(one: Told) -> list[Owner]:
    return sorted({_owner(key) for table in one.minute.tables.values() for key in table})


def _bills(told: Sequence[Told], index: dict[tuple[int, Owner], int], price_of: PriceOf) -> Bills:
    columns: list[tuple[int | None, ...]] = []
    holders: list[tuple[int, int, int]] = []
    for number, one in enumerate(told):
        shares = _shares(one)
        for (gpu_uuid, places), amounts in _physical(one, set(shares)).items():
            prices = price_of(*places, one.minute_ms)
            held = shares.get(gpu_uuid) or [(_owner(places_owner), 1) for places_owner in amounts.owners]
            holders += ((len(columns), index[number, owner], weight) for owner, weight in held)
            columns.append((amounts.gpu_ms, amounts.energy_mj, *_priced(prices)))
    gpus = GpuMinutes(*(ints([row[i] for row in columns]) for i in range(6)))
    return bills_of(gpus, Holders(*(ints([row[i] for row in holders]) for i in range(3))), len(index))


def _priced(prices: Prices) -> tuple[int | None, ...]:
    return prices.gpu_nusd_per_hour, prices.host_nusd_per_hour, prices.energy_nusd_per_kwh, prices.pue_micro


@dataclass(slots=True)
class _Amounts:
    gpu_ms: int
    energy_mj: int | None
    owners: list[Key]


_Places = tuple[str | None, str | None, str | None]


def _physical(one: Told, shared: set[str | None]) -> dict[tuple[str | None, _Places], _Amounts]:
    """Rows to price. A GPU with shares is one of them whoever's name its time is under, others one for each owner."""
    found: dict[tuple[str | None, _Places], _Amounts] = {}
    alone: dict[tuple[str | None, _Places], _Amounts] = {}
    for key, (gpu_ms, energy_mj) in in_order(one.minute.tables["gpu"]):
        use, owner, gpu_uuid, gpu_model, region, host = key
        places = (gpu_model, region, host)
        if gpu_uuid not in shared:
            alone[f"{use}\x1f{owner}\x1f{gpu_uuid}", places] = _Amounts(gpu_ms or 0, energy_mj, [key])
            continue
        held = found.setdefault((gpu_uuid, places), _Amounts(0, None, []))
        held.gpu_ms += gpu_ms or 0
        held.energy_mj = energy_mj if held.energy_mj is None else held.energy_mj + (energy_mj or 0)
    return found | alone


def _shares(one: Told) -> dict[str | None, list[tuple[Owner, int]]]:
    shares: dict[str | None, list[tuple[Owner, int]]] = {}
    for key, (weight,) in in_order(one.minute.tables["share"]):
        shares.setdefault(key[2], []).append((_owner(key), weight or 0))
    return shares


def _lines(told: Sequence[Told], index: dict[tuple[int, Owner], int]) -> tuple[list[Key], Lines]:
    """Names of the usage lines and the lines, sorted by bill and name."""
    rows = [
        (index[number, _owner(key)], key[2:], amounts)
        for number, one in enumerate(told)
        for key, amounts in in_order(one.minute.tables["usage"])
    ]
    rows.sort(key=lambda row: row[0])  # stable: names stay in order
    bill, failed = ints([row[0] for row in rows]), np.array([row[1][-1] != OK for row in rows], dtype=np.bool_)
    return [row[1] for row in rows], Lines(bill, failed, *(ints([row[2][i] for row in rows]) for i in (1, 3, 4)))


def _plain(column: np.ndarray) -> list[int | None]:
    return [None if value == UNKNOWN else value for value in column.tolist()]


def _part_rows(parts: Parts, names: list[Key]) -> list[PartRow]:
    nobody: Key = (None, None, None, None)
    columns = zip(
        parts.part.tolist(),
        parts.kind.tolist(),
        parts.line.tolist(),
        _plain(parts.cost_nusd),
        _plain(parts.energy_mj),
        _plain(parts.gpu_ms),
        strict=True,
    )
    return [
        PartRow(PARTS[part], KINDS[kind], *(nobody if line == NO_LINE else names[line]), *amounts)
        for part, kind, line, *amounts in columns
    ]


def _rows(
    told: Sequence[Told],
    owners: list[tuple[int, Owner]],
    bills: Bills,
    parts: list[PartRow],
    counts: np.ndarray,
    weights: Weights,
) -> list[CostRow]:
    columns = {name: _plain(getattr(bills, name)) for name in _BILL}
    stops = np.cumsum(counts).tolist()
    rows = []
    for i, (number, (use, owner)) in enumerate(owners):
        one = told[number]
        own = tuple(parts[stops[i] - counts[i] : stops[i]])
        head = (use, owner, one.group, one.minute_ms, one.version, one.revision, one.final, weights.version)
        bill = {name: column[i] for name, column in columns.items()}
        rows.append(CostRow(*head, parts=own, **bill))  # type: ignore[arg-type]
    return rows
