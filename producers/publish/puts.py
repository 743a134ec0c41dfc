"""What the edge's parts need of a publisher; ``Publisher`` has it, and ``SupervisedPublisher``, which never raises."""

from __future__ import annotations

from typing import Protocol

from producers.batch import Batch
from producers.publish.states import States
from schemas.codec.block import Block


class PutsAtOnce(Protocol):
    """Takes batches for the spool, and is never waited for."""

    def put_at_once(self, batch: Batch) -> bool:
        """Take a batch that is spooled soon; False when it was shed, and declared."""
        ...

    def shed(self, topic: str, events: int) -> None:
        """Declare events that no batch could hold."""
        ...


class Puts(PutsAtOnce, Protocol):
    """All of it."""

    @property
    def states(self) -> States:
        """Published beside events."""
        ...

    async def put(self, topic: str, key: bytes, batch: Batch | Block, *, wait: bool = False) -> bool:
        """Spool a batch; False when it was shed, and declared. With ``wait``, wait while there is no room."""
        ...

    def has_room(self, value_bytes: int) -> bool:
        """Whether a batch of this size would be spooled, as far as is known."""
        ...
