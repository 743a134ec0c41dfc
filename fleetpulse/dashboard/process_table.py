"""Columns of processes that hold GPU memory, on the pages Host and Engine."""

from __future__ import annotations

from fleetpulse.dashboard.parts import Column
from fleetpulse.dashboard.values import middle, percent, size

PROCESSES = [
    Column("pid", "PID", right=True),
    Column("program", "Program"),
    Column("engine", "Engine"),
    Column("does", "Does"),
    Column("gpu_uuid", "GPU", text=middle),
    Column("held_bytes", "Holds", text=size, right=True),
    Column("held_max_bytes", "Most", text=size, right=True),
    Column("sm_share", "SMs", text=percent, right=True),
    Column("container", "Container", text=middle),
    Column("pod", "Pod", text=middle),
]
