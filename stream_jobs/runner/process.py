"""A job's process: one of the two shells, until SIGTERM; a fatal error ends it with exit code 70."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from runtime.config import KafkaConfig
from runtime.contract_record import check_deployment
from runtime.health import Readiness
from runtime.kafka_clients import static_member
from runtime.process import RARELY, keep_freed, on_stop_signal, run_to_the_end, settle
from runtime.retried import retried
from runtime.runbook import cause_of
from runtime.tracing import Tracer
from schemas.errors import ConfigError, ContractError, FleetpulseError
from stream_jobs.runner import bare_runner
from stream_jobs.runner.checks import check_topics
from stream_jobs.runner.job import AnyStep, Job
from stream_jobs.runner.policy import DEFAULT_POLICY, CommitPolicy
from stream_jobs.runner.watchdog import EXIT_FATAL

_log = logging.getLogger(__name__)

Serve = Callable[
    [Job, KafkaConfig, CommitPolicy, asyncio.Event, str | None, Readiness | None, Tracer | None], Awaitable[None]
]
"""A shell: runs a job until the event is set; then commits and returns. Raises the fatal error that ends the
process."""


def run_process(
    shell: str,
    step: AnyStep | Mapping[str, AnyStep],
    source_topics: Sequence[str],
    kafka: KafkaConfig,
    policy: CommitPolicy = DEFAULT_POLICY,
    *,
    worker: str | None = None,
    transactional_sources: Sequence[str] = (),
    partitions: Mapping[str, int] | None = None,
    tracer: Tracer | None = None,
    readiness: Readiness | None = None,
) -> int:
    """Run a job until SIGTERM or SIGINT, commit what was folded, and return 0; return 70 after a fatal error (then
    restart it after 2 s). While no broker answers at its start it waits. Call from the main thread. Raises
    ``ConfigError`` on wrong arguments.

    ``worker`` is a name to keep over restarts (static membership). ``partitions`` are how many the step relies on, by
    topic: of those it writes to, and of others that it counts. ``readiness`` follows the source's. Faust's threads may
    outlive the return, so the caller has to ``leave`` (``runtime.process``).
    """
    serve = _shell(shell)
    settle(RARELY)
    keep_freed()

    async def body() -> None:
        job = Job.of(step, source_topics, transactional_sources)
        stop = on_stop_signal(asyncio.get_running_loop())

        async def checked() -> int:
            await check_deployment(kafka, job.topics)
            return await check_topics(kafka, job, job.names(kafka.namespace), partitions or {})

        read = await retried("Kafka", checked, stop, readiness or Readiness())
        if read is not None:
            await serve(job, kafka, policy, stop, static_member(worker, read), readiness, tracer)

    try:
        run_to_the_end(body())  # clients whose brokers are away leave tasks
    except ConfigError:
        raise
    except ContractError as error:
        _log.critical(
            "exiting: topics or committed offsets do not fit the job: %s", error, extra={"cause": cause_of(error)}
        )
        return EXIT_FATAL
    except FleetpulseError as error:
        cause = {"cause": cause_of(error)}
        _log.error(
            "exiting after a fatal error: %s; restart resumes from the last committed offset", error, extra=cause
        )
        return EXIT_FATAL
    except (Exception, asyncio.CancelledError):
        _log.critical("exiting: internal error, please report it", exc_info=True)
        return EXIT_FATAL
    return 0


def _shell(name: str) -> Serve:
    if name == "bare":
        return bare_runner.serve
    if name == "faust":
        from stream_jobs.runner import faust_runner  # Faust takes a second to import

        return faust_runner.serve
    raise ConfigError("shell", name, "must be faust or bare")
