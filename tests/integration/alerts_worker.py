"""A worker process for the tests of the alert job."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from stream_jobs.alerts.step import AlertStep
from tests.integration.job_worker import work
from tests.unit.stream_jobs.alerts.cases import RULESET
from tests.unit.stream_jobs.alerts.log import QUICK, Detector, Evidence
from tests.unit.stream_jobs.budgets.spend_cases import BUDGETS

UPSTREAMS = 2

if __name__ == "__main__":
    sys.exit(work(lambda out: AlertStep(UPSTREAMS, RULESET, Detector, Evidence, QUICK, out, budgets=BUDGETS)))
