"""Questions: each names a query that is shipped, and plain words find it."""

from __future__ import annotations

import pytest

from fleetpulse import queries
from fleetpulse.queries import dashboard
from fleetpulse.queries.questions import OF_DASHBOARD, QUESTIONS, matching, near, numbered
from fleetpulse.sql.query import parameters_of
from schemas.limits import DAY_MS

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


@pytest.mark.parametrize(
    ("words", "query", "given"),
    [
        ("the tenant behind a p99 spike", "who_slowed_model", {"model": ""}),
        ("which tenant made the p99 of ttft jump", "who_slowed_model", {"model": ""}),
        ("which tenant is responsible for the latency of llama", "who_slowed_model", {"model": ""}),
        ("the host behind a p99 spike", "who_changed", {"metric": "ttft_p99_us"}),
        ("error rate by tenant", "dashboard/tenants", {}),
        ("which GPUs are lost", "requests_of_gpu_fault", {}),
        ("which GPUs are throttled", "open_alerts", {}),
        ("did anything break over night", "alert_history", {}),
        ("monthly cost of idle GPUs", "idle_gpus", {}),
        ("tokens of a model today against yesterday", "who_changed", {"metric": "output_tokens"}),
        ("slowest requests", "slowest_requests", {}),
        ("open alerts", "open_alerts", {}),
        ("why do requests fail", "errors_by_kind", {}),
        ("throughput", "throughput_by_model", {}),
        ("xid", "requests_of_gpu_fault", {}),
        ("goodput", "cost_goodput_windows", {}),
        ("chargeback", "cost_by", {"dimension": "tenant"}),
        ("carbon", "cost_energy_by_place", {}),
        ("kv cache", "dashboard/engines", {}),
        ("biggest customers", "dashboard/tenants", {}),
        ("who got more expensive", "who_changed", {"metric": "cost_nusd"}),
        ("what was rejected", "dashboard/pipeline_topics", {}),
        ("latency percentiles of each model", "percentiles_by_model", {}),
        ("GPU utilization", "gpu_summary", {}),
        ("deployments", "dashboard/deployments", {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_first_guess_is_what_was_meant(words: str, query: str, given: dict[str, str]) -> None:
    """As people say it, not as the list does."""
    found = numbered()[matching(words.split())[0]]

    assert (found.query, found.given) == (query, given)


def test_words_of_no_question_find_none_and_are_nearly_others() -> None:
    """Small words are in all of them and say nothing."""
    assert matching(["zebra"]) == matching(["what", "is", "the"]) == []
    assert near(["tenent"]) == ["tenant"]
