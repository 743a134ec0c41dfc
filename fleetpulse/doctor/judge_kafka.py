"""Findings about Kafka, of facts: addresses, topics against the contract, lag, transactions, clock. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from fleetpulse.doctor.facts import AGED_MS, Bounds, GroupFacts, KafkaFacts, TopicFacts, TopicPartition
from fleetpulse.doctor.finding import Finding, good, note, unknown, wrong
from fleetpulse.doctor.judge_partitions import judge_partitions
from fleetpulse.migrate.topic_plan import MIGRATED, REPLICAS, topic_settings
from runtime.addresses import is_loopback
from schemas.contract.topics import Topic, partitions_of, source_of
from schemas.limits import MINUTE_MS, Limits

MARKERS_MAX = 2
"""Records in each partition that may be behind a group's offsets though nothing waits."""
_NEVER_RAN = GroupFacts(0, {})
_READ_BY = {"windows": ("finals", "costs"), "finals": ("alerts",), "alerts": ("deliver",)}
"""Who has nothing to do without this job."""
_AT_LEAST = frozenset({"retention.ms", "max.message.bytes", "min.compaction.lag.ms", "min.insync.replicas"})
"""Settings of which more is fine too; -1 is without end where ``retention.ms`` says so."""
_ONLY_TIDY = frozenset({"compression.type", "segment.ms", "min.cleanable.dirty.ratio"})
"""Settings that cost space or time where they differ, never a number."""


def judge_kafka(
    facts: KafkaFacts,
    topics: Sequence[Topic],
    groups: Mapping[str, Sequence[str]],
    bounds: Bounds,
    limits: Limits,
    partitions: Mapping[str, int],
) -> Iterator[Finding]:
    """Everything about Kafka. ``groups``: topics by the name of the group that reads them; ``partitions``: counts that
    the configuration says differ from the contract's."""
    yield from _addresses(facts)
    if facts.error is not None:
        yield wrong("kafka.answer", facts.bootstrap, facts.error, setting(facts.key) if facts.key else _reach(facts))
    if facts.topics is None:
        yield unknown("topic.exists", facts.bootstrap, "topics cannot be checked while Kafka does not answer")
        return
    yield from _brokers(facts, limits)
    for topic in topics:
        if topic.name not in facts.hidden:
            yield from _topic(facts, topic, partitions, limits)
    if facts.hidden:
        says = f"this login may not ask about {', '.join(sorted(facts.hidden))}: {_ASK_AS_PEOPLE}"
        yield unknown("topic.exists", f"{len(facts.hidden)} topics", says)
    yield from _deployment(facts)
    yield from _log_ids(facts, topics)
    yield from _logins(facts)
    yield from _transactions(facts)
    yield from judge_partitions(facts, groups)
    yield from judge_lag(facts, groups, bounds)
    yield from judge_clock("clock.kafka", "the broker's clock", facts.skew_ms, bounds)


def setting(key: str) -> str:
    """The variable to set for this key."""
    variable = f"FLEETPULSE_{key.upper().replace('.', '__')}=..."
    return f"{variable} FLEETPULSE_KAFKA__SASL_PASSWORD_FILE=..." if key == "kafka.sasl_username" else variable


def _reach(facts: KafkaFacts) -> str:
    return (
        "fleetpulse up   # the local stack; or name another cluster: FLEETPULSE_KAFKA__BOOTSTRAP=host:9092"
        if all("127.0.0.1" in address or "localhost" in address for address in facts.addresses)
        else "FLEETPULSE_KAFKA__BOOTSTRAP=host:port FLEETPULSE_KAFKA__SECURITY_PROTOCOL=... (as the brokers listen)"
    )


def _addresses(facts: KafkaFacts) -> Iterator[Finding]:
    for address, error in facts.addresses.items():
        if error is None:
            yield good("kafka.port", address, "takes connections")
        else:
            yield wrong("kafka.port", address, f"takes no connection: {error}", _reach(facts))


def _brokers(facts: KafkaFacts, limits: Limits) -> Iterator[Finding]:
    yield good("kafka.answer", facts.bootstrap, f"answers, {facts.brokers} brokers")
    if facts.brokers < REPLICAS:
        yield note(
            "kafka.brokers",
            facts.bootstrap,
            f"{facts.brokers} brokers cannot hold {REPLICAS} copies: a lost disk loses data",
        )
    kept = facts.broker_settings.get("offsets.retention.minutes")
    if kept is not None and int(kept) * MINUTE_MS < limits.offsets_retention_ms:
        needed = -(-limits.offsets_retention_ms // MINUTE_MS)
        yield wrong(
            "kafka.offsets_retention",
            facts.bootstrap,
            f"offsets.retention.minutes={kept}: after that a stopped job forgets where it was",
            f"offsets.retention.minutes={needed}   # in server.properties of every broker, then restart one by one",
        )


def _topic(facts: KafkaFacts, topic: Topic, partitions: Mapping[str, int], limits: Limits) -> Iterator[Finding]:
    assert facts.topics is not None
    found = facts.topics.get(topic.name)
    if found is None:
        yield wrong("topic.exists", topic.name, "does not exist", "fleetpulse migrate")
        return
    problems = [
        *_partitions(topic, found, partitions),
        *_settings(facts, topic, found, limits),
        *_copies(facts, topic, found),
    ]
    yield from problems
    if not problems:
        yield good("topic", topic.name, f"as in the contract, {found.partitions} partitions")


def _partitions(topic: Topic, found: TopicFacts, partitions: Mapping[str, int]) -> Iterator[Finding]:
    wanted = partitions_of(topic, partitions)
    if found.partitions < wanted:
        says = f"has {found.partitions} partitions, processes count on {wanted}: records would be lost"
        yield wrong("topic.partitions", topic.name, says, "fleetpulse migrate")
    elif found.partitions > wanted and topic.name == source_of(topic):
        says = f"has {found.partitions} partitions, processes use {wanted} of them"
        mend = f'"{topic.name}" = {found.partitions} under [partitions] in fleetpulse.toml of every process'
        yield note("topic.partitions", topic.name, says, mend)


def _settings(facts: KafkaFacts, topic: Topic, found: TopicFacts, limits: Limits) -> Iterator[Finding]:
    for name, wanted in topic_settings(topic, found.replicas, limits).items():
        if (has := found.settings.get(name)) is None or _enough(name, has, wanted):
            continue
        value = f"'[{wanted}]'" if "," in wanted else wanted  # that tool takes a comma for the end of a setting
        mend = (
            f"kafka-configs.sh --bootstrap-server {facts.bootstrap} --alter --entity-type topics"
            f" --entity-name {facts.topic_prefix}{topic.name} --add-config {name}={value}"
        )
        judged = note if name in _ONLY_TIDY else wrong
        says = f"{name}={has}, the contract says {wanted}{_because(name)}"
        yield judged(f"topic.{name}", topic.name, says, "fleetpulse migrate" if name in MIGRATED else mend)


def _enough(name: str, has: str, wanted: str) -> bool:
    if has == wanted:
        return True
    if name not in _AT_LEAST:
        return False
    if name == "retention.ms" and "-1" in (has, wanted):
        return has == "-1"
    return int(has) >= int(wanted)


_ASK_AS_PEOPLE = "that of role people may"
"""Who sees every topic and group where each role has its login."""
_WHY = {
    "message.timestamp.type": "what is late is judged by the broker's clock",
    "retention.ms": "an outage of a job would lose events",
    "cleanup.policy": "snapshots of a state topic must stay, events of others must go",
    "max.message.bytes": "batches would be rejected",
    "min.insync.replicas": "an acknowledged record could be lost with one broker",
    "unclean.leader.election.enable": "acknowledged records could be lost",
    "min.compaction.lag.ms": "readers of alerts would miss transitions after an outage",
}


def _because(name: str) -> str:
    return f": {_WHY[name]}" if name in _WHY else ""


def _copies(facts: KafkaFacts, topic: Topic, found: TopicFacts) -> Iterator[Finding]:
    if found.without_leader:
        says = f"partitions {_numbers(found.without_leader)} have no leader: nobody can read or write them"
        yield wrong("topic.leader", topic.name, says, "start the brokers that are down; their logs say why they ended")
    elif found.under_replicated:
        says = f"partitions {_numbers(found.under_replicated)} have fewer copies in sync than they should"
        yield wrong("topic.in_sync", topic.name, says, "start the brokers that are down; copies follow by themselves")
    if found.replicas < (wanted := min(REPLICAS, facts.brokers)):
        says = (
            f"has {found.replicas} copies where {wanted} are possible: made during an outage, it keeps so few for good"
        )
        mend = (
            f"kafka-reassign-partitions.sh --bootstrap-server {facts.bootstrap} --execute --reassignment-json-file"
            f" copies.json   # which names {wanted} brokers for each partition of {facts.topic_prefix}{topic.name}"
        )
        yield wrong("topic.copies", topic.name, says, mend)


def _numbers(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _deployment(facts: KafkaFacts) -> Iterator[Finding]:
    if facts.log_ids is None:
        return
    if facts.foreign:
        says = "is whose topics these are; another's processes do not start: on the same topics two count all twice"
        mend = f"kafka.deployment = {facts.deployment}, or kafka.topic_prefix for topics of its own, then migrate"
        yield wrong("topic.deployment", str(facts.deployment), says, mend)
    elif facts.deployment is None:
        yield note("topic.deployment", "contract", "does not say whose topics these are", "fleetpulse migrate")
    else:
        yield good("topic.deployment", facts.deployment, "these topics are its own")


def _log_ids(facts: KafkaFacts, topics: Sequence[Topic]) -> Iterator[Finding]:
    if facts.log_ids is None or facts.topics is None:
        yield unknown("topic.log_id", "contract", "log ids cannot be read")
        return
    without = [topic.name for topic in topics if topic.name in facts.topics and topic.name not in facts.log_ids]
    for name in without:
        yield wrong("topic.log_id", name, "was made by somebody else and has no log id", "fleetpulse migrate")
    if not without:
        yield good("topic.log_id", "contract", "every topic has its log id")


def _logins(facts: KafkaFacts) -> Iterator[Finding]:
    """One login for edges and jobs: whoever takes a GPU node over decides what people see. Brokers that only this
    machine reaches need none."""
    if facts.access_lists is None:
        says = "access lists cannot be seen with this login: it needs Describe on the cluster"
        yield note("kafka.logins", facts.bootstrap, says)
    elif not facts.access_lists:
        if not all(is_loopback(address.rpartition(":")[0].strip("[]")) for address in facts.addresses):
            says = "brokers without access lists: whoever reaches them can write what jobs write"
            yield note(
                "kafka.logins", facts.bootstrap, says, "authorizer.class.name of the brokers, then migrate --acls"
            )
    elif not facts.shared_logins:
        yield good("kafka.logins", facts.bootstrap, "no login may write both events and results")
    for login, (event, result) in facts.shared_logins.items():
        says = f"may write {event} as an edge does and {result} as jobs do: a GPU node that is taken over can do both"
        mend = (
            f"fleetpulse migrate --acls edge=... --acls jobs=..., with a login for each, and take {login}'s rights away"
        )
        yield wrong("kafka.logins", login, says, mend)


def _transactions(facts: KafkaFacts) -> Iterator[Finding]:
    if facts.transaction_denied:
        says = "this login may have no transactional id: that of role jobs, which alone needs one, has to get one"
        yield unknown("kafka.transactions", facts.bootstrap, says)
    elif facts.transaction_error is not None:
        yield wrong(
            "kafka.transactions",
            facts.bootstrap,
            f"a transactional producer gets no id: {facts.transaction_error}",
            "let the user do Write and Describe on transactional ids (kafka-acls.sh --transactional-id '*'), and see"
            " that transaction.state.log.replication.factor is at most the number of brokers",
        )
    else:
        yield good("kafka.transactions", facts.bootstrap, "transactional producers get their ids")
    for (topic, partition), records in (facts.held_up or {}).items():
        yield wrong(
            "topic.open_transaction",
            f"{topic}/{partition}",
            f"an open transaction holds up its consumers: {records} records",
            f"kafka-transactions.sh --bootstrap-server {facts.bootstrap} find-hanging"
            f" --topic {facts.topic_prefix}{topic}"
            "   # then abort it; or wait: the broker ends it at its time limit",
        )


_SILENT = (
    "the broker that coordinates this group says nothing of it, while others are answered for: its members cannot join"
    " or commit. Restart that broker where this stays so"
)


def judge_lag(facts: KafkaFacts, groups: Mapping[str, Sequence[str]], bounds: Bounds) -> Iterator[Finding]:
    """The consumer lag of every group, topic by topic."""
    silent = {group for group, found in (facts.groups or {}).items() if found is not None and not found.answered}
    if facts.groups is None or (silent and silent == facts.groups.keys()):
        yield unknown("lag", "all groups", "consumer groups cannot be read")
        return
    lacking = sorted(
        {topic for topics in groups.values() for topic in topics} - (facts.topics or {}).keys() - facts.hidden
    )
    denied = [group for group in groups if facts.groups.get(group, _NEVER_RAN) is None]
    if denied:
        says = f"this login may not ask about the groups {', '.join(denied)}: {_ASK_AS_PEOPLE}"
        yield unknown("lag", f"{len(denied)} groups", says)
    for group, topics in groups.items():
        found = facts.groups.get(group, _NEVER_RAN)
        if found is None:
            continue
        if group in silent:
            yield unknown("lag", group, _SILENT)
            continue
        if not found.committed and not found.members:
            yield _never_ran(facts, group, topics)
            continue
        lags = {topic: consumer_lag(topic, found.committed, facts.begins, facts.ends) for topic in topics}
        most = max(lags.values(), default=0)
        if not found.members and is_read_by_nobody(lags, facts.topics or {}):
            waits = max(lags, key=lambda topic: lags[topic])
            says = f"{most:,} records of {waits} wait, and nobody is a member of the group"
            if lacking:  # whoever writes it ends, too
                yield wrong("topic.exists", group, f"topic missing: {', '.join(lacking)}: {says}", "fleetpulse migrate")
            else:
                yield wrong("process", group, f"process not running: {says}", _starter(group))
            continue
        for topic, lag in lags.items():
            if lag > bounds.lag_records_max:
                says = f"consumer lag of {lag:,} records in {topic}, {found.members} members"
                yield wrong("lag", group, says, _starter(group, found.members))
        late = {topic: behind(group, topic, found.committed, facts.begins, facts.aged) for topic in topics}
        if found.members and any(late.values()):
            yield from _late(group, late)
            continue
        ended = {name for name, _ in facts.ends}
        if blind := sorted(topic for topic in topics if topic in (facts.topics or {}) and topic not in ended):
            yield unknown("lag", group, f"consumer lag in {', '.join(blind)} cannot be read: no leader, or no answer")
        elif most <= bounds.lag_records_max and not found.members:
            yield note("lag", group, "is not running; it has no consumer lag", _starter(group))
        elif most <= bounds.lag_records_max:
            yield good("lag", group, f"{found.members} members, consumer lag {most:,} records at most")


def _never_ran(facts: KafkaFacts, group: str, topics: Sequence[str]) -> Finding:
    """Nobody has to run every job; who runs one that waits for it has to."""
    deployment, _, kind = group.rpartition("-")
    found = {name: (facts.groups or {}).get(f"{deployment}-{name}") for name in _READ_BY.get(kind, ())}
    readers = [name for name, reader in found.items() if reader is not None and reader.members]
    lags = {topic: consumer_lag(topic, {}, facts.begins, facts.ends) for topic in topics}
    if readers and is_read_by_nobody(lags, facts.topics or {}):
        says = f"process not running: has never run here, and {' and '.join(readers)} wait for what it writes"
        return wrong("process", group, says, _starter(group))
    return note("lag", group, "has never run here", _starter(group))


def behind(
    group: str,
    topic: str,
    committed: Mapping[TopicPartition, int],
    begins: Mapping[TopicPartition, int],
    aged: Mapping[TopicPartition, int],
) -> dict[int, int]:
    """Records by partition that wait for longer than ``AGED_MS``, where a group has committed and they are more than
    the markers of transactions at its end: ``deliver`` reads on behind all but the last."""
    markers = 1 if group.endswith("deliver") else MARKERS_MAX
    waiting = {
        number: end - max(committed[name, number], begins.get((name, number), 0))
        for (name, number), end in aged.items()
        if name == topic and (name, number) in committed
    }
    return {number: records for number, records in sorted(waiting.items()) if records > markers}


def _late(group: str, late: Mapping[str, Mapping[int, int]]) -> Iterator[Finding]:
    for topic, waiting in late.items():
        says = f"{sum(waiting.values()):,} records of partitions {_numbers(waiting)} of {topic} wait"
        says += f" for over {AGED_MS // 1_000} s"
        if waiting and group.endswith("-deliver"):
            yield wrong("delivery", group, f"alerts not delivered: {says}", "fleetpulse deliver --check")
        elif waiting:
            yield wrong("lag.age", group, says, f"{_starter(group, 1)}   # or see what /readyz of the process names")


def is_read_by_nobody(lags: Mapping[str, int], topics: Mapping[str, TopicFacts]) -> bool:
    """Whether more waits than what a group that stopped in order leaves: the markers of the last transactions."""
    return any(lag > MARKERS_MAX * topics[topic].partitions for topic, lag in lags.items() if topic in topics)


def consumer_lag(
    topic: str,
    committed: Mapping[TopicPartition, int],
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> int:
    """Records of a topic between what was committed, or the beginning, and the end, over all partitions.

    What retention took is not waited for. Transactions leave markers in a log: they count as records.
    """
    return sum(
        max(0, end - max(committed.get(partition, 0), begins.get(partition, 0)))
        for partition, end in ends.items()
        if partition[0] == topic
    )


def _starter(group: str, members: int = 0) -> str:
    """The command that adds a worker to the group."""
    others = {"sink": "fleetpulse sink", "raw": "fleetpulse sink", "deliver": "fleetpulse deliver"}
    name = group.rpartition("-")[2]
    if name in ("windows", "finals", "alerts", "costs"):
        return f"fleetpulse jobs {name} --name worker-{members}"
    return others.get(name, "fleetpulse jobs all")


def judge_clock(check: str, subject: str, skew_ms: int | None, bounds: Bounds) -> Iterator[Finding]:
    """One clock against this host's."""
    if skew_ms is None:
        yield unknown(check, subject, "is unknown while nothing arrives; `fleetpulse doctor --probe` sends a record")
    elif abs(skew_ms) > bounds.skew_ms_max:
        way = "ahead of" if skew_ms > 0 else "behind"
        yield wrong(
            check,
            subject,
            f"{abs(skew_ms):,} ms {way} this host's",
            "timedatectl set-ntp true   # on both machines; then `chronyc tracking`",
        )
    else:
        yield good(check, subject, f"{skew_ms:+,} ms against this host's")
