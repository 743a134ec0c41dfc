"""The demo, twice in a folder with a space; and on what it leaves, every query of the SQL cookbook."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from fleetpulse.backtest.replay import replay
from fleetpulse.sql.database import Database
from lab.demo.scenario import RULES
from runtime.config import Config, load
from runtime.kafka_clients import make_producer, started
from schemas.contract.headers import NDJSON
from schemas.events.event_types import LLM_REQUESTS
from schemas.limits import WINDOW_MS
from stream_jobs.alerts.spending import RULES as OF_BUDGETS

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1_000)]

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "cookbook.md"
RECIPE = re.compile(r"^### (?P<question>.+?)\n(?P<text>.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
QUERY = re.compile(r"^```sql\n(.+?)^```\n\n((?:\|.*\n)+)", re.MULTILINE | re.DOTALL)
NOTHING_IS_GOOD = ("Which final minutes got rows after their bill?",)
SHOWN = ("TTFT", "llama-3.1-8b", "NVIDIA H100", "Books:", "books exact", "FROM llm_requests_partials FINAL")
KEPT = "the fleet goes on"
WITHIN_S, LONGEST_S = 300.0, 500.0


@dataclass(frozen=True, slots=True)
class Recipe:
    """A question of the page, its query, and the columns of its answer."""

    question: str
    sql: str
    columns: tuple[str, ...]


def recipe(question: str, text: str) -> Recipe:
    """Of what stands under a heading: one query and one table."""
    ((sql, table),) = QUERY.findall(text)
    head = table.splitlines()[0]
    return Recipe(question, sql, tuple(cell.strip() for cell in head.strip("|").split("|")))


RECIPES = [recipe(found["question"], found["text"]) for found in RECIPE.finditer(PAGE.read_text(encoding="utf-8"))]


@dataclass(frozen=True, slots=True)
class Demo:
    """What two runs of the demo have left: the first has ended, the second keeps running."""

    config: Config
    first: subprocess.CompletedProcess[str]
    between_ms: int
    second: subprocess.Popen[str]
    second_log: Path


def environment(data_dir: Path) -> dict[str, str]:
    return {**os.environ, "FLEETPULSE_DATA_DIR": str(data_dir), "COLUMNS": "120"}


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "fleetpulse", "demo", *words]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """Eight seconds, and a run of twenty seconds that goes on."""
    data_dir = tmp_path_factory.mktemp("demo") / "a folder"
    env, log = environment(data_dir), data_dir.parent / "second.log"
    with log.open("w") as output, contextlib.ExitStack() as ending:
        ending.callback(subprocess.run, [sys.executable, "-m", "fleetpulse", "down"], env=env, check=True)
        first = subprocess.run(
            command("--seconds", "8"), env=env, capture_output=True, text=True, timeout=LONGEST_S, check=False
        )
        between_ms = time.time_ns() // 1_000_000
        second = subprocess.Popen(
            command("--seconds", "20", "--keep"), env=env, stdout=output, stderr=output, text=True
        )
        ending.callback(stop, second)
        eventually(lambda: KEPT in log.read_text() or second.poll() is not None, f"{KEPT}: {log}")
        yield Demo(load({"data_dir": data_dir}), first, between_ms, second, log)


def stop(process: subprocess.Popen[str]) -> int:
    """On the way of Ctrl-C; the exit status. One that does not end must not go on beside all other tests."""
    process.terminate()
    try:
        return process.wait(WITHIN_S)
    finally:
        process.kill()


def eventually(holds: Callable[[], object], what: str) -> None:
    until_s = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < until_s, f"not within {WITHIN_S:.0f} s: {what}"
        time.sleep(0.3)


@pytest.fixture(scope="module")
def reader(demo: Demo) -> Iterator[Database]:
    """The read-only user, once a bill is told and what nobody can read was refused."""
    asyncio.run(_send_what_nobody_can_read(demo.config))
    with contextlib.closing(Database(demo.config.reading)) as found:
        for table in ("token_costs", "rejected", "alerts", "llm_requests_rollup_1d"):
            eventually(partial(_has_rows, found, table), f"rows in {table}")
        yield found


def _has_rows(database: Database, table: str) -> bool:
    return bool(database.sql(f"SELECT 1 FROM {table} LIMIT 1").rows)


async def _send_what_nobody_can_read(config: Config) -> None:
    headers = [("schema", LLM_REQUESTS.schema.encode()), ("content-type", NDJSON.encode())]
    async with started(make_producer(config.kafka)) as producer:
        await producer.send_and_wait(LLM_REQUESTS.topic, b'{"host": "h-7", "model": ', headers=headers)


def test_the_demo_ends_with_exact_books_twice_in_a_folder_with_a_space(demo: Demo) -> None:
    """It shows latencies, GPUs and queries; the second run adds to the first."""
    assert demo.first.returncode == 0, demo.first.stdout + demo.first.stderr
    for said in (demo.first.stdout, demo.second_log.read_text()):
        assert [shown for shown in SHOWN if shown not in said] == []


@pytest.mark.parametrize("one", RECIPES, ids=lambda one: one.question)
def test_a_query_of_the_cookbook_gives_what_the_page_shows(one: Recipe, reader: Database) -> None:
    """On the demo's data, as the read-only user: the columns of the page, and rows."""
    described = reader.sql(f"DESCRIBE TABLE ({one.sql})")

    answer = reader.sql(one.sql)

    assert tuple(row[0] for row in described.rows) == one.columns
    assert bool(answer.rows) == (one.question not in NOTHING_IS_GOOD)


def test_every_query_of_the_page_is_asked() -> None:
    """None stands where this test would not find it."""
    text = PAGE.read_text(encoding="utf-8")

    assert text.count("```sql") == text.count("```") // 2 == len(RECIPES) >= 30


def test_a_backtest_of_the_first_run_opens_the_alerts_that_were_opened_live(demo: Demo, reader: Database) -> None:
    """The demo's rules over what the database kept: the same incidents, opened at the same moments of event time.

    What the alert job has not judged before the first run ended it judges in the second. Budgets are no rules."""
    run = (
        f"SELECT min(window_ms), max(window_ms) + {WINDOW_MS} FROM request_windows WHERE window_ms < {demo.between_ms}"
    )
    from_ms, to_ms = map(int, reader.sql(run).rows[0])
    opened = (
        "SELECT fingerprint, opened_ms FROM alerts"
        f" WHERE number = 1 AND opened_ms < {to_ms} AND rule NOT IN {OF_BUDGETS}"
    )
    found = replay(Database(demo.config.reading).native, from_ms, to_ms, RULES, lambda _done, _all: None)
    again = {(one.headlines()[0].fingerprint, one.opened_ms) for one in found.stories if one.opened_ms < to_ms}

    def live() -> set[tuple[str, int]]:
        return {(str(row[0]), int(row[1])) for row in reader.sql(opened).rows}

    with contextlib.suppress(AssertionError):  # what differs in the end is shown below
        eventually(lambda: live() >= again, "alerts of the first run")
    assert again == live(), reader.sql(opened.replace("opened_ms FROM", "opened_ms, rule, summary FROM")).rows
    assert again


def test_a_demo_that_goes_on_ends_when_it_is_told_to(demo: Demo) -> None:
    """It says so, and its exit status is that of its books."""
    assert demo.second.poll() is None
    assert stop(demo.second) == 0
    assert "stopping" in demo.second_log.read_text()
