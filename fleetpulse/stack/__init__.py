"""A real Kafka and a real ClickHouse on this machine, without Docker and without root: see ``manage``."""

from fleetpulse.stack.manage import (
    CLICKHOUSE,
    KAFKA,
    down,
    kill,
    make_folder,
    parts_of,
    signal_part,
    start_part,
    status,
    up,
)
from fleetpulse.stack.report import PartStatus, StackStatus

__all__ = [
    "CLICKHOUSE", "KAFKA", "PartStatus", "StackStatus", "down", "kill", "make_folder", "parts_of", "signal_part",
    "start_part", "status", "up",
]  # fmt: skip
