"""The table of ``fleetpulse size`` is what the results that are kept say."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from fleetpulse.plan.size import TABLE, Costs
from lab.bench import measurement, sizing

RESULTS = Path(measurement.__file__).parent / "results"


def test_the_shipped_table_is_made_of_the_kept_results(tmp_path: Path) -> None:
    """Whoever changes a result changes the table."""
    sizing.write(RESULTS, tmp_path / "size.json")

    assert (tmp_path / "size.json").read_bytes() == TABLE.read_bytes()


def test_every_cost_names_its_command_machine_and_day() -> None:
    """One entry for each result; none is older than the format."""
    costs = Costs.load()

    kept = [orjson.loads((RESULTS / f"{name}.json").read_bytes()) for name in sizing.SOURCES]
    assert [(one["command"], one["at"]) for one in costs.measured] == [(one["command"], one["at"]) for one in kept]
    assert all(one["processor"] and one["cores"] for one in costs.measured)


def test_costs_of_an_event_are_those_of_the_largest_fleet_that_kept_up() -> None:
    """A fleet that did not keep up says nothing."""
    size, live, cost = (orjson.loads((RESULTS / f"{name}.json").read_bytes()) for name in sizing.SOURCES)
    (kept,) = live["tried"]
    smaller = {**kept, "gpus": 8, "cores": dict.fromkeys(kept["cores"], 9.0)}
    larger = {**smaller, "gpus": 10**6, "keeps_up": False}

    found = sizing.costs_of(size, {**live, "tried": [smaller, kept, larger]}, cost)

    assert found["windows_us"] == pytest.approx(1e6 * kept["cores"]["jobs"] / kept["events_per_s"])
    assert found["gpus"] == kept["gpus"]


@pytest.mark.parametrize(("name", "written"), [("size", True), ("freshness", False)])
def test_keeping_a_result_in_a_checkout_writes_the_table(
    name: str, written: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One kept elsewhere, or that the table is not made of, leaves it as it was."""
    calls: list[Path] = []
    (tmp_path / "bench").mkdir()
    monkeypatch.setattr(measurement, "RESULTS", tmp_path / "bench" / "results")
    monkeypatch.setattr(sizing, "write", lambda folder, _table: calls.append(folder))

    measurement.keep(name, {}, None)
    measurement.keep(name, {}, tmp_path / "elsewhere")

    assert calls == ([tmp_path / "bench" / "results"] if written else [])
