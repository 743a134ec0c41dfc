"""A whole installation on the session's servers: topics and tables of its own, and the variables by which commands and
services find them. A stack of its own, warm as slowly as any new one, is for tests that kill servers or fill them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fleetpulse.migrate.run import migrate
from runtime.config import ClickHouseConfig, Config, KafkaConfig
from tests.conftest import Servers, own_database, own_deployment


@dataclass(frozen=True, slots=True)
class Installation:
    """Its configuration, and the same as variables."""

    config: Config
    environment: dict[str, str]


@contextlib.contextmanager
def installed(stack: Servers, data_dir: Path) -> Iterator[Installation]:
    """Migrated, until the end of the block; who reads does so by the writer's login."""
    with own_deployment(stack) as kafka, own_database(stack) as clickhouse:
        migrate(kafka, clickhouse)
        config = Config(data_dir=data_dir, kafka=kafka, clickhouse=clickhouse, clickhouse_reader=clickhouse)
        settings = {
            "FLEETPULSE_DATA_DIR": str(data_dir),
            **variables_of(kafka),
            **variables_of_database("CLICKHOUSE", clickhouse),
            **variables_of_database("CLICKHOUSE_READER", clickhouse),
        }
        yield Installation(config, settings)


def variables_of(kafka: KafkaConfig) -> dict[str, str]:
    """Where a deployment's topics are."""
    return {
        "FLEETPULSE_KAFKA__BOOTSTRAP": kafka.bootstrap,
        "FLEETPULSE_KAFKA__DEPLOYMENT": kafka.deployment,
        "FLEETPULSE_KAFKA__TOPIC_PREFIX": kafka.topic_prefix,
    }


def variables_of_database(section: str, clickhouse: ClickHouseConfig) -> dict[str, str]:
    """How to enter a database, under a section of the configuration."""
    return {
        f"FLEETPULSE_{section}__URL": clickhouse.url,
        f"FLEETPULSE_{section}__USER": clickhouse.user,
        f"FLEETPULSE_{section}__PASSWORD": clickhouse.password.get_secret_value(),
        f"FLEETPULSE_{section}__DATABASE": clickhouse.database,
    }
