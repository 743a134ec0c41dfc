"""Whether requests, GPUs and engines meet: what is wrong, what is only to be known, and with what it is mended."""

from __future__ import annotations

from typing import Any

import pytest

from fleetpulse.doctor.finding import State
from fleetpulse.doctor.judge_joins import judge_agents, judge_joins, judge_prices


def row(counted: str, joined_with: str, total: int, joined: int, *lacks: str) -> dict[str, Any]:
    return {"counted": counted, "joined_with": joined_with, "total": total, "joined_events": joined, "lacks": [*lacks]}


SAMPLES = row("GPU samples", "engine", 50, 50)


def found(*rows: dict[str, Any]) -> dict[str, State]:
    return {finding.check: finding.state for finding in judge_joins(rows)}


def test_what_meets_is_good() -> None:
    """Up to what a start or a stop leaves."""
    assert found(
        row("requests", "GPUs", 1_000, 1_000),
        row("requests", "engine", 1_000, 990),
        row("requests", "tenant", 1_000, 1_000),
        SAMPLES,
        row("GPU time", "price", 60_000, 60_000),
    ) == {
        "join.gpus": State.GOOD,
        "join.engine": State.GOOD,
        "join.tenant": State.GOOD,
        "join.gpu_engine": State.GOOD,
        "join.price": State.GOOD,
    }


def test_each_join_that_is_broken_is_a_finding_of_its_own() -> None:
    """With how much of what, who lacks it, and what to do."""
    broken = [
        row("requests", "GPUs", 560, 0, "h:8000"),
        row("requests", "engine", 560, 504, "gw"),
        row("requests", "one report", 560, 540, "plugin and proxy"),
        row("GPU samples", "engine", 50, 0, "h"),
        row("GPU time", "price", 100, 98),
    ]

    findings = list(judge_joins(broken))

    assert {each.state for each in findings} == {State.WRONG}
    assert [each.says for each in findings] == [
        "100.0 % of the requests of the last 3 minutes name an engine, or none, that no GPU reports (h:8000)",
        "10.0 % of the requests of the last 3 minutes name no engine (gw)",
        "3.6 % of the requests of the last 3 minutes are reported by several, and count as often (plugin and proxy)",
        "100.0 % of the GPU samples of the last 3 minutes are of a GPU at work for no known engine (h)",
        "2.0 % of the GPU time of the last 3 minutes has no price",
    ]
    assert all(each.mend for each in findings)


def test_tenants_are_noted_and_gpus_are_wanted_only_where_some_report() -> None:
    """Requests without a key have no tenant; engines on processors have no GPU."""
    assert found(row("requests", "tenant", 10, 0), row("requests", "GPUs", 10, 0)) == {
        "join.tenant": State.NOTE,
        "join.gpus": State.NOTE,
    }
    assert found(SAMPLES, row("requests", "GPUs", 10, 0)) == {"join.gpu_engine": State.GOOD, "join.gpus": State.WRONG}


def test_samples_of_a_start_are_no_finding_once_the_newest_name_their_engine() -> None:
    """Those of an agent or an engine that is new lack it for seconds; one that is never found, or no more, is wrong."""
    of_start, newest = row("GPU samples", "engine", 30, 25, "h"), row("GPU samples", "engine", 20, 20)
    lacking, other = row("GPU samples", "engine", 20, 19, "h"), row("requests", "engine", 20, 20)

    def state(before: dict[str, Any], *now: dict[str, Any]) -> list[State]:
        return [finding.state for finding in judge_joins([before], now)]

    assert state(of_start, other, newest) == [State.GOOD]
    assert state(of_start, lacking) == [State.WRONG]
    assert state(of_start, other) == [State.WRONG]
    assert state(row("requests", "engine", 30, 25, "h"), other, newest) == [State.WRONG]


def test_without_events_there_is_nothing_to_find() -> None:
    """An installation that has just begun."""
    assert found() == {}


def test_example_prices_are_no_silence() -> None:
    """The newest bill of the last hour says with which prices; without bills there is nothing to say."""
    assert [(one.check, one.state) for one in judge_prices(["example-1f", "2e"])] == [("prices", State.NOTE)]
    assert [(one.check, one.state) for one in judge_prices(["2e", "example-1f"])] == [("prices", State.GOOD)]
    assert list(judge_prices([])) == []


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        pytest.param(None, [], id="no raw rows"),
        pytest.param((), [("hosts", State.GOOD)], id="one agent each"),
        pytest.param(("a", "b"), [("a", State.WRONG), ("b", State.WRONG)], id="two hosts with two"),
    ],
)
def test_hosts_that_several_agents_measure_are_named(
    hosts: tuple[str, ...] | None, expected: list[tuple[str, State]]
) -> None:
    """Each of them; what is not known is no finding."""
    assert [(one.subject, one.state) for one in judge_agents(hosts)] == expected
