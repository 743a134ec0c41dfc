"""Fire drills on a stack of their own: what is broken is seen by its name, and the runbook mends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.drills.run import run_drills

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


def test_a_job_that_is_gone_is_named_and_the_runbook_brings_it_back(tmp_path: Path) -> None:
    """By doctor, page and the shipped alert; a slow machine may take longer than the minute that people have."""
    (found,) = run_drills(["windows"], seed=1, outage_s=5.0, within_s=240.0, data_dir=tmp_path, say=lambda _text: None)

    assert found.as_dict()["silent"] == []
    assert {"alert", "doctor", "page"} <= found.signs.keys()
    assert found.mended.pasted == ("fleetpulse jobs windows --name worker-0",)
    assert found.mended.within_s is not None
    assert (found.books.exact, found.good) == (True, True)
