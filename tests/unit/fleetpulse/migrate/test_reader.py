"""Who is limited to reading."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetpulse.migrate.reader import limit_reader
from runtime.config import ClickHouseConfig, Config
from schemas.errors import ConfigError


def test_the_writer_is_never_limited(tmp_path: Path) -> None:
    """As where the reader's section names an address and no user: both are ``default``, which would lose its rights."""
    server = ClickHouseConfig(url="http://db:8123")
    config = Config(data_dir=tmp_path, clickhouse=server, clickhouse_reader=server)

    with pytest.raises(ConfigError, match=r"clickhouse_reader\.user = 'default': must be a user of its own"):
        limit_reader(config, dry_run=True)
