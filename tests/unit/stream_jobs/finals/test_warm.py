"""Warming: after it nothing that the job runs has to be compiled.

Covers stream_jobs.warm_rows.
"""

from __future__ import annotations

from stream_jobs.finals import kernels
from stream_jobs.finals.warm import warm
from tests.unit.stream_jobs.finals.cases import (
    END_MS,
    REQUESTS,
    SAMPLES,
    Upstream,
    a_step,
    folded,
    heads,
    request_rows,
    sample_rows,
)
from tests.unit.stream_jobs.windows.cases import BASE_MS


def compiled() -> dict[str, int]:
    """For how many forms of input each loop was compiled."""
    return {name: len(loop.signatures) for name, loop in vars(kernels).items() if hasattr(loop, "signatures")}


def test_nothing_is_compiled_after_warming() -> None:
    """A job that begins to read does not wait for the compiler."""
    warm()
    before = compiled()
    upstream = Upstream()
    upstream.commit(SAMPLES, END_MS, sample_rows(temperature_c=3))
    upstream.commit(REQUESTS, END_MS, request_rows(), request_rows(tenant="t"))

    outputs = folded(a_step(), upstream.log)

    assert [window for window, *_ in heads(outputs)] == [BASE_MS, BASE_MS]
    assert compiled() == before
    assert set(before) == {"add", "least", "greatest", "latest"}
    assert min(before.values()) > 0
