"""Budgets of series: parts of a process, parts of tenants, and an attack on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import native
from schemas.codec.block import Block, Labels
from schemas.codec.build import block_from_rows
from schemas.contract.headers import NATIVE
from schemas.contract.record import Record
from schemas.events.event_types import LLM_REQUESTS
from schemas.events.grouping import GROUPING_SETS
from schemas.limits import DEFAULT_LIMITS, HOUR_MS, Limits
from stream_jobs.windows.changes import State
from stream_jobs.windows.plan import plan_of
from stream_jobs.windows.series import NULL_CODE, OTHER_CODE, Allowance, Budget, Series
from tests.unit.stream_jobs.windows.cases import (
    BASE_MS,
    Row,
    a_record,
    a_request,
    a_step,
    fold_all,
    merged,
    partials,
)

REQUESTS = "llm.requests"


@pytest.mark.parametrize("partitions", [1, 4, 64])
def test_a_process_with_all_partitions_stays_within_its_budget(partitions: int) -> None:
    """However many partitions there are, and whoever has them: all sets of all partitions together fit."""
    unbounded = Limits(series_max=DEFAULT_LIMITS.process_series_max)
    total = sum(Budget.of(unbounded, partitions).series_max * partitions for _ in GROUPING_SETS)

    assert DEFAULT_LIMITS.process_series_max * 0.999 < total <= DEFAULT_LIMITS.process_series_max
    assert Budget.of(DEFAULT_LIMITS, partitions).series_max <= DEFAULT_LIMITS.series_max


@pytest.mark.parametrize("partitions", [1, 4, 64])
def test_a_tenant_stays_within_its_budget(partitions: int) -> None:
    """In all partitions together, and it never has more than half of a set."""
    budget = Budget.of(DEFAULT_LIMITS, partitions)

    named, unnamed = budget.series_of(True).named_max, budget.series_of(True).unnamed_max
    assert named * partitions <= DEFAULT_LIMITS.tenant_series_max
    assert named <= unnamed == budget.series_max // 2
    assert budget.series_of(False) == Allowance(unnamed, unnamed)
    assert budget.words.named_max == DEFAULT_LIMITS.tenant_label_cardinality_max


def test_small_limits_hold_as_they_are() -> None:
    """A limit below its part is the limit; a part is never nothing."""
    assert Budget.of(Limits(series_max=7, label_cardinality_max=9), 4) == Budget(7, 9, 25_000, 1_000)
    assert Budget.of(Limits(process_series_max=1, tenant_series_max=1), 64) == Budget(1, 2, 1, 1_000)


def by_model(rows: Sequence[Row], grouping: str = "service") -> dict[tuple[Any, Any], int]:
    found: Counter[tuple[Any, Any]] = Counter()
    for row in rows:
        if row["grouping"] == grouping:
            found[row["tenant"], row["model"]] += row["event_count"]
    return dict(found)


def test_a_tenant_names_only_so_many_models() -> None:
    """Later ones of the same tenant read ``__other__``, under its own name; other tenants still name theirs."""
    step = a_step(Limits(tenant_label_cardinality_max=2))
    sent = [("t", "a"), ("t", "b"), ("t", "c"), ("u", "c"), ("t", "c"), ("t", "d"), ("u", "d")]
    events = [a_request(tenant=tenant, model=model) for tenant, model in sent]
    state, changes = fold_all(step, [a_record(REQUESTS, events)], REQUESTS)

    assert by_model(partials(step, state, changes)) == {
        ("t", "a"): 1,
        ("t", "b"): 1,
        ("t", "__other__"): 2,
        ("u", "c"): 1,
        ("t", "c"): 1,
        ("u", "d"): 1,
    }


def test_a_tenant_opens_only_so_many_series() -> None:
    """Later ones fall into ``__other__``; those of others, and what was open, go on."""
    step = a_step(Limits(tenant_series_max=8))  # of four partitions
    sent = [("t", "m1"), ("t", "m2"), ("t", "m3"), ("u", "m3"), ("t", "m1"), ("t", "m4")]
    events = [a_request(tenant=tenant, model=model) for tenant, model in sent]
    state, changes = fold_all(step, [a_record(REQUESTS, events)], REQUESTS)
    rows = partials(step, state, changes)

    assert by_model(rows) == {("t", "m1"): 2, ("t", "m2"): 1, ("u", "m3"): 1, ("__other__", "__other__"): 2}
    assert {model for _, model in by_model(rows, "engine")} == {"m1", "m2", "m3", "m4"}


def test_requests_without_a_tenant_leave_half() -> None:
    """Who hides behind no name takes no more than that, of series and of models."""
    step = a_step(Limits(series_max=4, label_cardinality_max=8))
    events = [*(a_request(model=f"m{n}") for n in range(5)), a_request(tenant="t", model="own")]
    state, changes = fold_all(step, [a_record(REQUESTS, events)], REQUESTS)

    assert by_model(partials(step, state, changes)) == {
        (None, "m0"): 1,
        (None, "m1"): 1,
        ("__other__", "__other__"): 3,
        ("t", "own"): 1,
    }


requests = st.lists(
    st.tuples(st.sampled_from((None, "a", "b", "__other__")), st.sampled_from("mnopqr"), st.integers(0, 9)),
    min_size=1,
    max_size=25,
)


@given(requests, st.data())
@settings(max_examples=60, deadline=None)
def test_budgets_depend_on_the_log_alone(sent: list[tuple[str | None, str, int]], data: st.DataObject) -> None:
    """Any cutting, any commits, any restart give the same rows and the same state; sweeps come between."""
    at_ms, records = BASE_MS, []
    for offset, (tenant, model, hours) in enumerate(sent):
        at_ms += hours * HOUR_MS
        records.append(a_record(REQUESTS, [a_request(at_ms, tenant=tenant, model=model, host=f"h{hours}")], offset))
    cut = data.draw(st.lists(st.integers(0, len(records)), max_size=5).map(sorted))
    limits = Limits(series_max=6, label_cardinality_max=5, tenant_series_max=8, tenant_label_cardinality_max=2)
    step = a_step(limits)
    whole, whole_changes = fold_all(step, records, REQUESTS)
    parts, rows = step.new(REQUESTS, 0), []
    for start, stop in zip([0, *cut], [*cut, len(records)], strict=True):
        changes = step.changes()
        step.fold(parts, records[start:stop], changes)
        rows += partials(step, parts, changes)
        parts = step.load(REQUESTS, 0, step.dump(parts))

    assert step.dump(parts) == step.dump(whole)
    assert merged(REQUESTS, rows) == merged(REQUESTS, partials(step, whole, whole_changes))
    assert sum(row["event_count"] for row in rows) == len(sent) * len(plan_of(REQUESTS).sets)
    _counts_are_those_of_openers(parts.series)


def _counts_are_those_of_openers(series: Series) -> None:
    for table in series.tables:
        own = np.bincount(table.openers[1 : table.count], minlength=len(table.opened))
        assert own.tolist() == table.opened.tolist()
    for words in series.words:
        assert not words.bounded or len(words.openers) == words.kept


def test_what_a_sweep_frees_a_tenant_may_open_again() -> None:
    """Series and names that nobody uses any more count for nobody."""
    step = a_step(Limits(tenant_series_max=4, tenant_label_cardinality_max=1))
    later = BASE_MS + 20 * HOUR_MS
    records = [
        a_record(REQUESTS, [a_request(tenant="t", model="a")]),
        a_record(REQUESTS, [a_request(later, tenant="u", model="a")], 1),
        a_record(REQUESTS, [a_request(later, tenant="t", model="b")], 2),
    ]
    state, changes = fold_all(step, records, REQUESTS)

    assert by_model(partials(step, state, changes)) == {("t", "a"): 1, ("u", "a"): 1, ("t", "__other__"): 1}

    much_later = later + 20 * HOUR_MS
    records = [
        a_record(REQUESTS, [a_request(much_later, tenant="v", model="v")], 3),
        a_record(REQUESTS, [a_request(much_later, tenant="t", model="b")], 4),
    ]
    changes = step.changes()
    step.fold(state, records, changes)

    assert by_model(partials(step, state, changes)) == {("v", "v"): 1, ("t", "b"): 1}


HONEST, INVENTED, WIDE = 10, 200_000, 1_000
RECORDS = INVENTED // WIDE


def attacked() -> Iterator[Record]:
    """Requests of one tenant for 200,000 models, and ten tenants with three models each, who come one by one."""
    honest = [
        [a_request(tenant=f"t{n}", model=f"own-{n}-{k}", ttft_us=1_000 * (n + 1)) for k in range(3)]
        for n in range(HONEST)
    ]
    attack = block_from_rows(
        LLM_REQUESTS.fields, [a_request(tenant="attacker", ttft_us=9, engine_id=f"e{n % 8}") for n in range(WIDE)]
    )
    headers = (("schema", LLM_REQUESTS.schema.encode()), ("content-type", NATIVE.encode()))
    for offset in range(RECORDS):
        names = [None, *(b"invented-%d" % (offset * WIDE + n) for n in range(WIDE))]
        models = Labels(np.arange(1, WIDE + 1), names)
        value = native.encode(LLM_REQUESTS.fields, Block(WIDE, attack.columns | {"model": models}))
        yield Record(REQUESTS, 0, 2 * offset, BASE_MS + 100, None, value, headers)
        here = honest[: 1 + offset * HONEST // RECORDS]
        yield a_record(REQUESTS, [row for rows in here for row in rows], 2 * offset + 1, BASE_MS + 100)


def _events_by_set(rows: Sequence[Row]) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in rows:
        found[row["grouping"]] += row["event_count"]
    return found


def _honest(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["grouping"] == "service" and (row["tenant"] or "").startswith("t")]


def test_one_tenant_with_200_000_models_costs_no_other_its_series() -> None:
    """Tenants that come after it keep their names and percentiles, every event counts once, memory is bounded."""
    step, records = a_step(), list(attacked())
    state, changes = fold_all(step, records, REQUESTS)
    held = sum(table.bytes for table in state.series.tables)
    rows = partials(step, state, changes)
    alone, alone_changes = fold_all(step, records[1::2], REQUESTS)

    assert merged(REQUESTS, _honest(rows)) == merged(REQUESTS, _honest(partials(step, alone, alone_changes)))
    sent = INVENTED + sum(3 * (1 + n * HONEST // RECORDS) for n in range(RECORDS))
    assert _events_by_set(rows) == {"service": sent, "engine": sent}
    own = {model: n for (tenant, model), n in by_model(rows).items() if tenant == "attacker"}
    kept = DEFAULT_LIMITS.tenant_label_cardinality_max
    assert (len(own), own["__other__"], sum(own.values())) == (kept + 1, INVENTED - kept, INVENTED)
    assert held < 4_000_000
    assert max(words.kept for words in state.series.words) <= kept + 3 * HONEST


def test_one_tenant_with_many_series_takes_its_part_alone() -> None:
    """Where it names engines and versions too, its part of the set ends it, not the set."""
    limits = Limits(tenant_series_max=400, series_max=300)
    events = [
        a_request(tenant="attacker", model=f"m{n % 40}", slo_class=f"s{n % 37}", error_kind="other")
        for n in range(1_400)
    ]
    honest = [a_request(tenant=f"t{n}", model=f"own-{n}") for n in range(100)]
    records = [a_record(REQUESTS, events[:1_000]), a_record(REQUESTS, events[1_000:], 1), a_record(REQUESTS, honest, 2)]
    step = a_step(limits)
    state, changes = fold_all(step, records, REQUESTS)
    rows = partials(step, state, changes)

    assert {key: n for key, n in by_model(rows).items() if str(key[0]).startswith("t")} == {
        (f"t{n}", f"own-{n}"): 1 for n in range(100)
    }
    assert by_model(rows)["__other__", "__other__"] == 1_400 - 100
    opened = _opened_by(state, b"attacker")
    assert opened["service"] == 100


def _opened_by(state: State, tenant: bytes) -> dict[str, int]:
    code = state.series.words[state.series.tenant_at].codes[tenant]
    assert code not in (NULL_CODE, OTHER_CODE)
    return {table.grouping.name: int(table.opened[code]) for table in state.series.tables}
