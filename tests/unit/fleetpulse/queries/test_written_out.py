"""Views of a range, written out in the queries of the catalogue."""

from __future__ import annotations

import re

import pytest

from fleetpulse import queries
from fleetpulse.queries.written_out import written_out
from schemas.ddl.declared import declared, made

OF_A_RANGE = [
    made(statement)[1]
    for statement in declared().values()
    if made(statement)[0] == "view" and "{from_ms:Int64}" in statement
]


def test_a_view_is_the_subquery_that_it_stands_for() -> None:
    """What it is given stands where its parameters stood, and what stands around it stays."""
    text = "SELECT s FROM covered_time(from_ms = {before_from_ms:Int64}, to_ms = 7200000) AS c WHERE x(from_ms = 1)"

    found = written_out(text)

    before, _, behind = found.partition("\n")
    assert (before, behind.rpartition("\n")[2]) == ("SELECT s FROM (", ") AS c WHERE x(from_ms = 1)")
    assert set(re.findall(r"\{\w+:\w+\}", found)) == {"{before_from_ms:Int64}"}
    assert "window_ms < 7200000" in found
    assert "COMMENT" not in found


@pytest.mark.parametrize("name", queries.names())
def test_no_query_of_the_catalogue_reads_a_view_of_a_range_by_name(name: str) -> None:
    """However it is written there; it has the parameters that it had."""
    text = queries.text(name)

    found = written_out(text)

    assert not re.search(rf"\b(?:{'|'.join(OF_A_RANGE)})\(", found)
    assert set(re.findall(r"\{\w+:\w+\}", found)) == set(re.findall(r"\{\w+:\w+\}", text))


def test_views_of_a_range_are_known() -> None:
    """The test above would be of nothing else."""
    assert {"billed", "covered_time", "fault_impact", "gpu_coverage", "slow_requests", "who_changed"} <= {*OF_A_RANGE}
