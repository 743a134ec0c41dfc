"""Settings and counts of the topics that migrate makes. The rest needs servers: tests/integration/test_migrate.py."""

from __future__ import annotations

import pytest

from fleetpulse.migrate import Plan, partitions_of, topic_settings
from schemas.ddl import migrations
from schemas.topics import BY_NAME, CONTRACT, SOURCE_TOPICS, STATE_TOPICS


def test_source_topics_take_the_brokers_time() -> None:
    """Verdicts hang on it."""
    found = {topic_settings(topic, 1)["message.timestamp.type"] for topic in SOURCE_TOPICS}

    assert found == {"LogAppendTime"}


def test_state_and_contract_are_compacted() -> None:
    """Their latest record per key is all that counts, and it is never forgotten."""
    for topic in (CONTRACT, *STATE_TOPICS):
        settings = topic_settings(topic, 1)
        assert settings["cleanup.policy"] == "compact"
        assert "retention.ms" not in settings


@pytest.mark.parametrize(("replicas", "wanted"), [(1, None), (2, None), (3, "2")])
def test_three_copies_need_two_in_step(replicas: int, wanted: str | None) -> None:
    """With acks=all an answered write then survives one broker; fewer copies could not be written at all."""
    assert topic_settings(BY_NAME["books"], replicas).get("min.insync.replicas") == wanted


def test_a_state_topic_follows_its_source_topic() -> None:
    """Another partition's open transaction would hide a snapshot otherwise."""
    assert partitions_of(BY_NAME["state.windows.llm.requests"], {"llm.requests": 64}) == 64
    assert partitions_of(BY_NAME["llm.requests"], {"llm.requests": 64}) == 64
    assert partitions_of(BY_NAME["gpu.samples"], {"llm.requests": 64}) == BY_NAME["gpu.samples"].partitions


def test_a_plan_says_what_is_missing() -> None:
    """One line for each topic and migration."""
    plan = Plan((BY_NAME["books"],), migrations()[:1])

    assert not plan.empty
    assert str(plan).splitlines() == ["topic books: 1 partitions", "migration 0001_functions.sql: 2 statements"]
    assert str(Plan((), ())) == "topics and tables are up to date"
