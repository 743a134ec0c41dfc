"""The bench's own stack: where it lies, what it is told to make, what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.bench.stand import OUTPUTS, Stand, free_port, fresh_stand, metric, partitions_of, samples
from runtime.config import load
from runtime.local_stack import read_state
from schemas.contract.topics import BY_NAME
from schemas.errors import FleetpulseError


def test_children_find_the_stack_of_the_bench(tmp_path: Path) -> None:
    """Their logs lie beside it."""
    stand = Stand(load({"data_dir": tmp_path}), tmp_path, 1, 2)

    assert stand.environment == {"FLEETPULSE_DATA_DIR": str(tmp_path)}
    assert stand.log_dir == tmp_path / "bench-log"
    assert stand.log_dir.is_dir()


def test_a_job_has_its_sources_their_state_and_its_outputs() -> None:
    """With the partitions that the contract gives them."""
    found = partitions_of(("gpu.samples",))

    assert found.keys() == {"gpu.samples", "state.windows.gpu.samples", *OUTPUTS}
    assert found == {name: BY_NAME[name].partitions for name in found}


def test_a_port_is_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever was given it may not listen yet, or be gone for a while."""
    found = iter([20_001, 20_001, 20_002])
    monkeypatch.setattr("lab.bench.stand._given", set[int]())
    monkeypatch.setattr("lab.bench.stand.free_ports", lambda _count, *, start: [next(found)])

    assert [free_port(), free_port()] == [20_001, 20_002]


def test_tables_that_nobody_kept_are_refused_and_nothing_starts(tmp_path: Path) -> None:
    """The advice is how to fill them."""
    with (
        pytest.raises(FleetpulseError, match="fill it with --keep first"),
        fresh_stand(tmp_path, lambda _text: None, folder="filled", kept=True),
    ):
        pytest.fail("there is nothing to measure")

    assert read_state(tmp_path / "filled") is None


def test_a_fresh_stack_is_removed_when_it_could_not_be_brought_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error is told as it is."""
    folders = []

    def failing(folder: Path, _say: object) -> None:
        folder.mkdir(parents=True)
        folders.append(folder)
        raise FleetpulseError("no port is free")

    monkeypatch.setattr("lab.bench.stand.bring_up", failing)

    with pytest.raises(FleetpulseError, match="no port is free"), fresh_stand(tmp_path, lambda _text: None):
        pytest.fail("it did not start")

    assert [folder.exists() for folder in folders] == [False]


METRICS = """# HELP fleetpulse_job_records_total records
# TYPE fleetpulse_job_records_total counter
fleetpulse_job_records_total{topic="a",partition="0"} 3.0
fleetpulse_job_records_total{topic="b",partition="1"} 4.0
# TYPE fleetpulse_job_records_rejected_total counter
fleetpulse_job_records_rejected_total{topic="a"} 90.0
# TYPE fleetpulse_job_partitions gauge
fleetpulse_job_partitions{topic="a"} 8.0
"""


@pytest.mark.parametrize(("name", "value"), [("job_records", 7.0), ("job_partitions", 8.0), ("job_errors", 0.0)])
def test_a_metric_is_the_sum_over_its_labels(name: str, value: float) -> None:
    """Neither comments nor metrics whose names begin alike count; one that is not there is 0."""
    assert metric(METRICS, name) == value


def test_samples_of_a_metric_have_their_labels() -> None:
    """Whatever stands in these."""
    gauge = 'fleetpulse_cause{cause="a \\"b\\", {c} d"} 1.0\n'

    assert [(one.labels, one.value) for one in samples(METRICS + gauge, "cause")] == [({"cause": 'a "b", {c} d'}, 1.0)]
    assert [one.labels["topic"] for one in samples(METRICS, "job_records")] == ["a", "b"]
    assert samples("", "cause") == []
