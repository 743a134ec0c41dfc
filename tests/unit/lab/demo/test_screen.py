"""The demo's screen shows what it is given, and only that."""

from __future__ import annotations

import re
from pathlib import Path

from rich.console import Console, RenderableType

from fleetpulse.commands.output import show
from fleetpulse.reconcile.compare import TopicBooks
from fleetpulse.sql.database import Answer
from lab.demo.scenario import BUDGETS, RULES, Scenario
from lab.demo.screen import (
    Picture,
    alerts_table,
    answer_table,
    books_table,
    costs_table,
    facts,
    latency_table,
    line,
    live,
    query_panel,
)
from lab.simulator.faults import faults_of
from lab.simulator.plan import DEFAULT_TENANTS
from stream_jobs.budgets.load import load as load_budgets
from stream_jobs.rules.load import load_set
from tests.unit.fleetpulse.whole_words import broken


def drawn(renderable: RenderableType) -> str:
    """What a terminal of 120 columns shows."""
    console = Console(width=120, record=True, force_terminal=False)
    with console.capture() as captured:
        console.print(renderable)
    return captured.get()


def test_the_live_picture_shows_time_counts_and_rate() -> None:
    """Elapsed time, events by topic and the rate stand in the picture."""
    text = drawn(live(Picture(12.0, 60.0, [("llm.requests", 5_432)], 1_234.5)))

    assert "12 of 60 s" in text
    assert "llm.requests 5,432" in text
    assert "1,234 events/s landed" in text


def test_an_answer_becomes_a_table_with_blanks_for_underscores() -> None:
    """Column names are made readable and unknown values show as a dash."""
    text = drawn(answer_table("Latency", Answer(("model", "ttft_p50_ms"), (("llama", 12.34), ("qwen", None)))))

    assert "ttft p50 ms" in text
    assert "12.3" in text
    assert "–" in text


def test_unknown_is_a_dash_and_zero_is_zero() -> None:
    """Null and 0 look different."""
    assert [show(value) for value in (None, 0, 0.0, 1234567, 12.345, 123.4, True)] == [
        "–", "0", "0", "1,234,567", "12.3", "123", "yes",
    ]  # fmt: skip


def test_facts_and_queries_are_shown_as_given() -> None:
    """Names with values, and SQL without markup."""
    assert "kills" in drawn(facts([("kills", 3)]))
    assert "SELECT [1]" in drawn(query_panel("q", "SELECT [1]"))


def test_alerts_are_shown_while_open_and_when_all_is_over() -> None:
    """A line each in the live picture; a table at the end, in which an alert without an end is open."""
    open_alerts = Answer(("severity", "summary"), (("critical", "GPU [1] is gone"),))
    columns = ("worst", "began", "lasted_s", "said", "about")
    ended = Answer(columns, (("warning", "12:00:01", 33.0, "hot", {}), ("critical", "12:00:09", None, "gone", {})))

    text = drawn(live(Picture(12.0, 60.0, [], 0.0, alerts=open_alerts)))
    rows = [re.split(" {2,}", line.strip()) for line in drawn(alerts_table(ended)).splitlines() if "12:00" in line]

    assert "critical GPU [1] is gone" in text
    assert rows == [
        ["warning", "12:00:01", "33", "hot"],
        ["critical", "12:00:09", "open", "gone"],
    ]


def test_costs_are_split_and_told_by_request() -> None:
    """What the money went to adds up to all of it; a request has the price of those with one; unpriced is a dash."""
    parts = (
        ("request", "", 6_000_000_000),
        ("__overhead__", "not answered in full", 2_000_000_000),
        ("__idle__", "", None),
    )
    split = Answer(("part", "what", "cost_nusd"), parts)
    names = ("name", "nobody", "requests", "priced_requests", "cost_nusd")
    models = Answer(names, (("m", 0, 9, 4, 8_000_000_000), ("n", 0, 5, 0, None), ("__idle__", 1, 0, 0, None)))

    lines = [re.split(" {2,}", line.strip()) for line in drawn(costs_table(split, models)).splitlines()[3:]]

    assert lines == [
        ["requests that ended well", "$6.00", "75.0 %", "–"],
        ["requests not answered in full", "$2.00", "25.0 %", "–"],
        ["idle GPUs", "–", "–", "–"],
        ["requests of m", "$8.00", "100.0 %", "$2.00"],
        ["requests of n", "–", "–", "–"],
    ]


def test_the_faults_of_the_demo_are_ones_the_fleet_can_have() -> None:
    """Both lie inside the run, however short it is."""
    for seconds in (20, 60, 600):
        faults = faults_of(Scenario(seconds, 1, Path("/data/demo"), Path("/data")).faults(), 0)

        assert [fault.kind for fault in faults] == ["thermal_throttle", "gpu_lost"]
        assert all(0 < fault.from_ms < fault.to_ms < seconds * 1_000 for fault in faults)


def test_the_scenario_names_its_seed_and_folders() -> None:
    """The simulated fleet and the agent each have a spool of their own; the truth is written beside."""
    scenario = Scenario(60, 7, Path("/data/demo"), Path("/data"))
    simulate, agent = scenario.edges()

    assert simulate.arguments[:5] == ("simulate", "--load", "azure", "--speed", "60")
    assert simulate.arguments[simulate.arguments.index("--seed") + 1] == "7"
    assert str(Path("/data/demo/spool-fleet")) in simulate.arguments
    assert str(Path("/data/demo/spool-host")) in agent.arguments
    assert not simulate.restart
    assert {c.environment["FLEETPULSE_DATA_DIR"] for c in (*scenario.services(), simulate, agent)} == {
        str(Path("/data"))
    }


def test_the_live_picture_has_a_line_for_each_model() -> None:
    """Three rows of the answer become one line with the middle and the tail of each latency."""
    columns = ("model", "latency", "requests", "p50_ms", "p95_ms", "p99_ms")
    rows = [("llama", name, 1_234, at, at + 1, at + 2) for name, at in (("TTFT", 10), ("TPOT", 20), ("E2E", 30))]

    text = [" ".join(row.split()) for row in drawn(latency_table("Latency", Answer(columns, tuple(rows)))).splitlines()]

    assert text[1] == "model requests TTFT p50 TTFT p99 TPOT p50 TPOT p99 E2E p50 E2E p99"
    assert text[3:] == ["llama 1,234 10 12 20 22 30 32"]


def test_without_a_terminal_a_line_says_what_happens() -> None:
    """Events so far, how many land a second, what alerts are open."""
    alerts = Answer(("severity", "summary"), (("critical", "GPU [1] is gone"),))
    picture = Picture(12.0, 60.0, [("llm.requests", 5_432), ("gpu.events", 0)], 452.6, alerts=alerts, notes=("x",))

    assert line(picture) == ("12 of 60 s: llm.requests 5,432; 453 events/s landed; critical: GPU [1] is gone; x")
    assert line(Picture(0.0, 60.0, [], 0.0)) == "0 of 60 s: nothing yet; 0 events/s landed"


def test_a_whole_demo_fits_a_narrow_terminal() -> None:
    """Every table of the live picture and of the end, with long names and big numbers, in 80 columns."""
    model, big = "meta-llama/Llama-3.3-70B-Instruct", 123_456_789
    latency = ("model", "latency", "requests", "p50_ms", "p95_ms", "p99_ms")
    throughput = ("model", "requests", "requests_per_s", "input_tokens", "output_tokens", "output_tokens_per_s",
                  "ok", "aborted", "client_fault", "failed", "failed_pct")  # fmt: skip
    books = TopicBooks("window.partials", *[big] * 8)
    money = Answer(("part", "what", "cost_nusd"), (("request", "", big * 10**6),))
    costs = Answer(("name", "nobody", "priced_requests", "cost_nusd"), ((model, 0, 4, big * 10**6),))
    tables = [
        answer_table("Latency", Answer(latency, ((model, "TTFT", big, 12_345.6, 12_345.6, 12_345.6),))),
        latency_table("Latency", Answer(latency, ((model, "TTFT", big, 12_345.6, 12_345.6, 12_345.6),))),
        answer_table("Throughput", Answer(throughput, ((model, *[big] * 10),))),
        books_table([books]),
        costs_table(money, costs),
    ]

    assert [word for made in tables for word in broken(made)] == []


def test_objectives_and_budgets_of_the_demo_are_valid_and_those_of_the_dashboard() -> None:
    """Each class of the simulated tenants has objectives; budgets are of a day, so that a second demo starts afresh."""
    classes = {one.name for one in load_set(RULES).slo_classes}
    budgets = load_budgets(BUDGETS).budgets
    scenario = Scenario(60, 1, Path("/data/demo"), Path("/data"))
    alerts = next(command for command in scenario.services() if command.name == "alerts")
    dashboard = scenario.dashboard(8_600)

    assert classes == {tenant.slo_class for tenant in DEFAULT_TENANTS}
    assert {one.days for one in budgets} == {1}
    assert dashboard.arguments[-4:] == alerts.arguments[-4:] == ("--rules", str(RULES), "--budgets", str(BUDGETS))


def test_a_demo_that_goes_on_has_a_fleet_without_an_end_and_without_faults() -> None:
    """With names and spools of its own, beside those of the demo itself."""
    scenario = Scenario(60, 1, Path("/data/demo"), Path("/data"))
    first, after = scenario.edges(), scenario.edges_after()

    assert not {command.name for command in first} & {command.name for command in after}
    assert not {"--seconds", "--faults"} & set(after[0].arguments)
    spools = {command.arguments[command.arguments.index("--spool") + 1] for command in (*first, *after)}
    assert len(spools) == 4
