import re

import pytest

from runtime.counters import CATALOGUE, METRICS, OTHER, SERIES_MAX, Counters


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


def test_what_is_not_in_the_catalogue_cannot_be_counted() -> None:
    """A name without meaning and unit is a defect."""
    with pytest.raises(AssertionError, match="catalogue"):
        Counters().add("made_up")


def test_a_level_is_no_total() -> None:
    """Adding to a level is a defect."""
    with pytest.raises(AssertionError, match="edge_spool_bytes is a level"):
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
    assert [metric.name for metric in METRICS if not metric.unit or not metric.meaning] == []


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_every_metric_of_the_catalogue_can_be_counted(metric: object) -> None:
    """Its labels fit Prometheus and its value is read back."""
    from runtime.counters import Metric

    assert isinstance(metric, Metric)
    counters = Counters()
    labels = dict.fromkeys(metric.labels, "x")
    (counters.add if metric.kind == "total" else counters.set)(metric.name, 7, **labels)

    assert counters.value(metric.name, **labels) == 7
