"""What topics need, by what they are. The rest needs servers: tests/integration/test_migrate.py."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import GroupCoordinatorNotAvailableError

from fleetpulse.migrate import topics
from fleetpulse.migrate.plan import MakeTopic, NameDeployment, Plan, SetTopic
from fleetpulse.migrate.topic_plan import LiveTopic, plan_topics, refusals, topic_settings
from runtime.config import KafkaConfig
from schemas.contract.topics import BY_NAME, CONTRACT, SOURCE_TOPICS, STATE_TOPICS, TOPICS, Growth, Topic, partitions_of
from schemas.limits import DAY_MS, DEFAULT_LIMITS, HOUR_MS, Limits

LIVE = {topic.name: LiveTopic(topic.partitions, topic_settings(topic, 3, DEFAULT_LIMITS)) for topic in TOPICS}
IDS = tuple(LIVE)
BUSY = {"local-windows": "2 members", "local-costs": "1 member"}


def plan(
    live: Mapping[str, LiveTopic] = LIVE, partitions: Mapping[str, int] | None = None, limits: Limits = DEFAULT_LIMITS
) -> Plan:
    return plan_topics(TOPICS, live, partitions or {}, limits, IDS)


def but(name: str, **changes: str) -> dict[str, LiveTopic]:
    """All topics as they should be, with other settings of one."""
    settings = {**LIVE[name].settings, **{key.replace("_", "."): value for key, value in changes.items()}}
    return {**LIVE, name: replace(LIVE[name], settings=settings)}


def test_source_topics_take_the_brokers_time() -> None:
    """Verdicts hang on it."""
    found = {topic_settings(topic, 1, DEFAULT_LIMITS)["message.timestamp.type"] for topic in SOURCE_TOPICS}

    assert found == {"LogAppendTime"}


def test_state_and_contract_are_compacted() -> None:
    """Their latest record per key is all that counts, and it is never forgotten."""
    for topic in (CONTRACT, *STATE_TOPICS):
        settings = topic_settings(topic, 1, DEFAULT_LIMITS)
        assert settings["cleanup.policy"] == "compact"
        assert "retention.ms" not in settings


@pytest.mark.parametrize(("replicas", "wanted"), [(1, None), (2, None), (3, "2")])
def test_three_copies_need_two_in_step(replicas: int, wanted: str | None) -> None:
    """With acks=all an answered write then survives one broker; fewer copies could not be written at all."""
    assert topic_settings(BY_NAME["books"], replicas, DEFAULT_LIMITS).get("min.insync.replicas") == wanted


def test_a_state_topic_follows_its_source_topic() -> None:
    """Another partition's open transaction would hide a snapshot otherwise."""
    assert partitions_of(BY_NAME["state.windows.llm.requests"], {"llm.requests": 64}) == 64
    assert partitions_of(BY_NAME["llm.requests"], {"llm.requests": 64}) == 64
    assert partitions_of(BY_NAME["gpu.samples"], {"llm.requests": 64}) == BY_NAME["gpu.samples"].partitions


def test_topics_as_the_contract_says_need_nothing() -> None:
    """Neither steps nor notes."""
    assert plan() == Plan()


def test_a_missing_topic_is_made_with_the_configured_count() -> None:
    """A topic without log id, made by somebody else, gets one."""
    live = {name: one for name, one in LIVE.items() if name != "gpu.samples"}

    found = plan_topics(TOPICS, live, {"gpu.samples": 8}, DEFAULT_LIMITS, set(IDS) - {"books"})

    assert [step for step in found.steps if isinstance(step, MakeTopic)] == [
        MakeTopic(replace(BY_NAME["gpu.samples"], partitions=8)),
        MakeTopic(BY_NAME["books"], known=True),
    ]


@pytest.mark.parametrize(
    ("limits", "removes"),
    [
        pytest.param(Limits(source_retention_ms=72 * HOUR_MS, raw_ttl_ms=30 * DAY_MS), False, id="longer"),
        pytest.param(Limits(source_retention_ms=18 * HOUR_MS), True, id="shorter"),
    ],
)
def test_retention_is_brought_to_the_limits_of_the_configuration(limits: Limits, removes: bool) -> None:
    """Of every topic that the limit is about, and of no other; a shorter one removes records."""
    found = plan(limits=limits).steps

    assert {step.subject for step in found} == {topic.name for topic in SOURCE_TOPICS}
    assert {step.removes for step in found} == {removes}
    (step,) = [one for one in found if isinstance(one, SetTopic) and one.subject == "gpu.samples"]
    assert (step.had, step.wanted) == (
        {"retention.ms": str(24 * HOUR_MS)},
        {"retention.ms": str(limits.source_retention_ms)},
    )


def test_settings_that_somebody_else_made_stay() -> None:
    """Kafka replaces all settings of a topic, so all are given."""
    live = but("books", retention_ms="1000")
    live["books"] = replace(live["books"], own={"retention.ms": "1000", "follower.replication.throttled.replicas": "*"})

    (step,) = plan(live).steps

    assert isinstance(step, SetTopic)
    assert step.every == {"retention.ms": str(24 * HOUR_MS), "follower.replication.throttled.replicas": "*"}
    assert str(plan(live)) == "topic setting books: retention.ms 1 s -> 1 d"


@pytest.mark.parametrize(
    ("live", "wanted"),
    [
        pytest.param(
            but("gpu.samples", max_message_bytes="1000000"), {"max.message.bytes": "67108864"}, id="too small"
        ),
        pytest.param(but("gpu.samples", max_message_bytes="99999999"), None, id="more than enough"),
        pytest.param(but("alerts", min_compaction_lag_ms="0"), {"min.compaction.lag.ms": "43200000"}, id="compaction"),
        pytest.param(but("gpu.samples", segment_ms="1"), None, id="not ours"),
    ],
)
def test_records_fit_and_other_settings_are_left(live: dict[str, LiveTopic], wanted: dict[str, str] | None) -> None:
    """The size is raised where records of this version would not fit, never lowered."""
    assert [step.wanted for step in plan(live).steps if isinstance(step, SetTopic)] == ([wanted] if wanted else [])


def test_what_removes_nothing_waits_for_no_consent() -> None:
    """A topic that somebody made by the brokers' defaults keeps records for a week, and takes none so large as ours."""
    live = but("gpu.samples", max_message_bytes="1000000", retention_ms=str(7 * DAY_MS))
    live["gpu.samples"] = replace(live["gpu.samples"], own={"segment.bytes": "1"})

    found = plan(live)
    done, left = found.without_removing().steps, found.without_removing().left

    assert [(one.wanted, one.every) for one in (*done, *left) if isinstance(one, SetTopic)] == [
        ({"max.message.bytes": "67108864"}, {"segment.bytes": "1", "max.message.bytes": "67108864"}),
        (
            {"retention.ms": str(DAY_MS)},
            {"segment.bytes": "1", "max.message.bytes": "67108864", "retention.ms": str(DAY_MS)},
        ),
    ]
    assert (len(done), len(left)) == (1, 1)


def test_a_source_topic_grows_behind_its_state_topics() -> None:
    """A job that finds a new partition of its source finds that of its state, also after a kill between the two."""
    found = plan(partitions={"gpu.events": 3}).steps

    assert [(step.subject, step.says) for step in found] == [
        ("state.windows.gpu.events", "1 -> 3"),
        ("state.finals.gpu.events", "1 -> 3"),
        ("gpu.events", "1 -> 3"),
    ]
    assert (
        refusals(TOPICS, LIVE, plan(partitions={"gpu.events": 3}), {"local-windows": "2 members"}, {"gpu.events"}) == []
    )


def test_a_source_topic_that_somebody_grew_gets_its_state_topic() -> None:
    """A job refuses to start before that."""
    live = {**LIVE, "gpu.samples": replace(LIVE["gpu.samples"], partitions=9)}

    assert [(step.subject, step.says) for step in plan(live).steps] == [("state.windows.gpu.samples", "4 -> 9")]
    assert plan(live).notes == (
        'gpu.samples has 9 partitions, the configuration says 4: set "gpu.samples" = 9 under [partitions] for every'
        " process; Kafka cannot remove partitions",
    )


def test_a_topic_by_the_senders_clock_is_refused() -> None:
    """The text names the topic and what to change."""
    live = but("gpu.samples", message_timestamp_type="CreateTime")

    (why,) = refusals(TOPICS, live, plan(live), {}, ())

    assert why.startswith("topic gpu.samples has message.timestamp.type=CreateTime; it must be LogAppendTime")


@pytest.mark.parametrize(("copies", "brokers", "refused"), [(3, 2, True), (3, 3, False), (2, 2, False), (1, 1, False)])
def test_topics_are_not_created_while_brokers_are_down(copies: int, brokers: int, refused: bool) -> None:
    """They would have fewer copies than the others for good; of nothing that is missing nothing is said."""
    there = {name: replace(one, copies=copies) for name, one in LIVE.items()}
    live = {name: one for name, one in there.items() if name != "books"}

    found = refusals(TOPICS, live, plan(live), {}, (), brokers)

    assert [why.startswith(f"topics books cannot be created while {brokers} brokers are up") for why in found] == (
        [True] if refused else []
    )
    assert refusals(TOPICS, there, plan(there), {}, (), brokers) == []


@pytest.mark.parametrize(
    ("topic", "busy", "filled", "words"),
    [
        pytest.param("window.partials", BUSY, True, "while jobs run", id="partials under way"),
        pytest.param("window.partials", {}, True, None, id="partials, jobs stopped"),
        pytest.param("window.partials", BUSY, False, None, id="partials that never had a record"),
        pytest.param("costs", {}, True, "count twice in budgets", id="bills"),
        pytest.param("costs", {}, False, None, id="no bill yet"),
        pytest.param("books", BUSY, True, None, id="books"),
    ],
)
def test_growth_that_would_split_open_windows_is_refused_with_the_procedure(
    topic: str, busy: dict[str, str], filled: bool, words: str | None
) -> None:
    """Where a record's partition decides what it is counted with."""
    found = refusals(TOPICS, LIVE, plan(partitions={topic: 8}), busy, {topic} if filled else ())

    assert len(found) == (words is not None)
    assert all((words or "") in why for why in found)
    if topic == "window.partials" and found:
        assert "Stop all jobs (running: local-costs (1 member), local-windows (2 members))" in found[0]
        assert "`fleetpulse rerate` from an hour before they were stopped" in found[0]


def test_no_text_advises_to_lose_data() -> None:
    """Neither a refusal nor a reason speaks of dropping or deleting."""
    texts = [growth.value for growth in Growth]
    every = {topic.name: 99 for topic in TOPICS if not topic.name.startswith("state.")}
    texts += refusals(TOPICS, LIVE, plan(partitions=every), BUSY, LIVE)

    assert [text for text in texts if any(word in text.lower() for word in ("drop", "delete", "remove the"))] == []


def test_a_topic_keeps_records_by_its_limit() -> None:
    """Named in the contract, so that the configuration decides."""
    topic: Topic = BY_NAME["window.partials"]

    assert topic.retention_ms(Limits(partials_retention_ms=36 * HOUR_MS)) == 36 * HOUR_MS
    assert BY_NAME["alerts"].retention_ms(DEFAULT_LIMITS) == -1


async def test_the_first_migration_has_brokers_make_the_topic_of_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks until there is a coordinator: a job that asked first would log an error on a machine that is well."""
    left: list[Exception] = [GroupCoordinatorNotAvailableError(), GroupCoordinatorNotAvailableError()]

    class Admin:
        async def describe_consumer_groups(self, names: list[str]) -> list[Any]:
            assert names == ["local-windows"]
            if left:
                raise left.pop()
            return [SimpleNamespace(groups=())]

    @asynccontextmanager
    async def opened(_kafka: KafkaConfig) -> AsyncIterator[Admin]:
        yield Admin()

    async def at_once(*_arguments: object) -> None:
        """Nothing is waited for, nor written."""

    monkeypatch.setattr(topics, "open_admin", opened)
    monkeypatch.setattr(topics, "_write", at_once)
    monkeypatch.setattr(topics.asyncio, "sleep", at_once)
    await topics.carry_out(KafkaConfig(), [NameDeployment("local")], DEFAULT_LIMITS)

    assert not left
