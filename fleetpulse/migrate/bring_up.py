"""From nothing to a stack with topics and tables: what `up`, `demo`, `chaos` and `bench` begin with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fleetpulse import stack
from fleetpulse.migrate.run import migrate
from runtime.config import Config, load, own_data_dir


def bring_up(
    data_dir: Path | None,
    on_progress: Callable[[str], None],
    *,
    new_ports: bool = False,
    brokers: int | None = None,
    shards: int | None = None,
) -> Config:
    """Start the local stack where it does not run, migrate, and return the configuration that reaches it. Options are
    those of ``stack.up``."""
    data_dir = own_data_dir(data_dir)
    state = stack.up(data_dir, on_progress=on_progress, new_ports=new_ports, brokers=brokers, shards=shards)
    on_progress("creating topics and tables")
    config = load({"data_dir": data_dir})
    others = [config.clickhouse.at(url) for url in state.clickhouse_urls[1:]]
    migrate(config.kafka, config.clickhouse, partitions=config.partitions, limits=config.limits, servers=others)
    return config
