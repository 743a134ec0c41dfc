"""What all rules that are shipped for Prometheus have in common. ``promtool`` runs the files beside them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from fleetpulse.services.jobs_and_sink import JOBS
from grafana.boards import BOARDS

FOLDER = Path(__file__).resolve().parents[3] / "deploy" / "prometheus"
FILES = [path.name for path in sorted(FOLDER.glob("*.yaml")) if "groups" in yaml.safe_load(path.read_text())]
SUMMED = re.compile(r"\b(?:sum|max|min|avg|count)\b(?P<by>\s*by\s*\((?P<labels>[^)]*)\))?\s*\(")
MATCHED = re.compile(r"\b(?:on|ignoring)\s*\((?P<labels>[^)]*)\)")


def mixing(expression: str) -> list[str]:
    """Aggregations and matches of a PromQL expression that lose the namespace."""
    found = [*SUMMED.finditer(expression), *MATCHED.finditer(expression)]
    return [one[0] for one in found if "namespace" not in (one["labels"] or "")]


GROWN = re.compile(r"\A(?:sum by \([^)]*\) \()?increase\((\w+)\[\w+\]\)+ > 0$", re.M)
"""What fires as soon as a counter grows."""
NEW = (" unless last_over_time({0}", "{0} and on (namespace, instance)")
"""The same of what was counted before the first scrape: a series that is new, a process that is."""


def test_what_fires_at_the_first_count_sees_the_one_before_the_first_scrape() -> None:
    """``increase`` begins with a series' second sample: what a process counts while it starts would never be seen."""
    groups = yaml.safe_load((FOLDER / "rules.yaml").read_text())["groups"]
    expressions = [rule["expr"] for group in groups for rule in group["rules"]]

    grown = {metric: expression for expression in expressions for metric in GROWN.findall(expression)}

    assert {"fleetpulse_finals_gaps_total", "fleetpulse_edge_events_shed_total"} <= grown.keys()
    assert [metric for metric, found in grown.items() if not any(one.format(metric) in found for one in NEW)] == []


def test_there_are_rules_of_alerts_of_records_and_of_autoscaling() -> None:
    """Files with groups, whatever they are named."""
    assert FILES == ["autoscaling.yaml", "pipeline.yaml", "rules.yaml"]


@pytest.mark.parametrize("file", FILES)
def test_no_rule_mixes_installations(file: str) -> None:
    """Every aggregation and every match keeps the label by which two installations in one Prometheus differ."""
    rules = [rule for group in yaml.safe_load((FOLDER / file).read_text())["groups"] for rule in group["rules"]]
    found = {rule.get("alert") or rule["record"]: mixing(rule["expr"]) for rule in rules}

    assert {name: lost for name, lost in found.items() if lost} == {}


def test_rules_ask_for_jobs_that_every_deployment_has() -> None:
    """Compose by its configuration, Kubernetes by pod monitors, under the same names."""
    rules = "".join((FOLDER / file).read_text() for file in FILES)
    composed = {one["job_name"] for one in yaml.safe_load((FOLDER / "prometheus.yaml").read_text())["scrape_configs"]}
    monitors = (FOLDER.parent / "helm" / "fleetpulse" / "templates" / "podmonitors.yaml").read_text()
    (given,) = re.findall(r"\$operator := dict (.*?) }}", monitors)
    monitored = set(re.findall(r'"(fleetpulse[\w-]*)"', given))

    asked = set(re.findall(r'\bjob(=~?|!=|!~)"([^"]*)"', rules))

    assert asked == {("=", "fleetpulse")}
    assert monitored == {"fleetpulse", "fleetpulse-agents"} == composed - {"clickhouse"}
    assert "{ targetLabel: job, replacement: {{ $job }} }" in monitors


def test_whose_absence_is_noticed_is_scraped_where_it_runs() -> None:
    """Every process that a rule waits for by name: each is a target in Compose, and a pod with its port."""
    (named,) = re.findall(r'\{process=~"([^"]*)"}\[1d]', (FOLDER / "rules.yaml").read_text())
    (targets, *_) = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())["scrape_configs"]
    hosts = {one.partition(":")[0].split("-")[0] for one in targets["static_configs"][0]["targets"]}
    manifests = [
        one
        for name in ("jobs.yaml", "services.yaml")
        for one in yaml.safe_load_all((FOLDER.parent / "kubernetes" / name).read_text())
        if "template" in one["spec"]
    ]
    pods = {
        one["metadata"]["name"]
        for one in manifests
        if "health" in [port["name"] for port in one["spec"]["template"]["spec"]["containers"][0]["ports"]]
    }

    waited_for = {"sink", "deliver", *JOBS}

    assert {
        name for name in (*(f"jobs-{job}" for job in JOBS), "sink", "deliver") if not re.fullmatch(named, name)
    } == set()
    assert waited_for <= hosts
    assert waited_for <= pods


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
