"""Faults of the disk and of the clock under a proxy and an agent as they are shipped.

Covers lab.chaos.edge_parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from lab.chaos.edge import EdgeReport, run_edge

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

FAULTS = ("disk read-only", "disk failing", "clock forward", "clock back")


@pytest.fixture(scope="module")
def reports(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Future[EdgeReport]]]:
    """Of each fault that was chosen, two at a time: each has processes and a folder of its own and mostly waits."""
    here = (one for one in request.session.items if isinstance(one, pytest.Function) and one.path == request.path)
    chosen = {one.callspec.params["fault"] for one in here}
    with ThreadPoolExecutor(2) as pool:
        yield {
            fault: pool.submit(
                run_edge, streams=4, fault_s=4.0, only=fault, data_dir=tmp_path_factory.mktemp("edge"), say=print
            )
            for fault in FAULTS
            if fault in chosen
        }


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_cuts_no_stream_and_loses_no_request_in_silence(
    reports: Mapping[str, Future[EdgeReport]], fault: str
) -> None:
    """Nothing ends, readiness says so, and what was served is in the books or declared."""
    report = reports[fault].result()

    assert report.exact, report.text()
    assert report.outcomes[0].requests >= 8
