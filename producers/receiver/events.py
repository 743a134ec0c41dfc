"""Rows of what applications send besides requests: steps of training and metrics of their own. Pure but for the
series that it remembers.

A row is what the client sent, of the fields that are its to send, with the agent's own. Values that do not fit their
field go on as they are: the pipeline rejects them with a reason. An agent takes ``series_max`` series of metrics; of
more nothing is taken, since two series in one would be a wrong figure and not a coarse one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from producers.metric_units import in_kept_units
from producers.receiver.client_fields import Row, Where, parse_client_fields
from producers.receiver.datagram import METRIC, STEP, Datagrams, texts_of
from producers.series import digest_of
from schemas.events.event_types import CUSTOM_METRICS, TRAINING_STEPS
from schemas.fields import Event

EVENTS: Mapping[int, Event] = MappingProxyType({STEP: TRAINING_STEPS, METRIC: CUSTOM_METRICS})
"""What a kind of datagram is a row of."""
AGENT_FIELDS = frozenset({"at_ms", "host", "cluster", "region", "origin"})
SERIES = ("service", "metric", "unit", "attributes")


@dataclass(slots=True)
class SeriesBound:
    """The series of metrics that are taken: the first ``series_max`` of this process."""

    series_max: int
    _known: set[bytes] = field(default_factory=set)

    def takes(self, row: Mapping[str, Any]) -> bool:
        """Whether this row is of one of them."""
        series = digest_of(str(row.get(name)) for name in SERIES)
        if series not in self._known:
            if len(self._known) >= self.series_max:
                return False
            self._known.add(series)
        return True


@dataclass(frozen=True, slots=True)
class Sent:
    """``rows`` of one event; how many were broken JSON, and how many of a series too many."""

    event: Event
    rows: Sequence[Row]
    broken: int = 0
    beyond: int = 0


def rows_of(
    kind: int,
    buffer: npt.NDArray[np.uint8],
    datagrams: Datagrams,
    where: Where,
    takes: Callable[[Mapping[str, Any]], bool],
) -> Sent:
    """The rows of datagrams that are all of this kind."""
    event = EVENTS[kind]
    sent, sound = parse_client_fields(texts_of(buffer, datagrams))
    names = {each.name for each in event.fields} - AGENT_FIELDS
    own = {"host": where.host, "cluster": where.cluster, "region": where.region, "origin": "measured"}
    at_ms = datagrams.heads["at_ms"][sound].tolist()
    rows = [
        {name: value for name, value in each.items() if name in names and value is not None} | own | {"at_ms": at}
        for each, at in zip(sent, at_ms, strict=True)
    ]
    kept = [in_kept_units(row) for row in rows if takes(row)] if kind == METRIC else rows
    return Sent(event, kept, len(datagrams) - len(sent), len(rows) - len(kept))
