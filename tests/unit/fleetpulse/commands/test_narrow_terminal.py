"""What every command shows in a terminal of 80 columns: no word and no number of a table is broken in two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from fleetpulse.alerts import view as alerts
from fleetpulse.cli import app
from fleetpulse.commands import ready_made
from fleetpulse.commands.table import FittedTable
from fleetpulse.doctor.finding import Report, good, wrong
from fleetpulse.report.compose import page
from fleetpulse.report.terminal import rendered
from fleetpulse.services import deliver
from fleetpulse.sql import query
from fleetpulse.sql.database import Answer
from fleetpulse.stack.report import PartStatus, StackStatus
from fleetpulse.top import table as top
from schemas.contract.alerts import Alert, Member
from tests.unit.fleetpulse.whole_words import broken, drawn

MODEL = "meta-llama/Llama-3.3-70B-Instruct-FP8-dynamic"
HOST = "gpu-node-0017.rack-b12.eu-central-1.compute.example.com"
GPU = "GPU-3f2b9c1e-5d41-11ef-9a6b-0242ac120002"
BIG, REAL = 123_456_789, 12_345.678
MANY = 3


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[FittedTable]]:
    """Every table that is drawn."""
    found: list[FittedTable] = []
    draw = FittedTable.__rich_console__

    def drawing(self: FittedTable, *arguments: Any) -> Any:
        found.append(self)
        return draw(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(FittedTable, "__rich_console__", drawing)
        yield found


def run(*words: str) -> str:
    """What a command writes in 80 columns."""
    return CliRunner().invoke(app, words, env={"COLUMNS": "80"}).stdout


def answer(*columns: str) -> Answer:
    """Rows of long values: texts where the name says so, else big numbers of both kinds."""
    texts = {"model": MODEL, "tenant": "a-tenant-with-a-long-name-of-its-own", "host": HOST, "gpu_uuid": GPU,
             "time": "2026-11-23 19:07:00.123", "detail": f"value of temperature_c of {GPU} is out of range",
             "labels": {"host": HOST, "gpu_uuid": GPU}, "topic": "window.partials.llm.requests", "reason": "bad_field",
             "summary": f"clocks of {GPU} on {HOST} are throttled", "severity": "critical", "unit": "tokens/s",
             "source": "0123456789abcdef", "transition": "resolved", "fingerprint": "a1b2c3d4e5f60718"}  # fmt: skip
    return Answer(columns, ((*(texts.get(name, REAL if at % 2 else BIG) for at, name in enumerate(columns)),),) * MANY)


COMMANDS: dict[str, tuple[Sequence[str], Answer | None]] = {
    "percentiles": (("percentiles", "ttft_us"), answer("model", "requests", "p50", "p90", "p95", "p99", "p99_9")),
    "percentiles of tenants": (("percentiles", "e2e_us", "--by", "tenant"), answer("tenant", "requests", "p50")),
    "query": (
        ("query", "SELECT everything"),
        answer("host", "gpu_uuid", "memory_used_bytes_last", "energy_mj_sum", "time", "labels", "power_mw_count", "x"),
    ),
    "query of percentiles": (
        ("query", "percentiles_by_model"),
        answer("model", "latency", "requests", "p50_ms", "p95_ms", "p99_ms"),
    ),
    "rejected": (
        ("rejected", "show"),
        answer("time", "topic", "partition", "offset", "row", "reason", "detail", "source"),
    ),
    "history of alerts": (
        ("alerts", "history"),
        Answer(("at_ms", "transition", "severity", "summary", "fingerprint", "record"),
               ((1_700_000_000_000, "resolved", "critical", f"{GPU} on {HOST} is lost", "a1b2c3d4e5f60718", "{}"),)),
    ),
    "names of queries": (("query",), None),
    "rules check": (("rules", "check"), None),
    "rules explain": (("rules", "explain", "gpu_throttled"), None),
    "prices show": (("prices", "show"), None),
    "prices check": (("prices", "check", "fleetpulse/data/prices/example.yaml"), None),
    "budgets": (("budgets", "check", "fleetpulse/data/budgets/example.yaml"), None),
    "vram": (("vram", "llama-3.1-405b-instruct", "--gpu", "H100", "--tokens-per-s", "1234567"), None),
    "models and GPUs of vram": (("vram",), None),
    "config": (("config", "show"), None),
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_a_table_of_a_command_keeps_its_words_whole(
    name: str, tables: list[FittedTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long names and big numbers, as a real fleet has them."""
    words, found = COMMANDS[name]
    database = SimpleNamespace(sql=lambda *_: found, close=lambda: None)
    monkeypatch.setattr("fleetpulse.sql.database.Database", lambda _config: database)
    monkeypatch.setattr(ready_made, "Database", lambda _config: database)
    monkeypatch.setattr(ready_made, "_beside", lambda *_: [])
    monkeypatch.setattr(query, "rows", lambda *_: (found, False))

    text = run(*words)

    assert tables, text
    assert [line for line in text.splitlines() if len(line.rstrip()) > 80] == []
    assert [word for made in tuple(tables) for word in broken(made)] == []


def gpu(**changes: Any) -> dict[str, Any]:
    row = dict.fromkeys(("host", "gpu_uuid", "gpu_model", "engine_id", "model", "workload"), "")
    row |= {"parent_uuid": None, "host": HOST, "gpu_uuid": GPU, "gpu_model": "NVIDIA H100 80GB HBM3", "model": MODEL}
    numbers = {"age_ms": 299_000, "util_gpu_pct": 100, "memory_used_bytes": 80, "memory_total_bytes": 80}
    numbers |= {"power_mw": 701_234, "power_limit_mw": 700_000, "temperature_c": 88, "engine_running": 1_024}
    return row | numbers | {"engine_waiting": 12_345, "engine_kv_used_ppm": 10**6, "host_cpu_busy_ppm": 10**6} | changes


@pytest.mark.parametrize("by", ["gpu", "host"])
@pytest.mark.parametrize("sort", ["util %", "type", "age s"])
def test_top_keeps_a_line_for_each_row(by: Any, sort: str) -> None:
    """The column it is sorted by is marked; names are shortened; a GPU is one line."""
    fleet = [gpu(), gpu(gpu_uuid=f"{GPU[:-1]}3", util_gpu_pct=None), gpu(host="h", model=None)]

    made = top.drawn(fleet, top.View(by, sort), 50)

    table, _, left_out = drawn(made).partition("no room")
    assert len(table.partition("─\n")[2].splitlines()) == len(made.rows)
    assert sort not in left_out
    assert "util %" not in left_out
    assert {row[4].plain for row in made.rows} <= {"100", "–"}


def test_alerts_keep_their_words_whole(tables: list[FittedTable], monkeypatch: pytest.MonkeyPatch) -> None:
    """The list and one in full."""
    summary = f"clocks of {GPU} on {HOST} are throttled 97.3 % of the time"
    alert = Alert("a1b2c3d4e5f60718", "opened", 1, "gpu_throttled", "critical", summary, f"look at {HOST}",
                  {"host": HOST, "gpu_uuid": GPU}, 1_700_000_000_000, 1_700_000_000_000, 1_700_000_000_000,
                  value=REAL, baseline=REAL, low=REAL, high=REAL, unit="tokens/s",
                  members=(Member("model_slow", "warning", {}, 0, None, 2.0, f"{MODEL} is slow"),),
                  evidence={"gpu": {"gpus": [{"gpu_uuid": GPU, "throttled_us": BIG}]}})  # fmt: skip

    async def newest(_kafka: object) -> list[Alert]:
        return [alert]

    monkeypatch.setattr(alerts, "newest", newest)
    monkeypatch.setattr("fleetpulse.commands.alerts._touched", lambda *_: {"requests": BIG, "tenants": [MODEL]})

    run("alerts")
    run("alerts", "show", "a1b2")

    assert len(tables) == 2
    assert [word for made in tuple(tables) for word in broken(made)] == []


class Long(dict[str, Any]):
    """A row that knows a long value for every name."""

    def __missing__(self, name: str) -> Any:
        if name.endswith(("_nusd", "_ms", "_mj", "_ug")):
            return BIG * 10**6 + 1
        texts = {"models": [MODEL, "qwen2.5-72b-instruct"], "crossed": [], "slo_class": "interactive-premium"}
        named = {"model": MODEL, "tenant": MODEL, "region": "eu-central-1",
                 "gpu_model": "NVIDIA H100 80GB HBM3", "list_key": MODEL, "list_note": "no price for cached prompts",
                 "status": "error", "text": "3.10 EUR/GPU-hour", "section": "energy",
                 "source": "https://prices.example.com/gpus", "budget": "research, four weeks",
                 "scope": "model", "at": "prices.yaml:123"}  # fmt: skip
        shares = {"attainment": 0.98765, "share": 0.999, "busy": 0.4567, "break_even_busy": 1.234, "used": 0.7,
                  "error_budget_left": -3.4}  # fmt: skip
        known = texts | named | shares | {"of": MODEL, "part": "request", "what": ""}
        return known.get(name, REAL if "_per_" in name or name.endswith("usd") else BIG)


def test_the_cost_report_keeps_its_words_whole() -> None:
    """All of its tables, with money of a big fleet."""
    lists = ("split", "unobserved", "models", "tenants", "engines", "gpu_models", "goodput", "energy", "idle", "failed",
             "power_caps", "months", "budgets")  # fmt: skip
    row = Long(hour_ms=0, host=HOST, engine_id=f"{HOST}-0", cost_nusd=BIG * 10**6 + 1)
    report: dict[str, Any] = {name: [row] * MANY for name in lists}
    bill = Long(prices_versions=["abcdef"] * 2, weights_versions=[1], definition_versions=[1])
    used = {"file": "p.yaml", "version": "0" * 20, "used": [Long()] * MANY, "example": True}
    joins = [{"counted": "requests", "joined_with": "GPUs", "total": BIG, "joined_events": 1, "lacks": [HOST] * 5}]
    report |= {"bill": bill, "hours": [], "prices": used, "joins": joins, "from_ms": 0, "to_ms": 1}

    parts = list(rendered(page(report)))

    made = {part.title: part for part in parts if isinstance(part, FittedTable)}
    assert len(made) == 15
    assert {title: broken(one) for title, one in made.items() if broken(one)} == {}
    assert [line for part in parts for line in drawn(part).splitlines() if len(line) > 80] == []


def test_parts_of_the_stack_and_targets_of_alerts_keep_their_words_whole(
    tables: list[FittedTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Addresses and answers of strangers."""
    address = "http://clickhouse-0.clickhouse.fleet.svc.cluster.local:8123"
    part = PartStatus("clickhouse", True, False, 1_234_567, address, 123 << 30, "/data/log")
    monkeypatch.setattr("fleetpulse.stack.status", lambda _folder: StackStatus("/data", True, (part, part)))
    target = SimpleNamespace(
        name="on-call-of-the-platform-team", kind="alertmanager", origin=f"{address}/api/v2/alerts"
    )
    said = SimpleNamespace(status=503, detail="<html>Service Unavailable", verdict=None)
    checked = SimpleNamespace(target=target, transition="opened", response=said, took_ms=12_345.6)
    monkeypatch.setattr(deliver, "load_with_targets", lambda _names: SimpleNamespace(delivery=Delivery()))
    monkeypatch.setattr(deliver, "check_targets", lambda _targets: [checked])

    run("status")
    run("deliver", "--check")

    assert len(tables) == 2
    assert [word for made in tuple(tables) for word in broken(made)] == []


class Delivery:
    """Settings without a target."""

    all_targets: Mapping[str, Any] = {}


def test_findings_of_the_doctor_are_wrapped_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong is wrapped under its beginning; what mends it stays on one line, to be copied."""
    says = "has 3 partitions and the contract wants 4, so that requests of one tenant would be counted twice"
    mend = f"fleetpulse migrate --config '/srv/fleet pulse/{'folder/' * 9}fleetpulse.toml' --dry-run"
    found = Report((wrong("topic.partitions", "state.windows.llm.requests", says, mend), good("x", "y", "is fine")))
    monkeypatch.setattr("fleetpulse.doctor.examine.examine", lambda *_, **__: found)

    lines = run("doctor").splitlines()

    words = "WRONG topic.partitions state.windows.llm.requests: " + says
    assert " ".join(" ".join(lines[:-2]).split()) == words
    assert all(len(line) <= 80 for line in lines[:-2])
    assert len(lines) == 4
    assert lines[-2].strip() == f"mend: {mend}"
