"""Questions: each names a query that is shipped, and plain words find it."""

from __future__ import annotations

from fleetpulse import queries
from fleetpulse.queries import dashboard
from fleetpulse.queries.data_ends import kinds_of
from fleetpulse.queries.questions import OF_DASHBOARD, QUESTIONS, numbered
from fleetpulse.sql.query import parameters_of
from schemas.limits import DAY_MS, MINUTE_MS

BOUNDS = {"from_ms", "to_ms", "before_from_ms", "before_to_ms"}
SHIPPED = {*queries.names(), *(f"{OF_DASHBOARD}{name}" for name in dashboard.names())}


def test_there_are_thirty_and_more_each_asked_once() -> None:
    """Of four kinds of people, numbered as they are listed."""
    texts = [one.text for one in numbered().values()]

    assert len(texts) == len(set(texts)) >= 30
    assert all(text.endswith("?") for text in texts)
    assert [one for group in QUESTIONS.values() for one in group] == list(numbered().values())
    assert list(numbered()) == list(range(1, len(texts) + 1))


def test_every_question_names_a_shipped_query_and_gives_it_all_but_the_range() -> None:
    """No parameter is missing, and none is given that the query does not have."""
    for one in numbered().values():
        assert one.query in SHIPPED, one.text
        wanted = set(parameters_of(one.sql(DAY_MS)))
        assert wanted - BOUNDS <= one.known().keys(), one.text
        assert one.given.keys() <= wanted, one.text


def test_no_question_is_held_to_what_it_tells_apart() -> None:
    """Nor to what one of its tables does not know; all that know requests are held to a model."""
    (slowed, *_), (bill, *_) = ([one for one in numbered().values() if one.query == query]
                                for query in ("who_slowed_model", "cost_bill"))  # fmt: skip

    assert slowed.takes(["model"])
    assert not slowed.takes(["tenant"])
    assert bill.takes(["host", "gpu_model"])
    assert not bill.takes(["tenant"])
    of_requests = [one for one in numbered().values() if kinds_of(one.sql(DAY_MS)) == ("requests",)]
    assert [one.query for one in of_requests if not one.takes(["model"])] == []


def test_a_question_about_long_ago_is_asked_of_minutes() -> None:
    """Rows of 10 s are gone by then."""
    (engines,) = [one for one in numbered().values() if one.query == "dashboard/engines"]

    assert "engine_samples_partials" in engines.sql(MINUTE_MS, kept=(1, 1))
    assert "engine_samples_partials" not in engines.sql(MINUTE_MS, kept=(0, 1))
    assert "engine_samples_rollup_1m" in engines.sql(MINUTE_MS, kept=(0, 1))
