"""GPUs of the minutes to be billed: time by placement, gaps between readings filled, and who holds each.

Readings say how long each covers (``gpu_ms``), by ten seconds of a minute. Between the first and the last ten seconds
in which a GPU was read, time that no reading covers is a *gap*; a GPU read in the first (last) ten seconds of a minute
is taken to have been there from its start (to its end). A gap of ``GAP_MIN_MS`` or more is billed, to whoever
held the GPU that minute, by measured time, and flagged: ``estimated_ms``. Before the first and after the last reading
nothing is guessed.

Who holds a GPU: whoever's name its time is under, each for its own time. With ``share`` rows those, by weight. In MIG
mode its devices (rows with a parent), by slices times time, and the slices that nobody holds are idle; the time is that
of the GPU's own rows where there are any, else that of the device with most measured time. A device with ``share`` rows
of its own is held by those, its slices times time shared out by their weights. An unknown size leaves the GPU without
prices, shared by time. Energy of a minute that is more than one reading may report is no measurement.

Of a GPU that several hold, everybody that a row names is a holder, those who pay nothing with a weight of 0, and so is
the idle bill of its devices' host: whoever was billed before the last rows came is emitted again then, with nothing, so
that the last rows emitted do not depend on the order in which rows come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from schemas.events.event_fields import AMOUNT_MAX
from schemas.limits import MINUTE_MS, WINDOW_MS
from schemas.rows.gpu_shares import SHARES_AMOUNTS
from stream_jobs.costs.apportion import added, apportion
from stream_jobs.costs.bill import side_by_side, slices_held, slices_of
from stream_jobs.costs.minute_buffer import GPU_KEY, IDLE
from stream_jobs.costs.rows import Rows, Word, grouped, heads, indexes, sums
from stream_jobs.costs.wide import UNKNOWN, Flags, Ints, ints

GAP_MIN_MS = 1_000
"""A smaller one is readings that come a little early or late."""
WEIGHT_BITS = 61
"""Weights of a GPU are fewer together: what ``apportion`` shares by fast."""
WINDOWS = MINUTE_MS // WINDOW_MS

Owner = tuple[int, int, int, int]
"""Number of the emitted minute, group, use, owner."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Columns, one row for each GPU, or MIG device, and who held it: codes of words, and amounts. ``estimated_ms`` and
    ``startup_ms`` are parts of ``gpu_ms``."""

    minute_no: Ints
    group: Ints
    use: Ints
    owner: Ints
    gpu: Ints
    model: Ints
    region: Ints
    host: Ints
    parent: Ints
    profile: Ints
    gpu_ms: Ints
    energy_mj: Ints
    estimated_ms: Ints
    startup_ms: Ints

    def owners(self) -> list[Ints]:
        """Whose bill each row is of."""
        return [self.minute_no, self.group, self.use, self.owner]

    def __len__(self) -> int:
        return len(self.minute_no)

    def of(self, which: Ints | Flags) -> Placed:
        """These rows."""
        return Placed(*(getattr(self, name)[which] for name in Placed.__slots__))


@dataclass(frozen=True, slots=True)
class Held:
    """Physical GPUs to be priced, and who holds each: ``gpu`` (row of the columns before it) rises."""

    minute_no: Ints
    model: Ints
    region: Ints
    gpu_ms: Ints
    energy_mj: Ints
    estimated_ms: Ints
    priced: Flags
    gpu: Ints
    owners: tuple[Ints, Ints, Ints, Ints]
    weight: Ints


def placed(minute_no: Ints, rows: Rows) -> Placed:
    """GPU rows of the buffer without their windows: time by placement, gaps filled."""
    assert GPU_KEY[-1] == "window"
    *keys, window = rows.keys
    columns = [minute_no, *keys]
    groups = grouped(columns)
    first = heads(groups)
    whole = [column[first] for column in columns]
    gpu_ms, energy_mj, startup_ms = (sums(groups, amount) for amount in rows.amounts)
    gpu_ms, energy_mj = np.maximum(gpu_ms, 0), np.where(energy_mj > AMOUNT_MAX, UNKNOWN, energy_mj)
    devices = grouped([minute_no, rows.keys[0], rows.keys[1 + GPU_KEY.index("gpu_uuid")]])
    device = indexes(devices)
    gaps = _gaps(device, window, rows.amounts[0], len(devices))
    estimated_ms = _shared_gaps(gaps, device[first], gpu_ms)
    amounts = gpu_ms + estimated_ms, energy_mj, estimated_ms, startup_ms
    return Placed(**dict(zip(Placed.__slots__, (*whole, *amounts), strict=True)))


def _gaps(device: Ints, window: Ints, gpu_ms: Ints, devices: int) -> Ints:
    """Time of each device that no reading covers."""
    cell = device * WINDOWS + window
    covered = added(np.maximum(gpu_ms, 0), cell, devices * WINDOWS).reshape(devices, WINDOWS)
    read = (np.bincount(cell, minlength=devices * WINDOWS) > 0).reshape(devices, WINDOWS)
    first = np.argmax(read, axis=1)
    last = WINDOWS - 1 - np.argmax(read[:, ::-1], axis=1)
    start, stop = np.where(first == 0, 0, first + 1), np.where(last == WINDOWS - 1, WINDOWS, last)
    number = np.arange(WINDOWS)
    inside = (number >= start[:, None]) & (number < stop[:, None])
    gaps = inside.sum(axis=1) * WINDOW_MS - np.where(inside, covered, 0).sum(axis=1)
    return np.where(gaps >= GAP_MIN_MS, gaps, 0).astype(np.int64)


def _shared_gaps(gaps: Ints, device: Ints, gpu_ms: Ints) -> Ints:
    """The gap of each row's device, shared by measured time; equally where none was measured."""
    order = np.argsort(device, kind="stable")
    starts = np.searchsorted(device[order], np.arange(len(gaps) + 1))
    timeless = added(gpu_ms, device, len(gaps)) == 0
    weights = np.where(timeless[device], 1, gpu_ms)[order]
    found = np.empty_like(gpu_ms)
    found[order] = apportion(gaps, weights, starts)
    return found


class _Row(NamedTuple):
    """A row of ``Placed``."""

    minute_no: int
    group: int
    use: int
    owner: int
    gpu: int
    model: int
    region: int
    host: int
    parent: int
    profile: int
    gpu_ms: int
    energy_mj: int
    estimated_ms: int
    startup_ms: int


class _Share(NamedTuple):
    """A row of the table ``share``: who holds how much; None where a reading is missing."""

    use: int
    owner: int
    amount: int | None


Gpu = tuple[int, int, int]
"""Number of the emitted minute, group, GPU."""


def held(rows: Placed, shares: tuple[Ints, Rows], words: Sequence[Word], by: str) -> Held:
    """Who holds which GPU. ``shares``: number of the emitted minute and rows of the buffer's table ``share``; all words
    are places in ``words``, which are sorted. ``by``: what shares are of, ``memory`` or ``sm``."""
    share_minute, share = shares
    physical = np.where(rows.parent > 0, rows.parent, rows.gpu)
    every = _keys(rows.minute_no, rows.group, physical)
    shares_of: dict[Gpu, list[_Share]] = {}
    for key, one in zip(_keys(share_minute, share.keys[0], share.keys[3]), _shares(share, by), strict=True):
        shares_of.setdefault(key, []).append(one)
    several = shares_of.keys() | {key for key, parent in zip(every, rows.parent.tolist(), strict=True) if parent}
    if not several:
        return _alone(rows)
    is_shared = np.array([key in several for key in every], dtype=np.bool_)
    columns = [getattr(rows, name)[is_shared].tolist() for name in _Row._fields]
    rows_of: dict[Gpu, list[_Row]] = {}
    for key, row in zip((key for key in every if key in several), map(_Row, *columns), strict=True):
        rows_of.setdefault(key, []).append(row)
    together = [_together(rows_of[key], key, shares_of, words) for key in sorted(rows_of)]
    return _joined(_alone(rows.of(~is_shared)), together)


def _keys(minute_no: Ints, group: Ints, gpu: Ints) -> list[Gpu]:
    return list(zip(minute_no.tolist(), group.tolist(), gpu.tolist(), strict=True))


_SUM_OF = {"memory": "memory_bytes", "sm": "sm_util_pct"}


def _shares(share: Rows, by: str) -> list[_Share]:
    found = dict(zip(SHARES_AMOUNTS, (column.tolist() for column in share.amounts), strict=True))
    readings_of = zip(found["readings"], found[f"{by}_readings"], found[_SUM_OF[by]], strict=True)
    amounts = [amount if known == readings else None for readings, known, amount in readings_of]
    return list(map(_Share, share.keys[1].tolist(), share.keys[2].tolist(), amounts))


def _alone(rows: Placed) -> Held:
    every = np.arange(len(rows), dtype=np.int64)
    minute_no, group, use, owner = rows.owners()
    return Held(
        minute_no=minute_no,
        model=rows.model,
        region=rows.region,
        gpu_ms=rows.gpu_ms,
        energy_mj=rows.energy_mj,
        estimated_ms=rows.estimated_ms,
        priced=np.ones(len(rows), dtype=np.bool_),
        gpu=every,
        owners=(minute_no, group, use, owner),
        weight=np.ones(len(rows), dtype=np.int64),
    )


class _Together(NamedTuple):
    """A physical GPU that several hold; its columns are those of ``Held``."""

    minute_no: int
    model: int
    region: int
    gpu_ms: int
    energy_mj: int
    estimated_ms: int
    priced: bool
    holders: list[tuple[Owner, int]]


def _together(
    rows: Sequence[_Row], key: Gpu, shares_of: Mapping[Gpu, Sequence[_Share]], words: Sequence[Word]
) -> _Together:
    """One physical GPU that several hold. ``shares_of``: shares of all GPUs and devices."""
    own, divided = [row for row in rows if not row.parent], [row for row in rows if row.parent]
    of = own or _longest(divided)
    gpu_ms = sum(row.gpu_ms for row in of)
    known = [row.energy_mj for row in own or divided if row.energy_mj != UNKNOWN]
    shares = {gpu: shares_of.get((*key[:2], gpu), ()) for gpu in {key[2], *(row.gpu for row in rows)}}
    by_gpu = {gpu: _weighed(key, share) for gpu, share in shares.items()}
    weights, priced = by_gpu[key[2]], True
    if divided:
        weights, priced = _slices(divided, gpu_ms, key, words, by_gpu)
    named = _named(rows, key, [one for share in shares.values() for one in share])
    return _Together(
        minute_no=of[0].minute_no,
        model=of[0].model,
        region=of[0].region,
        gpu_ms=gpu_ms,
        energy_mj=sum(known) if known else UNKNOWN,
        estimated_ms=sum(row.estimated_ms for row in of),
        priced=priced,
        holders=sorted({**dict.fromkeys(named, 0), **weights}.items()),
    )


def _longest(divided: Sequence[_Row]) -> list[_Row]:
    """The rows of the device with most measured time; of several the one with most time, then the first."""
    rows_of: dict[int, list[_Row]] = {}
    for row in divided:
        rows_of.setdefault(row.gpu, []).append(row)

    def time_of(device: int) -> tuple[int, int, int]:
        gpu_ms = sum(row.gpu_ms for row in rows_of[device])
        return gpu_ms - sum(row.estimated_ms for row in rows_of[device]), gpu_ms, -device

    return rows_of[max(rows_of, key=time_of)]


def _named(rows: Sequence[_Row], key: Gpu, shares: Sequence[_Share]) -> set[Owner]:
    """Everybody that a row of the GPU names, and the idle bill of the host of each of its devices."""
    pairs = {(row.use, row.owner) for row in rows} | {(one.use, one.owner) for one in shares}
    pairs |= {(IDLE, row.host) for row in rows if row.parent}
    return {(*key[:2], use, owner) for use, owner in pairs}


def _weighed(key: Gpu, shares: Sequence[_Share]) -> dict[Owner, int]:
    """Holders side by side; equal weights where a reading of anybody's is missing."""
    weights = side_by_side([one.amount for one in shares])
    return _fitting({(*key[:2], one.use, one.owner): weight for one, weight in zip(shares, weights, strict=True)})


def _fitting(weights: dict[Owner, int]) -> dict[Owner, int]:
    """The weights, divided by a power of two where together they have more than ``WEIGHT_BITS``."""
    shift = max(0, sum(weights.values()).bit_length() - WEIGHT_BITS)
    return {owner: weight >> shift for owner, weight in weights.items()} if shift else weights


def _slices(
    devices: Sequence[_Row],
    gpu_ms: int,
    key: Gpu,
    words: Sequence[Word],
    shares: Mapping[int, dict[Owner, int]],
) -> tuple[dict[Owner, int], bool]:
    """Holders of a divided GPU, and whether their sizes are known. ``shares``: weights of those side by side on a
    device, by device."""
    sizes = [slices_held(_text(words, row.profile)) for row in devices]
    weights: dict[Owner, int] = {}
    known = all(size is not None for size in sizes)
    for row, size in zip(devices, sizes, strict=True):
        whole = row.gpu_ms * ((size or 0) if known else 1)
        for holder, weight in _side_by_side(whole, shares[row.gpu] or {row[:4]: 1}):
            weights[holder] = weights.get(holder, 0) + weight
    if known:
        rest = slices_of(_text(words, devices[0].model)) * gpu_ms - sum(weights.values())
        nobody = (*key[:2], IDLE, devices[0].host)
        weights[nobody] = weights.get(nobody, 0) + max(0, rest)
    return _fitting(weights) if any(weights.values()) else {devices[0][:4]: 1}, known


def _text(words: Sequence[Word], place: int) -> str:
    return (words[place] or b"").decode(errors="replace")


def _side_by_side(whole: int, weights: Mapping[Owner, int]) -> list[tuple[Owner, int]]:
    """A device's weight among its holders, to the slice-millisecond; holders in their order."""
    owners = sorted(weights)
    if len(owners) == 1:
        return [(owners[0], whole)]
    parts = apportion(ints([whole]), ints([weights[owner] for owner in owners]), np.array([0, len(owners)]))
    return list(zip(owners, parts.tolist(), strict=True))


def _joined(alone: Held, together: Sequence[_Together]) -> Held:
    columns = {
        name: np.append(getattr(alone, name), np.array([getattr(one, name) for one in together], dtype=dtype))
        for name, dtype in _COLUMNS.items()
    }
    first = len(alone.minute_no)
    gpus = ints([number for number, one in enumerate(together, first) for _ in one.holders])
    owners = ints([owner for one in together for owner, _ in one.holders]).reshape(-1, 4)
    minute_no, group, use, of = (np.append(mine, owners[:, i]) for i, mine in enumerate(alone.owners))
    return Held(
        **columns,
        gpu=np.append(alone.gpu, gpus),
        owners=(minute_no, group, use, of),
        weight=np.append(alone.weight, ints([weight for one in together for _, weight in one.holders])),
    )


_COLUMNS = {
    **dict.fromkeys(("minute_no", "model", "region", "gpu_ms", "energy_mj", "estimated_ms"), np.int64),
    "priced": np.bool_,
}
