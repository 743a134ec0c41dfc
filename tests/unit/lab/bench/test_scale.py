"""``bench scale``: its layouts, its load, and what is read off a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from lab.bench import scale
from lab.bench.scale import LAYOUTS, Run, at, load_of, report
from schemas.codec.block import Numbers
from schemas.contract.topics import BOOKS_TOPIC, COSTS_TOPIC, STATE_TOPICS, WINDOW_PARTIALS
from schemas.errors import FleetpulseError

NOW_MS = 1_800_000_000_000


def test_layouts_quadruple_and_the_state_topics_grow_with_their_sources() -> None:
    """Workers, partitions of sources and of partials; other topics keep the contract's."""
    assert [(one.workers, one.sources, one.partials) for one in LAYOUTS] == [(1, 4, 4), (4, 16, 16), (16, 64, 64)]

    topics = scale._topics(LAYOUTS[1])
    assert (topics[WINDOW_PARTIALS], topics["state.windows.gpu.samples"], topics["state.finals.window.partials"]) == (
        16,
        16,
        16,
    )
    assert (topics[BOOKS_TOPIC], topics[COSTS_TOPIC]) == (1, 4)


def test_the_load_is_a_second_of_every_host_moved_to_now() -> None:
    """Eight samples and forty requests a host; only the time changes."""
    load = load_of(80, seed=1)
    assert Counter(one.topic for one in load) == {"llm.requests": 10, "gpu.samples": 10}
    assert sum(one.block.rows for one in load) == 10 * 48

    moved = at(at(load[0], NOW_MS), NOW_MS + 7_000)

    times = moved.block.columns["at_ms"]
    assert isinstance(times, Numbers)
    assert ((times.values >= NOW_MS + 7_000) & (times.values < NOW_MS + 8_000)).all()
    same = [name for name in moved.block.columns if name != "at_ms"]
    assert all(moved.block.columns[name] is load[0].block.columns[name] for name in same)


def a_run(number: int, cpu_s: float) -> Run:
    cpu = {"windows": cpu_s, "kafka": 1.0}
    grown = Counter({WINDOW_PARTIALS: 700, BOOKS_TOPIC: 100, STATE_TOPICS[0].name: 50})
    return Run(LAYOUTS[number], 500_000, 0.1, 10.0, cpu, 300.0, grown, [1.0, 3.0, 2.0], 3)


def test_a_report_is_by_million_events_and_by_second() -> None:
    """Markers are what the logs have grown by beyond the records that jobs wrote; snapshots stand apart."""
    (found,) = report([a_run(0, 3.0)], 1_000, 2.0)["runs"]

    assert found["cpu_s_per_million"] == 8.0
    assert found["cpu_s_per_million_by_process"] == {"kafka": 2.0, "windows": 6.0}
    assert found["cpu_s_per_million_of_jobs"] == 6.0
    assert (found["records_per_s"], found["markers_per_s"], found["state_offsets_per_s"]) == (30.0, 50.0, 5.0)
    assert (found["finals_p99_s"], found["windows"], found["windows_expected"]) == (3.0, 3, 3)
    assert (found["cores"], found["growth"]) == (0.4, None)


@pytest.mark.parametrize(("second_s", "within"), [(3.39, True), (3.41, False), (2.0, True)])
def test_an_event_may_cost_a_tenth_more_than_in_the_layout_before(second_s: float, within: bool) -> None:
    """Beyond it the command ends with 1."""
    found = report([a_run(0, 3.0), a_run(1, second_s)], 1_000, 2.0)

    assert found["within"] is within
    assert found["runs"][1]["growth"] == pytest.approx((second_s + 1) / 4 - 1)


def test_windows_that_never_became_final_are_not_within() -> None:
    """Also of a single layout, which nothing is compared with."""
    run = replace(a_run(0, 3.0), windows=4)

    assert report([run], 1_000, 2.0)["within"] is False
    assert report([replace(run, windows=3)], 1_000, 2.0)["within"] is True


class Children:
    """Two children, of which the second may have ended."""

    def __init__(self, second: int | None) -> None:
        self._pids = {"windows-0": 7, "sink": second}

    def names(self) -> tuple[str, ...]:
        return tuple(self._pids)

    def pid(self, name: str) -> int | None:
        return self._pids[name]

    def tail(self, name: str) -> str:
        return f"last line of {name}"


def test_a_process_that_ended_ends_the_measurement() -> None:
    """Its processor time is gone with it, and what it did not do was done by nobody."""
    scale.demand_alive(Children(8))  # type: ignore[arg-type]

    with pytest.raises(FleetpulseError, match="sink ended while it was measured:\nlast line of sink"):
        scale.demand_alive(Children(None))  # type: ignore[arg-type]
