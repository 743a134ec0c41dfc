"""What all rules that are shipped for Prometheus have in common. ``promtool`` runs the files beside them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from grafana.boards import BOARDS

FOLDER = Path(__file__).resolve().parents[3] / "deploy" / "prometheus"
FILES = [path.name for path in sorted(FOLDER.glob("*.yaml")) if "groups" in yaml.safe_load(path.read_text())]
SUMMED = re.compile(r"\b(?:sum|max|min|avg|count)\b(?P<by>\s*by\s*\((?P<labels>[^)]*)\))?\s*\(")
MATCHED = re.compile(r"\b(?:on|ignoring)\s*\((?P<labels>[^)]*)\)")


def mixing(expression: str) -> list[str]:
    """Aggregations and matches of a PromQL expression that lose the namespace."""
    found = [*SUMMED.finditer(expression), *MATCHED.finditer(expression)]
    return [one[0] for one in found if "namespace" not in (one["labels"] or "")]


def test_there_are_rules_of_alerts_of_records_and_of_autoscaling() -> None:
    """Files with groups, whatever they are named."""
    assert FILES == ["autoscaling.yaml", "pipeline.yaml", "rules.yaml"]


@pytest.mark.parametrize("file", FILES)
def test_no_rule_mixes_installations(file: str) -> None:
    """Every aggregation and every match keeps the label by which two installations in one Prometheus differ."""
    rules = [rule for group in yaml.safe_load((FOLDER / file).read_text())["groups"] for rule in group["rules"]]
    found = {rule.get("alert") or rule["record"]: mixing(rule["expr"]) for rule in rules}

    assert {name: lost for name, lost in found.items() if lost} == {}


def test_no_chart_mixes_installations() -> None:
    """Of the board of fleetpulse itself, likewise."""
    expressions = [one.expression for board in BOARDS for one in board.recorded]

    assert [one for one in expressions if mixing(one)] == []


def test_one_notification_is_of_one_installation() -> None:
    """Alertmanager groups by what alerts differ in."""
    route = yaml.safe_load((FOLDER / "alertmanager.yaml").read_text())["route"]

    assert route["group_by"] == ["alertname", "namespace"]


@pytest.mark.parametrize(
    ("expression", "lost"),
    [
        pytest.param("sum(up)", ["sum("], id="no labels at all"),
        pytest.param("max by (topic) (up)", ["max by (topic) ("], id="other labels"),
        pytest.param("a * on (instance) b", ["on (instance)"], id="a match of other labels"),
        pytest.param("sum by (namespace) (max_over_time(a[1m]))", [], id="the namespace"),
    ],
)
def test_what_loses_the_namespace_is_found(expression: str, lost: list[str]) -> None:
    """Aggregations and matches, and no function over time."""
    assert mixing(expression) == lost
