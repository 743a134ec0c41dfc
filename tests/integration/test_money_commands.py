"""The commands of money on a stack that real jobs fed: audit and report of bills, a rerate with corrected prices.

Covers fleetpulse.commands.money.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fleetpulse.sql.database import Database
from lab.evaluate.pipeline import records_of
from lab.simulator.faults import Fault
from lab.simulator.fleet import Fleet
from lab.simulator.load import PoissonLoad
from lab.simulator.plan import CHAT_SHARES, CODE_SHARES, mixed_plan
from schemas.contract.alert_commands import TEXT_CHARS_MAX
from schemas.contract.record import Record
from schemas.contract.topics import BY_NAME
from schemas.limits import DERIVED_SETTLE_MS, HOUR_MS, MINUTE_MS
from tests.conftest import Servers
from tests.integration.installation import Installation, installed
from tests.integration.sink_rig import send

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

WITHIN_S = 240.0
"""Far beyond what it takes: a machine may have other work."""
STEP_MS = 5_000
MINUTES = 2
EXAMPLE = Path(__file__).parents[2] / "fleetpulse" / "data" / "prices" / "example.yaml"
SERVICES = (("sink",), ("jobs", "windows", "--shell", "bare"), ("jobs", "costs", "--shell", "bare"))
EXIT_FATAL = 70
"""How a job ends that is to be started again, as its supervisor does."""
SHARING = ("gpu-001/0", "gpu-001/1")
CHECKS = (
    "parts",
    "measured GPU time and energy",
    "measured requests and tokens",
    "start-up of engines",
    "shared GPUs by memory held",
    "priced again",
    "emissions again",
    "rollup by hour",
    "rollup by day",
)
STORED = {
    "gpu.samples": "sum(event_count) FROM gpu_samples_partials",
    "llm.requests": "sum(requests) FROM usage",
    "gpu.processes": "sum(readings) FROM gpu_shares",
}
"""What bills are made of, by source topic: each event once."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Whole minutes of the fleet."""

    begin_ms: int

    @property
    def end_ms(self) -> int:
        return self.begin_ms + MINUTES * MINUTE_MS

    @property
    def words(self) -> tuple[str, ...]:
        """As the commands take it."""
        at = [f"{datetime.fromtimestamp(ms / 1_000, UTC):%Y-%m-%dT%H:%M:%SZ}" for ms in (self.begin_ms, self.end_ms)]
        return "--from", at[0], "--to", at[1]

    def where(self, column: str) -> str:
        return f"{column} >= {self.begin_ms} AND {column} < {self.end_ms}"

    def records(self, seed: int) -> Iterator[Record]:
        """What nine GPUs on two hosts tell, one of them shared by two engines, another engine of which begins; readings
        end within the stretch."""
        load = PoissonLoad(8.0, (*CHAT_SHARES, *CODE_SHARES))
        begins = Fault("cold_start", "engine_id", "gpu-000/0", self.begin_ms, self.begin_ms + STEP_MS)
        fleet = Fleet(mixed_plan(1, load, (begins,), shared_gpu=True), seed)
        number = Counter[str]()
        for step in fleet.steps(self.begin_ms - 1, self.end_ms, STEP_MS):
            for wide in step.wides:
                for value, headers in records_of(wide.topic, [wide]):
                    partition = number[wide.topic] % BY_NAME[wide.topic].partitions
                    number[wide.topic] += 1
                    yield Record(wide.topic, partition, 0, 0, None, value, headers)

    def events(self) -> Counter[str]:
        """By topic."""
        found = Counter[str]()
        for record in self.records(1):
            found[record.topic] += int(dict(record.headers)["count"])
        return found


class Fed:
    """The commands on an installation, and two stretches that went in: one settled just now, and one of hours ago."""

    def __init__(self, folder: Path, of: Installation) -> None:
        self.config = of.config
        self.database = Database(of.config.reading)
        now_ms = int(time.time() * 1_000)
        settled_ms = (now_ms - DERIVED_SETTLE_MS) // MINUTE_MS * MINUTE_MS
        self.recent = Stretch(settled_ms - MINUTES * MINUTE_MS)
        self.old = Stretch((now_ms - 4 * HOUR_MS) // HOUR_MS * HOUR_MS)
        self.folder = folder
        self.environment = {**os.environ, **of.environment, "COLUMNS": "160"}
        self.running: dict[tuple[str, ...], subprocess.Popen[bytes]] = {}

    def start(self, *words: str) -> None:
        more = ("--name", f"w{secrets.token_hex(4)}") if words[0] == "jobs" else ()
        command = [sys.executable, "-m", "fleetpulse", *words, *more]
        with (self.folder / f"{'-'.join(words[:2])}.log").open("ab") as log:
            self.running[words] = subprocess.Popen(
                command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def tend(self) -> None:
        """Restart what ended after a fatal error: a busy machine is slow to acquire partitions."""
        for words in [words for words, process in self.running.items() if process.poll() == EXIT_FATAL]:
            self.start(*words)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "fleetpulse", *words]
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=WITHIN_S, check=False
        )

    def sums(self, selects: Sequence[str]) -> list[int]:
        """The one number of each; null is 0."""
        return [int(self.database.sql(sql).rows[0][0] or 0) for sql in selects]

    def end(self) -> None:
        self.database.close()
        for process in self.running.values():
            process.send_signal(signal.SIGTERM)
        for process in self.running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(15)
            process.kill()
            process.wait()

    def tails(self) -> str:
        return "\n".join(f"{path.name}:\n{path.read_text()[-1_500:]}" for path in self.folder.glob("*.log"))


@pytest.fixture
def fed(stack: Servers, tmp_path: Path) -> Iterator[Fed]:
    """Topics of its own, because the cost job begins at the beginning of its log: the stretches are in them, the jobs
    and the sink run on them."""
    with installed(stack, tmp_path) as of:
        found = Fed(tmp_path, of)
        asyncio.run(send(found.config.kafka, [*found.old.records(1), *found.recent.records(2)]))
        try:
            for words in SERVICES:
                found.start(*words)
            yield found
        finally:
            found.end()


def eventually(fed: Fed, holds: Callable[[], object], what: Callable[[], object]) -> None:
    until_s = time.monotonic() + WITHIN_S
    while not holds():
        if time.monotonic() > until_s:
            pytest.fail(f"not within {WITHIN_S} s: {what()}")
        fed.tend()
        time.sleep(0.3)


def test_bills_of_real_jobs_are_exact_reported_and_rated_again(fed: Fed, tmp_path: Path) -> None:
    """As they are told they add up, engines side by side pay by the memory they hold; with corrected prices hours later
    all bills of that time are others, and add up again."""
    billed = f"SELECT countIf(gpu_ms > 0) FROM costs WHERE owner IN {SHARING} AND {fed.recent.where('minute_ms')}"
    eventually(fed, lambda: fed.sums([billed]) == [2 * MINUTES], fed.tails)
    audited = fed.run("audit", "cost", "--json", *fed.recent.words)
    report = fed.run("report", "cost", *fed.recent.words)
    page = fed.run("report", "cost", *fed.recent.words, "--html", str(tmp_path / "report.html"))

    found = json.loads(audited.stdout)
    assert (audited.returncode, found["exact"]) == (0, True), audited.stdout + audited.stderr
    assert {one["name"]: (one["compared"] > 0, one["difference"]) for one in found["checks"]} == dict.fromkeys(
        CHECKS, (True, 0)
    )
    assert (report.returncode, page.returncode) == (0, 0), report.stderr + page.stderr
    assert "The bill, split" in report.stdout
    assert "The bill, split" in (tmp_path / "report.html").read_text(encoding="utf-8")

    sent = [fed.old.events()[topic] for topic in STORED]
    selects = [f"SELECT {sql} FINAL WHERE {fed.old.where('window_ms')}" for sql in STORED.values()]
    eventually(fed, lambda: fed.sums(selects) == sent, lambda: (sent, fed.sums(selects), fed.tails()))
    shutil.copytree(EXAMPLE.parent, tmp_path / "prices")  # it names a map of list prices beside it
    dearer = tmp_path / "prices" / "dearer.yaml"
    dearer.write_bytes(EXAMPLE.read_bytes().replace(b"2.79 USD", b"5.58 USD"))
    rated = fed.run("rerate", *fed.old.words, "--prices", str(dearer), "--json")
    again = fed.run("audit", "cost", "--json", *fed.old.words, "--prices", str(dearer))

    assert rated.returncode == 0, rated.stderr
    did = "SELECT action, about, done_by != '' FROM actions FINAL"
    line = f"rerate {' '.join(fed.old.words)} --prices {dearer}"[:TEXT_CHARS_MAX]
    landed = lambda: list(fed.database.sql(did).rows)  # noqa: E731
    eventually(fed, lambda: landed() == [("run", line, 1)], lambda: (line, landed(), fed.tails()))
    done, after = json.loads(rated.stdout), json.loads(again.stdout)
    assert (done["written"], done["after_nusd"] > done["before_nusd"]) == (True, True)
    assert done["bills"] > 6 * MINUTES
    assert (again.returncode, after["exact"], after["late_minutes"], after["unpriced"]) == (0, True, 0, "")
    assert {one["name"]: one["compared"] for one in after["checks"]}["shared GPUs by memory held"] == 2 * MINUTES
