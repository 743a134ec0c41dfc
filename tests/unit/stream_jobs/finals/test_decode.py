"""What of ``window.partials`` becomes finals, and what is passed over."""

from __future__ import annotations

from schemas.rows.finals import finals_schema
from stream_jobs.finals.decode import decode
from stream_jobs.finals.upstream import read
from tests.unit.stream_jobs.finals.cases import (
    END_MS,
    REQUESTS,
    SAMPLES,
    Upstream,
    a_state,
    a_step,
    an_exemplar,
    headers_of,
    request_rows,
    rows_told,
    sent,
)
from tests.unit.stream_jobs.windows.cases import BASE_MS, a_request, merged
from tests.unit.stream_jobs.windows.usage_cases import usage_rows

WORK = usage_rows(a_request(BASE_MS, e2e_us=90_000_000, input_tokens=9, output_tokens=9))


def test_usage_is_passed_over_and_nothing_is_missed() -> None:
    """Its records count as parts of their commit; no row of it is held, told, or makes a window late or new."""
    step, upstream = a_step(), Upstream()
    state, changes = a_state(step)
    upstream.commit(SAMPLES, END_MS)
    upstream.commit(REQUESTS, 0, request_rows(BASE_MS), exemplars=[an_exemplar()], usage=WORK)
    upstream.commit(REQUESTS, END_MS, usage=WORK)

    step.fold(state, upstream.log, changes)
    outputs = sent(step, state, changes)

    assert len(WORK) == 2
    assert (changes.gaps, changes.late_rows, changes.rejected) == (0, 0, 0)
    assert [headers_of(output).schema for output in outputs] == [finals_schema("llm.requests"), "exemplars/1"]
    assert rows_told(outputs) == merged("llm.requests", request_rows(BASE_MS))


def test_the_bytes_of_usage_are_not_looked_at() -> None:
    """A later version of them, or anything else, does not concern the finals job."""
    upstream = Upstream()
    upstream.commit(REQUESTS, 0, request_rows(BASE_MS), usage=WORK)
    records = [upstream.log[0]._replace(value=b"no block"), upstream.log[1]]

    found = decode(records, [read(record).schema for record in records])

    assert [(one.table.schema, set(one.record_of.tolist())) for one in found] == [("llm_requests_partials/1", {1})]
