"""A backup and its restore, by deploy/clickhouse/backups.xml and the statements of docs/how-to/operations.md."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from clickhouse_connect.driver.exceptions import ClickHouseError

from runtime.clickhouse_clients import connect
from schemas.ddl.files import Names
from schemas.ddl.fresh import fresh
from tests.conftest import ROOT
from tests.integration.shard_rig import one_server

pytestmark = pytest.mark.integration

PAGE = ROOT / "docs" / "how-to" / "operations.md"
SHIPPED = ROOT / "deploy" / "clickhouse" / "backups.xml"


def test_a_database_comes_back_from_its_backup(tmp_path: Path) -> None:
    """Rows, tables and views, by the writer's login with the right that the page names; to a folder, since the wheel of
    ClickHouse writes no zip. Beside rows that are there by the setting that the page names alone, each once."""
    said = PAGE.read_text().replace(".zip", "")
    backup, restore = (
        re.findall(rf'--query "({word} DATABASE fleetpulse (?:TO|FROM) [^"]+)"', said)[0]
        for word in ("BACKUP", "RESTORE")
    )
    text = SHIPPED.read_text().replace("/var/lib/clickhouse/backups/", f"{tmp_path}/server/clickhouse/data/backups/")
    (more,) = re.findall(r"<clickhouse>(.*)</clickhouse>", text, flags=re.DOTALL)
    (over,) = re.findall(r"`(SETTINGS allow_[^`]+)`", said)
    (grant,) = re.findall(r"`(GRANT [^`]+ ON DISK) TO", said)

    with one_server(tmp_path / "server", more, grant) as config:
        names = f"SELECT name FROM system.tables WHERE database = '{config.database}'"
        with contextlib.closing(connect(config, database=None)) as apart:
            apart.command(f"CREATE DATABASE {config.database}")
            with contextlib.closing(connect(config)) as client:
                for statement in fresh(Names(config.database)):
                    client.command(statement)
                client.command("INSERT INTO gpu_events (host, appended_ms) SELECT 'h', toUnixTimestamp(now()) * 1000")
            before = apart.query(names).result_set
            apart.command(backup)
            apart.command(f"DROP DATABASE {config.database} SYNC")
            apart.command(restore)
            after = apart.query(names).result_set
            rows = apart.query(f"SELECT host FROM {config.database}.gpu_events").result_rows
            with pytest.raises(ClickHouseError):  # as of tables that `migrate` or a sink has filled by then
                apart.command(restore)
            apart.command(f"{restore} {over}")
            both = apart.query(f"SELECT host FROM {config.database}.gpu_events FINAL").result_rows

    assert sorted(after) == sorted(before)
    assert [tuple(row) for row in rows] == [tuple(row) for row in both] == [("h",)]
