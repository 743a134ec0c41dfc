"""The long-running services: configuration in, one process each, health beside it, until SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, cast

from fleetpulse.services.processes import Command, Processes
from runtime import logs
from runtime.bounded_fetch import bound_fetches
from runtime.config import Config, load
from runtime.health import Check, HealthServer, Heartbeat, fine
from runtime.local_stack import read_state
from runtime.process import leave, on_stop_signal, run_to_the_end
from runtime.tracing import tracing
from schemas.contract.topics import (
    ALERT_COMMANDS,
    ALERTS_TOPIC,
    BY_NAME,
    COSTS_TOPIC,
    DERIVED_TOPICS,
    SOURCE_TOPICS,
    WINDOW_FINALS,
    WINDOW_PARTIALS,
)
from schemas.errors import ConfigError
from schemas.rows.finals import PASSED_ON_TOPICS

if TYPE_CHECKING:
    from stream_jobs.budgets.model import Budgets
    from stream_jobs.runner.job import AnyStep
    from stream_jobs.runner.policy import CommitPolicy

_log = logging.getLogger(__name__)

JOBS = ("windows", "finals", "alerts", "costs")
"""In the order in which events pass through them."""
OPTIONS = {"windows": ("rules",), "alerts": ("rules", "budgets"), "costs": ("prices",)}
"""The options of each job that is given files."""
Files = Mapping[str, Path]
"""Files by option, before those of the configuration; without either a job takes the shipped rules and prices and
watches no budgets."""
NO_FILES: Files = MappingProxyType({})
EXAMPLE_PRICES = Path(__file__).parents[1] / "data" / "prices" / "example.yaml"
TEND_EVERY_S = 0.5


@contextlib.contextmanager
def health(port: int | None, ready: Check, note: Check = fine) -> Iterator[None]:
    """Health endpoints beside whatever loop runs in the main thread; none without a port."""
    if port is None:
        yield
        return
    heartbeat = Heartbeat()
    with HealthServer(port=port, alive=heartbeat.why_dead, ready=ready, note=note), heartbeat.of_main_loop():
        yield


def partitions_of(config: Config) -> dict[str, int]:
    """Partition counts by topic: the contract's, with what the configuration says otherwise."""
    return {name: topic.partitions for name, topic in BY_NAME.items()} | config.partitions


@dataclass(frozen=True, slots=True)
class JobSetup:
    """A job as it is handed to the runner: steps by source topic, which of these have holes in their offsets, and by
    topic the ``partitions`` it relies on: of all that it writes to, and of others that it counts. ``warm`` loads
    compiled code."""

    steps: dict[str, AnyStep]
    transactional: tuple[str, ...]
    partitions: dict[str, int]
    policy: CommitPolicy
    warm: Callable[[], None]


def _windows(config: Config, files: Files = NO_FILES) -> JobSetup:
    from stream_jobs.rules.load import load_set
    from stream_jobs.runner.policy import DEFAULT_POLICY
    from stream_jobs.windows.step import WindowsStep
    from stream_jobs.windows.warm import warm

    partitions = partitions_of(config)
    ruleset = load_set(files.get("rules", config.rules))
    step = WindowsStep(config.limits, partitions, classes=ruleset.slo_classes)
    steps: dict[str, AnyStep] = dict.fromkeys((topic.name for topic in SOURCE_TOPICS), step)
    outputs = {topic.name: partitions[topic.name] for topic in DERIVED_TOPICS}
    return JobSetup(steps, (), outputs, DEFAULT_POLICY, warm)


def _finals(config: Config, _files: Files = NO_FILES) -> JobSetup:
    from stream_jobs.finals.forward import ForwardStep
    from stream_jobs.finals.spend import SpendStep
    from stream_jobs.finals.step import FinalsStep
    from stream_jobs.finals.warm import warm
    from stream_jobs.runner.policy import PROMPT_POLICY

    partitions = partitions_of(config)
    sources = {topic.name: partitions[topic.name] for topic in SOURCE_TOPICS}
    finals = FinalsStep(config.limits, sources)
    steps: dict[str, AnyStep] = dict.fromkeys((*PASSED_ON_TOPICS, ALERT_COMMANDS), ForwardStep(config.limits))
    steps[WINDOW_PARTIALS] = finals
    steps[COSTS_TOPIC] = SpendStep()
    return JobSetup(steps, (WINDOW_PARTIALS, COSTS_TOPIC), {WINDOW_FINALS: 1}, PROMPT_POLICY, warm)


def _alerts(config: Config, files: Files = NO_FILES) -> JobSetup:
    from stream_jobs.alerts.step import AlertStep
    from stream_jobs.insight.warm import warm
    from stream_jobs.rules.load import load_set
    from stream_jobs.runner.policy import PROMPT_POLICY_OF_ONE

    ruleset = load_set(files.get("rules", config.rules))
    upstreams, budgets = partitions_of(config)[WINDOW_PARTIALS], _budgets(config, files)
    step = AlertStep(upstreams, ruleset, budgets=budgets, open_file=partial(_open_file, config.data_dir))
    return JobSetup(
        {WINDOW_FINALS: step},
        (WINDOW_FINALS,),
        {ALERTS_TOPIC: 1, WINDOW_PARTIALS: upstreams},
        PROMPT_POLICY_OF_ONE,
        partial(warm, ruleset.rules),
    )


def _open_file(folder: Path) -> BinaryIO:
    """An empty file without a name, and without a buffer: what the disk does not take fails where it is written."""
    folder.mkdir(parents=True, exist_ok=True)
    return cast(BinaryIO, TemporaryFile(dir=folder, buffering=0))


def _budgets(config: Config, files: Files) -> Budgets:
    from stream_jobs.budgets.load import load as load_budgets
    from stream_jobs.budgets.model import Budgets

    path = files.get("budgets", config.budgets)
    return Budgets() if path is None else load_budgets(path)


def _costs(config: Config, files: Files = NO_FILES) -> JobSetup:
    from stream_jobs.costs.account import Pricing
    from stream_jobs.costs.step import CostStep
    from stream_jobs.costs.warm import warm
    from stream_jobs.prices.load import load as load_prices
    from stream_jobs.runner.policy import DEFAULT_POLICY

    prices = load_prices(files.get("prices", config.prices or EXAMPLE_PRICES))
    if prices.example:
        level = logging.WARNING if read_state(config.data_dir) is None else logging.INFO  # to try it on is no mistake
        _log.log(level, "bills are rated with example prices", extra={"prices_version": prices.version})
    partitions, pricing = partitions_of(config), Pricing(prices)
    sources = {topic.name: partitions[topic.name] for topic in SOURCE_TOPICS}
    step = CostStep(config.limits, sources, pricing, pricing.version, targets=partitions[COSTS_TOPIC])
    outputs = {COSTS_TOPIC: partitions[COSTS_TOPIC]}
    return JobSetup({WINDOW_PARTIALS: step}, (WINDOW_PARTIALS,), outputs, DEFAULT_POLICY, warm)


_SETUPS = {"windows": _windows, "finals": _finals, "alerts": _alerts, "costs": _costs}


def setup_of(job: str, config: Config, files: Files = NO_FILES) -> JobSetup:
    """The job as it runs under this configuration."""
    return _SETUPS[job](config, files)


def run_job(job: str, shell: str, worker: str, health_port: int | None, files: Files = NO_FILES) -> None:
    """Run a stream job until SIGTERM; exits with 70 after a fatal error, so that a supervisor restarts it.

    Ready while every partition that the group gave this worker is live or quarantined. ``files`` are those of
    ``OPTIONS``.
    """
    from stream_jobs.runner.partitions import worker_readiness
    from stream_jobs.runner.process import run_process

    logs.configure(f"jobs-{job}")
    config = load()
    setup = setup_of(job, config, files)
    bound_fetches(config.limits)
    # Compiled code is loaded while the group forms: both take a second, and one of them waits for the network.
    threading.Thread(target=setup.warm, name="warm", daemon=True).start()
    readiness = worker_readiness()
    with health(health_port, readiness.why, readiness.noted), tracing(config.tracing, f"jobs-{job}") as tracer:
        code = run_process(
            shell,
            setup.steps,
            (),
            config.kafka,
            setup.policy,
            worker=worker,
            transactional_sources=setup.transactional,
            partitions=setup.partitions,
            tracer=tracer,
            readiness=readiness,
        )
    leave(code)  # Faust's threads may go on


def run_all_jobs(shell: str, worker: str, health_port: int | None, files: Files = NO_FILES) -> None:
    """Run every job as a child, start again whichever ends, until SIGTERM or SIGINT; then let all of them commit.
    Ctrl-C after that raises ``KeyboardInterrupt``: this process ends, and the jobs with it.

    Each has its log in the data folder. Health ports are ``health_port`` and those after it, in the order of ``JOBS``.
    """
    logs.configure("jobs")
    stopping = threading.Event()

    def stop(number: int, _frame: object) -> None:
        if stopping.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    folder = load().data_dir / "log"
    with Processes(folder) as processes:
        for place, job in enumerate(JOBS):
            processes.start(Command(f"jobs-{job}", _arguments(job, shell, worker, health_port, place, files)))
        _log.info("jobs run", extra={"jobs": ",".join(JOBS), "logs": str(folder)})
        while not stopping.wait(TEND_EVERY_S):
            processes.tend()


def _arguments(job: str, shell: str, worker: str, health_port: int | None, place: int, files: Files) -> tuple[str, ...]:
    words = ["jobs", job, "--shell", shell, "--name", worker]
    if health_port is not None:
        words += ["--health-port", str(health_port and health_port + place)]
    for option in OPTIONS.get(job, ()):
        words += [f"--{option}", str(files[option])] if option in files else []
    return tuple(words)


def run_sink_service(
    *, raw: bool, roll: bool, health_port: int | None, replica: str = "", url: str | None = None
) -> None:
    """Run the sink until SIGTERM. Ready while its groups have joined and nothing holds it up. ``replica`` and ``url``:
    it feeds a copy of the database there."""
    from sinks.service import Progress, SinkSettings, run_sink
    from sinks.warm import warm

    logs.configure("sink")
    config, progress = load(), Progress()
    settings = SinkSettings(raw=raw, roll=roll, replica=replica)
    if url is not None and not replica:
        raise ConfigError("--clickhouse", url, "needs --replica NAME: without it both would share what is read")
    login = config.clickhouse if url is None else config.clickhouse.at(url)

    async def body() -> None:
        stop, limits = on_stop_signal(asyncio.get_running_loop()), config.limits
        run = partial(run_sink, config.kafka, login, settings, stop)
        code = 0
        try:
            with tracing(config.tracing, "sink") as tracer:
                await run(limits=limits, progress=progress, tracer=tracer)
        except Exception as error:
            if not progress.abandoned:
                raise
            _log.critical("exiting: the sink failed while ClickHouse did not answer: %s", error, exc_info=True)
            code = 1
        if progress.abandoned:
            leave(code)  # a thread may wait for ClickHouse; what it was given is read again

    with health(health_port, lambda: progress.waiting_for):
        warm()
        run_to_the_end(body())
