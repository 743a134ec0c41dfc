"""What topics need, of what they are: pure.

A topic that is missing is made. Of one that is there

- retention is brought to ``limits`` of the configuration, and records that this version writes must fit;
- partitions are added up to the configured count. State topics come first: a job that sees a new partition of its
  source finds that of its state. What may grow, and when, says ``schemas.contract.topics.Growth``;
- timestamps by anything but the broker's clock are refused: verdicts hang on them.

Partitions are never removed; Kafka cannot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fleetpulse.migrate.plan import GrowTopic, MakeTopic, Plan, SetTopic, Step
from schemas.contract.topics import ALERTS_TOPIC, KEPT_FOR_EVER, Growth, Topic, partitions_of, source_of
from schemas.limits import Limits

REPLICAS = 3
"""Copies of every partition, where there are so many brokers."""
IN_SYNC_REPLICAS_MIN = 2
"""Of three copies; with ``acks=all`` no answered write is lost with one broker."""
_FROM_LIMITS = ("retention.ms", "min.compaction.lag.ms")
MIGRATED = (*_FROM_LIMITS, "max.message.bytes")
"""Settings that a migration brings to the contract; others are checked by `fleetpulse doctor`."""
RERATE = (
    "half an hour after the jobs started, run `fleetpulse rerate` from an hour before they were stopped until they"
    " started"
)


@dataclass(frozen=True, slots=True)
class LiveTopic:
    """A topic as it is: ``settings`` with the brokers' defaults, ``own`` those that were set on the topic itself;
    ``copies`` of the partition that has most."""

    partitions: int
    settings: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)
    copies: int = 1


def cleanup_of(topic: Topic) -> str:
    """Whether the log keeps the newest record of a key, the records of a time, or of that time the newest of a key."""
    if not topic.compacted:
        return "delete"
    return "compact" if topic.retention == KEPT_FOR_EVER else "compact,delete"


def topic_settings(topic: Topic, replicas: int, limits: Limits) -> dict[str, str]:
    """Settings of the contract, for a topic with that many copies."""
    settings = {
        "cleanup.policy": cleanup_of(topic),
        "message.timestamp.type": "LogAppendTime" if topic.log_append_time else "CreateTime",
        "max.message.bytes": str(topic.record_bytes_max),
        "compression.type": "producer",
    }
    if replicas >= REPLICAS:
        settings |= {"min.insync.replicas": str(IN_SYNC_REPLICAS_MIN), "unclean.leader.election.enable": "false"}
    if topic.compacted:
        settings |= {"segment.ms": "600000", "min.cleanable.dirty.ratio": "0.2"}
        if topic.name == ALERTS_TOPIC:  # its readers want every transition, also after an outage
            settings["min.compaction.lag.ms"] = str(limits.outage_ms)
    if topic.retention != KEPT_FOR_EVER or not topic.compacted:
        settings["retention.ms"] = str(topic.retention_ms(limits))
    return settings


def plan_topics(
    topics: Sequence[Topic],
    live: Mapping[str, LiveTopic],
    partitions: Mapping[str, int],
    limits: Limits,
    ids: Iterable[str] = (),
) -> Plan:
    """Steps for these topics; ``ids`` are the topics that have a log id. What may not be done now is not judged here:
    see ``refusals``."""
    known = set(ids)
    made: list[Step] = [
        MakeTopic(replace(topic, partitions=partitions_of(topic, partitions)), known=topic.name in live)
        for topic in topics
        if topic.name not in live or topic.name not in known
    ]
    there = [topic for topic in topics if topic.name in live]
    counts = {topic.name: live[topic.name].partitions for topic in there}
    grown = [one for topic in there for one in _grown(topic, counts, partitions)]
    grown.sort(key=lambda one: not one.subject.startswith("state."))
    altered = [one for topic in there for one in _altered(topic, live[topic.name], limits)]
    return Plan((*made, *altered, *grown), tuple(_notes(there, counts, partitions)))


def _grown(topic: Topic, counts: Mapping[str, int], partitions: Mapping[str, int]) -> Iterator[GrowTopic]:
    wanted = max(partitions_of(topic, partitions), counts.get(source_of(topic), 0))
    has = counts[topic.name]
    after = RERATE if topic.growth is Growth.JOBS_STOPPED else ""
    if has < wanted:
        yield GrowTopic(topic.name, has, wanted, after)


def _altered(topic: Topic, live: LiveTopic, limits: Limits) -> Iterator[SetTopic]:
    contract = topic_settings(topic, 1, limits)
    wanted = {
        name: value for name, value in contract.items() if name in _FROM_LIMITS and live.settings.get(name) != value
    }
    if int(live.settings.get("max.message.bytes", topic.record_bytes_max)) < topic.record_bytes_max:
        wanted["max.message.bytes"] = contract["max.message.bytes"]
    if not wanted:
        return
    whole = _changed(topic.name, live, wanted, wanted)
    rest = {name: value for name, value in wanted.items() if name != "retention.ms"}
    if whole.removes and rest:  # these need no consent, and wait for none
        yield _changed(topic.name, live, rest, rest)
        yield _changed(topic.name, live, {"retention.ms": wanted["retention.ms"]}, wanted)
    else:
        yield whole


def _changed(name: str, live: LiveTopic, changed: Mapping[str, str], every: Mapping[str, str]) -> SetTopic:
    """Changes these settings; ``every`` are those that it differs in by then."""
    return SetTopic(name, {one: live.settings.get(one) for one in changed}, changed, {**live.own, **every})


def _notes(there: Sequence[Topic], counts: Mapping[str, int], partitions: Mapping[str, int]) -> Iterable[str]:
    for topic in there:
        has, wanted = counts[topic.name], partitions_of(topic, partitions)
        if has > wanted and topic.name == source_of(topic):
            yield (
                f'{topic.name} has {has} partitions, the configuration says {wanted}: set "{topic.name}" = {has} under'
                " [partitions] for every process; Kafka cannot remove partitions"
            )


def refusals(
    topics: Sequence[Topic],
    live: Mapping[str, LiveTopic],
    plan: Plan,
    busy: Mapping[str, str],
    filled: Iterable[str],
    brokers: int = REPLICAS,
) -> list[str]:
    """Why the plan cannot be carried out, a sentence each. ``busy``: groups of jobs that have members, with their
    number; ``filled``: topics that hold or held records; ``brokers``: how many are up."""
    found = [
        f"topic {topic.name} has message.timestamp.type={live[topic.name].settings.get('message.timestamp.type')}; it"
        " must be LogAppendTime, because the broker's clock decides what is late: change it with kafka-configs, or use"
        " another cluster"
        for topic in topics
        if topic.log_append_time
        and topic.name in live
        and live[topic.name].settings.get("message.timestamp.type") != "LogAppendTime"
    ]
    missing = [step.topic.name for step in plan.steps if isinstance(step, MakeTopic) and not step.known]
    copies = min(REPLICAS, max((one.copies for one in live.values()), default=0))
    if missing and brokers < copies:
        found.append(
            f"topics {', '.join(missing)} cannot be created while {brokers} brokers are up: other topics have {copies}"
            " copies, and these would have fewer for good. Start the brokers that are down"
        )
    growing = {step.subject: step for step in plan.steps if isinstance(step, GrowTopic)}
    full = set(filled)
    for topic in topics:
        if topic.name in growing and topic.name in full:
            found += _may_not_grow(topic, growing[topic.name], busy)
    return found


def _may_not_grow(topic: Topic, step: GrowTopic, busy: Mapping[str, str]) -> list[str]:
    head = f"topic {topic.name} cannot grow from {step.has} to {step.wanted} partitions"
    keep = f'keep "{topic.name}" = {step.has} under [partitions]'
    if topic.growth in (Growth.WHILE_EMPTY, Growth.NEVER):
        return [f"{head}: {topic.growth.value}; {keep}"]
    if topic.growth is Growth.JOBS_STOPPED and busy:
        running = ", ".join(f"{group} ({members})" for group, members in sorted(busy.items()))
        return [
            f"{head} while jobs run: {topic.growth.value}. Stop all jobs (running: {running}); agents go on, and Kafka"
            f" keeps their events. Run `fleetpulse migrate`, start the jobs with the new count, and {RERATE}. Or {keep}"
        ]
    return []
