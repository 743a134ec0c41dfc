"""What the test that kills agents is made of: an application that counts, a pipeline of its own, and blows."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

import fleetpulse_track as track
from fleetpulse import stack
from fleetpulse.migrate.bring_up import bring_up
from fleetpulse.services.processes import Command, Processes
from fleetpulse.stack import ports
from fleetpulse_track import training
from fleetpulse_track.handover import METRIC, STEP
from runtime.config import Config
from tests.integration.engine_like_vllm import Engine

AGENT, JOB, SINK = "agent", "job", "sink"
STEPS = 50
TICK_S = 0.05
UP_WITHIN_S = 60.0
DRAINED_WITHIN_S = 90.0
SETTLED_WITHIN_S = 120
Ranges = list[range]
Reconciled = tuple[int, Mapping[str, Any]]
"""Exit code and report of ``fleetpulse reconcile --json``."""


class Application:
    """Hands over a request every millisecond, from a thread, until told to stop. The n-th has the id ``r-n``."""

    def __init__(self, socket: Path) -> None:
        self.sent = 0
        self.dropped: list[int] = []
        """Numbers of the requests that the client could not hand over."""
        self._client = track.Client(str(socket))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def counts(self) -> tuple[int, int]:
        """Requests and drops, as the client counts them."""
        return self._client.finished, self._client.lost

    def _run(self) -> None:
        while not self._stop.wait(0.001):
            track.report(client=self._client, model="m", request_id=f"r-{self.sent}", output_tokens=self.sent % 7)
            if self._client.lost > len(self.dropped):
                self.dropped.append(self.sent)
            self.sent += 1

    def stop(self) -> None:
        """Send what waits, and say how many were dropped."""
        self._stop.set()
        self._thread.join()
        self._client.close(within_s=10.0)


def report_events(socket: Path) -> None:
    """``STEPS`` steps of two ranks each, and as many values of a level and of a total."""
    steps, metrics = (track.Client(str(socket), kind=kind) for kind in (STEP, METRIC))
    ranks = [training.Run("sft", model="m", rank=rank, client=steps) for rank in range(2)]
    for number in range(STEPS):
        for run in ranks:
            run.step(loss=1 / (number + 1), samples=32, tokens=number)
        track.metric("depth", number, pool="a", client=metrics)
        track.count("evicted", 3, client=metrics)
        time.sleep(0.002)
    for client in (steps, metrics):
        client.close(within_s=10.0)
        assert (client.finished, client.lost) == (2 * STEPS, 0)


def runs_of(numbers: Sequence[int]) -> Ranges:
    """Ascending numbers as runs without a gap."""
    breaks = [0, *(i + 1 for i, (a, b) in enumerate(pairwise(numbers)) if b != a + 1), len(numbers)]
    return [range(numbers[a], numbers[b - 1] + 1) for a, b in pairwise(breaks) if b > a]


@dataclass(slots=True)
class Stage:
    """A pipeline of its own (others would not like their Kafka to be killed) and how often what was hit."""

    folder: Path
    config: Config
    processes: Processes
    health_port: int
    engine_port: int
    """Where this process answers as an engine does, so that its processes are one's."""
    kafka_kills: int = 0
    killed_at: list[int] = field(default_factory=list)
    """How many requests had been handed over when an agent was killed."""

    @property
    def socket(self) -> Path:
        """Where the agent takes requests."""
        return self.folder / "agent.sock"

    def pass_time(self, seconds: float) -> None:
        """Wait, and let what died live again."""
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0:
            self.processes.tend()
            time.sleep(min(TICK_S, left_s))

    def until(self, what: Callable[[], bool], within_s: float, else_say: str) -> None:
        """Wait until it is so; fail when it takes too long."""
        end_s = time.monotonic() + within_s
        while not what():
            assert time.monotonic() < end_s, f"{else_say}; the end of its log:\n{self.processes.tail(AGENT)}"
            self.pass_time(TICK_S)

    def start_agent(self) -> None:
        """Until the agent listens: there is a socket under the name that its predecessor's is not."""
        before = self.socket.stat().st_ino if self.socket.exists() else None
        environment = {
            "FLEETPULSE_DATA_DIR": str(self.folder),
            "FLEETPULSE_KAFKA__REQUEST_TIMEOUT_MS": "5000",
            "FLEETPULSE_AGENT__RECEIVER__SOCKET": str(self.socket),
            "FLEETPULSE_AGENT__PERIOD_MS": "100",
            "FLEETPULSE_AGENT__DRAIN_MS": "60000",
            "FLEETPULSE_AGENT__ENGINE_PORTS": f"[{self.engine_port}]",
            "FLEETPULSE_AGENT__SLOW_PERIOD_MS": "1000",
            "FLEETPULSE_AGENT__PROCESS_PERIOD_MS": "1000",
        }
        words = ("agent", "--spool", str(self.folder / "spool"), "--health-port", str(self.health_port))
        self.processes.start(Command(AGENT, words, environment, restart=False))

        def listens() -> bool:
            assert self.processes.pid(AGENT) is not None, self.processes.tail(AGENT)
            return self.socket.exists() and self.socket.stat().st_ino != before

        self.until(listens, UP_WITHIN_S, "the agent does not listen")

    def figures(self) -> dict[str, float]:
        """What the agent tells of its receiver; the outcomes of datagrams by their word."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.health_port}/metrics", timeout=10) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
        samples = [sample for family in families for sample in family.samples if not sample.name.endswith("_created")]
        told = {each.name.removeprefix("fleetpulse_receiver_"): each.value for each in samples if not each.labels}
        return told | {each.labels["outcome"]: each.value for each in samples if "outcome" in each.labels}

    def taken(self) -> float:
        """Datagrams that the agent's receiver took; none while the agent does not answer yet."""
        try:
            return self.figures().get("taken", 0.0)
        except OSError:
            return 0.0

    def end_agent(self) -> dict[str, float]:
        """Ask the last agent to end when it has read the farewell; what its receiver told before."""
        self.until(lambda: self.figures().get("farewell") == 1, UP_WITHIN_S, "the agent has not read everything")
        figures = self.figures()
        self.processes.signal(AGENT, signal.SIGTERM)
        self.until(lambda: self.processes.pid(AGENT) is None, DRAINED_WITHIN_S, "the agent does not end")
        assert self.processes.exit_code(AGENT) == 0, self.processes.tail(AGENT)
        return figures

    def reconcile(self) -> Reconciled:
        """Exit code and report of the command, while the services are kept alive."""
        words = ("reconcile", "--json", "--wait", str(SETTLED_WITHIN_S))
        command = [sys.executable, "-m", "fleetpulse", *words]
        environment = {**os.environ, "FLEETPULSE_DATA_DIR": str(self.folder)}
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(subprocess.run, command, env=environment, capture_output=True, check=False)
            while not running.done():
                self.pass_time(TICK_S)
        done = running.result()
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)


@contextmanager
def an_engine() -> Iterator[int]:
    """The port of an engine in a thread of this process."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Engine) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            serving.join()


@contextmanager
def staged(folder: Path) -> Iterator[Stage]:
    """Servers, topics and tables, a windows job and a sink; all of it ends with the block."""
    config = bring_up(folder, lambda _text: None)
    try:
        with Processes(folder / "processes") as processes, ExitStack() as running:
            port = ports.free_ports(1, start=zlib.crc32(f"{folder}/agent".encode()))[0]
            environment = {"FLEETPULSE_DATA_DIR": str(folder)}
            processes.start(Command(JOB, ("jobs", "windows", "--shell", "bare"), environment))
            processes.start(Command(SINK, ("sink",), environment))
            yield Stage(folder, config, processes, port, running.enter_context(an_engine()))
    finally:
        stack.down(folder)


def blows(stage: Stage, kills: int, chance: random.Random) -> tuple[Application, dict[str, float], list[Reconciled]]:
    """Kill agents while an application sends; the last agent sends the rest. What its receiver reported at its end, and
    what ``reconcile`` found twice while that agent and the application ran."""
    stage.start_agent()
    application = Application(stage.socket)
    try:
        for number in range(kills):
            _blow(stage, application, number, chance.randrange(150, 1_000))
        if (kills - 1) % 3 == 1:
            stack.start_part(stage.folder, stack.KAFKA)
        stage.pass_time(1.0)
        report_events(stage.socket)
        beside = [stage.reconcile() for _ in range(2)]
    finally:
        application.stop()
    return application, stage.end_agent(), beside


def _blow(stage: Stage, application: Application, number: int, after: int) -> None:
    """Kill an agent once it has taken so many requests; of every three the second loses its broker before, and the
    third never had one."""
    if number % 3 == 1:
        stage.kafka_kills += stack.kill(stage.folder, stack.KAFKA) is not None
    stage.until(lambda: stage.taken() >= after, UP_WITHIN_S, "the agent takes too little")
    assert stage.figures().get("missing", 0) == 0, "a number is missing without a word"
    assert stage.processes.strike_off(AGENT), "the agent was down before it was killed"
    stage.killed_at.append(application.sent)
    if number % 3 == 2:
        stack.start_part(stage.folder, stack.KAFKA)
    stage.start_agent()
