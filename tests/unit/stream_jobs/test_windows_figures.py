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
