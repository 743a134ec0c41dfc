"""Steps of the simulated fleet as records: one per topic and ten seconds, of all hosts together.

A fleet of four hosts in one record costs the codec a tenth of forty records; what the events say is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from lab.simulator.wide import Of, Wide
from schemas.codec import native
from schemas.codec.block import Block, Column, Labels
from schemas.codec.select import select
from schemas.contract.headers import NATIVE
from schemas.contract.record import Headers
from schemas.events.event_types import BY_TOPIC
from schemas.limits import DEFAULT_LIMITS


def block_of(wide: Wide) -> Block:
    """The rows of a wide batch as one block."""
    columns: dict[str, Column] = {
        name: Labels(column.label.codes[wide.entity], column.label.words) if isinstance(column, Of) else column
        for name, column in wide.columns.items()
    }
    return Block(wide.rows, columns)


def records_of(topic: str, wides: Sequence[Wide]) -> Iterator[tuple[bytes, Headers]]:
    """Value and headers of the records that carry these batches, none of more events than one record may hold."""
    event = BY_TOPIC[topic]
    whole = native.concat(event.fields, [block_of(wide) for wide in wides])
    most = DEFAULT_LIMITS.batch_events_max
    for first in range(0, whole.rows, most):
        number = np.arange(whole.rows)
        block = select(whole, (number >= first) & (number < first + most))
        headers = (
            ("schema", event.schema.encode()),
            ("content-type", NATIVE.encode()),
            ("count", b"%d" % block.rows),
        )
        yield native.encode(event.fields, block), headers
