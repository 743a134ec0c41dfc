"""What the tables of ``schemas`` mean for the fold: which columns it reads and where each sum stands.

One row of sums (a window of a series) is a line of whole numbers, its *cells*:

=====================  ==========================================
cells                  what
=====================  ==========================================
``event_count``        events in the row
``last_at_ms``         greatest event time
per sketch             count, sum, min, max
per gauge              count, sum, min, max, last
per difference         how many were known, sum
=====================  ==========================================

Beside the cells a row has *histograms*: one per sketch and distributed gauge, then one per column of ready-made bins.
"""

from __future__ import annotations

from dataclasses import dataclass

from schemas.events.event_types import BY_TOPIC
from schemas.events.grouping import Derived, GroupingSet, derived_of, sets_of
from schemas.fields import Event, Field, Role
from schemas.rows.tables import COMPUTED, PARTIALS, Table
from stream_jobs.windows.kernels import DIFFERENCE_CELLS, GAUGE_CELLS, SKETCH_CELLS, SKETCH_FROM


@dataclass(frozen=True, slots=True)
class Plan:
    """The layout of one source topic. ``dimensions`` are those that some grouping set keeps, derived ones last.

    The others (``unkept_dimensions``) are columns of the table too, always null. Distributed gauges are the first.
    """

    event: Event
    table: Table
    sketches: tuple[Field, ...]
    gauges: tuple[Field, ...]
    differences: tuple[Field, ...]
    computed: tuple[Field, ...]
    ready_bins: tuple[Field, ...]
    dimensions: tuple[str, ...]
    unkept_dimensions: tuple[str, ...]
    derived: tuple[Derived, ...]
    sets: tuple[GroupingSet, ...]

    @property
    def measures(self) -> tuple[Field, ...]:
        """The numeric columns in the order of the cells."""
        return self.sketches + self.gauges + self.differences + self.computed

    @property
    def binned(self) -> tuple[Field, ...]:
        """The first of ``measures``, whose values have bins."""
        return self.sketches + tuple(field for field in self.gauges if field.distributed)

    @property
    def gauge_from(self) -> int:
        return SKETCH_FROM + SKETCH_CELLS * len(self.sketches)

    @property
    def difference_from(self) -> int:
        return self.gauge_from + GAUGE_CELLS * len(self.gauges)

    @property
    def cells(self) -> int:
        """Whole numbers per row."""
        return self.difference_from + DIFFERENCE_CELLS * len(self.differences + self.computed)

    @property
    def histograms(self) -> tuple[str, ...]:
        """Names of the bin columns, in the order of the histograms."""
        return tuple(f"{field.name}_bins" for field in self.binned) + tuple(field.name for field in self.ready_bins)

    def positions(self, grouping: GroupingSet) -> tuple[int, ...]:
        """Where the dimensions of a set stand in ``dimensions``, in the set's own order."""
        return tuple(self.dimensions.index(name) for name in grouping.dimensions)


def plan_of(topic: str) -> Plan:
    """The plan of a source topic; ``KeyError`` for a topic that is none."""
    event = BY_TOPIC[topic]
    sets, derived = sets_of(topic), derived_of(topic)
    kept = {name for grouping in sets for name in grouping.dimensions}
    every = [*(field.name for field in event.of(Role.DIMENSION)), *(d.name for d in derived)]
    own = [field.name for field in event.of(Role.DIMENSION) if field.name in kept]
    computed = tuple(d for d in derived if d.name in kept)
    return Plan(
        event=event,
        table=PARTIALS[topic],
        sketches=event.of(Role.SKETCH),
        gauges=tuple(sorted(event.of(Role.GAUGE), key=lambda field: not field.distributed)),
        differences=event.of(Role.DIFFERENCE),
        computed=COMPUTED.get(topic, ()),
        ready_bins=event.of(Role.SKETCH_BINS),
        dimensions=(*own, *(d.name for d in computed)),
        unkept_dimensions=tuple(name for name in every if name not in kept),
        derived=computed,
        sets=sets,
    )
