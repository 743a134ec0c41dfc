"""What a codec makes of bytes: a block, and what is wrong with single rows of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from schemas.codec.block import Block
from schemas.errors import RejectedError


@dataclass(frozen=True, slots=True)
class Problem:
    """One value that cannot be taken. ``field`` is its place in the field table, -1 for the event as a whole."""

    row: int
    field: int
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """Rows with a problem stand in the block too, with null or 0 in its place. ``event_json`` shows a row as sent."""

    block: Block
    problems: list[Problem]
    event_json: Callable[[int], bytes]

    def sound(self) -> Block:
        """The block; raises ``RejectedError`` with the first problem where there is one."""
        if self.problems:
            first = self.problems[0]
            raise RejectedError(first.reason, f"row {first.row}: {first.detail}")
        return self.block
