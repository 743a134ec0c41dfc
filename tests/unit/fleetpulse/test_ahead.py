"""What is compiled ahead of time covers every job, and every compiled loop there is."""

from __future__ import annotations

from pathlib import Path

from fleetpulse.ahead import parts
from fleetpulse.services import JOBS

ROOT = Path(__file__).resolve().parents[3]


def test_every_job_and_the_simulation_are_there() -> None:
    assert list(parts()) == [*(f"jobs {job}" for job in JOBS), "simulate"]
