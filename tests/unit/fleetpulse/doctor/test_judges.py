"""Judgements of the doctor: from facts to findings, each with what mends it."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from clickhouse_connect.driver.exceptions import OperationalError

from fleetpulse.commands.config_view import Unknown
from fleetpulse.doctor.examine import READS, examine_config, judge_config
from fleetpulse.doctor.facts import (
    AGED_MS,
    Bounds,
    CertificateFacts,
    DatabaseFacts,
    DiskFacts,
    GroupFacts,
    HostFacts,
    KafkaFacts,
    LoginFacts,
    MutationFacts,
    PartFacts,
    TopicFacts,
)
from fleetpulse.doctor.finding import Finding, Report, State, good, wrong
from fleetpulse.doctor.judge_database import WRITER_NEEDS, judge_database
from fleetpulse.doctor.judge_host import judge_certificates, judge_host
from fleetpulse.doctor.judge_kafka import judge_kafka, judge_lag
from fleetpulse.doctor.look_database import _refused
from fleetpulse.migrate.table_plan import LiveDatabase, LiveTable, Wanted
from fleetpulse.migrate.topic_plan import topic_settings
from fleetpulse.sql.reader_profile import LIMITS
from fleetpulse.stack.report import PartStatus
from runtime.config import ClickHouseConfig
from runtime.runbook import Cause
from schemas.contract.topics import BY_NAME, TOPICS
from schemas.ddl.files import Migration
from schemas.ddl.kept import Kept
from schemas.errors import ConfigError
from schemas.limits import DAY_MS, DEFAULT_LIMITS

BOUNDS = Bounds()
TOPIC, STATE = BY_NAME["llm.requests"], BY_NAME["state.windows.llm.requests"]
AT = (TOPIC.name, 0)
GROUPS = {"local-windows": (TOPIC.name,)}


def topic(name: str, **changes: Any) -> TopicFacts:
    settings = topic_settings(BY_NAME[name], 3, DEFAULT_LIMITS) | changes.pop("settings", {})
    return replace(TopicFacts(BY_NAME[name].partitions, 3, (), (), settings), **changes)


KAFKA = KafkaFacts(
    "broker:9092",
    {"broker:9092": None},
    brokers=3,
    broker_settings={"offsets.retention.minutes": "10080"},
    topics={TOPIC.name: topic(TOPIC.name), STATE.name: topic(STATE.name)},
    log_ids=frozenset({TOPIC.name, STATE.name}),
    deployment="local",
    ends={AT: 1_000},
    held_up={},
    groups={"local-windows": GroupFacts(1, {AT: 1_000})},
    skew_ms=5,
    access_lists=True,
)


def of_kafka(facts: KafkaFacts, partitions: Mapping[str, int] | None = None) -> list[Finding]:
    found = list(judge_kafka(facts, (TOPIC, STATE), GROUPS, BOUNDS, DEFAULT_LIMITS, partitions or {}))
    return [one for one in found if one.state is not State.GOOD]


def names(found: Iterable[Finding]) -> list[tuple[str, str, str]]:
    return [(one.check, one.subject, one.state.value) for one in found]


def with_topic(name: str, **changes: Any) -> KafkaFacts:
    return replace(KAFKA, topics={**(KAFKA.topics or {}), name: topic(name, **changes)})


def test_a_cluster_as_it_should_be_has_nothing_to_mend() -> None:
    """Not a single finding beside the good ones."""
    assert of_kafka(KAFKA) == []


def setting(name: str, value: str, of: str = TOPIC.name) -> KafkaFacts:
    return with_topic(of, settings={name: value})


KAFKA_BROKEN: dict[str, tuple[KafkaFacts, tuple[str, str, str], str]] = {
    "topics of another deployment": (
        replace(KAFKA, deployment="blue", foreign=True),
        ("topic.deployment", "blue", "wrong"),
        "kafka.deployment = blue, or kafka.topic_prefix for topics of its own, then migrate",
    ),
    "a contract of the release before": (
        replace(KAFKA, deployment=None),
        ("topic.deployment", "contract", "note"),
        "fleetpulse migrate",
    ),
    "a setting is wrong under a prefix": (
        replace(setting("message.timestamp.type", "CreateTime"), topic_prefix="blue."),
        ("topic.message.timestamp.type", TOPIC.name, "wrong"),
        f"kafka-configs.sh --bootstrap-server {KAFKA.bootstrap} --alter --entity-type topics"
        f" --entity-name blue.{TOPIC.name} --add-config message.timestamp.type=LogAppendTime",
    ),
    "a topic is missing": (
        replace(KAFKA, topics={STATE.name: topic(STATE.name)}),
        ("topic.exists", TOPIC.name, "wrong"),
        "fleetpulse migrate",
    ),
    "copies of a topic that was made during an outage": (
        with_topic(TOPIC.name, replicas=1),
        ("topic.copies", TOPIC.name, "wrong"),
        "kafka-reassign-partitions.sh --bootstrap-server broker:9092 --execute",
    ),
    "too few partitions": (
        with_topic(TOPIC.name, partitions=3),
        ("topic.partitions", TOPIC.name, "wrong"),
        "fleetpulse migrate",
    ),
    "more partitions than anybody uses": (
        replace(KAFKA, topics={one.name: topic(one.name, partitions=5) for one in (TOPIC, STATE)}),
        ("topic.partitions", TOPIC.name, "note"),
        '"llm.requests" = 5 under [partitions]',
    ),
    "the senders' clocks": (
        setting("message.timestamp.type", "CreateTime"),
        ("topic.message.timestamp.type", TOPIC.name, "wrong"),
        "--add-config message.timestamp.type=LogAppendTime",
    ),
    "kept too short": (
        setting("retention.ms", "86399999"),
        ("topic.retention.ms", TOPIC.name, "wrong"),
        "fleetpulse migrate",
    ),
    "a source topic that is compacted": (
        setting("cleanup.policy", "compact"),
        ("topic.cleanup.policy", TOPIC.name, "wrong"),
        "--add-config cleanup.policy=delete",
    ),
    "a state topic that is deleted": (
        setting("cleanup.policy", "delete", STATE.name),
        ("topic.cleanup.policy", STATE.name, "wrong"),
        "--add-config cleanup.policy=compact",
    ),
    "a state topic that is deleted after days": (
        setting("cleanup.policy", "compact,delete", STATE.name),
        ("topic.cleanup.policy", STATE.name, "wrong"),
        "--add-config cleanup.policy=compact",
    ),
    "small messages only": (
        setting("max.message.bytes", "1000000"),
        ("topic.max.message.bytes", TOPIC.name, "wrong"),
        "fleetpulse migrate",
    ),
    "one broker may hold the truth": (
        setting("min.insync.replicas", "1"),
        ("topic.min.insync.replicas", TOPIC.name, "wrong"),
        "--add-config min.insync.replicas=2",
    ),
    "an own compression": (
        setting("compression.type", "gzip"),
        ("topic.compression.type", TOPIC.name, "note"),
        "--add-config compression.type=producer",
    ),
    "nobody leads": (
        with_topic(TOPIC.name, without_leader=(1, 2), under_replicated=(1, 2)),
        ("topic.leader", TOPIC.name, "wrong"),
        "start the brokers",
    ),
    "copies lag": (
        with_topic(TOPIC.name, under_replicated=(0,)),
        ("topic.in_sync", TOPIC.name, "wrong"),
        "start the brokers",
    ),
    "made by hand": (
        replace(KAFKA, log_ids=frozenset({STATE.name})),
        ("topic.log_id", TOPIC.name, "wrong"),
        "fleetpulse migrate",
    ),
    "an address is dead": (
        replace(KAFKA, addresses={"broker:9092": None, "other:9092": "Connection refused"}),
        ("kafka.port", "other:9092", "wrong"),
        "FLEETPULSE_KAFKA__BOOTSTRAP",
    ),
    "few brokers": (replace(KAFKA, brokers=2), ("kafka.brokers", "broker:9092", "note"), ""),
    "offsets are forgotten early": (
        replace(KAFKA, broker_settings={"offsets.retention.minutes": "1440"}),
        ("kafka.offsets_retention", "broker:9092", "wrong"),
        "offsets.retention.minutes=10080",
    ),
    "no transactions": (
        replace(KAFKA, transaction_error="no answer in time"),
        ("kafka.transactions", "broker:9092", "wrong"),
        "kafka-acls.sh",
    ),
    "an open transaction": (
        replace(KAFKA, held_up={("window.partials", 2): 9}),
        ("topic.open_transaction", "window.partials/2", "wrong"),
        "kafka-transactions.sh --bootstrap-server broker:9092 find-hanging --topic window.partials",
    ),
    "a job far behind": (
        replace(KAFKA, ends={AT: 11_001}),
        ("lag", "local-windows", "wrong"),
        "fleetpulse jobs windows --name worker-1",
    ),
    "a job that ended": (
        replace(KAFKA, groups={"local-windows": GroupFacts(0, {AT: 1_000})}),
        ("lag", "local-windows", "note"),
        "fleetpulse jobs windows --name worker-0",
    ),
    "a job that is gone": (
        replace(KAFKA, ends={AT: 1_100}, groups={"local-windows": GroupFacts(0, {AT: 1_000})}),
        ("process", "local-windows", "wrong"),
        "fleetpulse jobs windows --name worker-0",
    ),
    "a job that never ran": (
        replace(KAFKA, groups={}),
        ("lag", "local-windows", "note"),
        "fleetpulse jobs windows --name worker-0",
    ),
    "groups that do not answer": (replace(KAFKA, groups=None), ("lag", "all groups", "unknown"), ""),
    "a broker's clock ahead": (
        replace(KAFKA, skew_ms=1_001),
        ("clock.kafka", "the broker's clock", "wrong"),
        "timedatectl",
    ),
    "a quiet cluster": (replace(KAFKA, skew_ms=None), ("clock.kafka", "the broker's clock", "unknown"), ""),
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "-1"),
        ("retention.ms", "86400001"),
        ("max.message.bytes", "67108865"),
        ("min.insync.replicas", "3"),
    ],
)
def test_more_than_the_contract_is_fine(name: str, value: str) -> None:
    """Longer, larger, safer; -1 is for ever."""
    assert of_kafka(setting(name, value)) == []


def test_a_setting_with_a_comma_is_one_for_the_tool_that_mends_it() -> None:
    """Of a bare comma it says that what follows is no setting."""
    engines = BY_NAME["engines"]
    facts = replace(
        KAFKA,
        topics={engines.name: topic(engines.name, settings={"cleanup.policy": "compact"})},
        log_ids=frozenset({engines.name}),
    )

    found = [one for one in judge_kafka(facts, (engines,), {}, BOUNDS, DEFAULT_LIMITS, {}) if one.state is State.WRONG]

    assert [(one.mend or "").partition(" --add-config ")[2] for one in found] == ["cleanup.policy='[compact,delete]'"]


def test_a_topic_that_is_for_ever_must_not_expire() -> None:
    """-1 in the contract is not 'less than' any number."""
    commands = BY_NAME["alert.commands"]
    facts = replace(
        KAFKA,
        topics={commands.name: topic(commands.name, settings={"retention.ms": "1"})},
        log_ids=frozenset({commands.name}),
    )

    found = [one for one in judge_kafka(facts, (commands,), {}, BOUNDS, DEFAULT_LIMITS, {}) if one.state is State.WRONG]

    assert names(found) == [("topic.retention.ms", "alert.commands", "wrong")]


def test_partitions_of_the_configuration_count() -> None:
    """A cluster with other counts that everybody knows of is as it should be."""
    facts = replace(KAFKA, topics={name: replace(one, partitions=64) for name, one in (KAFKA.topics or {}).items()})

    assert of_kafka(facts, {TOPIC.name: 64}) == []
    assert [one.check for one in of_kafka(KAFKA, {TOPIC.name: 64})] == ["topic.partitions"] * 2


def test_kafka_that_is_away_is_one_finding_and_the_rest_unknown() -> None:
    """Nothing is guessed about topics that nobody could see."""
    facts = KafkaFacts("127.0.0.1:1", {"127.0.0.1:1": "Connection refused"})

    found = of_kafka(facts)

    assert names(found) == [("kafka.port", "127.0.0.1:1", "wrong"), ("topic.exists", "127.0.0.1:1", "unknown")]
    assert (found[0].mend or "").startswith("fleetpulse up")


@pytest.mark.parametrize(
    ("differing", "states"),
    [
        ({}, []),
        ({"access_lists": None}, [("broker:9092", "note")]),
        ({"access_lists": False}, [("broker:9092", "note")]),
        ({"access_lists": False, "addresses": {"127.0.0.1:9092": None, "[::1]:9092": None}}, []),
        ({"shared_logins": {"User:all": ("gpu.samples", "costs")}}, [("User:all", "wrong")]),
    ],
    ids=["a login for each", "not to be seen", "none", "none, of this machine alone", "one for all"],
)
def test_a_login_of_edges_and_jobs_is_named(differing: dict[str, Any], states: list[tuple[str, str]]) -> None:
    """A GPU node may write events and nothing that is made of them. What is good is left out here."""
    found = [one for one in of_kafka(replace(KAFKA, **differing)) if one.check == "kafka.logins"]

    assert [(one.subject, str(one.state)) for one in found] == states


def test_lag_counts_from_what_is_still_there() -> None:
    """Records that expired are nobody's work; a group that committed nothing is behind by the whole log."""
    began = replace(KAFKA, begins={AT: 900_000}, ends={AT: 900_100}, groups={"local-windows": GroupFacts(1, {})})
    whole = replace(KAFKA, ends={AT: 20_000}, groups={"local-windows": GroupFacts(2, {})})

    assert of_kafka(began) == []
    assert [one.says for one in of_kafka(whole)] == ["consumer lag of 20,000 records in llm.requests, 2 members"]


@pytest.mark.parametrize(
    ("group", "waiting", "found"),
    [
        ("local-windows", 2, []),
        ("local-windows", 3, [("lag.age", "Consumer lag grows")]),
        ("local-deliver", 1, []),
        ("local-deliver", 2, [("delivery", "Alerts not delivered")]),
    ],
)
def test_what_waits_for_long_though_somebody_reads_is_named(
    group: str, waiting: int, found: list[tuple[str, str]]
) -> None:
    """By partition; markers of transactions wait for nobody, and newer records are those of the moment."""
    facts = replace(KAFKA, aged={AT: 1_000 + waiting}, ends={AT: 1_900}, groups={group: GroupFacts(1, {AT: 1_000})})
    judged = [one for one in judge_lag(facts, {group: (AT[0],)}, BOUNDS) if one.state is State.WRONG]

    assert [(one.check, one.cause) for one in judged] == found
    assert all(f"{waiting} records of partitions {AT[1]} of {AT[0]} wait" in one.says for one in judged)


def test_an_alert_that_no_target_takes_is_named_within_a_minute() -> None:
    """Where one comes every 15 s, and the doctor takes as long as it may."""
    assert 15_000 + AGED_MS + BOUNDS.within_s * 1_000 <= 60_000


def test_a_process_that_is_gone_beside_a_missing_topic_lacks_that_topic() -> None:
    """Whoever reads or writes it ends; starting it again mends nothing."""
    facts = replace(KAFKA, ends={AT: 1_100}, groups={"local-windows": GroupFacts(0, {AT: 1_000})})
    groups = {"local-windows": (AT[0],), "local-alerts": ("window.finals",)}
    judged = [one for one in judge_lag(facts, groups, BOUNDS) if one.state is State.WRONG]

    assert [(one.subject, one.cause, one.mend) for one in judged] == [
        ("local-windows", Cause.TOPIC, "fleetpulse migrate"),
    ]
    assert "topic missing: window.finals: 100 records of" in judged[0].says


@pytest.mark.parametrize(
    ("members", "waiting", "state"), [(1, 100, State.WRONG), (0, 100, State.NOTE), (1, 2, State.NOTE)]
)
def test_a_job_that_never_ran_is_gone_where_somebody_waits_for_it(members: int, waiting: int, state: State) -> None:
    """Such as one whose setting was never right. Who runs none that reads it may leave it out."""
    alerts = GroupFacts(members, {("window.finals", 0): 1})
    facts = replace(KAFKA, ends={AT: waiting}, groups={"local-alerts": alerts})
    judged = next(judge_lag(facts, {"local-finals": (AT[0],), "local-alerts": ()}, BOUNDS))

    assert (judged.subject, judged.state, judged.mend) == (
        "local-finals",
        state,
        "fleetpulse jobs finals --name worker-0",
    )
    assert ("has never run here, and alerts wait" in judged.says) == (state is State.WRONG)


@pytest.mark.parametrize("members", [0, 1])
def test_lag_behind_ends_that_nobody_named_is_unknown(members: int) -> None:
    """It is not none."""
    group = GroupFacts(members, {AT: 1_000})

    found = of_kafka(replace(KAFKA, ends={}, groups={"local-windows": group}))

    assert names(found) == [("lag", "local-windows", "unknown")]
    assert "consumer lag in llm.requests cannot be read" in found[0].says


def test_a_group_that_its_coordinator_says_nothing_of_is_named() -> None:
    """It is neither stopped nor damaged for all that is known. Where no group is answered for, it is not that group."""
    silent, well = GroupFacts(0, {}, answered=False), GroupFacts(1, {AT: 900})
    topics = {"local-deliver": (AT[0],), "local-windows": (AT[0],)}
    facts = replace(KAFKA, ends={AT: 900}, groups={"local-deliver": silent, "local-windows": well})

    assert names(judge_lag(facts, topics, BOUNDS)) == [
        ("lag", "local-deliver", "unknown"),
        ("lag", "local-windows", "good"),
    ]
    nobody = replace(facts, groups=dict.fromkeys(topics, silent))
    assert names(judge_lag(nobody, topics, BOUNDS)) == [("lag", "all groups", "unknown")]


@pytest.mark.parametrize(("more", "checks"), [(0, ["lag"]), (1, ["process"])])
def test_markers_of_transactions_wait_for_nobody(more: int, checks: list[str]) -> None:
    """What a job that stopped in order leaves, two in each partition, is no sign of one that is gone."""
    assert KAFKA.topics is not None
    lag = 2 * KAFKA.topics[AT[0]].partitions + more
    facts = replace(KAFKA, ends={AT: 1_000 + lag}, groups={"local-windows": GroupFacts(0, {AT: 1_000})})

    assert [one.check for one in of_kafka(facts)] == checks


def test_a_database_whose_certificate_has_ended_is_not_one_that_is_gone() -> None:
    """It answers, and nobody may believe it: starting it again mends nothing."""
    ended = ssl.SSLCertVerificationError(1, "certificate verify failed: certificate has expired")
    ended.verify_code, ended.verify_message = 10, "certificate has expired"
    login = _refused(ClickHouseConfig(url="https://db:8443"), OperationalError("HTTPSConnectionPool", ended))
    (found,) = [one for one in of_database(replace(DATABASE, writer=login)) if one.state is State.WRONG]

    assert (found.check, found.cause) == ("certificate", Cause.CERTIFICATE)
    assert found.says.startswith("https://db:8443 shows a certificate out of its time (certificate has expired)")


def test_a_finding_links_to_the_runbook_where_its_cause_has_a_section() -> None:
    """Only what is wrong has a cause; other findings are mended by their command alone."""
    runs = Finding("process", "local-sink", State.GOOD, "2 members")

    assert (runs.cause, runs.as_dict()["runbook"]) == (None, None)
    assert wrong("process", "a", "b", "c").as_dict()["runbook"] == Cause.PROCESS.url
    assert wrong("topic.partitions", "a", "b", "c").cause is None
    assert str(wrong("partition.log_cut", "a", "b", "c").runbook).endswith("#a-quarantined-partition")


def test_what_this_login_may_not_ask_about_is_unknown_and_not_wrong() -> None:
    """Topics, groups and the transactional id: each says which login may; no topic is called missing."""
    facts = replace(
        KAFKA,
        topics={TOPIC.name: topic(TOPIC.name)},
        hidden=frozenset({STATE.name}),
        groups={"local-windows": None},
        transaction_error="TransactionalIdAuthorizationFailed",
        transaction_denied=True,
    )

    found = of_kafka(facts)

    assert names(found) == [
        ("topic.exists", "1 topics", "unknown"),
        ("kafka.transactions", "broker:9092", "unknown"),
        ("lag", "1 groups", "unknown"),
    ]
    assert [says for says in (one.says for one in found) if "role people" in says or "role jobs" in says] == [
        one.says for one in found
    ]


def test_every_group_reads_topics_of_the_contract() -> None:
    """The table of readers names no topic that does not exist."""
    assert {name for topics in READS.values() for name in topics} <= {one.name for one in TOPICS}


@pytest.mark.parametrize(
    ("key", "mend"),
    [
        ("kafka.ssl_cafile", "FLEETPULSE_KAFKA__SSL_CAFILE=..."),
        ("kafka.sasl_username", "FLEETPULSE_KAFKA__SASL_USERNAME=... FLEETPULSE_KAFKA__SASL_PASSWORD_FILE=..."),
    ],
)
def test_a_broker_that_turns_us_away_names_the_variable(key: str, mend: str) -> None:
    """The setting behind it, and not that a stack be started."""
    facts = KafkaFacts("localhost:1", {"localhost:1": None}, error="must be so", key=key)

    (found,) = (one for one in judge_kafka(facts, (), {}, BOUNDS, DEFAULT_LIMITS, {}) if one.check == "kafka.answer")

    assert (found.state, found.says, found.mend) == (State.WRONG, "must be so", mend)


MIGRATIONS = (
    Migration(1, "functions", "CREATE OR REPLACE FUNCTION fp AS (q) -> q;\n"),
    Migration(2, "raw", "CREATE TABLE IF NOT EXISTS llm_requests (x UInt8) ENGINE = Memory;\n"),
    Migration(3, "views", "CREATE OR REPLACE VIEW seen AS SELECT 1;\n"),
)
KEPT = Kept("llm_requests", "at_ms", 7 * DAY_MS)
TABLE = LiveTable(KEPT.ttl, rows=5)
LIVE = LiveDatabase(
    "fleetpulse",
    {"llm_requests": TABLE},
    frozenset({"seen"}),
    {"fp": "CREATE FUNCTION fp AS q -> q"},
    {one.number: (one.name, one.checksum) for one in MIGRATIONS},
)
CAN = dict.fromkeys(WRITER_NEEDS, True)
BOUND = {name: (str(most), str(most)) for name, most in LIMITS.items()}
READER = LoginFacts("reader", "fleetpulse", readonly=2, can={"SELECT": True, "INSERT": False}, settings=BOUND)
DATABASE = DatabaseFacts(
    "https://db:8443",
    LoginFacts("writer", "fleetpulse", readonly=0, can=CAN),
    READER,
    version="26.8.1.2",
    exists=True,
    live=LIVE,
    skew_ms=-5,
    disks=(DiskFacts("default", 10 << 30, 100 << 30),),
)


def live(**changes: Any) -> DatabaseFacts:
    return replace(DATABASE, live=replace(LIVE, **changes))


def of_database(facts: DatabaseFacts) -> list[Finding]:
    found = judge_database(facts, Wanted(MIGRATIONS, "", (KEPT,), {one.file_name for one in MIGRATIONS}), BOUNDS)
    return [one for one in found if one.state is not State.GOOD]


def test_a_database_as_it_should_be_has_nothing_to_mend() -> None:
    """Not a single finding beside the good ones."""
    assert of_database(DATABASE) == []


def test_a_ttl_is_judged_on_every_server() -> None:
    """One that differs on some alone is said of these."""
    shorter, longer = (
        replace(LIVE, tables={"llm_requests": LiveTable(replace(KEPT, kept_ms=days * DAY_MS).ttl, 5)})
        for days in (6, 8)
    )
    found = of_database(replace(DATABASE, servers={"a:9000": LIVE, "b:9000": shorter, "c:9000": longer}))

    assert [(one.subject, one.state.value, one.says) for one in found] == [
        ("llm_requests", "wrong", "is not as configured on b:9000: 6 d -> 7 d after at_ms"),
        ("llm_requests", "note", "is not as configured on c:9000: 8 d -> 7 d after at_ms"),
    ]


def test_a_ttl_is_judged_where_another_server_lacks_the_table() -> None:
    """There the table is missing, and no TTL is said to be wrong."""
    shorter = replace(LIVE, tables={"llm_requests": LiveTable(replace(KEPT, kept_ms=6 * DAY_MS).ttl, 5)})
    found = of_database(replace(DATABASE, servers={"a:9000": shorter, "b:9000": replace(LIVE, tables={})}))

    assert [(one.check, one.says.partition(": ")[0]) for one in found] == [
        ("schema.ttl", "is not as configured on a:9000"),
        ("schema.missing", "is not as configured on b:9000"),
    ]


@pytest.mark.parametrize("one_by_one", [True, False])
def test_who_migrates_each_server_by_itself_is_told_to(one_by_one: bool) -> None:
    """A replicated database and a cluster of one need it once."""
    servers = {"a:9000": LIVE, "b:9000": replace(LIVE, views=frozenset())}
    (found,) = of_database(replace(DATABASE, servers=servers, one_by_one=one_by_one))

    assert found.mend == "fleetpulse migrate" + "   # with --clickhouse URL for each other server" * one_by_one


DATABASE_BROKEN: dict[str, tuple[DatabaseFacts, tuple[str, str, str], str]] = {
    "an authority that is not trusted": (
        replace(DATABASE, reader=LoginFacts("reader", "fleetpulse", error="must hold the authority", key="ca_file")),
        ("clickhouse_reader.answer", "https://db:8443", "wrong"),
        "FLEETPULSE_CLICKHOUSE_READER__CA_FILE=",
    ),
    "the reader's password": (
        replace(DATABASE, reader=LoginFacts("reader", "fleetpulse", error="no", error_code=516)),
        ("clickhouse_reader.login", "reader", "wrong"),
        "FLEETPULSE_CLICKHOUSE_READER__PASSWORD_FILE",
    ),
    "a reader that writes": (
        replace(DATABASE, reader=replace(READER, readonly=0, can={"SELECT": True, "INSERT": True})),
        ("reader.rights", "reader", "wrong"),
        "TO `reader` WITH REPLACE OPTION",
    ),
    "a reader that is the writer": (
        replace(DATABASE, reader=replace(READER, user="writer", readonly=0, can={"SELECT": True, "INSERT": True})),
        ("reader.rights", "writer", "wrong"),
        "FLEETPULSE_CLICKHOUSE_READER__USER=",
    ),
    "a reader that reaches the network": (
        replace(DATABASE, reader=replace(READER, sources=("URL",))),
        ("reader.rights", "reader", "wrong"),
        "TO `reader` WITH REPLACE OPTION",
    ),
    "a reader without a limit on memory": (
        replace(DATABASE, reader=replace(READER, settings=BOUND | {"max_memory_usage": ("0", None)})),
        ("reader.limits", "reader", "wrong"),
        "fleetpulse migrate --reader",
    ),
    "a reader whose limit a statement may lift": (
        replace(DATABASE, reader=replace(READER, settings=BOUND | {"max_rows_to_read": ("5", None)})),
        ("reader.limits", "reader", "wrong"),
        "max_rows_to_read = 2000000000 MIN 1 MAX 2000000000",
    ),
    "a reader that may not read": (
        replace(DATABASE, reader=replace(READER, can={"SELECT": False})),
        ("reader.rights", "reader", "wrong"),
        "GRANT SELECT ON fleetpulse.* TO reader",
    ),
    "no reader at all": (
        replace(DATABASE, writer=replace(DATABASE.writer, can={**CAN, "INSERT": True}), reader=None),
        ("reader.rights", "writer", "note"),
        "",
    ),
    "a reader whose password is elsewhere": (
        replace(DATABASE, reader=LoginFacts("reader", "fleetpulse", proven=False, error="no", error_code=516)),
        ("clickhouse_reader.login", "reader", "unknown"),
        "",
    ),
    "a reader of another database": (
        replace(DATABASE, reader=replace(READER, database="old")),
        ("reader.database", "old", "note"),
        "FLEETPULSE_CLICKHOUSE_READER__DATABASE=fleetpulse",
    ),
    "a writer without rights": (
        replace(DATABASE, writer=replace(DATABASE.writer, can={**CAN, "INSERT": False})),
        ("writer.rights", "writer", "wrong"),
        "GRANT ALL ON fleetpulse.* TO writer",
    ),
    "no database": (
        replace(DATABASE, exists=False),
        ("schema.database", "fleetpulse", "wrong"),
        "CREATE DATABASE fleetpulse",
    ),
    "never migrated": (
        live(applied={}),
        ("schema.migration", "fleetpulse", "wrong"),
        "fleetpulse migrate",
    ),
    "one migration behind": (
        live(applied={number: LIVE.applied[number] for number in (1, 2)}),
        ("schema.migration", "0003_views.sql", "wrong"),
        "fleetpulse migrate",
    ),
    "a file that was changed after it was applied": (
        live(applied={**LIVE.applied, 2: ("raw", "old")}),
        ("schema.migration", "fleetpulse", "wrong"),
        "of the release",
    ),
    "a database from the future": (
        live(applied={**LIVE.applied, 4: ("new", "new")}),
        ("schema.note", "fleetpulse", "note"),
        "",
    ),
    "a table was dropped": (
        live(tables={}),
        ("schema.missing", "llm_requests", "wrong"),
        "fleetpulse migrate",
    ),
    "a view was dropped": (
        live(views=frozenset()),
        ("schema.missing", "seen", "wrong"),
        "fleetpulse migrate",
    ),
    "a function was dropped": (
        live(functions={}),
        ("schema.missing", "fp", "wrong"),
        "fleetpulse migrate",
    ),
    "rows go earlier than configured": (
        live(tables={"llm_requests": LiveTable(replace(KEPT, kept_ms=DAY_MS).ttl, rows=5)}),
        ("schema.ttl", "llm_requests", "wrong"),
        "fleetpulse migrate",
    ),
    "rows are kept longer than configured": (
        live(tables={"llm_requests": LiveTable(replace(KEPT, kept_ms=8 * DAY_MS).ttl, rows=5)}),
        ("schema.ttl", "llm_requests", "note"),
        "fleetpulse migrate --yes",
    ),
    "rows are kept longer than configured on a shard that is not connected to": (
        replace(
            live(tables={"llm_requests": LiveTable(replace(KEPT, kept_ms=8 * DAY_MS).ttl)}),
            servers={
                server: replace(LIVE, tables={"llm_requests": LiveTable(replace(KEPT, kept_ms=8 * DAY_MS).ttl, rows)})
                for server, rows in (("a:9000", 0), ("b:9000", 5))
            },
        ),
        ("schema.ttl", "llm_requests", "note"),
        "fleetpulse migrate --yes",
    ),
    "a copy that was not migrated": (
        replace(
            DATABASE,
            servers={"http://a:8123": LIVE, "http://b:8123": replace(LIVE, views=frozenset())},
            one_by_one=True,
        ),
        ("schema.missing", "seen", "wrong"),
        "--clickhouse URL",
    ),
    "a shard that is away": (
        replace(DATABASE, servers_error="Connection refused"),
        ("schema.servers", "fleetpulse", "unknown"),
        "",
    ),
    "a TTL that somebody wrote": (
        live(tables={"llm_requests": LiveTable("toDate(at_ms) + toIntervalDay(1) TO DISK 'cold'", rows=5)}),
        ("schema.note", "fleetpulse", "note"),
        "",
    ),
    "an old server": (
        replace(DATABASE, version="25.9.7.1"),
        ("clickhouse.version", "https://db:8443", "wrong"),
        "25.10 or newer",
    ),
    "a clock behind": (
        replace(DATABASE, skew_ms=-1_001),
        ("clock.clickhouse", "the database's clock", "wrong"),
        "timedatectl",
    ),
    "a model for every request": (
        replace(
            DATABASE,
            overflow=({"grouping": "service", "dimension": "model", "beyond": 1_200, "tenants": ["a", "b"]},),
        ),
        ("series.room", "model of set service", "wrong"),
        "docs/how-to/running.md#too-many-series",
    ),
    "a sender of something else": (
        replace(
            DATABASE,
            rejected=(
                {"topic": "llm.requests", "reason": "decode", "rejected": 9, "newest_ms": 0, "example": "no JSON"},
            ),
        ),
        ("records.rejected", "llm.requests", "wrong"),
        "fleetpulse rejected show",
    ),
    "a host whose clock is off": (
        replace(DATABASE, clocks=({"host": "h-1", "skew_ms": -600_000, "reported_ms": 1},)),
        ("clock.hosts", "h-1", "wrong"),
        "chronyc tracking",
    ),
    "a part that cannot be read": (
        replace(DATABASE, broken=(PartFacts("fleetpulse.books", "all_1_1_0", "CORRUPTED_DATA", detached=False),)),
        ("parts", "fleetpulse.books", "wrong"),
        "clickhouse-client --query \"ALTER TABLE fleetpulse.books DETACH PART 'all_1_1_0'\"",
    ),
    "a part that ClickHouse took out": (
        replace(DATABASE, broken=(PartFacts("fleetpulse.books", "broken_all_1_1_0", "broken", detached=True),)),
        ("parts", "fleetpulse.books", "wrong"),
        "DROP DETACHED PART",
    ),
    "a mutation that fails": (
        replace(DATABASE, mutations=(MutationFacts("fleetpulse.books", "mutation_7.txt", "MODIFY x", 3, "no space"),)),
        ("mutations", "fleetpulse.books", "wrong"),
        "KILL MUTATION WHERE database = 'fleetpulse' AND table = 'books' AND mutation_id = 'mutation_7.txt'",
    ),
    "a mutation under way": (
        replace(DATABASE, mutations=(MutationFacts("fleetpulse.books", "mutation_7.txt", "MODIFY x", 3, ""),)),
        ("mutations", "fleetpulse.books", "note"),
        "",
    ),
    "a part of another server": (
        replace(DATABASE, broken=(PartFacts("fleetpulse.books", "all_1_1_0", "CORRUPTED_DATA", False, "b:9000"),)),
        ("parts", "fleetpulse.books", "wrong"),
        "'all_1_1_0'\"   # on b:9000",
    ),
    "servers that are not seen": (
        replace(DATABASE, others_error="away"),
        ("clickhouse.servers", "https://db:8443", "unknown"),
        "",
    ),
    "a full disk of another server": (
        replace(DATABASE, disks=(*DATABASE.disks, DiskFacts("default", (2 << 30) - 1, 100 << 30, "b:9000"))),
        ("disk", "disk default of b:9000", "wrong"),
        "make room",
    ),
    "a full disk": (
        replace(DATABASE, disks=(DiskFacts("default", (2 << 30) - 1, 100 << 30),)),
        ("disk", "disk default of https://db:8443", "wrong"),
        "make room",
    ),
}


def test_a_server_that_shows_an_old_certificate_has_that_cause() -> None:
    """Though it gives no other answer."""
    away = replace(DATABASE.writer, error="db:8443 shows a certificate out of its time")

    assert {one.cause for one in of_database(replace(DATABASE, writer=away)) if one.state is State.WRONG} == {
        Cause.CERTIFICATE
    }


@pytest.mark.parametrize(
    ("code", "check"), [(516, "clickhouse.login"), (None, "clickhouse.answer")], ids=["password", "away"]
)
def test_a_writer_that_gets_no_answer_leaves_the_schema_unknown(code: int | None, check: str) -> None:
    """Rejected and away are reported apart: the one needs a password, the other a server."""
    facts = replace(DATABASE, writer=LoginFacts("writer", "fleetpulse", error="no", error_code=code))

    found = of_database(facts)

    assert [(one.check, one.state.value) for one in found] == [(check, "wrong"), ("schema.migration", "unknown")]


def test_a_host_of_edges_needs_no_database() -> None:
    """None is configured there, by design: nothing is wrong with it."""
    writer = LoginFacts("default", "fleetpulse", error="is not set, and no local stack runs")

    found = of_database(DatabaseFacts("http://127.0.0.1:8123", writer, None, unset=True))

    assert names(found) == [
        ("clickhouse.answer", "clickhouse.url", "unknown"),
        ("schema.migration", "fleetpulse", "unknown"),
    ]
    assert found[0].says == writer.error


def test_a_writer_that_is_slow_is_not_away() -> None:
    """Nothing is wrong with a server that lets in and is late: what could not be looked at is unknown."""
    facts = replace(DATABASE, writer=LoginFacts("writer", "fleetpulse", error="no answer within 10 s", slow_s=10.0))

    found = of_database(facts)

    assert [(one.check, one.state.value) for one in found] == [
        ("clickhouse.answer", "unknown"),
        ("schema.migration", "unknown"),
    ]
    assert "longer than 10 s; --within" in found[0].says


def test_a_profile_that_only_reads_makes_rights_harmless() -> None:
    """Who may write by its grants and is read-only by its profile cannot write."""
    facts = replace(DATABASE, reader=replace(READER, readonly=1, can={"SELECT": True, "INSERT": True}))

    assert of_database(facts) == []


def kafka(running: bool, ready: bool, log: str) -> PartStatus:
    return PartStatus("kafka", running, ready, None, None, None, log)


HOST = HostFacts(Path("/data"), DiskFacts("/data", 10 << 30, 100 << 30), (kafka(True, True, "/data/log/kafka.log"),))
HOST_BROKEN: dict[str, tuple[HostFacts, tuple[str, str, str], str]] = {
    "a part is down": (
        replace(HOST, stack=(kafka(False, False, "l"),)),
        ("stack.part", "kafka", "wrong"),
        "fleetpulse up --data-dir /data",
    ),
    "a part hangs": (
        replace(HOST, stack=(kafka(True, False, "l"),)),
        ("stack.part", "kafka", "wrong"),
        "fleetpulse down --data-dir /data && fleetpulse up",
    ),
    "a port is taken": (replace(HOST, taken=(("kafka", 9),)), ("stack.port", "9", "wrong"), "--new-ports"),
    "no Java": (replace(HOST, java_error="no Java found"), ("stack.java", "java", "wrong"), "JAVA_HOME"),
    "an open password": (
        replace(HOST, open_secrets=(Path("/data/stack.json"),)),
        ("secret.file", "/data/stack.json", "wrong"),
        "chmod 600 /data/stack.json",
    ),
    "an open password that a service reads by its group": (
        replace(HOST, open_secrets=(Path("/etc/p"),), group_secrets=frozenset({Path("/etc/p")})),
        ("secret.file", "/etc/p", "wrong"),
        "chmod 640 /etc/p",
    ),
    "a part is down in a folder with a blank": (
        replace(HOST, data_dir=Path("/a b"), stack=(kafka(False, False, "l"),)),
        ("stack.part", "kafka", "wrong"),
        "fleetpulse up --data-dir '/a b'   #",
    ),
    "an open password in a folder with a blank": (
        replace(HOST, open_secrets=(Path("/a b/stack.json"),)),
        ("secret.file", "/a b/stack.json", "wrong"),
        "chmod 600 '/a b/stack.json'",
    ),
    "no room": (replace(HOST, disk=DiskFacts("/data", 0, 1)), ("disk", "disk of /data", "wrong"), "make room"),
    "no stack here": (replace(HOST, stack=None), ("stack", "/data", "note"), ""),
}


def of_host(facts: HostFacts) -> list[Finding]:
    return [one for one in judge_host(facts, BOUNDS) if one.state is not State.GOOD]


BROKEN = [
    *(pytest.param(of_kafka, *case, id=f"Kafka: {name}") for name, case in KAFKA_BROKEN.items()),
    *(pytest.param(of_database, *case, id=f"the database: {name}") for name, case in DATABASE_BROKEN.items()),
    *(pytest.param(of_host, *case, id=f"the machine: {name}") for name, case in HOST_BROKEN.items()),
]


@pytest.mark.parametrize(("judged", "facts", "finding", "mend"), BROKEN)
def test_what_is_wrong_is_named_with_what_mends_it(
    judged: Callable[[Any], list[Finding]], facts: object, finding: tuple[str, str, str], mend: str
) -> None:
    """One thing broken, one finding."""
    found = judged(facts)

    assert names(found) == [finding]
    assert mend in (found[0].mend or "")


@pytest.mark.parametrize(
    ("free_mib", "total_mib", "state"),
    [
        pytest.param(200, 256, State.GOOD, id="a container's memory"),
        pytest.param(20, 256, State.WRONG, id="a container's memory that is full"),
        pytest.param(1_000, 2_048, State.GOOD, id="a volume for a spool"),
        pytest.param(2_047, 100_000, State.WRONG, id="a machine's disk"),
    ],
)
def test_a_small_disk_of_a_data_folder_needs_a_share_of_it(free_mib: int, total_mib: int, state: State) -> None:
    """It never had as much as a machine's must have; that nobody's rows are to be deleted for it, either."""
    facts = replace(HOST, disk=DiskFacts("/data", free_mib << 20, total_mib << 20))

    (found,) = (one for one in judge_host(facts, BOUNDS) if one.check == "disk")

    assert found.state is state
    assert "limits" not in (found.mend or "")


def test_a_machine_as_it_should_be_has_nothing_to_mend() -> None:
    """Every finding is good."""
    assert {one.state for one in judge_host(HOST, BOUNDS)} == {State.GOOD}


@pytest.mark.parametrize(("text", "state"), [("include: defaults\n", "good"), ("rules: [{nam: x}]\n", "wrong")])
def test_files_of_the_configuration_are_read(tmp_path: Path, text: str, state: str) -> None:
    """With the first mistake, and the command that lists all: whoever starts with it ends."""
    file = tmp_path / "rules.yaml"
    file.write_text(text)

    _, found = examine_config({"rules": str(file), "data_dir": str(tmp_path)}, {})

    (of_file,) = (one for one in found if one.check == "config.file")
    assert (of_file.subject, of_file.state.value) == (str(file), state)
    assert of_file.mend == (None if state == "good" else f"fleetpulse rules check {file}")
    assert of_file.cause == (None if state == "good" else Cause.SETTING)


def test_the_configuration_names_unknown_keys_before_what_they_led_to() -> None:
    """A misspelt key mends both; else the value that is out of bounds is reported."""
    error = ConfigError("kafka.botstrap", "x", "is not a setting")
    misspelt = Unknown("kafka.botstrap", "file", "kafka.bootstrap")

    assert [(one.check, one.mend) for one in judge_config(error, [misspelt])] == [("config.key", "kafka.bootstrap")]
    assert names(judge_config(error, [])) == [("config.value", "kafka.botstrap", "wrong")]
    assert names(judge_config(None, [])) == [("config", "settings", "good")]


def test_what_ends_a_process_is_named_beside_keys_that_end_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable that nobody knows, as Kubernetes makes them of a service of that name, is passed over at the start."""
    monkeypatch.setenv("FLEETPULSE_PORT", "tcp://10.0.0.1:80")
    monkeypatch.setenv("FLEETPULSE_KAFKA__REQUEST_TIMEOUT_MS", "1")

    _, found = examine_config({"data_dir": str(tmp_path)}, os.environ)

    assert [one for one in names(found) if one[2] == "wrong"] == [
        ("config.key", "FLEETPULSE_PORT", "wrong"),
        ("config.value", "kafka.request_timeout_ms", "wrong"),
    ]


def test_a_key_that_nobody_knows_is_named_once_in_the_environment_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of loading is about the same key."""
    monkeypatch.setenv("FLEETPULSE_KAFKA__BOTSTRAP", "h:1")

    _, found = examine_config({"data_dir": str(tmp_path)}, os.environ)

    assert names(found) == [("config.key", "FLEETPULSE_KAFKA__BOTSTRAP", "wrong")]


def test_a_report_is_well_when_nothing_is_wrong() -> None:
    """Counts by state, for programs."""
    report = Report((good("a", "b", "c"), wrong("d", "e", "f", "g")))

    assert report.as_dict() == {
        "ok": False,
        "good": 1,
        "note": 0,
        "wrong": 1,
        "unknown": 0,
        "findings": [
            {"check": "a", "subject": "b", "state": "good", "says": "c", "mend": None, "runbook": None},
            {"check": "d", "subject": "e", "state": "wrong", "says": "f", "mend": "g", "runbook": None},
        ],
    }


@pytest.mark.parametrize(
    ("left_s", "state", "says"),
    [
        (15 * 86_400, "good", "ends in 15 days"),
        (13.6 * 86_400, "wrong", "ends in 14 days"),
        (7_200, "wrong", "ends in 2 hours"),
        (-7_200, "wrong", "has ended 2 hours ago"),
    ],
)
def test_a_certificate_is_renewed_two_weeks_before_its_end(left_s: float, state: str, says: str) -> None:
    """The setting it belongs to stands in the mend."""
    (found,) = judge_certificates([CertificateFacts("kafka.ssl_certfile", "/c.pem", 1_000 + left_s)], 1_000)

    assert (found.state.value, found.subject, found.says) == (state, "/c.pem", says)
    assert state == "good" or "kafka.ssl_certfile" in (found.mend or "")
