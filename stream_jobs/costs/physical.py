"""GPUs of the minutes to be billed: time by placement, gaps between readings filled, and who holds each.

Readings say how long each covers (``gpu_ms``), by ten seconds of a minute. Between the first and the last ten seconds
in which a GPU was read, time that no reading covers is a *gap*; a GPU read in the first (last) ten seconds of a minute
is taken to have been there from its start (to its end). A gap of ``GAP_MIN_MS`` or more is billed, to whoever
held the GPU that minute, by measured time, and flagged: ``estimated_ms``. Before the first and after the last reading
nothing is guessed.

Who holds a GPU: whoever's name its time is under, each for its own time. With ``share`` rows those, by weight. In MIG
mode its devices (rows with a parent), by slices times time, and the slices that nobody holds are idle; the time is that
of the GPU's own rows where there are any, else that of the device with most. A device with ``share`` rows of its own is
held by those, its slices times time shared out by their weights. An unknown size leaves the GPU without
prices, shared by time.

Of a GPU that several hold, everybody that a row names is a holder, those who pay nothing with a weight of 0, and so is
the idle bill of its devices' host: whoever was billed before the last rows came is emitted again then, with nothing, so
that the last rows emitted do not depend on the order in which rows come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from schemas.limits import MINUTE_MS, WINDOW_MS
from schemas.rows.gpu_shares import SHARES_AMOUNTS
from stream_jobs.costs.apportion import added, apportion
from stream_jobs.costs.bill import side_by_side, slices_held, slices_of
from stream_jobs.costs.minute_buffer import GPU_KEY, IDLE
from stream_jobs.costs.rows import Rows, Word, grouped, heads, indexes, sums
from stream_jobs.costs.wide import UNKNOWN, Flags, Ints, ints

GAP_MIN_MS = 1_000
"""A smaller one is readings that come a little early or late."""
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
    gpu_ms = np.maximum(gpu_ms, 0)
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


def held(rows: Placed, shares: tuple[Ints, Rows], words: Sequence[Word], by: str) -> Held:
    """Who holds which GPU. ``shares``: number of the emitted minute and rows of the buffer's table ``share``; all words
    are places in ``words``, which are sorted. ``by``: what shares are of, ``memory`` or ``sm``."""
    share_minute, share = shares
    physical = np.where(rows.parent > 0, rows.parent, rows.gpu)
    special = set(_keys(rows.minute_no, rows.group, physical, rows.parent > 0))
    special |= set(_keys(share_minute, share.keys[0], share.keys[3], np.ones(len(share), dtype=np.bool_)))
    if not special:
        return _alone(rows)
    is_special = np.array([key in special for key in _keys(rows.minute_no, rows.group, physical)], dtype=np.bool_)
    found = [_alone(rows.of(~is_special))]
    for key in sorted(special):
        of = np.flatnonzero(is_special & (rows.minute_no == key[0]) & (rows.group == key[1]) & (physical == key[2]))
        gpus = np.append(rows.gpu[of], key[2])
        with_shares = (share_minute == key[0]) & (share.keys[0] == key[1]) & np.isin(share.keys[3], gpus)
        if len(of):
            found.append(_together(rows.of(of), key, share.of(with_shares), words, by))
    return _joined(found)


def _keys(minute_no: Ints, group: Ints, gpu: Ints, which: Flags | slice = slice(None)) -> list[tuple[int, int, int]]:
    return list(zip(minute_no[which].tolist(), group[which].tolist(), gpu[which].tolist(), strict=True))


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


def _together(rows: Placed, key: tuple[int, int, int], share: Rows, words: Sequence[Word], by: str) -> Held:
    """One physical GPU that several hold."""
    own, divided = rows.of(rows.parent == 0), rows.of(rows.parent > 0)
    of = own if len(own) else divided.of(divided.gpu == divided.gpu[np.argmax(divided.gpu_ms)])
    gpu_ms, estimated_ms = int(of.gpu_ms.sum()), int(of.estimated_ms.sum())
    energy = (own if len(own) else divided).energy_mj
    known = energy[energy != UNKNOWN]
    by_gpu = {gpu: _shares(key, share.of(share.keys[3] == gpu), by) for gpu in set(share.keys[3].tolist())}
    weights, priced = by_gpu.get(key[2], {}), True
    if len(divided):
        weights, priced = _slices(divided, gpu_ms, key, words, by_gpu)
    holders = sorted({**dict.fromkeys(_named(rows, key, share), 0), **weights}.items())
    names = np.array([owner for owner, _ in holders], dtype=np.int64)
    return Held(
        minute_no=of.minute_no[:1],
        model=of.model[:1],
        region=of.region[:1],
        gpu_ms=ints([gpu_ms]),
        energy_mj=ints([int(known.sum()) if len(known) else None]),
        estimated_ms=ints([estimated_ms]),
        priced=np.array([priced]),
        gpu=np.zeros(len(holders), dtype=np.int64),
        owners=(names[:, 0], names[:, 1], names[:, 2], names[:, 3]),
        weight=np.array([weight for _, weight in holders], dtype=np.int64),
    )


def _named(rows: Placed, key: tuple[int, int, int], share: Rows) -> list[Owner]:
    """Everybody that a row of the GPU names, and the idle bill of the host of each of its devices."""
    pairs = {*zip(rows.use.tolist(), rows.owner.tolist(), strict=True), *_share_owners(share)}
    pairs |= {(IDLE, host) for host in rows.host[rows.parent > 0].tolist()}
    return [(key[0], key[1], use, owner) for use, owner in pairs]


def _share_owners(share: Rows) -> list[tuple[int, int]]:
    return list(zip(share.keys[1].tolist(), share.keys[2].tolist(), strict=True))


_SUM_OF = {"memory": "memory_bytes", "sm": "sm_util_pct"}


def _shares(key: tuple[int, int, int], share: Rows, by: str) -> dict[Owner, int]:
    """Holders side by side; equal weights where a reading of anybody's is missing."""
    found = dict(zip(SHARES_AMOUNTS, (column.tolist() for column in share.amounts), strict=True))
    readings_of = zip(found["readings"], found[f"{by}_readings"], found[_SUM_OF[by]], strict=True)
    weights = side_by_side([amount if known == readings else None for readings, known, amount in readings_of])
    pairs = zip(_share_owners(share), weights, strict=True)
    return {(key[0], key[1], use, owner): weight for (use, owner), weight in pairs}


def _slices(
    devices: Placed,
    gpu_ms: int,
    key: tuple[int, int, int],
    words: Sequence[Word],
    shares: Mapping[int, dict[Owner, int]],
) -> tuple[dict[Owner, int], bool]:
    """Holders of a divided GPU, and whether their sizes are known. ``shares``: weights of those side by side on a
    device, by device."""
    sizes = [slices_held((words[profile] or b"").decode(errors="replace")) for profile in devices.profile.tolist()]
    owners = list(zip(*(column.tolist() for column in devices.owners()), strict=True))
    weights: dict[Owner, int] = {}
    known = all(size is not None for size in sizes)
    for gpu, owner, size, ms in zip(devices.gpu.tolist(), owners, sizes, devices.gpu_ms.tolist(), strict=True):
        for holder, weight in _side_by_side(ms * ((size or 0) if known else 1), shares.get(gpu) or {owner: 1}):
            weights[holder] = weights.get(holder, 0) + weight
    if known:
        model = (words[devices.model[0]] or b"").decode(errors="replace")
        rest = slices_of(model) * gpu_ms - sum(weights.values())
        nobody = (key[0], key[1], IDLE, int(devices.host[0]))
        weights[nobody] = weights.get(nobody, 0) + max(0, rest)
    return weights if any(weights.values()) else {owners[0]: 1}, known


def _side_by_side(whole: int, weights: Mapping[Owner, int]) -> list[tuple[Owner, int]]:
    """A device's weight among its holders, to the slice-millisecond; holders in their order."""
    owners = sorted(weights)
    if len(owners) == 1:
        return [(owners[0], whole)]
    parts = apportion(ints([whole]), ints([weights[owner] for owner in owners]), np.array([0, len(owners)]))
    return list(zip(owners, parts.tolist(), strict=True))


def _joined(parts: Sequence[Held]) -> Held:
    before = np.cumsum([0, *(len(part.minute_no) for part in parts)])[:-1]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS}
    gpu = np.concatenate([part.gpu + first for part, first in zip(parts, before, strict=True)])
    owners = [np.concatenate([part.owners[i] for part in parts]) for i in range(4)]
    return Held(**columns, gpu=gpu, owners=(owners[0], owners[1], owners[2], owners[3]))


_COLUMNS = ("minute_no", "model", "region", "gpu_ms", "energy_mj", "estimated_ms", "priced", "weight")
