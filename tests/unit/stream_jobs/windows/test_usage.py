"""Usage rows of the windows job against brute force: the same sums whatever the cuts, and only of what counts.

Covers stream_jobs.windows.usage.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec.block import Block
from schemas.contract.headers import Identity
from schemas.contract.record import Output
from schemas.limits import Limits
from schemas.rows.tables import EXEMPLARS
from schemas.rows.usage import USAGE
from stream_jobs.windows import usage
from stream_jobs.windows.columns import columns_of
from stream_jobs.windows.judge import judge
from stream_jobs.windows.plan import plan_of
from stream_jobs.windows.sums import Segment
from tests.unit.stream_jobs.windows.cases import (
    BASE_MS,
    PARTITIONS,
    SOURCE,
    Row,
    a_commit,
    a_record,
    a_request,
    a_sample,
    a_step,
    fold_all,
    header,
    rows_in,
)
from tests.unit.stream_jobs.windows.usage_cases import merged_usage, over_windows, totals, usage_rows

REQUESTS = "llm.requests"
PARTIALS = "window.partials"
A_REQUEST = {"e2e_us": 4_000_000, "ttft_us": 1_000_000, "input_tokens": 300, "cached_tokens": 0, "output_tokens": 30}


def sent(outputs: Sequence[Output]) -> list[Row]:
    """The usage rows of a commit."""
    return rows_in(outputs, PARTIALS, USAGE)


def usage_of_commits(batches: Sequence[Sequence[Row]], cuts: Sequence[bool]) -> list[list[Row]]:
    """Usage rows of each commit: a batch is one fold, and a commit follows where ``cuts`` says, and at the end."""
    step = a_step()
    state, changes = step.new(REQUESTS, 0), step.changes()
    commits = []
    for number, (batch, cut) in enumerate(zip(batches, cuts, strict=True)):
        step.fold(state, [a_record(REQUESTS, batch, number, BASE_MS + 60_000)], changes)
        if cut or number == len(batches) - 1:
            commits.append(sent(step.rows(state, changes, a_commit(REQUESTS))))
            changes = step.changes()
    return commits


MAYBE_TOKENS = st.sampled_from([None, 0, 1, 7, 1_000, 100_000_000])
MAYBE_US = st.sampled_from([None, 0, 1, 2_500_000, 61_000_000, 3_600_000_000])
EVENTS = st.lists(
    st.fixed_dictionaries(
        {
            "at_ms": st.sampled_from([BASE_MS, BASE_MS + 1, BASE_MS + 59_999, BASE_MS + 60_000]),
            **dict.fromkeys(("e2e_us", "queue_us", "ttft_us", "prefill_us", "decode_us"), MAYBE_US),
            **dict.fromkeys(("input_tokens", "cached_tokens", "output_tokens"), MAYBE_TOKENS),
            **dict.fromkeys(("engine_id", "placement_group", "tenant", "slo_class"), st.sampled_from([None, "a", "b"])),
            "status": st.sampled_from(["ok", "error"]),
        }
    ).map(lambda fields: a_request(**Row(fields))),
    min_size=1,
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(EVENTS, st.data())
def test_sums_are_those_of_brute_force_whatever_the_cuts(events: list[Row], data: st.DataObject) -> None:
    """Batches and commits anywhere: every minute of every key, null where null, and tokens in all as requests told."""
    ends = sorted({*data.draw(st.lists(st.integers(1, len(events)), max_size=4)), len(events)})
    batches = [events[start:end] for start, end in pairwise([0, *ends])]
    cuts = data.draw(st.lists(st.booleans(), min_size=len(batches), max_size=len(batches)))

    commits = usage_of_commits(batches, cuts)

    found = merged_usage(row for rows in commits for row in rows)
    assert found == merged_usage(row for event in events for row in usage_rows(event))
    assert over_windows(found) == totals(events)
    for rows in commits:
        assert len(merged_usage(rows)) == len(rows)


def test_a_commit_tells_the_same_bytes_wherever_folds_are_cut() -> None:
    """Rows stand in the order in which they began, by the records alone."""
    events = [a_request(BASE_MS + 700 * n, tenant=f"t{n % 5}", engine_id=f"e{n % 3}", **A_REQUEST) for n in range(60)]
    records = [a_record(REQUESTS, events[n : n + 5], n // 5, BASE_MS + 60_000) for n in range(0, 60, 5)]
    told = []
    for size in (1, 4, 12):
        step = a_step()
        state, changes = step.new(REQUESTS, 0), step.changes()
        for start in range(0, len(records), size):
            step.fold(state, records[start : start + size], changes)
        outputs = step.rows(state, changes, a_commit(REQUESTS))
        told.append([output.value for output in outputs if header(output, "schema") == USAGE.schema])

    assert told[0]
    assert told[0] == told[1] == told[2]


def test_usage_and_gpu_samples_of_a_group_meet_in_one_partition() -> None:
    """By placement group, else host: rows of the same group from both topics go where ``placement`` says."""
    places: list[Row] = [{"placement_group": f"pg{n}", "host": f"h{n % 3}"} for n in range(12)]
    places += [{"placement_group": None, "host": f"h{n}"} for n in range(9)]
    found: list[dict[bytes, set[int]]] = []
    for topic, make, more in ((REQUESTS, a_request, A_REQUEST), ("gpu.samples", a_sample, {})):
        step = a_step()
        events = [make(**place, **more) for place in places]
        outputs = step.rows(*fold_all(step, [a_record(topic, events)], topic), a_commit(topic))
        targets: dict[bytes, set[int]] = {}
        for output in outputs:
            for row in rows_in([output], PARTIALS, USAGE if topic == REQUESTS else None):
                group = (row["placement_group"] or row["host"]).encode()
                targets.setdefault(group, set()).add(output.partition)
        found.append(targets)

    expected = {
        group: {crc32(group) % PARTITIONS[PARTIALS]}
        for group in ((place["placement_group"] or place["host"]).encode() for place in places)
    }
    assert found == [expected, expected]
    assert {partition for targets in expected.values() for partition in targets} == {0, 1, 2}


def test_usage_stands_between_exemplars_and_partials() -> None:
    """So that whoever sees the watermark, which the last part tells, has seen the usage below it."""
    step = a_step()
    events = [a_request(host=f"h{n}", engine_id=f"e{n}", **A_REQUEST) for n in range(9)]
    outputs = step.rows(*fold_all(step, [a_record(REQUESTS, events)], REQUESTS), a_commit(REQUESTS))

    for target in range(PARTITIONS[PARTIALS]):
        own = [output for output in outputs if (output.topic, output.partition) == (PARTIALS, target)]
        assert [header(output, "schema") for output in own] == [
            EXEMPLARS.schema,
            USAGE.schema,
            "llm_requests_partials/1",
        ]
        assert [header(output, "part") for output in own] == ["1/3", "2/3", "3/3"]
        assert [header(output, "watermark") == "0" for output in own] == [True, True, False]
        assert int(header(own[1], "rows")) == len(sent(own))


def test_what_is_refused_or_late_or_comes_twice_uses_nothing() -> None:
    """Usage is taken from what the rows count; a refused event between two good ones as well as at the end."""
    late_ms = BASE_MS - Limits().allowed_lateness_ms - 1
    good = [a_request(tenant="first", **A_REQUEST), a_request(tenant="second", **A_REQUEST)]
    bad = [a_request(late_ms, **A_REQUEST), a_request(**A_REQUEST) | {"status": "no such status"}]
    identity = Identity(SOURCE, 1, 0, (1, 0))
    record = a_record(REQUESTS, [good[0], bad[0], bad[1], good[1]], 0, BASE_MS, identity)
    step = a_step()

    found = sent(step.rows(*fold_all(step, [record, record._replace(offset=1)], REQUESTS), a_commit(REQUESTS)))

    assert merged_usage(found) == merged_usage(row for event in good for row in usage_rows(event))


def test_a_commit_tells_the_same_bytes_whatever_keys_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of earlier commits only save time; beyond a number of them they are forgotten."""
    events = [a_request(BASE_MS + n, tenant=f"t{n % 7}", engine_id=f"e{n % 5}", **A_REQUEST) for n in range(60)]
    told: list[list[bytes | None]] = []
    for keys_max in (0, 20, 1_000):
        monkeypatch.setattr(usage, "KEYS_KEPT_MAX", keys_max)
        step = a_step()
        state, own = step.new(REQUESTS, 0), list[bytes | None]()
        for number, start in enumerate((0, 30, 10, 25)):
            changes = step.changes()
            step.fold(state, [a_record(REQUESTS, events[start : start + 30], number)], changes)
            outputs = step.rows(state, changes, a_commit(REQUESTS))
            own += [output.value for output in outputs if header(output, "schema") == USAGE.schema]
        told.append(own)

    assert len(told[0]) >= 4
    assert told[0] == told[1] == told[2]


def test_more_keys_than_there_was_room_for() -> None:
    """Tables grow; every key keeps its own sums though series of partials are at their limit."""
    events = [a_request(tenant=f"t{n}", engine_id=f"e{n % 40}", **A_REQUEST) for n in range(3_000)]
    records = [a_record(REQUESTS, events[n : n + 1_000], n // 1_000) for n in range(0, 3_000, 1_000)]
    step = a_step(Limits(series_max=5))
    state, changes = fold_all(step, records, REQUESTS)
    held = sum(part.bytes for part in changes.usage)

    found = sent(step.rows(state, changes, a_commit(REQUESTS)))

    assert merged_usage(found) == merged_usage(row for event in events for row in usage_rows(event))
    assert 3_000 * 100 < held < changes.bytes


def test_words_beyond_the_limit_read_other() -> None:
    """Label values are bounded where partials bound them: by the records alone, in every commit alike."""
    events: list[Row] = [a_request(tenant=f"t{n}", **A_REQUEST) for n in range(3)]
    step = a_step(Limits(label_cardinality_max=2))

    found = sent(step.rows(*fold_all(step, [a_record(REQUESTS, events)], REQUESTS), a_commit(REQUESTS)))

    assert sorted(row["tenant"] for row in found) == ["__other__", "t0", "t1"]


def test_other_topics_have_none() -> None:
    """A GPU sample is no request; nothing is held for it."""
    step = a_step()
    record = a_record("gpu.samples", [a_sample()])
    state, changes = fold_all(step, [record], "gpu.samples")
    judged = judge(state.plan.event, [record], step.limits)
    columns = columns_of(state.plan, judged.admitted, judged.record_of, step.window_ms)

    plan, series = plan_of(REQUESTS), step.new(REQUESTS, 0).series
    none = usage.UsageRows(usage.UsageKeys.of(plan, series, None), Segment(plan, series))

    assert changes.usage == []
    assert usage.requests_of(state.plan, columns, Block(0, {})) is None
    assert none.blocks(3) == {}
