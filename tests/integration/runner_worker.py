"""A worker process for the runner's tests: runs the counting job in one of the two shells until SIGTERM.

Says when partitions are live in a line on standard output, and in its log what it folds, so that tests need not guess.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
BEGAN_S = time.monotonic()

from runtime.config import KafkaConfig  # noqa: E402
from runtime.process import leave  # noqa: E402
from schemas.contract.record import Record  # noqa: E402
from stream_jobs.runner.policy import CommitPolicy  # noqa: E402
from stream_jobs.runner.process import run_process  # noqa: E402
from tests.integration.job_worker import log_to_stderr  # noqa: E402
from tests.simulator.counting import Changes, CountingStep, State  # noqa: E402

_log = logging.getLogger(__name__)


class SayingStep(CountingStep):
    """Logs how many records it has folded."""

    def fold(self, state: State, records: Sequence[Record], changes: Changes) -> None:
        super().fold(state, records, changes)
        _log.info("folded %d", len(records))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shell", required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--deployment", required=True)
    parser.add_argument("--source", required=True, action="append")
    parser.add_argument("--out", required=True)
    parser.add_argument("--worker", required=True)
    parser.add_argument("--interval-ms", type=int, default=300)
    parser.add_argument("--transactional", action="store_true")
    told = parser.parse_args()
    log_to_stderr(BEGAN_S)
    interval_ms = told.interval_ms
    policy = CommitPolicy(
        interval_ms=interval_ms, idle_interval_ms=interval_ms, due_interval_ms=100, snapshot_interval_ms=1_000
    )
    kafka = KafkaConfig(bootstrap=told.bootstrap, deployment=told.deployment)
    transactional = told.source if told.transactional else ()
    return run_process(
        told.shell,
        SayingStep(told.out, part_bytes=2_000),
        told.source,
        kafka,
        policy,
        worker=told.worker,
        transactional_sources=transactional,
    )


if __name__ == "__main__":
    leave(main())
