"""The windows job's figures as counters of its process."""

from __future__ import annotations

from fleetpulse.observed import ObservedWindowsStep, count
from runtime.counters import Counters
from schemas.limits import DEFAULT_LIMITS
from schemas.verdicts import Verdict
from stream_jobs.windows.figures import Figures
from tests.unit.stream_jobs.windows_cases import PARTITIONS, a_commit, a_record, a_sample, a_step, fold_all

SAMPLES = "gpu.samples"


def test_figures_become_counters() -> None:
    """Totals grow with every commit, levels are those of the last one."""
    figures = Figures(
        topic=SAMPLES,
        partition=3,
        events={Verdict.ACCEPTED: 5, Verdict.LATE: 0},
        duplicates=1,
        refused={"syntax": 2},
        overflow={"gpu": 4},
        watermark_ms=9_000,
        series={"gpu": 7},
        words=6,
        sources=8,
        forgotten=0,
        doubts={"clipped": 5},
    )
    counters = Counters()
    for _ in range(2):
        count(figures, counters)

    place = {"topic": SAMPLES, "partition": 3}
    assert [counters.value("job_events", topic=SAMPLES, verdict=word) for word in ("accepted", "late")] == [10, 0]
    assert counters.value("job_records_duplicate", topic=SAMPLES) == 2
    assert counters.value("job_records_rejected", topic=SAMPLES, reason="syntax") == 4
    assert counters.value("job_overflow_events", set="gpu") == 8
    assert counters.value("job_usage_doubts", doubt="clipped") == 10
    assert counters.value("job_series", set="gpu", partition=3) == 7
    levels = ("watermark_ms", "words", "sources", "forgotten")
    assert [counters.value(f"job_{name}", **place) for name in levels] == [9_000, 6, 8, 0]


def test_observing_changes_no_byte() -> None:
    """The observed step sends what the step sends, and tells once per commit."""
    told: list[Figures] = []
    observed, plain = ObservedWindowsStep(DEFAULT_LIMITS, PARTITIONS, observe=told.append), a_step()
    records, commit = [a_record(SAMPLES, [a_sample()])], a_commit(SAMPLES)
    sent = observed.rows(*fold_all(observed, records, SAMPLES), commit)

    assert sent == plain.rows(*fold_all(plain, records, SAMPLES), commit)
    assert [figures.events[Verdict.ACCEPTED] for figures in told] == [1]
