"""Share rows: what each of several engines held of a GPU, by the minute, for the cost job.

Made from readings of the processes on a GPU whose engines share a placement group; rows of one key and commit are added
up. They travel on ``window.partials`` as usage does, in the partition of their ``placement_group``, where the GPU
samples of that group are too. All columns but the minute and the key add; null and a number make the number. A value
that some reading lacked shows in its count being below ``readings``. They are no part of the books.
"""

from __future__ import annotations

from schemas.events.machine_events import GPU_PROCESSES
from schemas.fields import Field, Kind, Role, Table

SHARES_OF = GPU_PROCESSES.topic
"""Source topic of share rows."""

SHARES_KEY = ("engine_id", "placement_group", "host", "gpu_uuid")
"""What rows are merged by, beside the minute; the labels of the process, in wire order."""

SHARES_AMOUNTS = ("readings", "memory_readings", "memory_bytes", "sm_readings", "sm_util_pct")
"""What adds. The counts are never null."""


def _count(name: str, meaning: str) -> Field:
    return Field(name, Kind.UINT64, Role.DIFFERENCE, "", meaning)


def _sum(name: str, unit: str, meaning: str) -> Field:
    return Field(name, Kind.OPTIONAL_INT64, Role.DIFFERENCE, unit, meaning)


SHARES = Table(
    "gpu_shares",
    "gpu_shares/1",
    "what engines that share a GPU held of it, by minute: readings of their processes, added up",
    (
        Field("window_ms", Kind.INT64, Role.TIME, "ms", "start of the minute, event time, UTC"),
        _count("readings", "readings of processes of the engine on the GPU"),
        _count("memory_readings", "those that reported how much memory the process holds"),
        _sum("memory_bytes", "bytes", "sum of the memory reported; null: none was"),
        _count("sm_readings", "those that reported the utilization by the process"),
        _sum("sm_util_pct", "%", "sum of the utilization reported; null: none was"),
        Field("definition_version", Kind.UINT32, Role.ATTRIBUTE, "", "version of the metric definitions"),
        *(GPU_PROCESSES.field(name) for name in SHARES_KEY),
    ),
)
