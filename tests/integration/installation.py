"""A whole installation on the session's servers: topics and tables of its own, and the variables by which commands and
services find them. A stack of its own, warm as slowly as any new one, is for tests that kill servers or fill them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fleetpulse.migrate.run import migrate
from fleetpulse.services.processes import Processes
from runtime.config import ClickHouseConfig, Config, KafkaConfig
from tests.conftest import Servers, own_database, own_deployment

T = TypeVar("T")


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


def tended(processes: Processes, work: Callable[[], T]) -> T:
    """What ``work`` returns; meanwhile a process that ends is started again, as its supervisor does: a job ends by a
    commit that a busy machine holds up for 20 s."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(work)
        while not running.done():
            processes.tend()
            time.sleep(0.1)
        return running.result()


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
