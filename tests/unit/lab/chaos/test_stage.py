"""What blows at workers and topics do, in which order: as people would, and never to who is not meant."""

from __future__ import annotations

import json
import signal
from itertools import count, pairwise
from pathlib import Path
from typing import cast

import pytest

from fleetpulse.services.jobs_and_sink import JOBS
from fleetpulse.services.processes import Command, Processes
from lab.chaos import stage as chaos
from lab.chaos.schedule import Blow, Step
from lab.chaos.stage import GROWING, GROWN_BY, PRODUCER, SINK, Stage
from lab.simulator.faults import faults_of
from runtime.config import Config
from schemas.contract.topics import BY_NAME, Growth
from schemas.errors import FleetpulseError

WORKERS = [*(f"jobs-{job}" for job in JOBS), SINK]


class Recording:
    """In the place of ``Processes``: what was done to whom; a child that is started runs until it is ended."""

    def __init__(self, migrate_code: int = 0) -> None:
        self.done: list[tuple[str, str]] = []
        self.commands: dict[str, Command] = {}
        self._migrate_code = migrate_code
        self._looks: dict[int, int] = {}

    def is_ready(self, port: int) -> bool:
        """At the second look."""
        self._looks[port] = self._looks.get(port, 0) + 1
        if self._looks[port] % 2:
            return False
        (name,) = (n for n, one in self.commands.items() if str(port) in one.arguments)
        self.done.append(("ready", name))
        return True

    def start(self, command: Command) -> int:
        self.done.append(("start", command.name))
        self.commands[command.name] = command
        return 1

    def stop(self, name: str, within_s: float = 0.0) -> None:
        self.done.append(("stop", name))
        self.commands.pop(name)

    def strike_off(self, name: str) -> bool:
        self.done.append(("kill", name))
        self.commands.pop(name)
        return True

    def signal(self, name: str, number: signal.Signals) -> bool:
        self.done.append((number.name, name))
        return True

    def command(self, name: str) -> Command:
        return self.commands[name]

    def names(self) -> tuple[str, ...]:
        return tuple(self.commands)

    def pid(self, name: str) -> int | None:
        return 1 if name in self.commands and name != "migrate" else None

    def exit_code(self, name: str) -> int | None:
        return self._migrate_code if name == "migrate" else None

    def tail(self, name: str) -> str:
        return f"log of {name}"

    def tend(self) -> None:
        pass


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> Recording:
    monkeypatch.setattr(chaos, "TICK_S", 0.001)
    monkeypatch.setattr(chaos, "STORM_GAP_S", 0.0)
    recording = Recording()
    monkeypatch.setattr(chaos, "is_ready", recording.is_ready)
    monkeypatch.setattr(chaos, "free_port", count(9_000).__next__)
    return recording


def staged(tmp_path: Path, recording: Recording, jobs: int = len(JOBS)) -> Stage:
    """All of it started."""
    config = Config(data_dir=tmp_path)
    stage = Stage(tmp_path, config, cast(Processes, recording), lambda _text: None, jobs)
    stage.begin(16, 1)
    recording.done.clear()
    return stage


def test_a_rolling_restart_takes_every_worker_and_the_sink_and_leaves_who_sends(
    tmp_path: Path, recording: Recording
) -> None:
    """One is back before the next one goes."""
    staged(tmp_path, recording).strike(Step(0.0, Blow.ROLL_WORKERS))

    assert recording.done == [(what, name) for name in WORKERS for what in ("stop", "start", "ready")]


def test_topics_grow_as_operations_says(tmp_path: Path, recording: Recording) -> None:
    """Migrate, then workers and sink, who sends last: all with the new counts, which grow with every time."""
    stage = staged(tmp_path, recording)
    for times in (1, 2):
        recording.done.clear()
        stage.strike(Step(0.0, Blow.GROW_TOPICS))
        counts = {topic: BY_NAME[topic].partitions + times * GROWN_BY for topic in GROWING}

        assert recording.done == [
            ("start", "migrate"),
            ("stop", "migrate"),
            *((what, name) for name in WORKERS for what in ("stop", "start", "ready")),
            ("stop", PRODUCER),
            ("start", PRODUCER),
        ]
        given = {name: one.environment["FLEETPULSE_PARTITIONS"] for name, one in recording.commands.items()}
        assert set(given) == {*WORKERS, PRODUCER}
        assert {name: json.loads(text) for name, text in given.items()} == dict.fromkeys(given, counts)


def test_only_topics_grow_that_may_while_jobs_run() -> None:
    """Others would be refused, or need a rerate to be exact."""
    assert {BY_NAME[topic].growth for topic in GROWING} == {Growth.ANY_TIME}


def test_a_migration_that_fails_ends_the_run(tmp_path: Path, recording: Recording) -> None:
    """With its log."""
    stage = staged(tmp_path, recording)
    recording._migrate_code = 1

    with pytest.raises(FleetpulseError, match="log of migrate"):
        stage.strike(Step(0.0, Blow.GROW_TOPICS))


def test_a_storm_leaves_as_many_workers_as_before(tmp_path: Path, recording: Recording) -> None:
    """Some leave as they should, others by kill -9."""
    stage = staged(tmp_path, recording)
    before = recording.names()

    stage.strike(Step(0.0, Blow.REBALANCE_STORM))

    assert recording.names() == before
    assert [what for what, _ in recording.done if what != "ready"] == [*["start"] * 3, "kill", "stop", "kill"]
    joined, left = recording.done.index(("ready", "jobs-storm-3")), recording.done.index(("kill", "jobs-storm-1"))
    assert joined < left


@pytest.mark.parametrize(("number", "job"), list(enumerate(JOBS, 1)))
def test_a_kill_hits_the_job_of_its_number(number: int, job: str, tmp_path: Path, recording: Recording) -> None:
    """And is counted by its name."""
    stage = staged(tmp_path, recording)

    stage.strike(Step(0.0, Blow.KILL_JOB, node=number))

    assert recording.done == [("SIGKILL", f"jobs-{job}")]
    assert stage.done == {"kill job": 1}


@pytest.mark.parametrize(
    ("blow", "name", "commits"),
    [
        (Blow.KILL_PRODUCER, PRODUCER, "edge_records_sent"),
        (Blow.KILL_JOB, f"jobs-{JOBS[0]}", "job_commits"),
        (Blow.KILL_SINK, SINK, "sink_inserts"),
    ],
)
def test_a_kill_that_is_to_hit_a_part_at_work_waits_until_it_has_committed(
    blow: Blow, name: str, commits: str, tmp_path: Path, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is not comes at once, and counts as one at a part that is just starting."""
    stage, pages = staged(tmp_path, recording), iter(range(5))

    def page(_port: int, _path: str, _within_s: float) -> str:
        return f"fleetpulse_{commits}_total {max(0, next(pages) - 1)}\n"

    monkeypatch.setattr(chaos, "page", page)
    stage.strike(Step(0.0, blow))
    newborn = dict(stage.at_work)
    recording.done.clear()
    stage.strike(Step(0.0, blow, at_work=True))

    assert newborn == {blow.value: 0}
    assert [one for one in recording.done if one[0] != "ready"] == [("SIGKILL", name)]
    assert ("ready", name) in recording.done
    assert (stage.done, stage.at_work) == ({blow.value: 2}, {blow.value: 1})


def test_a_kill_of_a_part_that_is_down_is_told_apart(
    tmp_path: Path, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is started all the same, and counts by another name."""
    started: list[str] = []
    monkeypatch.setattr(chaos.stack, "kill", lambda _folder, _name: None)
    monkeypatch.setattr(chaos.stack, "start_part", lambda _folder, name: started.append(name))
    stage = staged(tmp_path, recording)

    stage.strike(Step(0.0, Blow.KILL_KAFKA))

    assert started == [chaos.stack.KAFKA]
    assert stage.done == {"kill kafka (was down)": 1}


def test_without_a_cluster_the_windows_job_runs_alone(tmp_path: Path, recording: Recording) -> None:
    """Beside sink and producer."""
    assert staged(tmp_path, recording, jobs=1).processes.names() == ("jobs-windows", SINK, PRODUCER)


def test_the_faults_are_read_by_the_simulator_and_do_not_overlap() -> None:
    """Each ends before the next begins, so that its alert resolves."""
    found = faults_of(chaos.faults(), 0)

    assert len(found) == chaos.FAULTS
    assert all(one.to_ms < after.from_ms for one, after in pairwise(found))
