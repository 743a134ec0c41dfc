"""What evidence keeps of a window: few columns of few rows, as blocks of tables of their own.

Only what an alert's evidence may need later: levels of GPUs and engines, events, requests of engines by how they ended,
exemplars, and marginal amounts of requests by model and one more dimension, from which changes are explained. Each
kind is bounded in rows and in windows (``KEPT``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schemas.codec import native
from schemas.codec.block import Block, Column, Labels, Numbers
from schemas.codec.select import select
from schemas.definitions import END, end_of
from schemas.events.grouping import OTHER
from schemas.fields import Field, Kind, Role
from schemas.rows.tables import EXEMPLARS
from stream_jobs.insight.frame import Floats, Mask, Whole, Window
from stream_jobs.insight.measures import sketch_sums
from stream_jobs.parts import compress, decompress
from stream_jobs.windows.emit import compacted

ROWS_MAX = 32_768
"""Of a kind and window; later rows are left out."""
ELEMENTS_MAX = 2_048
"""Of a dimension and window; those with the fewest events count as ``__other__``."""
EXAMPLES_EACH = 2
"""Of the exemplars of an engine, model and metric so many are remembered: they are most of a snapshot."""
ENDS = tuple(END)
AMOUNTS = (
    *("events", "failed", "ttft_sum", "ttft_count", "e2e_sum", "e2e_count"),
    *("aborted", "client_fault", "tpot_sum", "tpot_count", "itl_sum", "itl_count"),
)
DIMENSIONS = {
    "service": ("model_version", "tenant", "slo_class", "input_bucket", "start", "region"),
    "engine": ("engine_id", "host", "precision", "cluster"),
}
"""What may explain a change, by the grouping set that knows it."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Rows of a grouping set with ``numbers`` (name here, column there) and ``labels``, kept for so many windows."""

    topic: str
    grouping: str
    numbers: tuple[tuple[str, str], ...]
    labels: tuple[str, ...]
    windows: int

    @property
    def fields(self) -> tuple[Field, ...]:
        """Their columns."""
        numbers = (Field(name, Kind.OPTIONAL_INT64, Role.ATTRIBUTE, "", source) for name, source in self.numbers)
        return (*numbers, *(Field(name, Kind.LABEL, Role.DIMENSION, "", name) for name in self.labels))


KEPT = {
    "gpus": Kept(
        "gpu.samples",
        "gpu",
        (
            ("throttled_us", "throttled_us_sum"),
            ("throttled_fault_us", "throttled_fault_us_sum"),  # not in those of 0.1.0
            ("interval_ms", "interval_ms_sum"),
            ("temperature_max_c", "temperature_c_max"),
            ("clock_sm_min_mhz", "clock_sm_mhz_min"),
        ),
        ("gpu_uuid", "engine_id", "host"),
        6,
    ),
    "engines": Kept(
        "engine.samples",
        "engine_sample",
        (("kv_used_max_ppm", "kv_used_ppm_max"), ("preemptions", "preemptions_sum"), ("waiting_max", "waiting_max")),
        ("engine_id", "host", "model"),
        6,
    ),
    "events": Kept(
        "gpu.events", "gpu_event", (("events", "event_count"),), ("gpu_uuid", "engine_id", "host", "kind"), 60
    ),
    "requests": Kept(
        "llm.requests",
        "engine",
        (
            ("events", "event_count"),
            ("input_tokens", "input_tokens_sum"),
            ("output_tokens", "output_tokens_sum"),
        ),
        ("engine_id", "host", "model", "model_version", "status", "error_kind"),
        6,
    ),
}
"""Kinds that are rows of finals as they are, but for columns left out."""

AMOUNT_FIELDS = (
    *(Field(name, Kind.INT64, Role.DIFFERENCE, "", name) for name in AMOUNTS[:6]),
    *(Field(name, Kind.OPTIONAL_INT64, Role.DIFFERENCE, "", name) for name in AMOUNTS[6:]),  # not in those of 0.1.0
    *(Field(name, Kind.LABEL, Role.DIMENSION, "", name) for name in ("dimension", "model", "element")),
)
FIELDS: dict[str, tuple[Field, ...]] = {
    **{kind: kept.fields for kind, kept in KEPT.items()},
    "exemplars": EXEMPLARS.fields,
    "amounts": AMOUNT_FIELDS,
}
"""Columns of every kind."""
WINDOWS = {**{kind: kept.windows for kind, kept in KEPT.items()}, "exemplars": 3, "amounts": 6}
"""For how many windows each kind is kept."""


def remembered(window: Window) -> dict[str, Block]:
    """What is kept of a window, by kind; kinds without rows are left out."""
    found = {kind: _rows(kept, window.tables.get(kept.topic)) for kind, kept in KEPT.items()}
    found["exemplars"] = _first(_leading(window.exemplars)) if window.exemplars is not None else None
    found["amounts"] = _amounts(window.tables.get("llm.requests"))
    return {kind: block for kind, block in found.items() if block is not None and block.rows}


def values_of(block: Block, name: str) -> Whole:
    """Values of a column; 0 where it is not known."""
    return block.numbers(name).values.astype(np.int64, copy=False)


def number_at(block: Block, name: str, row: int) -> int | None:
    """The value of a row; None where it is not known."""
    column = block.numbers(name)
    return None if column.known is not None and not column.known[row] else int(column.values[row])


def ends_of(block: Block, rows: Whole) -> Whole:
    """How the requests of these rows ended, as places in ``ENDS``. What 0.1.0 kept does not say of which kind an error
    was: it failed."""
    status, kind = (_picked(block, name, rows) for name in ("status", "error_kind"))
    words = [[None if word is None else word.decode() for word in labels.words] for labels in (status, kind)]
    places = [[ENDS.index(end_of(one, why)) for why in words[1]] for one in words[0]]
    return np.array(places, np.int64)[status.codes, kind.codes]


def is_any(labels: Labels, words: set[str]) -> Mask:
    """The rows whose label is one of these."""
    wanted = np.array([word is not None and word.decode() in words for word in labels.words], np.bool_)
    return np.asarray(wanted[labels.codes], np.bool_)


def _of_grouping(block: Block, grouping: str) -> Mask:
    return is_any(block.labels("grouping"), {grouping})


def _first(block: Block) -> Block:
    kept = block if block.rows <= ROWS_MAX else select(block, np.arange(block.rows) < ROWS_MAX)
    return Block(kept.rows, {name: _plain(column) for name, column in kept.columns.items()})


def _leading(block: Block) -> Block:
    """The first few exemplars of each engine, model, metric and end; they come with the greatest first."""
    key = ends_of(block, np.arange(block.rows))
    for name in ("engine_id", "model", "metric"):
        labels = block.labels(name)
        key = key * len(labels.words) + labels.codes
    order = np.argsort(key, kind="stable")
    begins = np.flatnonzero(np.diff(key[order], prepend=-1))
    rank = np.empty(block.rows, np.int64)
    rank[order] = np.arange(block.rows) - np.repeat(begins, np.diff([*begins.tolist(), block.rows]))
    return select(block, rank < EXAMPLES_EACH)


def _plain(column: Column) -> Column:
    """Labels with only the words in use, in order: equal rows make equal bytes."""
    return Labels(*compacted(column.codes, column.words)) if isinstance(column, Labels) else column


def _rows(kept: Kept, block: Block | None) -> Block | None:
    if block is None:
        return None
    sources = {**{name: block.columns[source] for name, source in kept.numbers}}
    sources |= {name: block.columns[name] for name in kept.labels}
    return _first(select(Block(block.rows, sources), _of_grouping(block, kept.grouping)))


def _amounts(block: Block | None) -> Block | None:
    """Amounts by model and element of every dimension, one dimension after the other."""
    if block is None:
        return None
    parts: list[tuple[str, Labels, Labels, npt.NDArray[np.float64]]] = []
    gaps = sketch_sums(block, "itl_bins")
    for grouping, dimensions in DIMENSIONS.items():
        rows = np.flatnonzero(_of_grouping(block, grouping))
        measures = _measures(block, rows, gaps)
        model = _picked(block, "model", rows)
        parts += [(name, *_marginal(model, _picked(block, name, rows), measures)) for name in dimensions if len(rows)]
    return _stacked(parts) if parts else None


def _picked(block: Block, name: str, rows: Whole) -> Labels:
    column = block.labels(name)
    return Labels(*compacted(column.codes[rows], column.words))


def _measures(block: Block, rows: Whole, gaps: tuple[Whole, Floats]) -> npt.NDArray[np.float64]:
    """Lines in the order of ``AMOUNTS``; ``gaps`` between tokens: how many, and their sum, of every row."""
    events = values_of(block, "event_count")[rows]
    ends = ends_of(block, rows)
    failed, aborted, client_fault = (
        np.where(ends == ENDS.index(end), events, 0) for end in ("failed", "aborted", "client_fault")
    )
    ttft, e2e, tpot = (
        (values_of(block, f"{name}_us_sum")[rows], values_of(block, f"{name}_us_count")[rows])
        for name in ("ttft", "e2e", "tpot")
    )
    itl = (gaps[1][rows], gaps[0][rows])
    return np.stack((events, failed, *ttft, *e2e, aborted, client_fault, *tpot, *itl)).astype(np.float64)


def _marginal(
    model: Labels, element: Labels, measures: npt.NDArray[np.float64]
) -> tuple[Labels, Labels, npt.NDArray[np.float64]]:
    element = _bounded(element, measures[0])
    keys, of = np.unique(model.codes.astype(np.int64) * len(element.words) + element.codes, return_inverse=True)
    sums = np.stack([np.bincount(of, line, len(keys)) for line in measures]).astype(np.float64)
    size = len(element.words)
    return Labels(keys // size, model.words), Labels(keys % size, element.words), sums


def _bounded(element: Labels, events: npt.NDArray[np.float64]) -> Labels:
    if len(element.words) <= ELEMENTS_MAX:
        return element
    weights = np.bincount(element.codes, events, len(element.words))
    kept = np.sort(np.argsort(-weights, kind="stable")[:ELEMENTS_MAX])
    words = [*(element.words[code] for code in kept.tolist()), OTHER.encode()]
    codes = np.full(len(element.words), len(kept), np.int64)
    codes[kept] = np.arange(len(kept))
    known: dict[bytes | None, int] = {None: 0}
    remap = np.array([known.setdefault(word, len(known)) for word in words])
    return Labels(remap[codes[element.codes]], list(known))


def _stacked(parts: list[tuple[str, Labels, Labels, npt.NDArray[np.float64]]]) -> Block:
    sums = np.concatenate([part[3] for part in parts], axis=1).astype(np.int64)
    sizes = [part[3].shape[1] for part in parts]
    names: list[bytes | None] = [None, *(part[0].encode() for part in parts)]
    columns: dict[str, Column] = {name: Numbers(line) for name, line in zip(AMOUNTS, sums, strict=True)}
    columns["dimension"] = Labels(*compacted(np.repeat(np.arange(1, len(parts) + 1), sizes), names))
    columns["model"] = _joined([part[1] for part in parts])
    columns["element"] = _joined([part[2] for part in parts])
    return Block(sums.shape[1], columns)


def _joined(parts: list[Labels]) -> Labels:
    known: dict[bytes | None, int] = {None: 0}
    codes = [
        np.array([known.setdefault(word, len(known)) for word in part.words], np.int64)[part.codes] for part in parts
    ]
    return Labels(*compacted(np.concatenate(codes), list(known)))


class Lookup:
    """A block whose rows are found by the words of their labels; what that needs is made at the first lookup."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self._by_word: dict[str, _ByWord] = {}
        self._packed = b""

    def packed(self, fields: Sequence[Field]) -> bytes:
        """The block as compressed Native; made once."""
        if not self._packed:
            value = native.encode(fields, self.block)
            self._packed = compress(value)
        return self._packed

    @classmethod
    def unpack(cls, data: bytes, fields: Sequence[Field]) -> Lookup:
        """What ``packed`` made."""
        found = cls(native.decode(decompress(data), fields))
        found._packed = data
        return found

    def rows(self, labels: Mapping[str, set[str]]) -> Whole:
        """Rows, rising, that have one of the words of each of these labels; labels that the block does not know do not
        matter."""
        known = {name: self._of(name) for name in labels if name in self.block.columns}
        if not known:
            return np.arange(self.block.rows)
        first = min(known, key=lambda name: known[name].count(labels[name]))
        found = known[first].rows(labels[first])
        for name, other in known.items():
            if name != first:
                found = found[np.isin(self.block.labels(name).codes[found], other.codes(labels[name]))]
        return found

    def _of(self, name: str) -> _ByWord:
        if name not in self._by_word:
            self._by_word[name] = _ByWord(self.block.labels(name))
        return self._by_word[name]


class _ByWord:
    """The rows of a column by word: a sort of its codes."""

    def __init__(self, labels: Labels) -> None:
        self._code = {word.decode(): code for code, word in enumerate(labels.words) if word is not None}
        self._order = np.argsort(labels.codes, kind="stable")
        self._ends = np.cumsum(np.bincount(labels.codes, minlength=len(labels.words)))

    def codes(self, words: set[str]) -> list[int]:
        """Of those words that there are."""
        return [self._code[word] for word in words if word in self._code]

    def count(self, words: set[str]) -> int:
        """Of rows with these words."""
        return sum(int(self._ends[code]) - self._begin(code) for code in self.codes(words))

    def rows(self, words: set[str]) -> Whole:
        """With these words, rising."""
        found = [self._order[self._begin(code) : int(self._ends[code])] for code in self.codes(words)]
        return np.sort(np.concatenate(found)) if found else np.empty(0, np.int64)

    def _begin(self, code: int) -> int:
        return int(self._ends[code - 1]) if code else 0
