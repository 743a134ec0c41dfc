"""A whole pipeline of its own under drills: servers, jobs, sink, a small simulated fleet, Prometheus."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from fleetpulse import stack
from fleetpulse.services.jobs_and_sink import JOBS
from fleetpulse.services.processes import Command, Processes
from lab.bench.stand import free_port, is_ready, page
from lab.chaos.clock_shim import SteppedClock
from lab.chaos.stage import faults
from lab.drills.certificates import TlsRelay
from runtime.config import Config
from runtime.health import CONNECTIONS_MAX, REQUEST_WITHIN_S
from runtime.http_server import App, HttpThread, Refused, Request, Response, Route
from schemas.errors import FleetpulseError

ROOT = Path(__file__).parents[2]
RULES, PAGE = ROOT / "deploy" / "prometheus" / "rules.yaml", ROOT / "docs" / "how-to" / "running.md"
WORKER = "worker-0"
SINK, DELIVER, PRODUCER, PROMETHEUS = "sink", "deliver", "producer", "prometheus"
READY_WITHIN_S = 300.0
ENDS_WITHIN_S = 60.0
TICK_S = 0.2
GPUS, REQUESTS_PER_S = 8, 5
ANSWERS_WITHIN_S = 5.0
SCRAPE = "2s"
"""Between two scrapes, and the time that one has: a process that is late once counts as gone, and what was pending
begins to be so again."""
FAULT_EVERY_S = 60
"""So often a GPU is lost and found again: each engine's are one alert, which stays open."""


@dataclass(slots=True)
class Stand:
    """``folder`` is the data folder of the stack. ``pasted``: commands of the runbook that go on running."""

    folder: Path
    config: Config
    processes: Processes
    seed: int
    ports: dict[str, int] = field(default_factory=dict)
    pasted: list[subprocess.Popen[bytes]] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    """Of every process from now on, beside where the stack is."""
    prometheus: int | None = None
    """Its port; None where there is no Prometheus on this machine."""
    shim: SteppedClock | None = None
    """The clock of processes whose clock is off."""
    relay: TlsRelay | None = None
    """TLS before ClickHouse."""
    running: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    """What goes on until the end."""
    kafka_is_quick: threading.Event = field(default_factory=threading.Event)
    """Set: what slows the broker ends."""
    webhook_status: int = 204
    """What the receiver of alerts responds from now on."""
    struck_s: float | None = None
    """When a fault took effect that has none at once, such as a receiver that refuses: with the first alert; None: not
    yet."""
    ended: Counter[str] = field(default_factory=Counter)
    """How often each service has ended by itself and was started again."""
    _webhook: HttpThread | None = None

    @property
    def logs(self) -> Path:
        """One file for each process, also those that were pasted."""
        return self.folder / "processes"

    def parts(self) -> dict[str, tuple[str, ...]]:
        """Words of the services by name."""
        jobs = {f"jobs-{job}": ("jobs", job, "--name", WORKER) for job in JOBS}
        simulate = ("simulate", "--gpus", str(GPUS), "--load", "poisson", "--rate", str(REQUESTS_PER_S))
        own = ("--seed", str(self.seed), "--spool", str(self.folder / "spool"), "--faults", str(self._faults))
        return {**jobs, SINK: ("sink",), DELIVER: ("deliver",), PRODUCER: (*simulate, *own)}

    @property
    def _faults(self) -> Path:
        return self.folder / "faults.json"

    def begin(self) -> None:
        """Start everything and wait until it is ready. Raises FleetpulseError when something is not."""
        app = App({"/": Route("POST", self._taken)}, _refuse, CONNECTIONS_MAX, REQUEST_WITHIN_S, body_bytes_max=1 << 20)
        self._webhook = HttpThread("webhook", "127.0.0.1", 0, app)
        self.running.callback(self._webhook.close)
        self._faults.write_text(json.dumps(faults(FAULT_EVERY_S, GPUS - 1)))
        for name in self.parts():
            self.start(name)
        self._watch()
        self.until(self.is_ready, READY_WITHIN_S, "the pipeline is ready")

    async def _taken(self, _request: Request) -> Response:
        if self.webhook_status >= 500 and self.struck_s is None:
            self.struck_s = time.monotonic()
        return Response(self.webhook_status, b"")

    @property
    def _environment(self) -> dict[str, str]:
        """Where the stack is, and whom alerts are sent to."""
        assert self._webhook is not None
        found = {"KIND": "webhook", "ENDPOINT_URL": f"http://127.0.0.1:{self._webhook.port}/"}
        target = {f"FLEETPULSE_DELIVERY__DEFAULT__{key}": value for key, value in found.items()}
        return {"FLEETPULSE_DATA_DIR": str(self.folder), **target, **self.environment}

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a shell where the services run: the command ``fleetpulse`` is found."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        return {**os.environ, **self._environment, "PATH": path}

    def start(self, name: str) -> None:
        """Start a service, on the health port that it has had."""
        port = self.ports.setdefault(name, free_port())
        words = (*self.parts()[name], "--health-port", str(port))
        self.processes.start(Command(name, words, self._environment))

    def start_beside(self, name: str, *words: str) -> None:
        """Start one more, with a health port of its own, which ``restore`` ends."""
        port = self.ports[name] = free_port()
        self.processes.start(Command(name, (*words, "--health-port", str(port)), self._environment))
        self._scrape()

    def gone(self, name: str) -> None:
        """Kill a service, and nobody starts it again."""
        self.processes.strike_off(name)

    def kill(self, part: str) -> None:
        """Kill a server of the stack."""
        stack.kill(self.folder, part)

    def is_ready(self) -> bool:
        """Whether every service is."""
        return all(is_ready(port) for port in self.ports.values())

    def restore(self) -> None:
        """End what was pasted, and start what is gone or runs under another configuration."""
        self.kafka_is_quick.set()
        while self.pasted:
            _end(self.pasted.pop())
        stack.up(self.folder)
        self.environment.clear()
        for name in set(self.processes.names()) - self.parts().keys():
            self.gone(name)
            self.ports.pop(name, None)
        self._scrape()
        for name in self.parts():
            if name not in self.processes.names():
                self.start(name)
            elif self.processes.command(name).environment != self._environment:
                command = replace(self.processes.command(name), environment=self._environment)
                self.processes.stop(name)
                self.processes.start(command)
        self.until(self.is_ready, READY_WITHIN_S, "the pipeline is ready again")

    def until(self, holds: Callable[[], bool], within_s: float, what: str) -> None:
        """Wait, and start again what ends meanwhile. Raises FleetpulseError when it does not come true."""
        until_s = time.monotonic() + within_s
        while not holds():
            if time.monotonic() > until_s:
                raise FleetpulseError(f"not within {within_s:.0f} s: {what}; logs are in {self.logs}")
            self.pass_time(TICK_S)

    def pass_time(self, seconds: float) -> None:
        """What ends meanwhile is started again."""
        until_s = time.monotonic() + seconds
        while True:
            self.tend()
            if time.monotonic() >= until_s:
                return
            time.sleep(TICK_S)

    def tend(self) -> None:
        """Start again what has ended, and count it."""
        self.ended.update(self.processes.tend())

    def run(self, line: str, typed: str = "") -> subprocess.Popen[bytes]:
        """Start a line in a shell, as somebody pastes it on a machine of this deployment; ``typed`` is what it reads.
        Its output is a log like those of the services."""
        with (self.logs / "pasted.log").open("ab") as log:
            process = subprocess.Popen(
                ["bash", "-c", line],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=self.variables,
                start_new_session=True,
            )
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(typed.encode())
            process.stdin.close()
        return process

    def end(self) -> None:
        """End what was pasted and what goes on beside: Prometheus, the receiver of alerts, the relay."""
        self.kafka_is_quick.set()
        with self.running:
            for process in self.pasted:
                _end(process)

    @property
    def _targets(self) -> Path:
        return self.folder / PROMETHEUS / "targets.json"

    def _scrape(self) -> None:
        """Have Prometheus scrape every process that has a port; it reads the file when it changes."""
        if self._targets.parent.is_dir():
            fresh = self._targets.with_suffix(".new")
            fresh.write_text(json.dumps([{"targets": [f"127.0.0.1:{port}" for port in self.ports.values()]}]))
            fresh.replace(self._targets)

    def _watch(self) -> None:
        """Start Prometheus with the shipped rules."""
        program = shutil.which(PROMETHEUS)
        if program is None:
            return
        folder = self.folder / PROMETHEUS
        folder.mkdir(exist_ok=True)
        self._scrape()
        config: dict[str, Any] = {
            "global": {"scrape_interval": SCRAPE, "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [{"job_name": "fleetpulse", "file_sd_configs": [{"files": [str(self._targets)]}]}],
        }
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        self.prometheus = free_port()
        line = (
            f"exec {program} --config.file={folder}/prometheus.yaml --storage.tsdb.path={folder}/data"
            f" --web.listen-address=127.0.0.1:{self.prometheus} >{folder}/log 2>&1"
        )
        self.running.callback(_end, self.run(line))


def get(port: int, path: str) -> bytes | None:
    """What is answered, an error too; None where nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=ANSWERS_WITHIN_S) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.read()
    except OSError:
        return None


def metrics(port: int) -> str:
    """The page of metrics of a process; empty where it serves none."""
    try:
        return page(port, "metrics", ANSWERS_WITHIN_S)
    except OSError:
        return ""


def _refuse(refused: Refused, _request: Request) -> Response:
    return Response(refused.status, b"")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a line and all that it started: they are a group of their own."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(ENDS_WITHIN_S)
            return
