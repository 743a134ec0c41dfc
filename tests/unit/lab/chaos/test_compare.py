"""The judge of a chaos run: it finds what is lost, doubled or changed in the tables, and nothing in whole ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import pytest

from fleetpulse.reconcile.compare import Report
from fleetpulse.sql.database import Answer, Database
from lab.chaos.compare import Comparison, compare, stored
from lab.chaos.run import ChaosReport
from lab.simulator.fleet import Step
from lab.simulator.plan import FleetPlan
from lab.simulator.truth import Truth, TruthTable, part_of
from lab.simulator.truth_file import Cut
from schemas.events.event_types import BY_TOPIC
from schemas.events.grouping import GROUPING_SETS
from schemas.fields import Role
from schemas.sketch import bin_of

TOPICS = ("gpu.samples", "llm.requests")


class Tables:
    """In the database's place: per grouping set what whole tables would answer, changed as a test wants it."""

    def __init__(self, truth: Truth, change: Callable[[str, list[dict[str, Any]]], None]) -> None:
        self._truth, self._change = truth, change

    def sql(self, text: str, parameters: Mapping[str, str]) -> Answer:
        """The rows of one grouping set, brute force from the truth's raw values."""
        (grouping,) = (one for one in GROUPING_SETS if one.name == parameters["grouping"])
        columns = ("window_ms", *grouping.dimensions)
        rows = [
            {**dict(zip(columns, key, strict=True)), **self._row(self._truth[grouping.topic], of)}
            for key, of in _members(self._truth[grouping.topic], grouping.dimensions).items()
        ]
        self._change(grouping.name, rows)
        return Answer(tuple(rows[0]) if rows else (), tuple(tuple(row.values()) for row in rows))

    def _row(self, table: TruthTable, of: list[int]) -> dict[str, Any]:
        event, row = BY_TOPIC[table.topic], {"events": len(of)}
        for field in event.of(Role.SKETCH, Role.GAUGE, Role.DIFFERENCE):
            values, known = table.values(field.name)
            mine = [int(values[at]) for at in of if known[at]]
            if field.role is Role.DIFFERENCE:
                row |= {f"{field.name}.sum": sum(mine) if mine else None}
                continue
            row |= {f"{field.name}.{name}": take(mine) for name, take in (("count", len), ("sum", sum))}
            row |= {f"{field.name}.{name}": take(mine, default=None) for name, take in (("min", min), ("max", max))}
            if field.role is Role.SKETCH:
                row |= {f"{field.name}.bins": dict(Counter(bin_of(np.array(mine, np.int64)).tolist()))}
        for field in event.of(Role.SKETCH_BINS):
            row |= {f"{field.name}.bins": _ready_made(table, field.name, of)}
        return row


def _members(table: TruthTable, dimensions: tuple[str, ...]) -> dict[tuple[Any, ...], list[int]]:
    at_ms, _ = table.values("at_ms")
    labels = [table.labels(name) for name in dimensions]
    found: dict[tuple[Any, ...], list[int]] = {}
    for at, ms in enumerate(at_ms.tolist()):
        key = (ms // 10_000 * 10_000, *(words[codes[at]] for codes, words in labels))
        found.setdefault(key, []).append(at)
    return found


def _ready_made(table: TruthTable, name: str, of: list[int]) -> dict[int, int]:
    found: dict[int, int] = {}
    first, mine = 0, set(of)
    for part in table._parts:
        column = part.bins[name]
        for row, (begin, end) in enumerate(zip([0, *column.ends[:-1].tolist()], column.ends.tolist(), strict=True)):
            for at in range(begin, end) if first + row in mine else ():
                found[int(column.keys[at])] = found.get(int(column.keys[at]), 0) + int(column.counts[at])
        first += len(column.ends)
    return found


@pytest.fixture
def judged(
    small_plan: Callable[..., FleetPlan], steps_of: Callable[[FleetPlan, int, int], list[Step]]
) -> Callable[..., Comparison]:
    """The comparison of twelve seconds of a small fleet with tables changed as told."""
    steps = steps_of(small_plan(), 2, 12)
    truth = Truth(part_of(wide, 7) for step in steps for wide in step.wides if wide.topic in TOPICS)

    def judge(change: Callable[[str, list[dict[str, Any]]], None] = lambda _name, _rows: None) -> Comparison:
        database = cast("Database", Tables(truth, change))
        return compare(lambda grouping: stored(database, grouping), truth)

    return judge


def test_whole_tables_are_exact(judged: Callable[..., Comparison]) -> None:
    """Every window, series and measure is compared."""
    found = judged()

    assert (found.exact, found.lost, found.doubled, found.differences) == (True, 0, 0, ())
    assert found.cells > 100
    assert found.percentiles > 100


def test_rows_of_a_topic_that_the_truth_does_not_know_are_too_many(judged: Callable[..., Comparison]) -> None:
    """Its tables are looked at, too."""

    def change(name: str, rows: list[dict[str, Any]]) -> None:
        if name == "host":
            labels = {"cluster": None, "region": None, "host": "h-1", "origin": "simulated"}
            rows.append({"window_ms": 0, **labels, "events": 7})

    found = judged(change)

    assert (found.exact, found.lost, found.doubled) == (False, 0, 7)
    assert [(one.topic, one.truth, one.table) for one in found.differences] == [("host.samples", 0, 7)]


def test_only_what_was_compared_counts(judged: Callable[..., Comparison]) -> None:
    """A series without a row has its events compared, and no measure or percentile."""

    def change(name: str, rows: list[dict[str, Any]]) -> None:
        if name == "engine":
            rows[:] = [row for row in rows if row["engine_id"] != "h-1/1" or row["status"] != "ok"]

    whole, found = judged(), judged(change)
    series = sum(one.grouping == "engine" for one in found.differences)
    request = BY_TOPIC["llm.requests"]

    assert series > 0
    measures = len(request.of(Role.SKETCH, Role.GAUGE, Role.DIFFERENCE, Role.SKETCH_BINS))
    assert whole.cells - found.cells == series * measures
    assert 0 < whole.percentiles - found.percentiles <= series * len(request.of(Role.SKETCH)) * 3


def test_what_is_missing_is_lost_and_what_is_too_much_is_doubled(judged: Callable[..., Comparison]) -> None:
    """A series that is gone counts with all its events."""

    def change(name: str, rows: list[dict[str, Any]]) -> None:
        if name == "gpu":
            rows.sort(key=lambda row: str(row["gpu_uuid"]))
            missing.append(rows.pop(0)["events"])
            rows[0]["events"] += 2

    missing: list[int] = []

    found = judged(change)

    assert (found.exact, found.lost, found.doubled) == (False, missing[0], 2)
    assert [one.measure for one in found.differences] == ["events", "events"]


@pytest.mark.parametrize(
    ("column", "named"),
    [("power_mw.sum", "power_mw"), ("power_mw.max", "power_mw"), ("energy_mj.sum", "energy_mj")],
)
def test_a_measure_that_differs_by_one_is_found(column: str, named: str, judged: Callable[..., Comparison]) -> None:
    """Nothing is lost then, and nothing is exact."""

    def change(name: str, rows: list[dict[str, Any]]) -> None:
        if name == "gpu":
            rows[0][column] += 1

    found = judged(change)

    assert (found.exact, found.lost, found.doubled) == (False, 0, 0)
    assert [(one.grouping, one.measure) for one in found.differences] == [("gpu", named)]


def test_a_sketch_beyond_its_promise_is_found(judged: Callable[..., Comparison]) -> None:
    """Bins that are all five higher: ten per cent above the exact percentile."""

    def change(name: str, rows: list[dict[str, Any]]) -> None:
        if name == "engine":
            (row,) = [row for row in rows if row["engine_id"] == "h-1/1" and row["status"] == "ok"][:1]
            row["e2e_us.bins"] = {bin_ + 5: count for bin_, count in row["e2e_us.bins"].items()}

    found = judged(change)

    assert {(one.grouping, one.measure) for one in found.differences} == {
        ("engine", f"e2e_us p{q}") for q in (50, 95, 99)
    }


def test_a_run_is_exact_when_books_and_truth_agree(judged: Callable[..., Comparison]) -> None:
    """Its report says how much was compared, also as JSON."""
    report = ChaosReport(4, {"kill sink": 2}, 61.04, Report((), 3, ()), judged())

    assert report.exact
    assert report.as_dict()["seconds"] == 61.0
    assert report.as_dict()["cells_compared"] == report.comparison.cells
    assert report.text().splitlines()[0] == "kill sink: 2"
    assert report.text().splitlines()[-1] == "exact"


def test_a_run_whose_spool_lost_what_it_had_is_not_exact(judged: Callable[..., Comparison]) -> None:
    """Books and truth would shrink together; what was not spooled yet when its producer was killed is said only."""
    books, comparison = Report((), 3, ()), judged()
    killed = ChaosReport(4, {}, 61.0, books, comparison, cut=Cut(7, 0))
    lost = ChaosReport(4, {}, 61.0, books, comparison, cut=Cut(7, 3))

    assert (killed.exact, lost.exact) == (True, False)
    assert "records that a killed producer had not spooled yet: 4; spooled and gone: 3" in lost.text().splitlines()
    assert lost.as_dict()["cut_beyond_last_steps"] == 3


@pytest.mark.parametrize(("hit", "exact"), [(2, True), (1, False)])
def test_enough_kills_have_to_hit_a_part_that_works(hit: int, exact: bool, judged: Callable[..., Comparison]) -> None:
    """A third of those of each part, and it is said how many did."""
    report = ChaosReport(4, {"kill sink": 6}, 61.0, Report((), 3, ()), judged(), at_work={"kill sink": hit})

    assert report.exact == exact
    assert f"kill sink: {hit} hit one that had committed since its start" in report.text().splitlines()
    assert ("kill sink: too few of them" in report.text().splitlines()) != exact


@pytest.mark.parametrize(
    ("blow", "exact"),
    [
        pytest.param("kill kafka (was down)", False, id="a part that is killed is up again before the next blow"),
        pytest.param("worker freezes and wakes as a zombie (was down)", True, id="a worker may be starting again"),
    ],
)
def test_a_kill_of_a_part_that_had_ended_by_itself_is_not_exact(
    blow: str, exact: bool, judged: Callable[..., Comparison]
) -> None:
    """Whatever the others hit, and however right the numbers are."""
    blows, hit = {"kill kafka": 6, blow: 1}, {"kill kafka": 6}
    report = ChaosReport(4, blows, 61.0, Report((), 3, ()), judged(), at_work=hit)

    assert report.exact == exact
    assert (f"{blow}: it had ended by itself" in report.text().splitlines()) != exact
