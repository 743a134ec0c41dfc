"""What the edge's parts need of a publisher; ``Publisher`` has it, and ``SupervisedPublisher``, which never raises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from producers.batch import Batch
from producers.publish.states import States
from schemas.codec.block import Block

_FRAME_BYTES = 2_048
"""More than a record takes on disk beside its value."""


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
        """Spool a batch; False when it was shed, and declared. With ``wait``, wait while there is no room:
        only what is too large to be sent is shed."""
        ...

    def has_room(self, value_bytes: int, topic: str | None = None) -> bool:
        """Whether a batch of this size would be spooled, as far as is known; of this topic, or of any."""
        ...


def have_room(publisher: Puts, batches: Sequence[Batch]) -> bool:
    """Whether all of these would be spooled, as far as is known."""
    room_bytes = sum(len(batch.value) + _FRAME_BYTES for batch in batches)
    return publisher.has_room(room_bytes) and all(publisher.has_room(len(it.value), it.topic) for it in batches)
