"""A worker process for the tests of the cost job."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.integration.job_worker import work
from tests.unit.stream_jobs.costs.cases import a_step

if __name__ == "__main__":
    sys.exit(work(lambda out: a_step(topic=out), own_times=True))
