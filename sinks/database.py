"""The sink's side of ClickHouse: blocks in, every setting that matters told explicitly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import clickhouse_connect
from clickhouse_connect.driver.exceptions import ClickHouseError

from runtime.config import ClickHouseConfig
from schemas.errors import UnavailableError
from sinks.landing import Bucket, Insert

INSERT_SETTINGS: dict[str, Any] = {
    "async_insert": 0,  # the answer must mean "stored"
    "wait_end_of_query": 1,
    "insert_deduplicate": 0,  # rows have identities; tokens were seen to swallow inserts under kill -9
    "input_format_native_allow_types_conversion": 1,  # null labels become empty in sorting keys
    "max_partitions_per_insert_block": 1_000,
}
SECONDS_MAX = 60


class SinkDatabase:
    """One writer connection, used by one thread at a time. Every failure is ``UnavailableError``: try again."""

    def __init__(self, config: ClickHouseConfig) -> None:
        self._config = config
        self._client: Any = None

    def insert(self, inserts: Sequence[Insert]) -> None:
        """Land blocks; when it returns they are stored."""
        for one in inserts:
            self._do(
                lambda client, one=one: client.raw_insert(
                    one.table, column_names=one.columns, insert_block=one.body, fmt="Native", settings=INSERT_SETTINGS
                )
            )

    def note_dirty(self, buckets: Sequence[Bucket], now_ms: int) -> None:
        """Note rollup buckets whose partial rows changed."""
        rows = [[level, topic, bucket, now_ms] for level, topic, bucket in buckets]
        columns = ["level", "topic", "bucket_ms", "noted_ms"]
        self._do(lambda client: client.insert("dirty_windows", rows, column_names=columns, settings=INSERT_SETTINGS))

    def command(self, sql: str, parameters: dict[str, Any] | None = None) -> None:
        """Run a statement."""
        self._do(lambda client: client.command(sql, parameters=parameters, settings={"wait_end_of_query": 1}))

    def rows(self, sql: str, parameters: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Rows of a query."""
        found: list[tuple[Any, ...]] = self._do(lambda client: client.query(sql, parameters=parameters).result_rows)
        return found

    def close(self) -> None:
        """Give the connection back."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _do(self, work: Any) -> Any:
        try:
            if self._client is None:
                self._client = clickhouse_connect.get_client(
                    **self._config.client_settings(), autogenerate_session_id=False, send_receive_timeout=SECONDS_MAX
                )
            return work(self._client)
        except (ClickHouseError, OSError) as error:
            self.close()
            raise UnavailableError(f"ClickHouse at {self._config.url}: {str(error).splitlines()[0]}") from error
