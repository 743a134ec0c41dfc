"""Rows of costs from the buffer: minutes priced, billed and split, all at once. One row holds a bill and all its parts.

Several holders of a GPU pay by their weights (``physical``); else each pays for the time under its own name, so that an
engine that moved within a minute leaves the rest to the next one. Usage of an engine without GPUs in that minute makes
a row too: its bill is null, and its lines stand there as ``__unpriced__``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from schemas.codec import native
from schemas.codec.block import Block, Column, Labels, Lists, Numbers
from schemas.rows.costs import COSTS, KINDS, PARTS, USES
from schemas.rows.tables import DEFINITION_VERSION
from stream_jobs.costs.apportion import added
from stream_jobs.costs.bill import Bills, GpuMinutes, Holders, bills_of, shared_among
from stream_jobs.costs.minute_buffer import TABLES, USAGE_KEY, EmittedMinute
from stream_jobs.costs.physical import Held, Placed, held, placed
from stream_jobs.costs.rows import Rows, Word, Words, grouped, heads, indexes, joined
from stream_jobs.costs.split import NO_LINE, WEIGHTS, Lines, Parts, Weights, split
from stream_jobs.costs.split import OWNERS as UNUSED
from stream_jobs.costs.wide import UNKNOWN, Flags, Ints, ints, multiply_divide
from stream_jobs.prices.model import Price
from stream_jobs.prices.model import Prices as PriceFile
from stream_jobs.windows.emit import compacted

OK = b"ok"
"""The status of requests that did not fail."""
_WORDS_OF = {"gpu": (1, 2, 3, 4, 5, 6, 7), "share": (1, 2), "usage": (1, 2, 3, 4, 5)}
"""Which columns of a table's key, behind the group, are words."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of a GPU at a moment; None: there is none."""

    gpu_nusd_per_hour: int | None
    host_nusd_per_hour: int | None
    """For each GPU of the host."""
    energy_nusd_per_kwh: int | None
    pue_micro: int | None
    grid_ugco2e_per_kwh: int | None


PriceOf = Callable[[str | None, str | None, int], Prices]
"""By product name of the GPU, region and start of the minute (ms)."""


def cost_block(
    emitted: Sequence[EmittedMinute], price_of: PriceOf, prices_version: str = "", weights: Weights = WEIGHTS
) -> Block | None:
    """A block of ``COSTS``, a row for each owner of each emitted minute, in their order, owners by group and name;
    None where nothing is emitted."""
    runs = [list(run) for _, run in groupby(emitted, key=lambda one: (id(one.words), id(one.group_words)))]
    blocks = [_Account(run, price_of, prices_version, weights).block() for run in runs]
    return native.concat(COSTS.fields, blocks) if blocks else None


def unpriced_ms(block: Block) -> dict[str, int]:
    """GPU time without a price by type of GPU, of the bills of a block of ``COSTS``; of several types under no name."""
    lacking, models = block.columns["unpriced_gpu_ms"], block.columns["gpu_model"]
    assert isinstance(lacking, Numbers)
    assert isinstance(models, Labels)
    found: dict[str, int] = {}
    for row in np.flatnonzero(lacking.values).tolist():
        model = (models.words[models.codes[row]] or b"").decode(errors="replace")
        found[model] = found.get(model, 0) + int(lacking.values[row])
    return found


class _Account:
    """Minutes whose words are of one list. Words are numbers by their order from here on: null is 0 and comes first."""

    def __init__(
        self, emitted: Sequence[EmittedMinute], price_of: PriceOf, prices_version: str, weights: Weights
    ) -> None:
        self._emitted, self._price_of = emitted, price_of
        self._prices_version, self._weights = prices_version, weights
        self._minutes = ints([one.minute_ms for one in emitted])
        found = {name: _joined(emitted, name) for name in TABLES}
        self.words, places = _in_order(
            emitted[0].words, [found[name][1].keys[1 + i] for name, which in _WORDS_OF.items() for i in which]
        )
        self.groups, group_places = _in_order(emitted[0].group_words, [rows.keys[0] for _, rows in found.values()])
        self._group_codes = [group_places[one.groups] for one in emitted]
        self._tables = {
            name: (number, _placed_words(rows, _WORDS_OF[name], places, group_places))
            for name, (number, rows) in found.items()
        }

    def block(self) -> Block:
        gpus = placed(*self._tables["gpu"])
        holding = held(gpus, self._tables["share"], self.words, self._weights.shared_by)
        owners, indexed = self._owners(holding)
        bills, estimated_ms = self._bills(holding, indexed["gpu"], len(owners[0]))
        names, lines = self._lines(indexed["usage"])
        starting = _starting(gpus, holding, indexed["gpu"], bills.gpu_ms)
        unused = ints([UNUSED[use] for use in USES])[owners[2]]
        parts = split(bills, unused, starting, lines, self._weights)
        columns = {
            **self._heads(owners),
            **{name: Numbers(*_nullable(getattr(bills, name))) for name in Bills.__slots__},
            "estimated_gpu_ms": Numbers(estimated_ms),
            **self._places(gpus, holding, indexed["gpu"], len(owners[0])),
            **self._line_columns(names, lines, len(owners[0])),
            **self._part_columns(parts, names, len(owners[0])),
        }
        return Block(len(owners[0]), {field.name: columns[field.name] for field in COSTS.fields})

    def _owners(self, holding: Held) -> tuple[list[Ints], dict[str, Ints]]:
        """Columns of all owners (minute, group, use, owner), sorted, and the owner of each row by table."""
        number, rows = self._tables["usage"]
        tables = {"gpu": list(holding.owners), "usage": [number, *rows.keys[:3]]}
        every = [np.concatenate(columns) for columns in zip(*tables.values(), strict=True)]
        groups = grouped(every)
        index, found, start = indexes(groups), {}, 0
        for name, columns in tables.items():
            found[name] = index[start : start + len(columns[0])]
            start += len(columns[0])
        return [column[heads(groups)] for column in every], found

    def _bills(self, holding: Held, owner: Ints, owners: int) -> tuple[Bills, Ints]:
        order = np.lexsort((owner, holding.gpu))
        holders = Holders(holding.gpu[order], owner[order], holding.weight[order])
        bills = bills_of(GpuMinutes(holding.gpu_ms, holding.energy_mj, *self._prices(holding)), holders, owners)
        estimated = shared_among(holding.estimated_ms, holders, owners)
        return bills, np.where(estimated == UNKNOWN, 0, estimated)

    def _prices(self, holding: Held) -> list[Ints]:
        """Columns as in ``Prices``; each (type, region, minute) is looked up once."""
        minute = self._minutes[holding.minute_no]
        groups = grouped([holding.model, holding.region, holding.minute_no])
        first = heads(groups)
        keys = zip(holding.model[first].tolist(), holding.region[first].tolist(), minute[first].tolist(), strict=True)
        looked_up = [self._price_of(self._text(model), self._text(region), at_ms) for model, region, at_ms in keys]
        index = indexes(groups)
        columns = [ints([getattr(prices, name) for prices in looked_up])[index] for name in Prices.__slots__]
        return [np.where(holding.priced, column, UNKNOWN) for column in columns]

    def _text(self, place: int) -> str | None:
        word = self.words[place]
        return None if word is None else word.decode(errors="replace")

    def _lines(self, owner: Ints) -> tuple[Rows, Lines]:
        """Usage lines sorted by bill and name, and what the split needs of them."""
        _, rows = self._tables["usage"]
        rows = rows.of(np.lexsort((*rows.keys[:2:-1], owner)))
        bill = np.sort(owner)
        status = rows.keys[1 + USAGE_KEY.index("status")]
        ok = self.words.index(OK) if OK in self.words else -1
        _, prefill, _, decode, kv = rows.amounts
        return rows, Lines(bill, status != ok, prefill, decode, kv)

    def _heads(self, owners: list[Ints]) -> dict[str, Column]:
        minute_no, group, use, owner = owners
        version, revision, final = (self._marks(name, minute_no, group) for name in ("version", "revision", "final"))
        rows = len(minute_no)
        return {
            "minute_ms": Numbers(self._minutes[minute_no]),
            "version": Numbers(version.astype("<u8")),
            "revision": Numbers(revision.astype("<u8")),
            "final": Numbers(final.astype("<u4")),
            "weights_version": Numbers(np.full(rows, self._weights.version, dtype="<u4")),
            "definition_version": Numbers(np.full(rows, DEFINITION_VERSION, dtype="<u4")),
            "use": Labels(use + 1, [None, *(word.encode() for word in USES)]),
            "owner": _labels(owner, self.words),
            "placement_group": _labels(group, self.groups),
            "prices_version": Labels(np.ones(rows, dtype=np.int64), [None, self._prices_version.encode()]),
        }

    def _marks(self, name: str, minute_no: Ints, group: Ints) -> Ints:
        found = np.empty(len(minute_no), dtype=np.int64)
        for number, one in enumerate(self._emitted):
            of = minute_no == number
            by_group = np.zeros(len(self.groups), dtype=np.int64)
            by_group[self._group_codes[number]] = getattr(one, name)
            found[of] = by_group[group[of]]
        return found

    def _places(self, gpus: Placed, holding: Held, owner: Ints, owners: int) -> dict[str, Column]:
        """Region, host and type of the GPUs of each bill, where all have the same."""
        own = _index_of(gpus.owners(), list(holding.owners), owner)
        known = own >= 0
        found: dict[str, Column] = {}
        for name, column in (("region", gpus.region), ("host", gpus.host), ("gpu_model", gpus.model)):
            least, most = np.full(owners, len(self.words)), np.full(owners, -1)
            np.minimum.at(least, own[known], column[known])
            np.maximum.at(most, own[known], column[known])
            found[name] = _labels(np.where(least == most, least, 0), self.words)
        return found

    def _line_columns(self, names: Rows, lines: Lines, bills: int) -> dict[str, Column]:
        ends = np.cumsum(np.bincount(lines.bill, minlength=bills))
        found: dict[str, Column] = {
            f"line_{name}": Lists(ends, _labels(key, self.words))
            for name, key in zip(USAGE_KEY[2:], names.keys[3:], strict=True)
        }
        amounts = dict(zip(TABLES["usage"][1], names.amounts, strict=True))
        found["line_requests"] = Lists(ends, Numbers(np.maximum(amounts.pop("requests"), 0)))
        return found | {f"line_{name}": Lists(ends, Numbers(*_nullable(column))) for name, column in amounts.items()}

    def _part_columns(self, parts: Parts, names: Rows, bills: int) -> dict[str, Column]:
        ends = np.cumsum(np.bincount(parts.bill, minlength=bills))
        nobody, line = parts.line == NO_LINE, np.maximum(parts.line, 0)
        found: dict[str, Column] = {
            "part_name": Lists(ends, Labels(parts.part + 1, [None, *(word.encode() for word in PARTS)])),
            "part_kind": Lists(ends, Labels(parts.kind + 1, [None, *(word.encode() for word in KINDS)])),
            "part_amount": Lists(ends, Numbers(*_nullable(_amounts(parts, names)))),
        }
        for name, key in zip(USAGE_KEY[2:], names.keys[3:], strict=True):
            taken = key[line] if len(key) else np.zeros_like(line)
            found[f"part_{name}"] = Lists(ends, _labels(np.where(nobody, 0, taken), self.words))
        for name in ("cost_nusd", "energy_mj", "carbon_ug", "gpu_ms"):
            found[f"part_{name}"] = Lists(ends, Numbers(*_nullable(getattr(parts, name))))
        return found


def _starting(gpus: Placed, holding: Held, owner: Ints, gpu_ms: Ints) -> Ints:
    """Of each bill's GPU time that in which its engine was starting: the same part of it as of the time that readings
    cover under the engine's name, rounded down. Nothing where no reading names it."""
    own = _index_of(gpus.owners(), list(holding.owners), owner)
    known = own >= 0
    measured_ms = added((gpus.gpu_ms - gpus.estimated_ms)[known], own[known], len(gpu_ms))
    startup_ms = added(gpus.startup_ms[known], own[known], len(gpu_ms))
    return multiply_divide(gpu_ms, startup_ms, np.maximum(measured_ms, 1))[0]


def _amounts(parts: Parts, names: Rows) -> Ints:
    """Units that each part pays for: tokens, or token-milliseconds."""
    if not len(names):
        return np.full(len(parts.line), UNKNOWN)
    _, prefill, _, decode, kv = names.amounts
    none = np.full_like(prefill, UNKNOWN)
    by_kind = np.stack([prefill, decode, kv, none, none])
    return np.where(parts.line == NO_LINE, UNKNOWN, by_kind[parts.kind, np.maximum(parts.line, 0)])


def _joined(emitted: Sequence[EmittedMinute], name: str) -> tuple[Ints, Rows]:
    """Rows of a table of all emitted minutes, and the number of the minute of each."""
    rows = joined([one.tables[name] for one in emitted])
    return np.repeat(np.arange(len(emitted), dtype=np.int64), [len(one.tables[name]) for one in emitted]), rows


def _in_order(words: Words, used: Sequence[Ints]) -> tuple[list[Word], Ints]:
    """Words in use, sorted, null first, and the place of each by its code."""
    codes = np.unique(np.concatenate([np.zeros(1, dtype=np.int64), *used])).tolist()
    codes.sort(key=lambda code: (words.list[code] is not None, words.list[code] or b""))
    places = np.zeros(len(words), dtype=np.int64)
    places[codes] = np.arange(len(codes))
    return [words.list[code] for code in codes], places


def _placed_words(rows: Rows, which: Sequence[int], places: Ints, groups: Ints) -> Rows:
    keys = [places[key] if i in which else key for i, key in enumerate(rows.keys[1:])]
    return Rows((groups[rows.keys[0]], *keys), rows.amounts)


def _index_of(columns: list[Ints], owners: list[Ints], index: Ints) -> Ints:
    """The owner's number of each row of ``columns``, from those of ``owners`` with their ``index``; -1: none."""
    groups = grouped([np.concatenate(both) for both in zip(owners, columns, strict=True)])
    group = indexes(groups)
    number = np.full(len(groups), -1, dtype=np.int64)
    number[group[: len(index)]] = index
    return number[group[len(index) :]]


def _labels(places: Ints, words: list[Word]) -> Labels:
    return Labels(*compacted(places, words))


def _nullable(column: Ints) -> tuple[Ints, Flags | None]:
    known = column != UNKNOWN
    return (column, None) if known.all() else (np.where(known, column, 0), known)


_REMEMBERED_MAX = 100_000
"""Prices that are remembered; more, and all are looked up again."""

_Key = tuple[str, str | None, str | None]
_Lookup = Callable[[str | None, str | None, int], Price | None]


class Pricing:
    """A ``PriceOf`` of a price file: a price that was found is remembered as long as it holds."""

    def __init__(self, prices: PriceFile) -> None:
        self.version = prices.version
        self._found: dict[_Key, Price] = {}
        self._lookups: dict[str, _Lookup] = {
            "gpu": lambda model, region, at_ms: prices.gpu_nusd_per_hour(model or "", region, None, at_ms),
            "host": prices.host_nusd_per_gpu_hour,
            "energy": lambda _, region, at_ms: prices.energy_nusd_per_kwh(region, at_ms),
            "pue": lambda _, region, at_ms: prices.pue_micro(region, at_ms),
            "grid": lambda _, region, at_ms: prices.grid_ugco2e_per_kwh(region, at_ms),
        }

    def __call__(self, gpu_model: str | None, region: str | None, minute_ms: int) -> Prices:
        """Prices at the start of the minute."""
        return Prices(*(self._amount(name, gpu_model, region, minute_ms) for name in self._lookups))

    def _amount(self, name: str, gpu_model: str | None, region: str | None, at_ms: int) -> int | None:
        key = name, gpu_model, region
        price = self._found.get(key)
        if price is None or not price.from_ms <= at_ms or (price.until_ms is not None and at_ms >= price.until_ms):
            price = self._lookups[name](gpu_model, region, at_ms)
            if price is not None:
                if len(self._found) >= _REMEMBERED_MAX:
                    self._found.clear()
                self._found[key] = price
        return None if price is None else price.amount
