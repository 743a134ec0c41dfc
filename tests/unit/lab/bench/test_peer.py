"""Rules of the yardstick: the engine is asked for the same grouping sets and measures as our partial rows."""

from __future__ import annotations

import pytest

from lab.bench import compare, peer
from runtime.config import KafkaConfig
from schemas.errors import FleetpulseError
from schemas.events.event_types import BY_TOPIC
from schemas.events.grouping import sets_of
from schemas.fields import Role
from schemas.rows.tables import PARTIALS

TOPICS = ("llm.requests", "gpu.samples")
KAFKA = KafkaConfig(bootstrap="broker:1", topic_prefix="east.")


@pytest.mark.parametrize("topic", TOPICS)
def test_the_same_work_has_a_column_for_every_measure_of_our_rows(topic: str) -> None:
    """Whatever our partial rows hold but counts that follow from nulls, the engine keeps too."""
    kept = {name for name, _ in peer.measures(BY_TOPIC[topic], "same")}
    event = BY_TOPIC[topic]
    wanted = {f"{f.name}_sum" for f in event.of(Role.SKETCH, Role.GAUGE, Role.DIFFERENCE)}
    wanted |= {f"{f.name}_{which}" for f in event.of(Role.SKETCH, Role.GAUGE) for which in ("min", "max")}
    wanted |= {f"{f.name}_last" for f in event.of(Role.GAUGE)} | {f.name for f in event.of(Role.SKETCH_BINS)}
    wanted |= {"event_count", "last_at_ms"}

    assert wanted <= kept
    assert {f"{f.name}_state" for f in event.of(Role.SKETCH)} == {name for name in kept if name.endswith("_state")}


def test_lean_work_has_four_sketches_of_a_request_and_every_gauge_of_a_gpu() -> None:
    """What the promise names as the least."""
    states = [name for name, _ in peer.measures(BY_TOPIC["llm.requests"], "lean") if name.endswith("_state")]
    gauges = [name for name, _ in peer.measures(BY_TOPIC["gpu.samples"], "lean") if name.endswith("_count")]

    assert states == ["ttft_us_state", "tpot_us_state", "e2e_us_state", "queue_us_state"]
    assert len(gauges) == 18 + 1  # event_count


@pytest.mark.parametrize("topic", TOPICS)
def test_every_grouping_set_has_its_table_and_view(topic: str) -> None:
    """One table and one view per grouping set; raw adds one of each."""
    for raw in (False, True):
        options = peer.Options(raw=raw)
        tables, views = peer.tables(topic, options), peer.views(topic, options)

        assert len(tables) == 1 + len(sets_of(topic)) + raw
        assert len(views) == len(sets_of(topic)) + raw


def test_what_the_engine_does_not_need_it_does_not_read() -> None:
    """Without raw rows the Kafka table has no texts, and lean work no bins; it reads the topic under its prefix."""
    lean = peer.reader("llm.requests", peer.Options(), KAFKA, "group")
    same = peer.reader("llm.requests", peer.Options(work="same"), KAFKA, "group")
    raw = peer.reader("llm.requests", peer.Options(raw=True), KAFKA, "group")

    assert "kafka_topic_list = 'east.llm.requests'" in lean
    assert ("request_id" in lean, "itl_bins" in lean) == (False, False)
    assert ("request_id" in same, "itl_bins" in same) == (False, True)
    assert ("request_id" in raw, "itl_bins" in raw) == (True, True)


class Answers:
    """A database that gives prepared answers in turn and notes the questions."""

    def __init__(self, *answers: list[tuple[object, ...]]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, question: str) -> list[tuple[object, ...]]:
        self.asked.append(question)
        return self.answers.pop(0)


def test_a_difference_in_any_sum_stops_the_comparison() -> None:
    """No ratio is printed when a series differs; the error shows both totals and the series."""
    query = Answers([(0, "a", 1)], [(100,)], [(99,)])

    with pytest.raises(FleetpulseError, match=r"gpu.*100.*99.*'a', 1"):
        compare.compare(query, ("gpu.samples",))


def test_quantiles_beyond_both_errors_stop_the_comparison() -> None:
    """Two sketches of one value may differ by both errors together, not by more."""
    within = [([[100.0] * 4, [102.0] * 4],) * 4]
    beyond = [([[100.0] * 4, [103.0] * 4],) * 4]

    assert compare._quantiles(Answers(list(within)), sets_of("llm.requests")[0], "k") == (16, pytest.approx(0.02))
    with pytest.raises(FleetpulseError, match=r"quantiles differ by 3\.00%"):
        compare._quantiles(Answers(list(beyond)), sets_of("llm.requests")[0], "k")


def test_a_quantile_that_only_one_side_knows_is_a_difference() -> None:
    """NaN stands for no value: on both sides or on none."""
    one_sided = [([[float("nan")] * 4, [1.0] * 4],) * 4]

    with pytest.raises(FleetpulseError, match="only one side"):
        compare._quantiles(Answers(list(one_sided)), sets_of("llm.requests")[0], "k")


def test_every_number_of_the_partial_rows_is_compared() -> None:
    """All additive columns of the partials stand in the comparison (those that null counts do not imply)."""
    added, extremes = compare._columns("gpu.samples")
    names = {field.name for field in PARTIALS["gpu.samples"].fields}

    assert {*added, *extremes} <= names
    assert {name for name in names if name.endswith("_sum")} <= set(added)
