"""The demo's screen shows what it is given, and only that."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console, RenderableType

from fleetpulse.commands.output import show
from fleetpulse.database import Answer
from fleetpulse.demo.scenario import Scenario
from fleetpulse.demo.screen import Picture, alerts_table, answer_table, costs_table, facts, live, query_panel
from producers.fleet.faults import faults_of


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
    rows = [line.split("│")[1:5] for line in drawn(alerts_table(ended)).splitlines() if "12:00" in line]

    assert "critical GPU [1] is gone" in text
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["warning", "12:00:01", "33", "hot"],
        ["critical", "12:00:09", "open", "gone"],
    ]


def test_costs_are_split_and_told_by_request() -> None:
    """What the money went to adds up to all of it; a request of a model has its price; unpriced is a dash."""
    parts = (("request", "", 6_000_000_000), ("__overhead__", "failed", 2_000_000_000), ("__idle__", "", None))
    split = Answer(("part", "what", "cost_nusd"), parts)
    models = Answer(("name", "requests", "cost_nusd"), (("m", 4, 8_000_000_000),))

    lines = [line.split("│")[1:5] for line in drawn(costs_table(split, models)).splitlines() if line.startswith("│")]

    assert [[cell.strip() for cell in line] for line in lines] == [
        ["requests that ended well", "$6.00", "75.0 %", ""],
        ["requests that failed", "$2.00", "25.0 %", ""],
        ["idle GPUs", "–", "–", ""],
        ["requests of m", "$8.00", "100.0 %", "$2.00 a request"],
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
