"""The windows that are held: rows as they came, and what they were merged to.

Rows of a window are kept as blocks until they are merged; what is merged and not needed for now is kept packed: as
Native bytes, compressed, an eighth of its size in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from schemas.codec import native
from schemas.codec.block import Block
from schemas.codec.native_walk import decode_many
from schemas.codec.select import select
from schemas.rows.tables import EXEMPLARS, Table
from stream_jobs.finals.merge import Merged, merge, merge_exemplars
from stream_jobs.parts import compress, decompress

_RARE = 4


def merged(table: Table, blocks: Sequence[Block]) -> Merged:
    """The blocks of one window and table as one."""
    return merge_exemplars(blocks) if table is EXEMPLARS else merge(table, blocks)


@dataclass(slots=True)
class Pile:
    """Rows of one window and table: what was merged (packed or not) and the blocks that came since."""

    table: Table
    base: Block | None = None
    packed: bytes = b""
    parts: list[Block] = field(default_factory=list)
    rows: int = 0
    """Of the base."""

    def whole(self) -> Block:
        """All rows merged; they are the base from now on."""
        if self.parts:
            self.base = merged(self.table, [*self._base(), *self.parts]).block
            self.rows, self.packed, self.parts = self.base.rows, b"", []
        (block,) = self._base()
        return block

    def changed(self, parts: int) -> Block:
        """The rows, merged, that any of the last ``parts`` blocks went into; all is the base from now on."""
        blocks = [*self._base(), *self.parts]
        first_new = sum(block.rows for block in blocks[: len(blocks) - parts])
        found = merged(self.table, blocks)
        self.base, self.rows, self.packed, self.parts = found.block, found.block.rows, b"", []
        return select(found.block, found.newest >= first_new)

    def settle(self) -> int:
        """Merge and pack; little that came to much is left for later. Returns how many rows were packed."""
        if self.parts and sum(block.rows for block in self.parts) * _RARE >= self.rows:
            self.whole()
        if self.base is None:
            return 0
        compressed = compress(native.encode(self.table.fields, self.base))
        self.packed, self.base = compressed, None
        return self.rows

    def _base(self) -> list[Block]:
        if self.base is None and self.packed:
            return [decode_many(self.table.fields, [decompress(self.packed)])]
        return [] if self.base is None else [self.base]


@dataclass(slots=True)
class Held:
    """A window. ``first_offset`` is where its first rows stand, ``revision`` where its last; ``came`` counts rows."""

    window_ms: int
    first_offset: int
    revision: int = 0
    came: int = 0
    closed: bool = False
    piles: dict[str, Pile] = field(default_factory=dict)

    def add(self, table: Table, block: Block) -> None:
        """Keep these rows."""
        self.piles.setdefault(table.schema, Pile(table)).parts.append(block)

    def settle(self, rows: int) -> int:
        """Merge and pack what came, table by table, until it was ``rows`` or all; returns how many it was."""
        done = 0
        for pile in self.piles.values():
            if done >= rows:
                break
            done += pile.settle()
        return done
