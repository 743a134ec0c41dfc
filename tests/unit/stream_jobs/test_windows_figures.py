"""What the windows job tells about itself at a commit."""

from __future__ import annotations

from runtime.counters import Counters
from schemas.headers import Identity
from schemas.limits import Limits
from schemas.verdicts import Verdict
from stream_jobs.windows.figures import Figures, figures_of
from stream_jobs.windows.observed import ObservedWindowsStep, count
from tests.unit.stream_jobs.windows_cases import (
    BASE_MS,
    PARTITIONS,
    SOURCE,
    a_commit,
    a_record,
    a_sample,
    a_step,
    fold_all,
)

SAMPLES = "gpu.samples"
LIMITS = Limits(series_max=1)
IDENTITY = Identity(SOURCE, 1, 0, (1, 0))


def some_figures() -> Figures:
    """Two GPUs where one series has room, a re-send, a refused event, a refused record."""
    rows = [a_sample(gpu_uuid="a"), a_sample(gpu_uuid="b"), a_sample(gpu_uuid="b"), a_sample(util_gpu_pct=101)]
    record = a_record(SAMPLES, rows, 0, BASE_MS, IDENTITY)
    broken = a_record(SAMPLES, rows, 2, BASE_MS)._replace(value=b"\x01")
    step = a_step(LIMITS)
    state, changes = fold_all(step, [record, record._replace(offset=1), broken], SAMPLES)
    return figures_of(state, changes, LIMITS.lateness_ms)


def test_figures_tell_what_a_commit_holds() -> None:
    """Events by verdict, whole records refused by reason, what fell into __other__, and the sizes of the state."""
    none = dict.fromkeys(Verdict, 0)

    assert some_figures() == Figures(
        topic=SAMPLES,
        partition=0,
        events=none | {Verdict.ACCEPTED: 3, Verdict.REJECTED: 2, Verdict.DUPLICATE: 4},
        duplicates=1,
        refused={"syntax": 1},
        overflow={"gpu": 2},
        watermark_ms=BASE_MS - LIMITS.lateness_ms,
        series={"gpu": 1},
        words=1,  # "b" stands in no series that has its name, so the sweep took it
        sources=1,
        forgotten=0,
    )


def test_figures_become_counters() -> None:
    """Totals grow with every commit, levels are those of the last one."""
    counters = Counters()
    for _ in range(2):
        count(some_figures(), counters)

    place = {"topic": SAMPLES, "partition": 0}
    assert counters.value("job_events", topic=SAMPLES, verdict="accepted") == 6
    assert counters.value("job_records_duplicate", topic=SAMPLES) == 2
    assert counters.value("job_records_rejected", topic=SAMPLES, reason="syntax") == 2
    assert counters.value("job_overflow_events", set="gpu") == 4
    assert counters.value("job_series", set="gpu", partition=0) == 1
    assert counters.value("job_watermark_ms", **place) == BASE_MS - LIMITS.lateness_ms
    assert [counters.value(f"job_{name}", **place) for name in ("words", "sources", "forgotten")] == [1, 1, 0]


def test_observing_changes_no_byte() -> None:
    """The observed step sends what the step sends, and tells once per commit."""
    told: list[Figures] = []
    observed, plain = ObservedWindowsStep(LIMITS, PARTITIONS), a_step(LIMITS)
    observed.observe = told.append
    records = [a_record(SAMPLES, [a_sample()], 0, BASE_MS, IDENTITY)]
    commit = a_commit(SAMPLES)

    assert observed.rows(*fold_all(observed, records, SAMPLES), commit) == plain.rows(
        *fold_all(plain, records, SAMPLES), commit
    )
    assert [figures.events[Verdict.ACCEPTED] for figures in told] == [1]
