"""A real Prometheus (Debian's) and its promtool beside a whole installation: names, rules, scrapes, the doctor.

The installation is a stack of its own with every job, the sink and a simulated fleet.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from fleetpulse.services.jobs_and_sink import JOBS
from fleetpulse.stack import ports
from runtime.counters import PREFIX, Counters, exported_name
from runtime.metric_catalogue import METRICS
from tests.integration.test_jobs_all import consecutive_ports

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

DEPLOY = Path(__file__).resolve().parents[2] / "deploy" / "prometheus"
READY_WITHIN_S = 300.0
FLEETPULSE = (sys.executable, "-m", "fleetpulse")
PARTS = (*JOBS, "sink")


def promtool(*words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    assert shutil.which("promtool") is not None, "no promtool here: install Debian's prometheus"
    return subprocess.run(["promtool", *words], input=given, capture_output=True, timeout=60, check=False)


def get(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
        return bytes(answer.read())


def eventually(holds: Callable[[], bool], what: str) -> None:
    until_s = time.monotonic() + READY_WITHIN_S
    while True:
        with contextlib.suppress(OSError, ValueError, KeyError):
            if holds():
                return
        if time.monotonic() > until_s:
            pytest.fail(f"not within {READY_WITHIN_S} s: {what}")
        time.sleep(0.2)


def test_every_name_is_as_prometheus_asks() -> None:
    """promtool finds no fault with any metric of the catalogue, counted once each."""
    counters = Counters()
    for metric in METRICS:
        labels = dict.fromkeys(metric.labels, "x")
        (counters.add if metric.kind == "counter" else counters.set)(metric.name, 1, **labels)

    done = promtool("check", "metrics", given=counters.render())

    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


@pytest.mark.parametrize(
    "words",
    [
        ("check", "rules", "rules.yaml"),
        ("test", "rules", "rules_test.yaml"),
        ("check", "rules", "pipeline.yaml"),
        ("test", "rules", "pipeline_test.yaml"),
        ("check", "rules", "autoscaling.yaml"),
        ("test", "rules", "autoscaling_test.yaml"),
        ("check", "config", "prometheus.yaml"),
    ],
    ids=" ".join,
)
def test_shipped_rules_hold(words: tuple[str, ...]) -> None:
    """Well-formed, and every alert fires by its own cause alone."""
    done = promtool(*words[:-1], str(DEPLOY / words[-1]))

    assert (done.returncode, done.stderr) == (0, b""), done.stdout


class Installation:
    """A stack in a folder of this test and processes beside it, each with its health port."""

    def __init__(self, folder: Path, running: contextlib.ExitStack) -> None:
        self._folder = folder
        self._running = running
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FLEETPULSE_")}
        self.environment = {**kept, "FLEETPULSE_DATA_DIR": str(folder / "data"), "COLUMNS": "200"}
        first = consecutive_ports(len(PARTS))
        self.ports = {name: first + place for place, name in enumerate(PARTS)}
        running.callback(self.cli, "down")

    @property
    def data_dir(self) -> Path:
        return self._folder / "data"

    def cli(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*FLEETPULSE, *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def start(self, *command: str) -> None:
        log = self._running.enter_context((self._folder / f"{secrets.token_hex(4)}.log").open("wb"))
        process = subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._running.callback(process.wait, 60)
        self._running.callback(process.send_signal, signal.SIGTERM)

    def begin(self) -> None:
        up = self.cli("up")
        assert up.returncode == 0, up.stderr
        self.start(*FLEETPULSE, "jobs", "all", "--shell", "bare", "--health-port", str(self.ports[JOBS[0]]))
        self.start(*FLEETPULSE, "sink", "--health-port", str(self.ports["sink"]))
        self.start(*FLEETPULSE, "simulate", "--gpus", "16", "--load", "poisson", "--rate", "5")
        for name, port in self.ports.items():
            eventually(lambda port=port: bool(get(port, "/readyz")), f"{name} is ready")  # type: ignore[misc]


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with contextlib.ExitStack() as running:
        made = Installation(tmp_path_factory.mktemp("watched"), running)
        made.begin()
        yield made


@pytest.fixture(scope="module")
def prometheus(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> int:
    """Its port. The shipped configuration and rules, with this installation's addresses, a second between scrapes."""
    folder = tmp_path_factory.mktemp("prometheus")
    config = yaml.safe_load((DEPLOY / "prometheus.yaml").read_text())
    targets = [f"127.0.0.1:{port}" for port in installation.ports.values()]
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["scrape_configs"] = [{"job_name": "fleetpulse", "static_configs": [{"targets": targets}]}]
    del config["alerting"]
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    for name in config["rule_files"]:
        shutil.copy(DEPLOY / name, folder)
    (port,) = ports.free_ports(1, start=secrets.randbelow(10_000))
    program = shutil.which("prometheus")
    assert program is not None, "no Prometheus here: install Debian's prometheus"
    installation.start(
        program,
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--web.enable-remote-write-receiver",
    )
    eventually(lambda: b"Ready" in get(port, "/-/ready"), "Prometheus is ready")
    return port


def value_of(port: int, expression: str) -> list[dict[str, Any]]:
    answer = json.loads(get(port, f"/api/v1/query?query={quote(expression)}"))
    return list(answer["data"]["result"])


def test_prometheus_scrapes_every_process(installation: Installation, prometheus: int) -> None:
    """All are up, events flow through all of them in its eyes, and no rule fails or fires for a pipeline at work."""
    eventually(lambda: len(value_of(prometheus, 'up{job="fleetpulse"} == 1')) == len(PARTS), "every process is scraped")
    for figure in ("job_events_total", "finals_rows_total", "sink_rows_total", "alert_windows_total"):
        eventually(lambda figure=figure: bool(value_of(prometheus, f"{PREFIX}{figure} > 0")), figure)  # type: ignore[misc]

    groups = json.loads(get(prometheus, "/api/v1/rules"))["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    shipped = "".join((DEPLOY / name).read_text() for name in ("rules.yaml", "pipeline.yaml"))
    assert len(rules) == len(re.findall(r"- (?:alert|record):", shipped))
    assert [rule["name"] for rule in rules if rule["health"] not in ("ok", "unknown")] == []
    assert [rule["name"] for rule in rules if rule.get("state") == "firing"] == []


def test_what_is_recorded_of_the_pipeline_has_values(prometheus: int) -> None:
    """Of a simulated fleet: every name but those of what no healthy pipeline does, each within what is normal."""
    recorded = set(re.findall(r"- record: (\S+)", (DEPLOY / "pipeline.yaml").read_text()))
    quiet = {"fleetpulse:labels_overflow:dimension", "fleetpulse:duplicates:topic"}
    edge = {"fleetpulse:spool_bytes:sum", "fleetpulse:spool_oldest_seconds:max"}  # the simulator has no health port

    for name in sorted(recorded - quiet - edge):
        eventually(lambda name=name: bool(value_of(prometheus, name)), name)  # type: ignore[misc]
    jobs = {one["metric"]["process"] for one in value_of(prometheus, "fleetpulse:job_lag_records:topic")}
    assert jobs == {f"jobs-{name}" for name in JOBS}


def test_prometheus_takes_windows_by_remote_write(installation: Installation, prometheus: int) -> None:
    """Models, engines and GPUs of the fleet, with the figures that ClickHouse has; again, it goes on from there."""
    url = f"http://127.0.0.1:{prometheus}/api/v1/write"
    log = installation.data_dir.parent / "export.log"

    figures = (
        "fleetpulse_model_requests_per_second",
        'fleetpulse_model_ttft_seconds{quantile="0.99"}',
        "fleetpulse_window_engine_requests_running",
        "fleetpulse_window_gpu_power_watts",
    )

    def exported() -> bool:
        done = installation.cli("export", "prometheus", "--once", "--url", url)
        log.write_text(done.stderr + done.stdout)
        return done.returncode == 0 and all(value_of(prometheus, f"last_over_time({one}[5m])") for one in figures)

    eventually(exported, "a window of a model, an engine and a GPU is exported")
    assert "rejected" not in log.read_text()


def test_every_page_is_clean_and_holds_figures_of_the_catalogue(installation: Installation) -> None:
    """promtool finds no fault with what real processes answer, and no name is outside the catalogue."""
    known = {PREFIX + exported_name(metric.name) for metric in METRICS}
    pages = {name: get(port, "/metrics") for name, port in installation.ports.items()}

    assert {name: promtool("check", "metrics", given=page).returncode for name, page in pages.items()} == dict.fromkeys(
        pages, 0
    )
    told = set(re.findall(r"^# TYPE (\S+)", b"\n".join(pages.values()).decode(), re.MULTILINE))
    assert {name.removesuffix("_total") for name in told} - known == set()
    assert len(told) > 15


def test_the_doctor_finds_nothing_wrong_with_a_whole_installation(installation: Installation) -> None:
    """Exit code 0; every group that runs is good, the broker's clock is read off what arrives."""
    words = ("doctor", "--json", "--disk-free", "0", "--skew", "20000", "--within", "60")
    good = {("lag", f"local-{name}") for name in ("windows", "finals", "alerts", "costs", "sink", "raw")}
    good.add(("clock.kafka", "the broker's clock"))

    def told() -> list[dict[str, Any]]:
        return list(json.loads(installation.cli(*words).stdout)["findings"])

    def goods() -> set[tuple[str, str]]:
        return {(one["check"], one["subject"]) for one in told() if one["state"] == "good"}

    # A job that exits after a time-out on a slow machine is away for some seconds.
    eventually(lambda: good <= goods(), "every group runs")

    done = installation.cli(*words)
    assert [one for one in json.loads(done.stdout)["findings"] if one["state"] == "wrong"] == []
    assert done.returncode == 0


def test_the_terminal_shows_the_fleet(installation: Installation) -> None:
    """The table of GPUs and of hosts; a query by its name as CSV, and percentiles."""
    eventually(lambda: len(json.loads(installation.cli("top", "--json").stdout)) == 16, "top shows 16 GPUs")

    hosts = json.loads(installation.cli("top", "--by", "host", "--sort", "host", "--json").stdout)
    csv = installation.cli("query", "gpu_summary", "--last", "5m", "--format", "csv")
    file = installation.data_dir / "one.parquet"
    parquet = installation.cli("query", "SELECT 1 AS one", "--format", "parquet", "--output", str(file))
    refused = installation.cli("query", "DROP TABLE llm_requests")

    assert [row["gpu"] for row in hosts] == [8, 8]
    assert csv.stdout.splitlines()[0].startswith('"gpu_model","gpus"')
    assert (csv.returncode, parquet.returncode, refused.returncode) == (0, 0, 1)
    assert "Traceback" not in refused.stderr
    assert file.read_bytes()[:4] == b"PAR1"
