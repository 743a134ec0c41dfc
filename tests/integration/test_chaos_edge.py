"""Faults of the disk and of the clock under a proxy and an agent as they are shipped.

Covers lab.chaos.edge_parts.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.chaos.edge import run_edge

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.mark.parametrize("fault", ["disk read-only", "disk failing", "clock forward", "clock back"])
def test_a_fault_cuts_no_stream_and_loses_no_request_in_silence(tmp_path: Path, fault: str) -> None:
    """Nothing ends, readiness says so, and what was served is in the books or declared."""
    report = run_edge(streams=4, fault_s=4.0, only=fault, data_dir=tmp_path, say=print)

    assert report.exact, report.text()
    assert report.outcomes[0].requests >= 8
