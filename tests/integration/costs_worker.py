"""A worker process for the tests of the cost job: hosts it on a bare loop until SIGTERM; says when it is live."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
BEGAN_S = time.monotonic()

from runtime.config import KafkaConfig  # noqa: E402
from stream_jobs.host.policy import CommitPolicy  # noqa: E402
from stream_jobs.host.process import host_job  # noqa: E402
from tests.unit.stream_jobs.costs_cases import a_step  # noqa: E402


class _SayLive(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() == "partitions are live":
            sys.stdout.write(f"live {getattr(record, 'partitions', 0)} {time.monotonic() - BEGAN_S:.3f}\n")
            sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "deployment", "source", "out"):
        parser.add_argument(f"--{name}", required=True)
    told = parser.parse_args()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    logging.getLogger("aiokafka").setLevel(logging.ERROR)
    logging.getLogger("stream_jobs.host").addHandler(_SayLive())
    policy = CommitPolicy(
        interval_ms=200, idle_interval_ms=200, due_interval_ms=50, snapshot_interval_ms=500, fetch_linger_ms=10
    )
    kafka = KafkaConfig(bootstrap=told.bootstrap, deployment=told.deployment)
    step = a_step(topic=told.out)
    # Its times are those of the events, not of their sending: only a job's own topic may have such.
    sources = [told.source]
    return host_job(
        "bare", step, sources, kafka, policy, worker="w0", transactional_sources=sources, outputs={told.out: 1}
    )


if __name__ == "__main__":
    sys.exit(main())
