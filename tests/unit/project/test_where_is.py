"""Where is X? What a new reader of the product asks first, and whether names of folders and modules alone answer it.

Each guess was made from the list of Python files, unopened. Where a guess and the answer differ, a better name is
wanted; with fewer than ``HITS_MIN`` hits the house has become hard to find one's way in.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[3]
HITS_MIN = 26


class Question(NamedTuple):
    """``file`` defines ``name``, which answers it; ``guess`` is where a reader looks first, if not there."""

    where_is: str
    file: str
    name: str
    guess: str = ""


QUESTIONS = (
    Question("TTFT of a request, computed", "producers/requests/ttft_tpot_itl.py", "latencies_of"),
    Question(
        "the alert on consumer lag",
        "deploy/prometheus/rules.yaml",
        "FleetpulseJobLagGrows",
        guess="fleetpulse/dashboard/consumer_lag.py",
    ),
    Question("a Slack message, shaped", "sinks/delivery/shapes.py", "SHAPES"),
    Question("a retention setting, applied to a live table", "fleetpulse/migrate/table_plan.py", "plan_tables"),
    Question("a rebalance, handled by a job", "stream_jobs/runner/partitions.py", "Partitions.revoke"),
    Question("an XID of a GPU, read from the driver", "producers/gpu/events.py", "EventType"),
    Question(
        "the price file, parsed",
        "stream_jobs/prices/load.py",
        "parse_prices",
        guess="stream_jobs/prices/file.py",
    ),
    Question("the vLLM plug-in", "sdk/fleetpulse_track/plugins/vllm.py", "Recording"),
    Question("the DDL of the ClickHouse tables", "schemas/ddl/tables.py", "rollup"),
    Question("the exactly-once commit of a job", "stream_jobs/runner/exactly_once.py", "PartitionOwner.commit"),
    Question("the cap on label cardinality", "schemas/limits.py", "Limits.label_cardinality_max"),
    Question(
        "what sends an unreadable record to the dead-letter topic",
        "stream_jobs/windows/messages.py",
        "rejected",
        guess="fleetpulse/topics/rejected.py",
    ),
    Question("the watermark that closes windows", "stream_jobs/windows/watermark.py", "watermark_ms"),
    Question("a job's snapshot, read after a restart", "stream_jobs/runner/recovery.py", "read_snapshot"),
    Question("the quantile sketch", "schemas/sketch.py", "quantile"),
    Question("the calls of NVML", "producers/gpu/calls.py", "CALLS"),
    Question("the receiver of OTLP over HTTP", "producers/otlp/http_server.py", "OtlpHttp"),
    Question("a streamed response, relayed by the proxy", "producers/proxy/exchange.py", "Exchange.pieces"),
    Question("the spool on disk while Kafka is unavailable", "producers/spool/spool.py", "Spool.append"),
    Question("a budget, compared with what was spent", "stream_jobs/budgets/standing.py", "crossings"),
    Question("a silence, matched with an alert", "stream_jobs/alerts/silences.py", "Silences.until_ms"),
    Question(
        "a series, judged against its baseline",
        "stream_jobs/insight/detectors/against_baseline.py",
        "AgainstBaseline.detect",
    ),
    Question("the burn rate of an SLO", "stream_jobs/insight/detectors/burn_rate.py", "BurnRate"),
    Question("the configuration, read from file and environment", "runtime/config.py", "load"),
    Question("the dashboard page of all GPUs", "fleetpulse/dashboard/pages/fleet.py", "build"),
    Question(
        "the server of a worker's Prometheus metrics",
        "runtime/health.py",
        "HealthServer",
        guess="runtime/counters.py",
    ),
    Question("inserts into ClickHouse", "sinks/database.py", "SinkDatabase.insert"),
    Question("topics and partitions, created", "fleetpulse/migrate/topics.py", "create"),
    Question("the faults that the simulator injects", "lab/simulator/faults.py", "Fault"),
    Question("the back-off between attempts", "runtime/backoff.py", "Backoff"),
)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.where_is)
def test_the_answer_stands_where_the_question_says(question: Question) -> None:
    """The file defines the name; and a guess that misses is a file that a reader can see."""
    path = ROOT / question.file

    names = set(defined(path)) if path.suffix == ".py" else set(path.read_text(encoding="utf-8").split())

    assert question.name in names
    assert (ROOT / (question.guess or question.file)).is_file()


def test_names_alone_lead_to_the_answer() -> None:
    """Nine of ten questions, about, are answered by the first file that its name suggests."""
    missed = [f"{question.where_is}: {question.guess}" for question in QUESTIONS if question.guess]

    assert len(QUESTIONS) == len({question.where_is for question in QUESTIONS}) == 30
    assert len(QUESTIONS) - len(missed) >= HITS_MIN, missed


def defined(path: Path) -> Iterator[str]:
    """Names that a module defines itself, members of classes as ``Class.member``."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        for name in _targets(node):
            yield name
            for member in node.body if isinstance(node, ast.ClassDef) else ():
                yield from (f"{name}.{inner}" for inner in _targets(member))


def _targets(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id
    elif isinstance(node, ast.Assign):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))
