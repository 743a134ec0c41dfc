"""The truth equals brute force over what was emitted, in memory and back from the file, whole or cut short."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab.simulator.faults import Fault
from lab.simulator.fleet import Step
from lab.simulator.plan import FleetPlan, Habits
from lab.simulator.truth import Measure, Truth, measured_fields, part_of
from lab.simulator.truth_file import Cut, TruthWriter, cut_of, read_lives, truth_of
from schemas.codec.build import rows_of
from schemas.events.event_types import BY_TOPIC
from schemas.events.grouping import GROUPING_SETS
from schemas.sketch import RELATIVE_ERROR_MAX, bin_of, quantile
from tests.unit.lab.simulator.emitted import NOT_SIMULATED, emissions

ROWS_MAX = 7
TOPICS = ("llm.requests", "gpu.samples", "engine.samples", "host.samples", "host.processes", "gpu.events")


@pytest.fixture
def steps(small_plan: Callable[..., FleetPlan], steps_of: Any, start_ms: int) -> list[Step]:
    """25 seconds with trouble of every sort and a lost GPU."""
    lost = Fault("gpu_lost", "engine_id", "h-1/1", start_ms + 8_000, start_ms + 15_000)
    plan = small_plan(lost, habits=Habits(aborted=0.1, server_error=0.1, client_error=0.1))
    return steps_of(plan, 2, 25)


@pytest.fixture
def truth(steps: list[Step]) -> Truth:
    return Truth(part_of(wide, ROWS_MAX) for step in steps for wide in step.wides)


def emitted(steps: list[Step]) -> dict[str, list[list[dict[str, Any]]]]:
    """Records of each topic in the order of sending, as rows."""
    records: dict[str, list[list[dict[str, Any]]]] = defaultdict(list)
    for step in steps:
        for emission in emissions(step, ROWS_MAX):
            records[emission.topic].append(rows_of(BY_TOPIC[emission.topic].fields, emission.block))
    return records


def bucket(tokens: int | None) -> str | None:
    if tokens is None:
        return None
    for bound, word in ((256, "<=256"), (1_024, "<=1k"), (4_096, "<=4k"), (16_384, "<=16k"), (65_536, "<=64k")):
        if tokens <= bound:
            return word
    return ">64k"


def grouped(rows: list[dict[str, Any]], dimensions: tuple[str, ...]) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        labels = (bucket(row["input_tokens"]) if name == "input_bucket" else row[name] for name in dimensions)
        groups[row["at_ms"] // 10_000 * 10_000, *labels].append(row)
    return groups


def brute(rows: list[dict[str, Any]], name: str) -> Measure:
    values = [row[name] for row in rows if row[name] is not None]
    return Measure(len(values), sum(values), min(values, default=None), max(values, default=None))


@pytest.mark.parametrize(
    "grouping", [one for one in GROUPING_SETS if one.topic not in NOT_SIMULATED], ids=lambda grouping: grouping.name
)
def test_aggregates_equal_brute_force(steps: list[Step], truth: Truth, grouping: Any) -> None:
    """Events, counts, sums and extremes of every field per window and series of every shipped grouping set."""
    rows = [row for record in emitted(steps)[grouping.topic] for row in record]
    expected = grouped(rows, grouping.dimensions)

    groups = truth[grouping.topic].groups(grouping.dimensions)

    assert groups.events() == {key: len(mine) for key, mine in expected.items()}
    assert len(expected) > 1
    for name in measured_fields(grouping.topic):
        assert groups.measure(name) == {key: brute(mine, name) for key, mine in expected.items()}


def test_percentiles_equal_brute_force(steps: list[Step], truth: Truth) -> None:
    """Of each group and of the whole, on both paths."""
    rows = [row for record in emitted(steps)["llm.requests"] for row in record]
    table = truth["llm.requests"]
    for q in (0.0, 0.5, 0.95, 0.99, 1.0):
        expected = {}
        for key, mine in grouped(rows, ("model", "status")).items():
            values = [row["ttft_us"] for row in mine if row["ttft_us"] is not None]
            expected[key] = pytest.approx(np.quantile(values, q), rel=1e-12) if values else None
        assert table.groups(("model", "status")).percentiles("ttft_us", q) == expected
        values = [r["e2e_us"] for r in rows if r["tenant"] == "acme"]
        assert table.percentile("e2e_us", q, {"tenant": "acme"}) == np.quantile(values, q)
    assert table.percentile("e2e_us", 0.5, {"tenant": "nobody"}) is None


def test_gap_sketches_equal_brute_force(steps: list[Step], truth: Truth) -> None:
    """Bins of the gaps add up per group."""
    rows = [row for record in emitted(steps)["llm.requests"] for row in record]
    expected: dict[tuple[Any, ...], dict[int, int]] = {}
    for key, mine in grouped(rows, ("engine_id",)).items():
        total: dict[int, int] = defaultdict(int)
        for row in mine:
            for bin_, count in row["itl_bins"].items():
                total[bin_] += count
        expected[key] = dict(total)

    assert truth["llm.requests"].groups(("engine_id",)).bins("itl_bins") == expected


def test_sketches_of_the_truth_are_within_their_error(truth: Truth) -> None:
    """p50 to p99.9 of every latency from sketch bins are at most 1.09 % from the exact ones."""
    assert RELATIVE_ERROR_MAX <= 0.0109
    for name in ("ttft_us", "tpot_us", "e2e_us", "queue_us", "input_tokens", "output_tokens"):
        values, known = truth["llm.requests"].values(name)
        bins, counts = np.unique(bin_of(values[known]), return_counts=True)
        sketch = dict(zip(bins.tolist(), counts.tolist(), strict=True))
        for q in (0.5, 0.9, 0.95, 0.99, 0.999):
            exact = truth["llm.requests"].percentile(name, q)
            assert exact is not None
            assert abs(quantile(sketch, q) - exact) <= RELATIVE_ERROR_MAX * exact  # type: ignore[operator]


def write(path: Path, steps: list[Step], boot: int = 1, *, ended: bool = False) -> None:
    writer = TruthWriter(path, {"source": "ab" * 16, "boot": boot}, (Fault("error_burst", "fleet", "", 1, 2, 0.5),))
    for step in steps:
        writer.append(step, ROWS_MAX)
    writer.close(ended=ended)


def same(left: Truth, right: Truth) -> bool:
    names = ("model", "tenant", "status", "input_bucket")
    tables = (left["llm.requests"], right["llm.requests"])
    groups = [table.groups(names) for table in tables]
    fields = measured_fields("llm.requests")
    return (
        left.events() == right.events()
        and all(groups[0].measure(name) == groups[1].measure(name) for name in fields)
        and groups[0].bins("itl_bins") == groups[1].bins("itl_bins")
    )


def test_what_is_written_is_read(tmp_path: Path, steps: list[Step], truth: Truth) -> None:
    """A file gives back the truth, the labels of the faults and whose life it was."""
    write(tmp_path / "truth", steps)

    (life,) = read_lives(tmp_path / "truth")
    assert life.about == {"source": "ab" * 16, "boot": 1}
    assert life.faults == (Fault("error_burst", "fleet", "", 1, 2, 0.5),)
    assert set(truth.events()) == set(TOPICS)
    assert same(truth_of(read_lives(tmp_path / "truth")), truth)


@pytest.mark.parametrize("lost", [1, 11, 12, 5_000])
def test_a_torn_last_frame_is_dropped_and_written_over(tmp_path: Path, steps: list[Step], lost: int) -> None:
    """After a kill in the middle of a write all whole frames are read, and the next life can be appended."""
    path = tmp_path / "truth"
    write(path, steps[:2])
    whole = path.stat().st_size
    write(path, steps[2:3], boot=2)
    grown = path.read_bytes()
    path.write_bytes(grown[: whole + min(lost, len(grown) - whole - 1)])

    write(path, steps[3:], boot=3)

    lives = read_lives(path)
    assert [life.about["boot"] for life in lives if life.parts] == [1, 3] if lost < 5_000 else [1, 2, 3]
    kept = [part for life in lives if life.about["boot"] != 2 for part in life.parts]
    expected = [part_of(wide, ROWS_MAX) for step in steps[:2] + steps[3:] for wide in step.wides]
    assert same(Truth(kept), Truth(expected))


def test_a_life_is_cut_to_the_records_it_spooled(tmp_path: Path, steps: list[Step]) -> None:
    """With the first n records of each topic kept, the truth is that of those records and no more."""
    write(tmp_path / "truth", steps)
    records = emitted(steps)
    books = {"llm.requests": 31, "gpu.samples": 17, "engine.samples": len(records["engine.samples"])}

    truth = truth_of(read_lives(tmp_path / "truth"), {("ab" * 16, 1): books})

    assert truth.events() == {
        topic: sum(len(record) for record in records[topic][:count]) for topic, count in books.items()
    }
    rows = [row for record in records["llm.requests"][:31] for row in record]
    expected = {key: brute(mine, "ttft_us") for key, mine in grouped(rows, ("engine_id", "status")).items()}
    assert truth["llm.requests"].groups(("engine_id", "status")).measure("ttft_us") == expected


def test_a_life_that_is_not_in_the_books_counts_for_nothing(tmp_path: Path, steps: list[Step]) -> None:
    """Killed before its first record was spooled."""
    write(tmp_path / "truth", steps)

    assert truth_of(read_lives(tmp_path / "truth"), {}).events() == {}


def test_a_kill_may_take_records_of_the_last_step_alone(tmp_path: Path, steps: list[Step]) -> None:
    """A step is written down when all records of the one before are spooled; a spool that lost more is found."""
    write(tmp_path / "truth", steps)
    whole = {topic: len(records) for topic, records in emitted(steps).items()}
    before = {topic: len(records) for topic, records in emitted(steps[:-1]).items()}
    last = sum(whole.values()) - sum(before.values())
    less = before | {"llm.requests": before["llm.requests"] - 2}

    assert cut_of(read_lives(tmp_path / "truth"), {("ab" * 16, 1): whole}) == Cut(0, 0)
    assert cut_of(read_lives(tmp_path / "truth"), {("ab" * 16, 1): before}) == Cut(last, 0)
    assert cut_of(read_lives(tmp_path / "truth"), {("ab" * 16, 1): less}) == Cut(last + 2, 2)
    assert cut_of(read_lives(tmp_path / "truth"), {}).beyond == sum(before.values())


def test_a_life_that_has_ended_by_itself_lacks_nothing(tmp_path: Path, steps: list[Step]) -> None:
    """Its last step was spooled whole."""
    write(tmp_path / "truth", steps, boot=1)
    write(tmp_path / "truth", steps, boot=2, ended=True)
    whole = {topic: len(records) for topic, records in emitted(steps).items()}
    one_less = whole | {"llm.requests": whole["llm.requests"] - 1}

    found = cut_of(read_lives(tmp_path / "truth"), {("ab" * 16, 1): one_less, ("ab" * 16, 2): one_less})

    assert found == Cut(2, 1)
    assert [life.ended for life in read_lives(tmp_path / "truth")] == [False, True]
