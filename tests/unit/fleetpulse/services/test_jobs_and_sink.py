"""What the services hand to the host and to their children."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetpulse.services import jobs_and_sink as services
from fleetpulse.services.jobs_and_sink import JOBS, _alerts, _arguments, _costs, _finals, _windows, partitions_of
from runtime.config import load
from runtime.health import STILL_MAX_S, Check, Heartbeat
from schemas.contract.topics import BY_NAME, state_topic
from schemas.errors import ContractError, FleetpulseError
from sinks import service as sink_service
from sinks import warm as sink_warm
from stream_jobs.alerts.step import AlertStep
from stream_jobs.costs.step import CostStep
from stream_jobs.windows.step import WindowsStep

EXAMPLE_BUDGETS = Path(services.__file__).parents[1] / "data" / "budgets" / "example.yaml"


@pytest.mark.parametrize(
    ("health_port", "ports"),
    [(None, []), (0, [0, 0, 0, 0]), (9_100, [9_100, 9_101, 9_102, 9_103])],
    ids=["no port", "any port", "one after the other"],
)
def test_every_job_is_a_child_with_a_port_of_its_own(health_port: int | None, ports: list[int]) -> None:
    """Rules are for windows (goodput) and alerts, budgets for alerts alone, prices for the cost job."""
    files = {name: Path(f"{name}.yaml") for name in ("rules", "prices", "budgets")}

    found = [_arguments(job, "bare", "w", health_port, place, files) for place, job in enumerate(JOBS)]

    assert [words[:6] for words in found] == [("jobs", job, "--shell", "bare", "--name", "w") for job in JOBS]
    assert [int(words[7]) for words in found if "--health-port" in words] == ports
    told_files = [words[6 + 2 * (health_port is not None) :] for words in found]
    alerts = ("--rules", "rules.yaml", "--budgets", "budgets.yaml")
    assert told_files == [("--rules", "rules.yaml"), (), alerts, ("--prices", "prices.yaml")]


def test_the_finals_job_has_a_state_topic_for_each_of_its_sources(tmp_path: Path) -> None:
    """Whatever it reads is in the contract; what is written by jobs has holes in its offsets."""
    config = load({"data_dir": str(tmp_path)})

    setup = _finals(config)

    assert {step.name for step in setup.steps.values()} == {"finals"}
    assert all(state_topic("finals", topic) in BY_NAME for topic in setup.steps)
    assert [topic for topic in setup.steps if not BY_NAME[topic].log_append_time] == list(setup.transactional)
    assert setup.partitions == {"window.finals": 1}
    assert partitions_of(config)["window.finals"] == 1


@pytest.mark.parametrize(("state", "level"), [(None, logging.WARNING), (object(), logging.INFO)])
def test_example_prices_are_a_warning_where_somebody_is_billed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, state: object, level: int
) -> None:
    """On a local stack nobody is, and what is well is quiet."""
    monkeypatch.setattr(services, "read_state", lambda _folder: state)
    caplog.set_level(logging.INFO)

    _costs(load({"data_dir": str(tmp_path)}))

    assert [one.levelno for one in caplog.records if "example prices" in one.message] == [level]


def test_the_alert_job_takes_rules_of_ones_own(tmp_path: Path) -> None:
    """One log in, one out; both are transactional. Rules are read before anything is joined."""
    config = load({"data_dir": str(tmp_path)})
    rules = tmp_path / "rules.yaml"
    rules.write_text("rules: [{name: x, kind: nonsense}]\n")

    setup = _alerts(config, {})

    assert [(topic, type(step)) for topic, step in setup.steps.items()] == [("window.finals", AlertStep)]
    assert (setup.transactional, setup.partitions) == (("window.finals",), {"alerts": 1, "window.partials": 4})
    with pytest.raises(FleetpulseError, match="nonsense"):
        _alerts(config, {"rules": rules})


def test_the_alert_job_relies_on_the_number_of_its_upstreams(tmp_path: Path) -> None:
    """Finals of one that it does not know would be left out."""
    config = load({"data_dir": str(tmp_path), "partitions": {"window.partials": 7}})

    assert _alerts(config, {}).partitions == {"alerts": 1, "window.partials": 7}


def test_the_windows_job_judges_goodput_by_the_rules_of_the_flag_else_of_the_configuration(tmp_path: Path) -> None:
    """As the alert job does; the shipped rules have no classes, so without either nothing is judged."""
    files = {name: tmp_path / f"{name}.yaml" for name in ("set", "flag")}
    for name, file in files.items():
        file.write_text(f"slo_classes: {{{name}: {{ttft: 500ms, share: 99%}}}}\n")
    unset, configured = ({"data_dir": str(tmp_path)} | more for more in ({}, {"rules": str(files["set"])}))

    found = [_judges(unset), _judges(configured), _judges(configured, files["flag"])]

    assert found == [[], ["set"], ["flag"]]


def _judges(settings: dict[str, str], rules: Path | None = None) -> list[str]:
    """Names of the classes by which the windows job judges, the same for all of its sources."""
    steps = _windows(load(settings), {} if rules is None else {"rules": rules}).steps
    (step,) = set(steps.values())
    assert isinstance(step, WindowsStep)
    return [each.name for each in step.classes]


def test_the_alert_job_reads_budgets_before_anything_is_joined(tmp_path: Path) -> None:
    """Of the flag, else of the configuration; a mistake stops the start with file and line."""
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("budgets:\n- {name: a, amount: 5 EUR}\n")
    config = load({"data_dir": str(tmp_path), "budgets": str(wrong)})

    _alerts(config, {"budgets": EXAMPLE_BUDGETS})

    with pytest.raises(FleetpulseError, match=r"wrong\.yaml:2: budgets.a.amount: '5 EUR' must be like"):
        _alerts(config, {})


def test_the_cost_job_reads_prices_before_anything_is_joined(tmp_path: Path) -> None:
    """One log in, one out; a price file with a mistake stops the start."""
    config = load({"data_dir": str(tmp_path)})
    prices = tmp_path / "prices.yaml"
    prices.write_text("gpu_hour: [{gpu: H100, periods: nonsense}]\n")

    setup = _costs(config, {})

    assert [(topic, type(step)) for topic, step in setup.steps.items()] == [("window.partials", CostStep)]
    assert (setup.transactional, setup.partitions) == (("window.partials",), {"costs": 4})
    assert state_topic("costs", "window.partials") in BY_NAME
    with pytest.raises(FleetpulseError, match=r"gpu_hour\.periods: must be a list"):
        _costs(config, {"prices": prices})


def test_alive_is_a_service_whose_loop_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read from another thread while the loop stands still; without a port nobody asks."""
    now_s = [0.0]
    checks: dict[str, Check] = {}

    @contextlib.contextmanager
    def server(*, port: int, alive: Check, ready: Check, note: Check) -> Iterator[None]:
        checks.update(alive=alive, ready=ready)
        yield

    monkeypatch.setattr(services, "HealthServer", server)
    monkeypatch.setattr(services, "Heartbeat", lambda: Heartbeat(now_s=lambda: now_s[0]))

    async def body() -> list[str | None]:
        seen = [checks["alive"]()]
        now_s[0] += STILL_MAX_S + 1
        return [*seen, checks["alive"](), checks["ready"]()]

    with services.health(9_100, lambda: "waits"):
        before = checks["alive"]()
        seen = asyncio.run(body())

    assert [before, *seen] == [None, None, "the event loop has stood still for 61 s", "waits"]


@pytest.mark.parametrize("abandoned", [False, True])
def test_a_sink_that_fails_leaves_a_thread_that_waits_for_clickhouse(
    abandoned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Python would wait for it, for ever. The reason is in the log; without such a thread it is raised as ever."""

    async def run_sink(*_: object, progress: sink_service.Progress, **__: object) -> None:
        progress.abandoned = abandoned
        raise ContractError("not ours")

    class LeftError(Exception): ...

    def leave(code: int) -> None:
        raise LeftError(code)

    monkeypatch.setattr(services, "load", lambda: load({"data_dir": str(tmp_path)}))
    monkeypatch.setattr(services.logs, "configure", lambda name: None)
    monkeypatch.setattr(services, "leave", leave)
    monkeypatch.setattr(sink_service, "run_sink", run_sink)
    monkeypatch.setattr(sink_warm, "warm", lambda: None)

    with pytest.raises(LeftError if abandoned else ContractError, match="1" if abandoned else "not ours"):
        services.run_sink_service(raw=False, roll=False, health_port=None)

    said = [record.getMessage() for record in caplog.records]
    assert said == (["exiting: the sink failed while ClickHouse did not answer: not ours"] if abandoned else [])


class Draining:
    """Children that end when they have committed; a signal comes meanwhile, if it is to."""

    def __init__(self, again: signal.Signals | None) -> None:
        self.again, self.done = again, list[str]()

    def __enter__(self) -> Draining:
        return self

    def __exit__(self, *_: object) -> None:
        if self.again:
            signal.raise_signal(self.again)
        self.done.append("committed")

    def start(self, _command: object) -> None: ...

    def tend(self) -> None:
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("again", [None, signal.SIGTERM, signal.SIGINT], ids=["once", "SIGTERM", "Ctrl-C"])
def test_a_second_ctrl_c_ends_all_jobs_at_once(
    again: signal.Signals | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first signal lets them commit, and no SIGTERM cuts that short. They do not hear the terminal themselves."""
    children = Draining(again)
    monkeypatch.setattr(services, "load", lambda: load({"data_dir": str(tmp_path)}))
    monkeypatch.setattr(services.logs, "configure", lambda name: None)
    monkeypatch.setattr(services, "Processes", lambda _folder: children)
    monkeypatch.setattr(services, "TEND_EVERY_S", 0.0)
    heard = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    try:
        with pytest.raises(KeyboardInterrupt) if again is signal.SIGINT else contextlib.nullcontext():
            services.run_all_jobs("bare", "a", None)
    finally:
        for number, handler in heard.items():
            signal.signal(number, handler)

    assert children.done == ([] if again is signal.SIGINT else ["committed"])
