"""The history of a deployment: its ClickHouse, as what ``history`` reads from."""

from __future__ import annotations

import clickhouse_connect
from clickhouse_connect.driver.exceptions import ClickHouseError

from fleetpulse.backtest.history import Fetch
from runtime.config import ClickHouseConfig
from schemas.errors import FleetpulseError, UnavailableError


def fetch_from(config: ClickHouseConfig) -> Fetch:
    """Runs queries as the read-only user. Raises ``UnavailableError`` where nobody answers."""
    try:
        client = clickhouse_connect.get_client(**config.client_settings(), autogenerate_session_id=False)
    except (ClickHouseError, OSError) as error:
        raise UnavailableError(f"ClickHouse at {config.url} does not answer; is the stack up? ({error})") from error

    def fetch(sql: str) -> bytes:
        try:
            data: bytes = client.raw_query(sql, fmt="Native")
        except ClickHouseError as error:
            raise FleetpulseError(str(error).splitlines()[0]) from error
        return data

    return fetch
