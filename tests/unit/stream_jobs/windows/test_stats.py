"""Statistics of one commit of the windows job."""

from __future__ import annotations

from schemas.contract.headers import Identity
from schemas.limits import Limits
from tests.unit.stream_jobs.stat_values import values_of
from tests.unit.stream_jobs.windows.cases import (
    BASE_MS,
    SOURCE,
    a_record,
    a_request,
    a_sample,
    a_step,
    fold_all,
)

SAMPLES = "gpu.samples"
LIMITS = Limits(series_max=1)
IDENTITY = Identity(SOURCE, 1, 0, (1, 0))


def test_stats_of_a_commit() -> None:
    """Events by verdict, whole records rejected by reason, what fell into __other__, and the sizes of the state: of two
    GPUs where one series has room, a duplicate, a rejected event, a rejected record."""
    rows = [a_sample(gpu_uuid="a"), a_sample(gpu_uuid="b"), a_sample(gpu_uuid="b"), a_sample(util_gpu_pct=101)]
    record = a_record(SAMPLES, rows, 0, BASE_MS, IDENTITY)
    broken = a_record(SAMPLES, rows, 2, BASE_MS)._replace(value=b"\x01")
    step = a_step(LIMITS)
    state, changes = fold_all(step, [record, record._replace(offset=1), broken], SAMPLES)

    assert {key: value for key, value in values_of(step.stats(state, changes)).items() if value} == {
        ("job_events", SAMPLES, "accepted"): 3,
        ("job_events", SAMPLES, "rejected"): 2,
        ("job_events", SAMPLES, "duplicate"): 4,
        ("job_records_duplicate", SAMPLES): 1,
        ("job_records_rejected", SAMPLES, "syntax"): 1,
        ("job_overflow_events", "gpu"): 2,
        ("job_watermark_ms", SAMPLES, 0): BASE_MS - LIMITS.out_of_orderness_ms,
        ("job_series", "gpu", 0): 1,
        ("job_series_max", "gpu", 0): 1,
        ("job_label_values", SAMPLES, 0): 1,  # "b" stands in no series that has its name, so the sweep took it
        ("job_sources", SAMPLES, 0): 1,
    }


def test_what_overflowed_is_counted_by_dimension() -> None:
    """A value without room is counted by its set and dimension, a series without room by its set alone."""
    step = a_step(Limits(tenant_label_cardinality_max=1, label_cardinality_max=2))
    events = [
        a_request(tenant=tenant, model=model) for tenant, model in (("a", "x"), ("a", "y"), ("b", "z"), ("c", "x"))
    ]
    state, changes = fold_all(step, [a_record("llm.requests", events)], "llm.requests")

    stats = values_of(step.stats(state, changes))

    assert {key: value for key, value in stats.items() if key[0].startswith("job_overflow") and value} == {
        ("job_overflow_labels", "service", "model"): 1,
        ("job_overflow_labels", "service", "tenant"): 1,
        ("job_overflow_labels", "engine", "model"): 1,
    }


def test_assumptions_about_usage_are_counted() -> None:
    """Two folds of a commit: a request without times and tokens in each, in one of them also a long one."""
    step = a_step()
    state, changes = step.new("llm.requests", 0), step.changes()
    long = a_request(e2e_us=3_600_000_000, ttft_us=1, input_tokens=5, cached_tokens=0, output_tokens=5)
    for number, rows in enumerate(([a_request(), long], [a_request()])):
        step.fold(state, [a_record("llm.requests", rows, number)], changes)

    stats = values_of(step.stats(state, changes))

    assert {
        assumption: value for (metric, assumption, *_), value in stats.items() if metric == "job_usage_assumptions"
    } == {
        "untimed": 2,
        "no_first_token": 0,
        "cached_unknown": 0,
        "tokens_unknown": 2,
        "disordered": 0,
        "clipped": 1,
    }
