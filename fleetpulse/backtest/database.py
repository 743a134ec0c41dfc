"""The history of a deployment: its ClickHouse, as what ``history`` reads from."""

from __future__ import annotations

from clickhouse_connect.driver.exceptions import ClickHouseError

from fleetpulse.backtest.history import Fetch
from runtime.clickhouse_clients import connect
from runtime.config import ClickHouseConfig
from schemas.errors import FleetpulseError


def fetch_from(config: ClickHouseConfig) -> Fetch:
    """Runs queries as the read-only user. Raises ``UnavailableError`` where nobody answers."""
    client = connect(config)

    def fetch(sql: str) -> bytes:
        try:
            data: bytes = client.raw_query(sql, fmt="Native")
        except ClickHouseError as error:
            raise FleetpulseError(str(error).splitlines()[0]) from error
        return data

    return fetch
