"""A running installation with data is migrated: rows kept longer, a column more, twice the partitions; nothing is lost.

A windows job and a sink as processes, a simulated fleet before, during and after.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import clickhouse_connect
import pytest

from fleetpulse.migrate import tables, write
from fleetpulse.migrate.plan import GrowTopic, Plan
from fleetpulse.migrate.run import migrate
from fleetpulse.reconcile.compare import reconcile
from fleetpulse.services.processes import Command, Processes
from runtime.config import Config
from schemas.ddl.declared import declared
from schemas.ddl.files import migrations
from schemas.ddl.stored import RAW
from schemas.limits import DAY_MS, DEFAULT_LIMITS
from tests.conftest import Servers
from tests.integration.installation import Installation, installed, tended

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

GPUS = 64
SECONDS = 3
WAIT_S = 240.0
"""Far beyond what it takes: a machine may have other work."""
MORE = {"gpu.samples": 8}
LIMITS = replace(DEFAULT_LIMITS, raw_ttl_ms=9 * DAY_MS)
CHANGED = {"FLEETPULSE_PARTITIONS": '{"gpu.samples": 8}', "FLEETPULSE_LIMITS__RAW_TTL_MS": str(9 * DAY_MS)}
COLUMN = "    rack LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'where its host stands',\n"


@pytest.fixture(scope="module")
def installation(stack: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Topics of its own: the partitions of those that all tests share must not change."""
    with installed(stack, tmp_path_factory.mktemp("running")) as found:
        yield found


def services(of: Installation, processes: Processes, environment: dict[str, str], worker: str) -> None:
    """A windows job and a sink under the same worker's name."""
    told = {**of.environment, **environment}
    for name, words in (("windows", ("jobs", "windows", "--name", worker)), ("sink", ("sink",))):
        processes.start(Command(f"{name}-{len(environment)}", words, told, restart=True))


def simulate(of: Installation, environment: dict[str, str], seed: int) -> None:
    """Some seconds of a fleet, all of it acknowledged by Kafka."""
    words = ["simulate", "--load", "bulk", "--rate", "5", "--gpus", str(GPUS), "--seconds", str(SECONDS)]
    words += ["--seed", str(seed), "--spool", str(of.config.data_dir / f"spool-{seed}")]
    told = {**os.environ, **of.environment, **environment}
    command = [sys.executable, "-m", "fleetpulse", *words]
    subprocess.run(command, env=told, check=True, capture_output=True, timeout=WAIT_S)


def with_rack() -> dict[str, str]:
    """What is declared, with a column more."""
    found = declared()
    found["gpu_samples"] = found["gpu_samples"].replace("\n(\n", "\n(\n" + COLUMN, 1)
    return found


def files_with_rack(config: Config, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the migration as `make migration` does, and let `migrate` find it."""
    (folder / "released.sha256").write_text("")
    for one in migrations():
        (folder / one.file_name).write_text(one.text)
    following = f"{len(migrations()) + 1:04d}_add_rack.sql"
    monkeypatch.setattr(write, "declared", with_rack)
    with clickhouse_connect.get_client(**config.clickhouse.client_settings()) as client:
        assert write.write(client, "add_rack", folder) == folder / following
    monkeypatch.setattr(tables, "migrations", lambda: migrations(folder))


def exact(config: Config, processes: Processes) -> int:
    """Events produced so far, asserted to be everywhere where they must be."""
    report = tended(processes, lambda: reconcile(config.kafka, config.clickhouse, wait_s=WAIT_S, limits=LIMITS))
    assert report.exact, report.text()
    return report.produced


def test_nothing_is_lost_while_a_running_installation_is_migrated(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job of before goes on under the new topics; started again it reads the partitions that came."""
    config = installation.config
    settings = config.clickhouse.client_settings()
    with Processes(config.data_dir / "log") as before:
        services(installation, before, {}, "worker")
        simulate(installation, {}, seed=1)
        first = exact(config, before)

        files_with_rack(config, tmp_path, monkeypatch)
        plan = migrate(config.kafka, config.clickhouse, partitions=MORE, limits=LIMITS)
        again = migrate(config.kafka, config.clickhouse, partitions=MORE, limits=LIMITS)
        simulate(installation, {}, seed=2)
        simulate(installation, CHANGED, seed=3)
    with Processes(config.data_dir / "log") as after:
        services(installation, after, CHANGED, "worker")
        simulate(installation, CHANGED, seed=4)
        last = exact(config, after)

    assert says(plan) == {
        ("migration", f"{len(migrations()) + 1:04d}_add_rack.sql", "1 statements"),
        ("partitions", "state.windows.gpu.samples", "4 -> 8"),
        ("partitions", "gpu.samples", "4 -> 8"),
        *(("table ttl", name, "7 d -> 9 d after appended_ms") for name in raw_tables()),
        ("table ttl", "exemplars", "7 d -> 9 d after window_ms"),
        ("table ttl", "exemplars_slowest_1h", "7 d -> 9 d after hour_ms"),
    }
    grown = [step.subject for step in plan.steps if isinstance(step, GrowTopic)]
    assert grown == ["state.windows.gpu.samples", "gpu.samples"]
    assert again == Plan()
    assert last > 2 * first > 0
    with clickhouse_connect.get_client(**settings) as client:
        landed = dict(client.query("SELECT partition, count() FROM gpu_samples FINAL GROUP BY partition").result_rows)
        racks = client.query("SELECT count(), countIf(rack IS NULL) FROM gpu_samples FINAL").result_rows
    assert max(landed) >= 4
    assert racks == [(sum(landed.values()), sum(landed.values()))]


def says(plan: Plan) -> set[tuple[str, str, str]]:
    return {(step.kind, step.subject, step.says) for step in plan.steps}


def raw_tables() -> list[str]:
    return [table.name for table in RAW.values()]
