"""What the windows job tells about itself at a commit."""

from __future__ import annotations

from schemas.headers import Identity
from schemas.limits import Limits
from schemas.verdicts import Verdict
from stream_jobs.windows.figures import Figures, figures_of
from tests.unit.stream_jobs.windows_cases import (
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
NO_DOUBTS = dict.fromkeys(("untimed", "no_first_token", "cached_untold", "tokens_untold", "disordered", "clipped"), 0)
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
        doubts=NO_DOUBTS,
    )


def test_doubts_about_usage_are_told() -> None:
    """Two folds of a commit: a request without times and tokens in each, in one of them also a long one."""
    step = a_step()
    state, changes = step.new("llm.requests", 0), step.changes()
    long = a_request(e2e_us=3_600_000_000, ttft_us=1, input_tokens=5, cached_tokens=0, output_tokens=5)
    for number, rows in enumerate(([a_request(), long], [a_request()])):
        step.fold(state, [a_record("llm.requests", rows, number)], changes)

    doubts = figures_of(state, changes, LIMITS.lateness_ms).doubts

    assert doubts == NO_DOUBTS | {"untimed": 2, "tokens_untold": 2, "clipped": 1}
