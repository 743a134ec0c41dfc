"""Rules written back as YAML and explained in words."""

from __future__ import annotations

from dataclasses import replace

from stream_jobs.rules.load import load_set, parse_set
from stream_jobs.rules.model import Rule, RuleSet
from stream_jobs.rules.writing import as_yaml, explained

MINE = b"""
include: defaults
disable: [queue_long]
rules:
  - {name: odd, kind: rate_of_change, metric: mean(running), by: [], options: {below: -5, per: minute}}
  - {name: burn, kind: burn_rate, metric: share(ttft_us > 1234567us), by: [tenant],
     options: {pairs: [[1h, 5m, 2.5]], objective: 99.95%}}
  - {name: large, kind: deviation, metric: p50(ttft_us), by: [model], options: {min_relative: 250%, floor_relative: 1}}
silences:
  - {labels: {host: a}, until: 2026-12-01T00:00:00.123Z, reason: x}
  - {labels: {host: b}, every: Sat 22:00-06:00, zone: Europe/Berlin, reason: y}
slo_classes: {gold: {ttft: 800ms, share: 99.9%}}
"""


def placeless(found: RuleSet) -> dict[str, object]:
    """Everything but where it was read."""

    def bare(rules: tuple[Rule, ...]) -> list[Rule]:
        return [replace(rule, where_read="") for rule in rules]

    return {
        "rules": bare(found.rules),
        "disabled": bare(found.disabled),
        "silences": found.silences,
        "classes": found.slo_classes,
        "events": found.gpu_events,
    }


def test_the_shipped_rules_are_read_back_as_they_were() -> None:
    """Writing loses nothing."""
    found = load_set()

    assert placeless(parse_set(as_yaml(found).encode(), "again")) == placeless(found)


def test_a_set_of_ones_own_is_read_back_as_it_was() -> None:
    """Signed levels, odd limits, silences to the millisecond, classes that became rules."""
    found = parse_set(MINE, "mine")

    assert placeless(parse_set(as_yaml(found).encode(), "again")) == placeless(found)


def test_a_rule_is_explained_from_what_it_reads_to_how_it_is_changed() -> None:
    """Heading by heading, in people's units."""
    rule = next(rule for rule in load_set().rules if rule.name == "gpu_power_brake")
    found = dict(explained(rule))

    assert list(found) == [
        *("what", "says", "looks at value", "looks at temperature", "by", "judges", "fires", "clears", "options"),
        *("reads value", "reads temperature", "costs", "to change", "written at"),
    ]
    assert found["by"] == "each host x gpu_uuid apart"
    assert found["judges"] == "every 10s of event time, while temperature is at most 75C"
    assert found["fires"].startswith("when 6 of the last 6 windows are out of line: 1m after a sudden change")
    assert found["options"] == "above = 50%; leave = 5%"
    assert found["reads value"] == "grouping set gpu, columns throttled_fault_us_sum, interval_ms_sum"
    assert found["written at"] == rule.where_read


def test_conditions_and_the_whole_fleet_are_explained() -> None:
    """No labels is the whole fleet; where reads as a sentence."""
    rule = parse_set(
        b"rules: [{name: a, kind: threshold, metric: rate(), topic: llm.requests, by: [], min_count: 5,"
        b" where: {status: ok, error_kind: {not: [client, null]}}, options: {below: 1/s}}]",
        "a",
    ).rules[0]
    found = dict(explained(rule))

    assert found["by"] == "the whole fleet as one"
    assert found["looks at value"] == (
        "rate() of llm.requests in 1/s (what is judged), only where status is ok and error_kind is not client, null"
    )
    assert found["judges"] == "every 10s of event time, where at least 5 events came"
    assert found["fires"].startswith("at the first window out of line")


def test_that_none_at_all_is_judged_is_explained() -> None:
    """It is so only where it is asked for."""
    rules = [
        parse_set(
            f"rules: [{{name: a, kind: threshold, metric: count(), topic: llm.requests, by: [model], "
            f"min_count: {least}, options: {{below: 1}}}}]".encode(),
            "a",
        ).rules[0]
        for least in (0, 1)
    ]

    assert [dict(explained(rule))["judges"] for rule in rules] == [
        "every 10s of event time, also where no event came",
        "every 10s of event time",
    ]
