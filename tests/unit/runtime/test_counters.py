import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.counters import OTHER, SERIES_MAX, Counters
from runtime.metric_catalogue import CATALOGUE, METRICS

PACKAGES = ("fleetpulse", "lab", "producers", "runtime", "sinks", "stream_jobs")


def test_totals_grow_by_label() -> None:
    """Each set of label values counts for itself."""
    counters = Counters()

    counters.add("edge_events", 3, topic="a")
    counters.add("edge_events", topic="a")
    counters.add("edge_events", 5, topic="b")

    assert [counters.value("edge_events", topic=topic) for topic in "abc"] == [4, 5, 0]


def test_levels_go_up_and_down() -> None:
    """The last value counts."""
    counters = Counters()

    counters.set("edge_spool_bytes", 10)
    counters.set("edge_spool_bytes", 4)

    assert counters.value("edge_spool_bytes") == 4


def test_gauges_that_another_process_reports_from_now_on_are_forgotten() -> None:
    """By a label, but those that are named; what is counted stays, and places of label values are free again."""
    counters = Counters()
    for number in range(SERIES_MAX):
        counters.set("job_series", 9, set="gpu", partition=number)
    counters.set("job_lag_records", 0, topic="t", partition=0)
    counters.set("edge_spool_bytes", 4)
    counters.add("finals_gaps", partition=0)

    counters.forget("partition", but=("job_lag_records",))

    assert {name for name, *_ in counters.readings()} == {"job_lag_records", "edge_spool_bytes", "finals_gaps"}
    counters.set("job_series", 8, set="gpu", partition=SERIES_MAX)
    assert counters.value("job_series", set="gpu", partition=SERIES_MAX) == 8


def test_what_is_not_in_the_catalogue_cannot_be_counted() -> None:
    """A name without meaning and unit is a defect."""
    with pytest.raises(AssertionError, match="catalogue"):
        Counters().add("made_up")


def test_a_level_is_no_total() -> None:
    """Adding to a level is a defect."""
    with pytest.raises(AssertionError, match="edge_spool_bytes is a gauge"):
        Counters().add("edge_spool_bytes")


def test_label_values_have_a_limit() -> None:
    """What comes after the first SERIES_MAX sets is counted together, nothing is lost."""
    counters = Counters()

    for number in range(SERIES_MAX + 5):
        counters.add("edge_events", topic=f"t{number}")

    assert counters.value("edge_events", topic=OTHER) == 5
    assert counters.value("edge_events", topic=f"t{SERIES_MAX - 1}") == 1


def test_the_text_tells_meaning_and_unit() -> None:
    """Prometheus text with the catalogue's words."""
    counters = Counters()
    counters.add("edge_events", 2, topic="gpu.samples")

    text = counters.render().decode()

    assert "# HELP fleetpulse_edge_events_total written to the spool (events)" in text
    assert 'fleetpulse_edge_events_total{topic="gpu.samples"} 2.0' in text


def test_processes_do_not_share_figures() -> None:
    """Two sets of counters are independent."""
    first, second = Counters(), Counters()

    first.add("errors", where="a", error="b")

    assert second.value("errors", where="a", error="b") == 0


def test_the_catalogue_is_well_formed() -> None:
    """Names are unique and in snake case, every metric says unit and meaning."""
    assert len(CATALOGUE) == len(METRICS)
    wrong = [metric.name for metric in METRICS if not re.fullmatch(r"[a-z]+(_[a-z]+)*", metric.name)]
    assert wrong == []
    assert [metric.name for metric in METRICS if not metric.unit or not metric.meaning or not metric.normal] == []


def counted() -> Iterator[tuple[str, str, frozenset[str]]]:
    """Kind, name and labels of every ``counters.add("name", by, label=...)`` and ``set`` of the code."""
    root = Path(__file__).resolve().parents[3]
    for package in PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            text = file.read_text(encoding="utf-8")
            if "counters." in text.lower():
                yield from filter(None, map(told_by, ast.walk(ast.parse(text))))


def told_by(node: ast.AST) -> tuple[str, str, frozenset[str]] | None:
    """None for anything but such a call with labels that can be read off it."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
        return None
    name, labels = node.args[0], [each.arg for each in node.keywords if each.arg != "by"]
    if not isinstance(name, ast.Constant) or not ast.unparse(node.func.value).lower().endswith("counters"):
        return None
    kind = {"add": "counter", "set": "gauge"}.get(node.func.attr)
    return (kind, str(name.value), frozenset(filter(None, labels))) if kind and None not in labels else None


def test_what_the_code_counts_is_in_the_catalogue() -> None:
    """By kind, name and labels: no mistake waits until it is counted for the first time."""
    calls = set(counted())

    assert calls - {(metric.kind, metric.name, frozenset(metric.labels)) for metric in METRICS} == set()
    assert len(calls) > 20


def words_of_the_code() -> set[str]:
    """Every word in quotes of the code but for the catalogue's own."""
    root = Path(__file__).resolve().parents[3]
    files = (
        file for package in PACKAGES for file in (root / package).rglob("*.py") if file.name != "metric_catalogue.py"
    )
    return {word for file in files for word in re.findall(r'"(\w+)"', file.read_text(encoding="utf-8"))}


def test_what_is_in_the_catalogue_is_counted_somewhere() -> None:
    """A name that no code sets would be a metric without a value."""
    words = words_of_the_code()

    assert [metric.name for metric in METRICS if metric.name not in words] == []


def test_every_metric_of_the_catalogue_can_be_counted() -> None:
    """Its labels fit Prometheus and its value is read back."""
    for metric in METRICS:
        from runtime.metric_catalogue import Metric

        assert isinstance(metric, Metric), metric.name
        counters = Counters()
        labels = dict.fromkeys(metric.labels, "x")
        (counters.add if metric.kind == "counter" else counters.set)(metric.name, 7, **labels)

        assert counters.value(metric.name, **labels) == 7, metric.name
