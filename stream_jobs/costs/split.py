"""A bill split among those who used it: parts that add up to the bill, to the nano-dollar, always.

1. GPU time in which the engine was starting (loading weights, compiling) is ``__overhead__``, kind ``startup``.
2. The rest goes to the usage lines of the minute, each (line, kind) by its weight: amount times ``Weights``. Lines of
   requests that failed keep their tenant but are ``__overhead__``: nobody got an answer for that money.
3. Where no line has a weight, one part takes it all: ``__wasted__`` (a model was loaded, no tokens),
   ``__unattributed__`` (requests ran, but their tokens are unknown), ``__idle__`` (no model), ``__training__``.

Time, energy, emissions and money of a bill are shared out by the same weights, each by largest remainder, ties to the
line that stands first: callers sort lines by name, so that the order of arrival changes nothing. A bill without any
price keeps its parts, as ``__unpriced__`` with a cost that is ``UNKNOWN``; where some of its terms had none, one such
part stands beside the others.

Weights, version 1: an uncached prompt token 1, a generated token 4, a token kept in the KV cache for ten seconds 1
(times a million, for whole numbers). Why: prefill is limited by arithmetic and decode by memory bandwidth, so a token
generated holds the GPU several times longer than a token read; hosted models ask 4 to 5 times as much for output (the
median of the list prices in ``data/price_map`` is 4). Cache occupancy is what long contexts take from others while they
wait; with a thousand tokens of prompt and two hundred of output at 20 ms each, the three kinds get 45, 36 and 20 %.
Cached tokens have no weight of their own: they save the prefill and pay by occupancy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schemas.rows.costs import KINDS, PARTS
from stream_jobs.costs.apportion import added, apportion
from stream_jobs.costs.bill import Bills
from stream_jobs.costs.wide import UNKNOWN, Flags, Ints

REQUEST, OVERHEAD, WASTED, UNATTRIBUTED, IDLE, TRAINING, UNPRICED = range(len(PARTS))
STARTUP, HELD = KINDS.index("startup"), KINDS.index("held")
OWNERS = {"engine": WASTED, "idle": IDLE, "training": TRAINING}
"""What a bill's GPUs are for, and the part that takes it when there was no usage."""
NO_LINE = -1


@dataclass(frozen=True, slots=True)
class Weights:
    """What a unit of each kind weighs; whole numbers. ``version`` stands in every row split by them.

    The amounts of an engine and minute times their weights are kept below 2**61: with version 1 that is 575 billion
    generated tokens, or 380 billion tokens in the cache all minute long. Where somebody reports more, all weights of
    that bill are divided by the same power of two, and what is below 1 then takes no part.
    """

    version: int
    prefill_token: int
    decode_token: int
    kv_token_ms: int
    shared_by: str = "memory"
    """By what engines side by side pay for a GPU: ``memory`` or ``sm``."""


WEIGHTS = Weights(version=1, prefill_token=1_000_000, decode_token=4_000_000, kv_token_ms=100)


@dataclass(frozen=True, slots=True)
class Lines:
    """Usage of (bill, tenant, model, class, status class), sorted by ``bill``, within it by name.

    ``UNKNOWN``: unknown.
    """

    bill: Ints
    failed: Flags
    prefill_tokens: Ints
    decode_tokens: Ints
    kv_token_ms: Ints


@dataclass(frozen=True, slots=True)
class Parts:
    """Columns sorted by ``bill``: index into ``PARTS``, row of ``Lines`` (``NO_LINE``: none), index into ``KINDS``."""

    bill: Ints
    part: Ints
    line: Ints
    kind: Ints
    cost_nusd: Ints
    energy_mj: Ints
    carbon_ug: Ints
    gpu_ms: Ints


def split(bills: Bills, unused: Ints, startup_ms: Ints, lines: Lines, weights: Weights = WEIGHTS) -> Parts:
    """Parts of all bills. ``unused`` (see ``OWNERS``) and ``startup_ms`` (of ``gpu_ms``) are columns like the bills'.

    Of each bill ``cost_nusd`` of its parts add up to ``total_nusd``, ``energy_mj``, ``carbon_ug`` and ``gpu_ms`` to
    its own; all are ``UNKNOWN`` where that is. A part of no weight is left out.
    """
    claims = _claims(len(bills.total_nusd), unused, lines, weights)
    starting = np.minimum(startup_ms, bills.gpu_ms)
    # Start-up takes its share of the time first; each half is then shared out on its own.
    columns = [_shared(column, claims, starting, bills.gpu_ms) for column in _totals(bills)]
    unpriced = bills.total_nusd == UNKNOWN
    part = np.where(unpriced[claims.bill], UNPRICED, claims.part)
    keep = (claims.weight > 0) | ((claims.kind == STARTUP) & (starting > 0)[claims.bill])
    parts = Parts(claims.bill, part, claims.line, claims.kind, *columns)
    return _with_unpriced(_taken(parts, keep), bills)


@dataclass(frozen=True, slots=True)
class _Claims:
    """Who may take of a bill, sorted by bill: of each first its start-up (weight 0: it is served before)."""

    bill: Ints
    part: Ints
    line: Ints
    kind: Ints
    weight: Ints


def _claims(bills: int, unused: Ints, lines: Lines, weights: Weights) -> _Claims:
    amounts = _weighed(lines, weights, bills)
    rows, every = len(lines.bill), np.arange(bills, dtype=np.int64)
    used = added(np.sum(amounts, axis=0, dtype=np.int64).reshape(-1), lines.bill, bills) > 0
    silent = np.zeros(bills, dtype=np.bool_)
    known = (lines.prefill_tokens != UNKNOWN) | (lines.decode_tokens != UNKNOWN)
    silent[lines.bill[~known]] = True
    rest = np.where(silent & (unused == WASTED), UNATTRIBUTED, unused)
    number = np.repeat(np.arange(rows, dtype=np.int64), 3)
    none = np.full(bills, NO_LINE, dtype=np.int64)
    bill = np.concatenate([every, lines.bill[number], every])
    part = np.concatenate([np.full(bills, OVERHEAD), np.where(lines.failed[number], OVERHEAD, REQUEST), rest])
    kind = np.concatenate([np.full(bills, STARTUP), np.tile(np.arange(3), rows), np.full(bills, HELD)])
    weight = np.concatenate([np.zeros(bills, dtype=np.int64), np.stack(amounts, axis=1).reshape(-1), 1 * ~used])
    order = np.argsort(bill, kind="stable")
    line = np.concatenate([none, number, none])
    return _Claims(bill[order], part[order], line[order], kind[order], weight[order])


def _weighed(lines: Lines, weights: Weights, bills: int) -> list[Ints]:
    """What each line weighs in each kind."""
    kinds = (
        (lines.prefill_tokens, weights.prefill_token),
        (lines.decode_tokens, weights.decode_token),
        (lines.kv_token_ms, weights.kv_token_ms),
    )
    known = [(np.where(amounts == UNKNOWN, 0, amounts), weight) for amounts, weight in kinds]
    sums = sum(
        np.bincount(lines.bill, amounts.astype(np.float64) * weight, minlength=bills) for amounts, weight in known
    )
    shifts = np.maximum(np.ceil(np.log2(np.maximum(sums, 1.0))) - 61, 0).astype(np.int64)[lines.bill]
    found = [amounts * weight for amounts, weight in known]
    for row in np.flatnonzero(shifts):
        for column, (amounts, weight) in zip(found, known, strict=True):
            column[row] = int(amounts[row]) * weight >> int(shifts[row])
    return found


def _totals(bills: Bills) -> tuple[Ints, Ints, Ints, Ints]:
    return bills.total_nusd, bills.energy_mj, bills.carbon_ug, bills.gpu_ms


def _shared(totals: Ints, claims: _Claims, starting: Ints, gpu_ms: Ints) -> Ints:
    """The column of totals, claim by claim."""
    bills = len(totals)
    known = totals != UNKNOWN
    amounts = np.where(known, totals, 0)
    halves = np.stack([starting, np.where(gpu_ms > starting, gpu_ms - starting, 1 * (starting == 0))], axis=1)
    first = apportion(amounts, halves.reshape(-1), np.arange(bills + 1) * 2)
    starts = np.searchsorted(claims.bill, np.arange(bills + 1))
    parts = apportion(first[1::2], claims.weight, starts)
    parts[starts[:-1]] += first[::2]
    return np.where(known[claims.bill], parts, UNKNOWN)


def _taken(parts: Parts, keep: Flags) -> Parts:
    return Parts(*(getattr(parts, name)[keep] for name in Parts.__slots__))


def _with_unpriced(parts: Parts, bills: Bills) -> Parts:
    """One part more for each bill that is priced in part: what is missing has no cost, and is not hidden."""
    lacking = (bills.unpriced_gpu_ms > 0) | (bills.unpriced_energy_mj > 0)
    bill = np.flatnonzero(lacking & (bills.total_nusd != UNKNOWN)).astype(np.int64)
    values = {"bill": bill, "part": np.full_like(bill, UNPRICED), "line": np.full_like(bill, NO_LINE)}
    values |= {"kind": np.full_like(bill, HELD), "cost_nusd": np.full_like(bill, UNKNOWN)}
    values |= {"energy_mj": np.zeros_like(bill), "gpu_ms": np.zeros_like(bill)}
    values |= {"carbon_ug": np.where(bills.carbon_ug[bill] == UNKNOWN, UNKNOWN, 0)}
    joined = {name: np.concatenate([getattr(parts, name), values[name]]) for name in Parts.__slots__}
    order = np.argsort(joined["bill"], kind="stable")
    return Parts(**{name: column[order] for name, column in joined.items()})
