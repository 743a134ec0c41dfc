"""The whole pipeline by its own commands: a short chaos."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.chaos.schedule import UPHEAVALS

pytestmark = [pytest.mark.integration, pytest.mark.timeout(420)]


def fleetpulse(*words: str, data_dir: Path, within_s: float = 400) -> subprocess.CompletedProcess[str]:
    """Run a command in a data folder of its own."""
    return subprocess.run(
        [sys.executable, "-m", "fleetpulse", *words],
        env={**os.environ, "FLEETPULSE_DATA_DIR": str(data_dir), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )


def test_a_short_chaos_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """Ten kill -9 over all five parts: books exact, every window and series equal to the generator's truth."""
    done = fleetpulse("chaos", "--kills", "10", "--seed", "4", "--json", data_dir=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert (report["exact"], report["lost"], report["doubled"]) == (True, 0, 0)
    assert report["cells_compared"] > 1_000
    assert sum(count for blow, count in report["blows"].items() if blow.startswith("kill")) == 10


@pytest.mark.full
@pytest.mark.timeout(1_220)
def test_a_short_chaos_in_a_cluster_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """Three brokers and two shards, killed and frozen one by one; workers roll, topics grow, rebalances follow on one
    another. Finals, bills and alerts are the truth's, too."""
    words = ("chaos", "--cluster", "--kills", "5", "--seed", "2", "--gpus", "16", "--json")
    done = fleetpulse(*words, data_dir=tmp_path, within_s=1_200)

    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert (report["exact"], report["lost"], report["doubled"]) == (True, 0, 0)
    assert report["cells_compared"] > 1_000
    assert any("freezes" in blow for blow in report["blows"])
    assert {blow.value for blow in UPHEAVALS} <= set(report["blows"])
    compared = {name: one["compared"] for name, one in report["outcomes"].items() if one["exact"]}
    assert compared["finals"] == report["cells_compared"]
    assert compared["bills"] > 20
    assert compared["alerts"] > 0
