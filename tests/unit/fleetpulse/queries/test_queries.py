"""The catalogue of queries: each says what it answers and takes its numbers as parameters."""

from __future__ import annotations

import re

import pytest

from fleetpulse import queries
from fleetpulse.sql.query import parameters_of
from schemas.ddl.fault_view import AFTER_MS, LOST
from stream_jobs.rules.load import load

PARAMETERS = {"from_ms": 1_000, "to_ms": 61_000}
PLAIN = [
    name
    for name in queries.names()
    if not name.startswith(("cost_", "request_")) and set(parameters_of(queries.text(name))) == set(PARAMETERS)
]
"""Those that people are shown for pasting; those of costs are tested on bills."""


def test_a_query_says_what_it_answers_and_bounds_its_range() -> None:
    """The first line is a sentence; the range is a parameter."""
    for name in queries.names():
        text = queries.text(name)

        assert text.startswith("-- "), name
        assert text.splitlines()[0].endswith("."), name
        assert "{from_ms:Int64}" in text, name
        assert "{to_ms:Int64}" in text, name


def test_a_filled_query_has_no_places_left() -> None:
    """What is shown for pasting runs as it is."""
    for name in PLAIN:
        filled = queries.filled(name, PARAMETERS)

        assert "{" not in filled, name
        bounds = (
            r"\b(window|at|minute)_ms >= 1000 AND \1_ms < 61000\b|\(from_ms = 1000, to_ms = 61000\)"
            r"|\bat_ms >= least\(1000, 61000 - 367 \* 86400000\) AND at_ms < 61000\b"
        )
        assert re.search(bounds, filled), name


@pytest.mark.parametrize("name", ["latency_rise", "windows_by_engine", "windows_by_gpu", "windows_by_model"])
def test_a_query_of_windows_reads_minutes_before_the_first_row_of_10_s(name: str) -> None:
    """Rows of 10 s are kept for less long; without them a range of last quarter would look empty."""
    text = " ".join(queries.text(name).split())
    topic = {"windows_by_gpu": "gpu_samples", "windows_by_engine": "engine_samples"}.get(name, "llm_requests")

    minutes = text[text.index(f"FROM {topic}_rollup_1m FINAL") :]
    assert f"SELECT minOrNull(window_ms) FROM {topic}_partials WHERE" in minutes
    assert f"FROM {topic}_partials FINAL" in text


def test_amounts_of_two_ranges_say_their_unit() -> None:
    """Counts, too: in a column beside them, or by their names."""
    changed, tokens = (queries.text(name) for name in ("who_changed", "tokens_changed"))
    columns = re.findall(r"\bAS (\w+_(?:before|now))\b", tokens)

    assert "'tokens', 'requests') AS unit,\n" in changed
    assert len(columns) == 6
    assert [one for one in columns if "_tokens_" not in one] == []


def test_queries_of_faults_say_nothing_otherwise_than_their_view() -> None:
    """Which requests are lost and when a fault is over, it says; bills are read for as long as it looks."""
    texts = {name: queries.text(name) for name in ("requests_lost", "requests_of_gpu_fault")}

    assert re.findall(r"\d{5,}", texts["requests_of_gpu_fault"]) == ["60000", str(AFTER_MS), "60000"]
    assert not re.search(rf"\d{{5,}}|{'|'.join(LOST)}|llm_requests", texts["requests_lost"])


def test_starved_gpus_are_those_of_their_rule() -> None:
    """Whoever follows the alert to the query finds the minutes that it was about."""
    options = next(rule for rule in load() if rule.name == "gpu_starved_by_core").options
    levels = [f"{options[name]:.0f}" for name in ("below", "thread_above", "waiting_above")]
    compared = r"< (\d+) AND thread_ppm > (\d+), false\) AS starved.*HAVING waiting_sum > (\d+) \*"

    found = re.search(compared, queries.text("starved_gpus"), re.DOTALL)
    assert found is not None
    assert [*found.groups()] == levels


def test_an_unknown_query_is_refused() -> None:
    """Only names of the catalogue are read, never a path."""
    with pytest.raises(KeyError):
        queries.text("../demo/run")
