"""Share rows of a commit: how much each of several engines used of a GPU, by the minute, for the cost job.

Only engines of a shared placement group count (``engine_id`` is not the name of the group): who is alone on its GPUs
makes no row and costs a look at two columns. There is no state: what a row holds hangs on the events since the last
commit alone, in the order in which they came, wherever folds are cut. Processes are read every ten seconds, so rows are
few and a dictionary holds them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from schemas.codec.block import Block, Labels
from schemas.codec.build import block_from_rows
from schemas.contract.placement import first_known, place
from schemas.contract.verdicts import Verdict
from schemas.limits import MINUTE_MS
from schemas.rows.gpu_shares import SHARES, SHARES_AMOUNTS, SHARES_KEY, SHARES_OF
from schemas.rows.tables import DEFINITION_VERSION
from stream_jobs.windows.columns import Columns, Whole, whole_of
from stream_jobs.windows.kernels import UNKNOWN
from stream_jobs.windows.plan import Plan

ROW_BYTES = 600
"""About what a row takes until its commit."""
_Key = tuple[int, *tuple[bytes | None, ...]]
_AMOUNTS = ("memory_bytes", "sm_util_pct")
SUM_MAX = 2**63 - 1
"""Sums are held at what a column holds: a commit with half a million of the greatest readings must be sent."""


@dataclass(frozen=True, slots=True)
class Processes:
    """Admitted rows of ``gpu.processes``: ``shared`` are those of engines in a shared group."""

    shared: npt.NDArray[np.bool_]
    labels: tuple[Labels, ...]
    amounts: tuple[Whole, ...]


def processes_of(plan: Plan, block: Block) -> Processes | None:
    """What share rows need of admitted rows; None for other events, and where no GPU is shared."""
    if plan.event.topic != SHARES_OF:
        return None
    labels = tuple(block.labels(name) for name in SHARES_KEY)
    engine, group = labels[0], labels[1]
    places = {word: number for number, word in enumerate(group.words)}
    same = np.array([places.get(word, -1) for word in engine.words], np.int64)
    known = np.array([word is not None for word in engine.words])
    grouped = np.array([word is not None for word in group.words])
    shared = known[engine.codes] & grouped[group.codes] & (same[engine.codes] != group.codes)
    if not shared.any():
        return None
    return Processes(shared, labels, tuple(whole_of(block, name) for name in _AMOUNTS))


@dataclass(slots=True)
class ShareRows:
    """The rows of one commit: by minute and key (``SHARES_KEY``) the amounts, in the order in which they began."""

    rows: dict[_Key, list[int]] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """Memory in use, about."""
        return ROW_BYTES * len(self.rows)

    def add(self, columns: Columns, processes: Processes, start: int, stop: int) -> None:
        """Add rows ``[start, stop)`` that were accepted."""
        counts = (columns.verdicts[start:stop] == Verdict.ACCEPTED) & processes.shared[start:stop]
        for row in (start + np.flatnonzero(counts)).tolist():
            minute_ms = int(columns.at[row]) // MINUTE_MS * MINUTE_MS
            key = (minute_ms, *(label.words[label.codes[row]] for label in processes.labels))
            sums = self.rows.setdefault(key, [0] * len(SHARES_AMOUNTS))
            sums[0] += 1
            for number, amount in enumerate(processes.amounts):
                value = int(amount[row])
                if value != UNKNOWN:
                    sums[1 + 2 * number] += 1
                    sums[2 + 2 * number] = min(sums[2 + 2 * number] + value, SUM_MAX)

    def blocks(self, partitions: int) -> dict[int, Block]:
        """Rows of ``schemas.rows.gpu_shares.SHARES`` by target partition: of the placement group, else the host."""
        found: dict[int, list[dict[str, object]]] = {}
        for (minute_ms, *words), sums in self.rows.items():
            target = place(first_known(words[1:3]), partitions)
            found.setdefault(target, []).append(dict(_row(minute_ms, words, sums)))
        return {target: block_from_rows(SHARES.fields, rows) for target, rows in sorted(found.items())}


def _row(minute_ms: int, words: list[bytes | None], sums: list[int]) -> Iterator[tuple[str, object]]:
    yield "window_ms", minute_ms
    yield "definition_version", DEFINITION_VERSION
    yield from zip(SHARES_KEY, (None if word is None else word.decode() for word in words), strict=True)
    yield from zip(SHARES_AMOUNTS, sums, strict=True)
    for number, amount in enumerate(_AMOUNTS):
        if not sums[1 + 2 * number]:
            yield amount, None
