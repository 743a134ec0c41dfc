"""From nothing to a stack with topics and tables: what `up`, `demo`, `chaos` and `bench` begin with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fleetpulse import stack
from fleetpulse.migrate.plan import Plan
from fleetpulse.migrate.run import migrate
from runtime.config import Config, layers, load, own_data_dir
from runtime.local_stack import read_state
from schemas.errors import ConfigError

_NAMING = {
    "kafka": ("bootstrap", "security_protocol"),
    "clickhouse": ("url", "user", "password"),
    "clickhouse_reader": ("url", "user", "password"),
}
"""Keys of a section by which a configuration means a server other than the local stack's."""


def bring_up(
    data_dir: Path | None,
    on_progress: Callable[[str], None],
    *,
    new_ports: bool = False,
    brokers: int | None = None,
    shards: int | None = None,
    on_migrated: Callable[[Plan], None] = lambda _plan: None,
) -> Config:
    """Start the local stack where it does not run, migrate, and return the configuration that reaches it.
    ``on_migrated`` is given what the migration did and left; other options are those of ``stack.up``. Raises
    ``ConfigError`` as ``demand_local`` does."""
    data_dir = own_data_dir(data_dir)
    demand_local(data_dir, new_ports=new_ports)
    state = stack.up(data_dir, on_progress=on_progress, new_ports=new_ports, brokers=brokers, shards=shards)
    on_progress("creating topics and tables")
    config = load({"data_dir": data_dir})
    others = [config.clickhouse.at(url) for url in state.clickhouse_urls[1:]]
    on_migrated(
        migrate(config.kafka, config.clickhouse, partitions=config.partitions, limits=config.limits, servers=others)
    )
    return config


def demand_local(data_dir: Path, *, new_ports: bool = False) -> None:
    """Raise ``ConfigError`` where environment or configuration file name other servers than those of the local stack in
    ``data_dir``: those would be migrated, written to and read instead of it. With ``new_ports``, and before the stack
    was ever made, none that is named can be its own."""
    config, state = load({"data_dir": data_dir}), None if new_ports else read_state(data_dir)
    meant = {
        "kafka": set(config.kafka.bootstrap.split(",")),
        "clickhouse": {config.clickhouse.url},
        "clickhouse_reader": {config.reading.url},
    }
    own = set() if state is None else {*state.kafka_bootstrap.split(","), *state.clickhouse_urls}
    for section, addresses in meant.items():
        name = None if addresses <= own else _named(data_dir, section, config.config_file or Path("fleetpulse.toml"))
        if name is not None:
            where = ",".join(sorted(addresses))
            raise ConfigError(
                name,
                where,
                f"must not be set here: this command starts, migrates and uses the local stack in {data_dir}, and no"
                " other server. Take it out for this command; servers of your own are brought up to date by"
                " `fleetpulse migrate`",
            )


def _named(data_dir: Path, section: str, file: Path) -> str | None:
    """The variable, or the file and key, by which the servers of a section are named; None where nothing does."""
    for source, tree in layers({"data_dir": data_dir}):
        given = tree.get(section) or {}
        for key in _NAMING[section]:
            if key in given and source == "environment":
                return f"FLEETPULSE_{section}__{key}".upper()
            if key in given and source == "file":
                return f"{file}: {section}.{key}"
    return None
