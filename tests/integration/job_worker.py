"""A worker process for the tests of a job: runs one step on a bare loop until SIGTERM; says when it is live."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable
from typing import Any

from runtime.config import KafkaConfig
from stream_jobs.runner.policy import CommitPolicy
from stream_jobs.runner.process import run_process

POLICY = CommitPolicy(
    interval_ms=200, idle_interval_ms=200, due_interval_ms=50, snapshot_interval_ms=500, fetch_linger_ms=10
)
"""Short: a kill meets every state of a job."""


class SayLive(logging.Handler):
    """Tells on standard output when partitions are live, and after how many seconds."""

    def __init__(self, began_s: float) -> None:
        super().__init__()
        self._began_s = began_s

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() == "partitions are live":
            took_s = time.monotonic() - self._began_s
            sys.stdout.write(f"live {getattr(record, 'partitions', 0)} {took_s:.3f}\n")
            sys.stdout.flush()


def log_to_stderr(began_s: float) -> None:
    """The log on standard error, the client's errors alone; "live" on standard output."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    logging.getLogger("aiokafka").setLevel(logging.ERROR)
    logging.getLogger("stream_jobs.runner").addHandler(SayLive(began_s))


def work(step_of: Callable[[str], Any], *, own_times: bool = False) -> int:
    """Run the step that ``step_of`` makes for its topic of results. ``own_times``: the source's records carry the
    times of their events, which only a job's own topic may have."""
    began_s = time.monotonic()
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "deployment", "source", "out"):
        parser.add_argument(f"--{name}", required=True)
    told = parser.parse_args()
    log_to_stderr(began_s)
    return run_process(
        "bare",
        step_of(told.out),
        [told.source],
        KafkaConfig(bootstrap=told.bootstrap, deployment=told.deployment),
        POLICY,
        worker="w0",
        transactional_sources=[told.source] if own_times else [],
        partitions={told.out: 1},
    )
