"""How a demo ends: jobs first, then the sink computes what it noted, for a while at most."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from fleetpulse.dashboard.consumer_lag import Lag
from fleetpulse.services.processes import Processes
from fleetpulse.sql.database import Database
from lab.demo import ending, run
from lab.demo.ending import CALM_S, WITHIN_S, finish_rollups
from runtime.config import KafkaConfig
from schemas.errors import UnavailableError


class World:
    """A database with notes that are dealt with at a time [s], a sink whose lag changes until another."""

    def __init__(self, noted_s: float = 0.0, computed_s: float = 0.0, read_s: float = 0.0) -> None:
        self.noted_s, self.computed_s, self.read_s = noted_s, computed_s, read_s
        self.at_s, self.told, self.console = 0.0, list[str](), Console(file=io.StringIO(), width=200)

    def stop(self, *names: str) -> None:
        self.told += names

    def tend(self) -> None:
        self.told.append("tend")

    def sql(self, _text: str) -> Any:
        waits = self.noted_s <= self.at_s < self.computed_s
        return SimpleNamespace(rows=[("costs", "1m", 0)] * 3 if waits else [])

    def lag(self) -> object | None:
        return (3,) if self.at_s >= self.read_s else (self.at_s,)

    def sleep(self, seconds: float) -> None:
        self.at_s += seconds

    def finished(self, lag: Callable[[], object | None] | None = None, jobs: Sequence[str] = ("costs",)) -> bool:
        database, processes = cast(Database, self), cast(Processes, self)
        return finish_rollups(database, processes, jobs, self.console, lag or self.lag, lambda: self.at_s, self.sleep)

    @property
    def said(self) -> str:
        assert isinstance(self.console.file, io.StringIO)
        return self.console.file.getvalue()


def test_jobs_end_before_it_waits_and_the_sink_goes_on() -> None:
    """Else what they write at their end is noted behind the last look."""
    world = World()

    assert world.finished(jobs=("windows", "costs"))
    assert world.told[:3] == ["windows", "costs", "tend"]
    assert world.said == ""


@pytest.mark.parametrize(
    ("world", "over_s"),
    [
        pytest.param(World(computed_s=40.0), 40.0, id="until all that is noted is computed"),
        pytest.param(World(noted_s=4.0, computed_s=30.0), 30.0, id="also what is noted a moment later"),
        pytest.param(World(read_s=20.0), 20.0, id="until the sink reads nothing more"),
    ],
)
def test_the_demo_waits_until_the_sink_is_at_rest(world: World, over_s: float) -> None:
    """And a moment longer."""
    assert world.finished()
    assert over_s + CALM_S - 1 <= world.at_s <= over_s + CALM_S + 2


@pytest.mark.parametrize("lag", [None, lambda: None], ids=["notes stay", "the sink is away"])
def test_the_wait_has_an_end_and_says_what_is_left(lag: Callable[[], object | None] | None) -> None:
    """With what to do about it."""
    world = World(computed_s=1e9 if lag is None else 0.0)

    assert not world.finished(lag)
    assert WITHIN_S <= world.at_s <= WITHIN_S + 1
    assert f"the sink is behind, {3 if lag is None else 0} buckets of rollups to compute: pages show less" in world.said
    assert "`fleetpulse sink`" in world.said


def test_ctrl_c_ends_the_wait() -> None:
    """And what is left is said all the same."""
    world = World(computed_s=1e9)

    def interrupted() -> object:
        raise KeyboardInterrupt

    assert not world.finished(interrupted)
    assert "the sink is behind" in world.said


@pytest.mark.parametrize(
    ("answer", "lag"),
    [
        pytest.param([Lag("sink", "costs", 3, 8, 1), Lag("sink", "books", 0, 1, 1)], (3, 0), id="it runs"),
        pytest.param([Lag("sink", "costs", 3, 8, 0)], None, id="nobody is in its group"),
        pytest.param(UnavailableError("Kafka unavailable"), None, id="Kafka does not answer"),
    ],
)
def test_the_lag_is_that_of_a_sink_that_runs(
    answer: list[Lag] | Exception, lag: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By topic, of its own group alone."""
    asked: list[Mapping[str, Sequence[str]]] = []

    class Asked:
        def __init__(self, _kafka: KafkaConfig, reads: Mapping[str, Sequence[str]]) -> None:
            asked.append(reads)

        async def ask(self) -> list[Lag]:
            if isinstance(answer, Exception):
                raise answer
            return answer

    monkeypatch.setattr(ending, "LagOfGroups", Asked)

    assert ending.sink_lag(KafkaConfig()) == lag
    assert [list(one) for one in asked] == [["sink"]]


def test_while_it_waits_it_says_for_what(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many buckets are left."""
    shown: list[str] = []
    world = World(computed_s=2.0)
    monkeypatch.setattr(ending, "spinner", lambda *_: _Shows(shown))

    world.finished()

    assert shown[0] == "waiting: the sink is behind, 3 buckets of rollups to compute"


class _Shows:
    def __init__(self, shown: list[str]) -> None:
        self._shown = shown

    def __enter__(self) -> Callable[[str], None]:
        return self._shown.append

    def __exit__(self, *_exc: object) -> None: ...


@pytest.mark.parametrize("goes_on", [False, True], ids=["at once", "with --keep"])
def test_the_sink_is_waited_for_behind_all_that_produces(goes_on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is shown; of a demo that goes on, when somebody ends it."""
    order: list[str] = []
    report = SimpleNamespace(exact=True)
    for name, answer in {"_start": None, "_serve": None, "_watch": True, "_settle": report, "_close": None}.items():
        monkeypatch.setattr(run, name, _noted(order, name, answer))
    for name in ("_show_queries", "_finish"):
        monkeypatch.setattr(run, name, _noted(order, name, None))
    after = [SimpleNamespace(name="simulate-after")]
    processes = SimpleNamespace(start=lambda _: 1, tend=_interrupt, stop=lambda *names, **_: order.extend(names))
    made = SimpleNamespace(
        console=Console(quiet=True), processes=processes, config=SimpleNamespace(data_dir=None),
        scenario=SimpleNamespace(edges_after=lambda: after),
    )  # fmt: skip

    assert run._run_on(cast(run._Run, made), keep=goes_on, svg=None)

    if goes_on:
        assert order[-2:] == ["simulate-after", "_finish"]
        assert "_finish" not in order[:-1]
    else:
        assert order == ["_start", "_watch", "_settle", "_finish", "_close", "_show_queries"]


def _noted(order: list[str], name: str, answer: object) -> Callable[..., Any]:
    def call(*_: object, **_kwargs: object) -> object:
        order.append(name)
        return answer

    return call


def _interrupt() -> None:
    raise KeyboardInterrupt
