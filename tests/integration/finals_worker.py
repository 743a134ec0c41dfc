"""A worker process for the tests of spend: the finals job, as far as it reads bills."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from stream_jobs.finals.spend import SpendStep
from tests.integration.job_worker import work

if __name__ == "__main__":
    sys.exit(work(lambda out: SpendStep(target=out), own_times=True))
