"""Grafana's dashboards follow from the tables of ``grafana.boards``; every panel has a query, a place and a source."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
import yaml

from fleetpulse.queries.alerts import ALERTS_KEPT_MS
from grafana.boards import BOARDS, Board
from grafana.render import FOLDER, PROMETHEUS, SOURCE, annotation_sql, dashboard, panel_sql, text, write
from grafana.sql import FILTERS, expanded, grafana_sql, variables_of
from runtime.counters import PREFIX, exported_name
from runtime.metric_catalogue import METRICS
from schemas.ddl.merging import rollup_table
from schemas.events.event_types import GPU_SAMPLES

BOARD_IDS = [board.name for board in BOARDS]


def test_the_files_are_what_the_tables_make(tmp_path: Path) -> None:
    """``python -m grafana`` was run after the last change, and no file is left over."""
    made = {path.name: path.read_text() for path in write(tmp_path)}

    assert {path.name: path.read_text() for path in FOLDER.iterdir()} == made


def test_there_is_a_dashboard_for_every_question() -> None:
    """Fleet, models, engines, hosts, GPUs, cost, pipeline, and fleetpulse itself; their uids are theirs alone."""
    assert BOARD_IDS == ["fleet", "models", "engines", "hosts", "gpu", "cost", "pipeline", "itself"]
    assert len({dashboard(board)["uid"] for board in BOARDS}) == len(BOARDS)


@pytest.mark.parametrize("board", BOARDS, ids=BOARD_IDS)
def test_panels_do_not_lie_on_each_other(board: Board) -> None:
    """Each within the 24 columns, no two sharing a cell, ids of their own."""
    panels = json.loads(text(board))["panels"]
    cells = [
        {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        for at in (panel["gridPos"] for panel in panels)
    ]

    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
    assert [pair for pair in combinations(range(len(cells)), 2) if cells[pair[0]] & cells[pair[1]]] == []
    assert max(x for cell in cells for x, _ in cell) < 24


@pytest.mark.parametrize("board", BOARDS, ids=BOARD_IDS)
def test_every_panel_asks_the_provisioned_source_and_its_variables_exist(board: Board) -> None:
    """No panel waits for a source or a variable that nobody made."""
    made = dashboard(board)
    known = {one["name"] for one in made["templating"]["list"]}
    asked = [target for panel in made["panels"] for target in panel["targets"]]
    asked += [one["target"] for one in made["annotations"]["list"]]

    uids = [(SOURCE if "rawSql" in target else PROMETHEUS)["uid"] for target in asked]
    assert [target["datasource"]["uid"] for target in asked] == uids
    assert set().union(*(variables_of(target.get("rawSql", "")) for target in asked)) == known
    assert known <= set(FILTERS)


@pytest.mark.parametrize("board", BOARDS, ids=BOARD_IDS)
def test_a_panel_follows_every_box_or_says_which_it_does_not(board: Board) -> None:
    """Nobody takes the bill of all for that of the tenant in the box."""
    made = dashboard(board)
    boxes = [one["name"] for one in made["templating"]["list"]]

    for panel in made["panels"][: len(board.panels)]:
        (target,) = panel["targets"]
        ignored = [box.replace("_", " ") for box in boxes if box not in variables_of(target["rawSql"])]
        said = "whole fleet" if len(ignored) == len(boxes) else f"any {', '.join(ignored)}"
        assert panel["title"].endswith(f" ({said})") == bool(ignored), panel["title"]


def test_the_bill_says_that_it_is_of_every_tenant() -> None:
    """Its query knows regions alone."""
    titles = [panel["title"] for panel in dashboard(BOARDS[BOARD_IDS.index("cost")])["panels"]]

    assert titles[0] == "Bill (any model, tenant)"


def test_the_most_utilized_gpus_come_first() -> None:
    """The query has them by host."""
    board = BOARDS[BOARD_IDS.index("gpu")]
    (panel,) = [one for one in board.panels if one.title == "Most utilized GPUs"]

    assert panel_sql(board, panel).endswith("\nORDER BY busy DESC NULLS LAST, host, gpu_uuid LIMIT 100")


def test_open_alerts_are_those_of_the_page() -> None:
    """Which may have told nothing for weeks."""
    (panel,) = [one for one in BOARDS[0].panels if one.title == "Open alerts"]

    assert panel.params == {"kept_ms": str(ALERTS_KEPT_MS)}


def test_the_provisioned_source_is_the_one_that_panels_name() -> None:
    """By type and uid; its password is no text of the file."""
    folder = FOLDER.parent / "provisioning"
    sources = yaml.safe_load((folder / "datasources" / "fleetpulse.yaml").read_text())["datasources"]
    providers = yaml.safe_load((folder / "dashboards" / "fleetpulse.yaml").read_text())["providers"]

    assert [{key: one[key] for key in ("type", "uid")} for one in sources[:2]] == [SOURCE, PROMETHEUS]
    assert sources[0]["jsonData"]["username"] == "reader"
    assert sources[0]["secureJsonData"] == {"password": "$__file{/run/secrets/clickhouse_reader}"}
    assert [one["allowUiUpdates"] for one in providers] == [False]


@pytest.mark.parametrize(
    "said",
    [pytest.param((board, panel), id=f"{board.name}: {panel.title}") for board in BOARDS for panel in board.panels],
)
def test_a_panels_query_has_no_place_left(said: tuple[Board, object]) -> None:
    """Everything is a macro, a variable, a table or a literal; expanded, nothing of Grafana's is left."""
    board, panel = said
    sql = panel_sql(board, panel)  # type: ignore[arg-type]

    filled = expanded(sql, 1_000, 61_000, 10, dict.fromkeys(FILTERS, ""))

    assert "$__" in sql
    assert "$" not in filled
    assert ":" not in "".join(filled.split("'")[::2])


def test_what_prometheus_charts_is_recorded_or_counted() -> None:
    """Every name of a rule in the shipped file or of a metric in the catalogue; every recorded one is on the board."""
    rules = yaml.safe_load((FOLDER.parents[1] / "deploy" / "prometheus" / "pipeline.yaml").read_text())["groups"][0]
    recorded = {rule["record"] for rule in rules["rules"]}
    metrics = {PREFIX + exported_name(one.name) + ("_total" if one.kind == "counter" else "") for one in METRICS}
    (board,) = [board for board in BOARDS if board.recorded]
    charted = set(re.findall(r"fleetpulse[:_][\w:]+", " ".join(one.expression for one in board.recorded)))
    asked = set(re.findall(r"\bfleetpulse_\w+", " ".join(rule["expr"] for rule in rules["rules"])))

    assert charted - recorded - metrics == set()
    assert asked - metrics == set()
    assert {name for name in recorded if not name.endswith(":partition")} - charted == set()
    assert all(one.normal for one in board.recorded)


def test_alerts_and_deployments_stand_on_charts_of_what_is_served() -> None:
    """On every board but those of money and of the pipeline itself; an alert lasts from its opening to its end."""
    names = {board.name: [one["name"] for one in dashboard(board)["annotations"]["list"]] for board in BOARDS}
    fleet = BOARDS[0]
    alerts, deployments = (annotation_sql(fleet, one) for one in fleet.annotations)

    assert {name for name, found in names.items() if found == ["Alerts", "Deployments and marks"]} == {
        "fleet", "models", "engines", "hosts", "gpu",
    }  # fmt: skip
    assert names["cost"] == names["pipeline"] == names["itself"] == []
    assert "AS timeEnd" in alerts
    assert variables_of(deployments) == {"cluster", "region", "model", "host"}


def test_a_panel_of_the_first_rows_chooses_among_all() -> None:
    """The query's own limit, by host, would leave out the busiest GPUs of a large fleet."""
    (sql,) = (panel_sql(board, one) for board in BOARDS for one in board.panels if one.title == "Most utilized GPUs")

    assert sql.endswith("ORDER BY busy DESC NULLS LAST, host, gpu_uuid LIMIT 100")
    assert sql.count("LIMIT") == sql.count("ORDER BY") == 1


def test_a_panel_of_the_first_rows_of_a_query_that_cuts_them_itself_is_refused() -> None:
    """It would choose among rows that the query chose."""
    (board, panel), *_ = ((b, one) for b in BOARDS for one in b.panels if one.query == "cost_tenants")

    with pytest.raises(ValueError, match="cost_tenants must have its order and limit in its header"):
        panel_sql(board, replace(panel, rows_max=5))


def test_time_places_become_macros_and_filters_variables() -> None:
    """Tables and the least width of a point are chosen by the length of the range that somebody looks at."""
    sql = grafana_sql("fleet_over_time", {})
    span = "toUnixTimestamp64Milli($__toTime_ms) - toUnixTimestamp64Milli($__fromTime_ms)"

    assert all(f"FROM {rollup_table(GPU_SAMPLES, level)} FINAL" in sql for level in ("1m", "1h", "1d"))
    assert f"AND {span} > 600000" in sql
    assert "window_ms >= toUnixTimestamp64Milli($__fromTime_ms)" in sql
    assert f"greatest(toInt64($__interval_s) * 1000, greatest(1, multiIf({span} <= 600000, 10000, " in sql
    assert variables_of(sql) == {"cluster", "region", "host", "gpu_model"}


def test_a_place_that_nobody_fills_is_an_error() -> None:
    """Not a panel that fails in front of people."""
    with pytest.raises(KeyError, match="total"):
        grafana_sql("fleet_gpus", {})


def test_a_filter_cannot_end_its_literal() -> None:
    """Grafana leaves no quote and no backslash in it, and the server decodes what it made of them."""
    sql = grafana_sql("fleet_over_time", {})

    assert "cluster = decodeURLComponent('${cluster:percentencode}')" in sql
    assert "sqlstring" not in "".join(map(text, BOARDS))


def test_macros_expand_as_the_source_does() -> None:
    """Moments as DateTime64, values without quotes and backslashes; one that nobody knows is an error."""
    sql = "$__fromTime_ms $__toTime_ms $__interval_s '${host:percentencode}'"

    assert expanded(sql, 1, 2, 3, {"host": "o'b\\ (é)*!~%"}) == (
        "fromUnixTimestamp64Milli(1) fromUnixTimestamp64Milli(2) 3 'o%27b%5C%20%28%C3%A9%29%2A%21~%25'"
    )
    with pytest.raises(KeyError):
        expanded("$__nonsense", 1, 2, 3, {})
