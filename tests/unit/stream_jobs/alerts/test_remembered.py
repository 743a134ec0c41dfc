"""What is kept of a window: few columns, bounded rows, amounts by dimension."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.codec.build import rows_of
from schemas.sketch import bin_of
from stream_jobs.alerts import remembered as module
from stream_jobs.alerts.remembered import AMOUNTS, FIELDS, Lookup, remembered
from tests.unit.stream_jobs.alerts.evidence_cases import a_gpu, a_service, a_window, an_exemplar, rows_of_topic

OTHERS = [name for name in AMOUNTS if name.partition("_")[0] not in ("e2e", "tpot", "itl")]


def kept(kind: str, **blocks: Any) -> list[dict[str, Any]]:
    return rows_of(FIELDS[kind], remembered(a_window(**blocks))[kind])


def test_levels_of_gpus_are_kept_with_where_they_stand() -> None:
    """Unknown stays null."""
    found = kept("gpus", gpus=[a_gpu(temperature_c_max=80), a_gpu("GPU-2", throttled_us_sum=None)])

    assert found == [
        {
            "throttled_us": 0,
            "throttled_fault_us": None,
            "interval_ms": 10_000,
            "temperature_max_c": 80,
            "clock_sm_min_mhz": None,
            "gpu_uuid": "GPU-1",
            "engine_id": "e1",
            "host": "h1",
        },
        {
            "throttled_us": None,
            "throttled_fault_us": None,
            "interval_ms": 10_000,
            "temperature_max_c": None,
            "clock_sm_min_mhz": None,
            "gpu_uuid": "GPU-2",
            "engine_id": "e1",
            "host": "h1",
        },
    ]


def test_amounts_add_up_by_model_and_element_of_each_dimension() -> None:
    """By how they ended; every dimension holds the whole."""
    rows = [*a_service("a", 10, 2), *a_service("b", 5, region="us"), *a_service("a", 1, model="m2")]
    rows += [*a_service("c", 1, 3, error_kind="client"), *a_service("c", 1, 4, error_kind="oom")]
    rows.append({**rows[-1], "status": "aborted", "error_kind": None, "event_count": 6})
    found = kept("amounts", requests=rows)
    tenants = {
        (row["model"], row["element"]): tuple(row[name] for name in OTHERS)
        for row in found
        if row["dimension"] == "tenant"
    }

    assert tenants == {
        ("m1", "a"): (12, 2, 1_000_000, 10, 0, 0),
        ("m1", "b"): (5, 0, 500_000, 5, 0, 0),
        ("m1", "c"): (15, 4, 200_000, 2, 6, 3),
        ("m2", "a"): (1, 0, 100_000, 1, 0, 0),
    }
    totals = {name: sum(r["events"] for r in found if r["dimension"] == name) for name in ("tenant", "region", "start")}
    assert totals == {"tenant": 33, "region": 33, "start": 33}


def test_times_of_tokens_are_amounts_as_well() -> None:
    """Times per output token as requests report them; gaps by their sketch, each as the value of its bin."""
    short, long = bin_of(np.array([10_000, 40_000])).tolist()
    rows = a_service("a", 2, tpot_us_sum=70_000, tpot_us_count=2, itl_bins={short: 3, long: 1})
    (found,) = (row for row in kept("amounts", requests=rows) if row["dimension"] == "tenant")

    assert (found["tpot_sum"], found["tpot_count"], found["itl_count"]) == (70_000, 2, 4)
    assert found["itl_sum"] == pytest.approx(70_000, rel=0.011)


def test_elements_beyond_the_bound_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The amounts of those with the fewest events are not lost."""
    monkeypatch.setattr(module, "ELEMENTS_MAX", 3)
    rows = [row for number in range(6) for row in a_service(f"t{number}", number + 1)]
    found = {row["element"]: row["events"] for row in kept("amounts", requests=rows) if row["dimension"] == "tenant"}

    assert found == {"__other__": 6, "t3": 4, "t4": 5, "t5": 6}


def test_rows_are_bounded_and_other_grouping_sets_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind without rows is not kept at all."""
    monkeypatch.setattr(module, "ROWS_MAX", 1)
    found = remembered(a_window(gpus=[a_gpu(), a_gpu("GPU-2")], exemplars=[an_exemplar("r1"), an_exemplar("r2")]))

    assert {kind: block.rows for kind, block in found.items()} == {"gpus": 1, "exemplars": 1}
    assert remembered(a_window()) == {}


def test_of_exemplars_the_first_of_each_engine_and_metric_are_kept() -> None:
    """They come with the greatest first, and there are many engines."""
    rows = [
        *(an_exemplar(f"a{n}", value_us=9 - n) for n in range(4)),
        *(an_exemplar(f"b{n}", "failed", None) for n in range(3)),
        *(an_exemplar(f"c{n}", engine_id=None, value_us=1) for n in range(3)),
        an_exemplar("a9", model="m2"),
    ]

    assert [row["request_id"] for row in kept("exemplars", exemplars=rows)] == [
        "a0",
        "a1",
        "b0",
        "b1",
        "c0",
        "c1",
        "a9",
    ]


def test_labels_that_rows_do_not_have_do_not_matter() -> None:
    """A tenant says nothing of a GPU; a GPU that is not there matches nothing."""
    block = remembered(a_window(gpus=[a_gpu(), a_gpu("GPU-2")]))["gpus"]

    found = Lookup(block)

    assert found.rows({"tenant": {"a"}}).tolist() == [0, 1]
    assert found.rows({"gpu_uuid": {"GPU-2"}}).tolist() == [1]
    assert found.rows({"gpu_uuid": {"GPU-9"}}).tolist() == []
    assert found.rows({}).tolist() == [0, 1]


def test_a_packed_block_comes_back() -> None:
    """With the same rows; packed again it is the same."""
    found, fields = Lookup(remembered(a_window(gpus=[a_gpu()]))["gpus"]), FIELDS["gpus"]
    packed = found.packed(fields)

    again = Lookup.unpack(packed, fields)

    assert (rows_of(fields, again.block), again.packed(fields)) == (rows_of(fields, found.block), packed)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([*"xyz", None])), min_size=1, max_size=12),
    st.dictionaries(st.sampled_from(["host", "engine_id"]), st.sets(st.sampled_from("abxyz"), max_size=3)),
)
def test_rows_are_found_by_all_their_labels(rows: list[tuple[str, str | None]], wanted: dict[str, set[str]]) -> None:
    """As by looking at each; null is none of the words."""
    gpus = [a_gpu(str(n), host=host, engine_id=engine) for n, (host, engine) in enumerate(rows)]
    found = Lookup(rows_of_topic("gpu.samples", gpus))

    expected = [n for n, row in enumerate(gpus) if all(row[name] in words for name, words in wanted.items())]
    assert found.rows(wanted).tolist() == expected
    assert found.rows(wanted).tolist() == expected
