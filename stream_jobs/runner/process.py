"""A job's process: one of the two shells, until SIGTERM; a fatal error ends it with exit code 70."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from runtime.config import KafkaConfig
from runtime.health import Readiness
from runtime.process import RARELY, keep_freed, on_stop_signal, settle
from runtime.tracing import Tracer
from schemas.errors import ConfigError, ContractError, FleetpulseError
from stream_jobs.runner.bare_runner import run_bare
from stream_jobs.runner.job import AnyStep
from stream_jobs.runner.policy import DEFAULT_POLICY, CommitPolicy
from stream_jobs.runner.watchdog import EXIT_FATAL

_log = logging.getLogger(__name__)


def run_process(
    shell: str,
    step: AnyStep | Mapping[str, AnyStep],
    source_topics: Sequence[str],
    kafka: KafkaConfig,
    policy: CommitPolicy = DEFAULT_POLICY,
    *,
    worker: str | None = None,
    transactional_sources: Sequence[str] = (),
    outputs: Mapping[str, int] | None = None,
    tracer: Tracer | None = None,
    readiness: Readiness | None = None,
) -> int:
    """Run a job until SIGTERM or SIGINT, commit what was folded, and return 0; return 70 after a fatal error (then
    restart it after 2 s). Call from the main thread. ``readiness`` follows the partitions. Raises ``ConfigError`` on
    wrong arguments.
    """
    run = _shell(shell)
    settle(RARELY)
    keep_freed()
    try:
        run(
            step,
            source_topics,
            kafka,
            policy,
            worker=worker,
            transactional_sources=transactional_sources,
            outputs=outputs,
            tracer=tracer,
            readiness=readiness,
        )
    except ConfigError:
        raise
    except ContractError as error:
        _log.critical("exiting: topics or committed offsets do not fit the job: %s", error)
        return EXIT_FATAL
    except FleetpulseError as error:
        _log.error("exiting after a fatal error: %s; restart resumes from the last committed offset", error)
        return EXIT_FATAL
    except (Exception, asyncio.CancelledError):
        _log.critical("exiting: internal error, please report it", exc_info=True)
        return EXIT_FATAL
    return 0


def _shell(name: str) -> Callable[..., None]:
    if name == "bare":
        return _run_bare
    if name == "faust":
        from stream_jobs.runner.faust_runner import run_faust  # Faust takes a second to import

        return run_faust
    raise ConfigError("shell", name, "must be faust or bare")


def _run_bare(
    step: AnyStep | Mapping[str, AnyStep],
    source_topics: Sequence[str],
    kafka: KafkaConfig,
    policy: CommitPolicy,
    *,
    worker: str | None,
    transactional_sources: Sequence[str],
    outputs: Mapping[str, int] | None,
    tracer: Tracer | None,
    readiness: Readiness | None,
) -> None:
    async def body() -> None:
        stop = on_stop_signal(asyncio.get_running_loop())
        await run_bare(
            step,
            source_topics,
            kafka,
            policy,
            stop,
            worker=worker,
            transactional_sources=transactional_sources,
            outputs=outputs,
            tracer=tracer,
            readiness=readiness,
        )

    asyncio.run(body())
