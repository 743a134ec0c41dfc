"""The whole examination: look at everything at once, each look within its time, then judge."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fleetpulse.commands.config_view import Unknown, unknown_keys
from fleetpulse.doctor.facts import Bounds, CertificateFacts, DatabaseFacts, KafkaFacts
from fleetpulse.doctor.finding import Finding, Report, good, wrong
from fleetpulse.doctor.judge_database import judge_database
from fleetpulse.doctor.judge_host import judge_certificates, judge_host
from fleetpulse.doctor.judge_kafka import judge_kafka
from fleetpulse.doctor.look_certificates import look_at_certificates
from fleetpulse.doctor.look_database import look_at_database
from fleetpulse.doctor.look_host import look_at_host
from fleetpulse.doctor.look_kafka import look_at_kafka
from fleetpulse.migrate.table_plan import Wanted
from fleetpulse.migrate.tables import wanted
from runtime.clock import Clock, SystemClock
from runtime.config import ClickHouseConfig, Config, file_with_secrets, layers, load, secret_files
from runtime.proxy_config import can_be_guessed
from schemas.contract.topics import (
    ALERT_COMMANDS,
    ALERTS_TOPIC,
    BOOKS_TOPIC,
    COSTS_TOPIC,
    REJECTED_TOPIC,
    SOURCE_TOPICS,
    TOPICS,
    WINDOW_FINALS,
    WINDOW_PARTIALS,
    Topic,
)
from schemas.errors import ConfigError, StackError, without_credentials
from schemas.rows.finals import PASSED_ON_TOPICS
from stream_jobs.budgets.load import load as load_budgets
from stream_jobs.prices.load import load as load_prices
from stream_jobs.rules.load import load_set as load_rules

_SOURCES = tuple(topic.name for topic in SOURCE_TOPICS)
READS: Mapping[str, tuple[str, ...]] = {
    "windows": _SOURCES,
    "finals": (WINDOW_PARTIALS, *PASSED_ON_TOPICS, ALERT_COMMANDS, COSTS_TOPIC),
    "alerts": (WINDOW_FINALS,),
    "costs": (WINDOW_PARTIALS,),
    "sink": (WINDOW_PARTIALS, BOOKS_TOPIC, REJECTED_TOPIC, ALERTS_TOPIC, ALERT_COMMANDS, COSTS_TOPIC),
    "raw": _SOURCES,
    "deliver": (ALERTS_TOPIC,),
}
"""Topics by who reads them; the group's name is the deployment's, a dash, and this."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is examined beside the configuration; tests put broken things here."""

    topics: Sequence[Topic] = TOPICS
    reads: Mapping[str, Sequence[str]] = field(default_factory=lambda: READS)
    clock: Clock = field(default_factory=SystemClock)
    wanted: Wanted | None = None
    """Of the database. None: what this version needs under the configuration's limits."""
    secret_files: tuple[Path, ...] = ()
    """That only their owner may read."""
    copies: tuple[ClickHouseConfig, ...] = ()
    """More servers that hold the same tables."""


def examine(
    flags: Mapping[str, object],
    environment: Mapping[str, str],
    bounds: Bounds,
    *,
    probe: bool,
    copies: Sequence[str] = (),
) -> Report:
    """Everything: first the configuration, then what it names, and ``copies``, by URL. Never raises for what is wrong
    with a set-up, but ``ConfigError`` for a URL that is none."""
    try:
        config, found = examine_config(flags, environment)
    except ConfigError as error:
        return Report(tuple(judge_config(error, ())))
    if config is None:
        return Report(found)
    subject = Subject(secret_files=_with_secrets(flags), copies=tuple(config.clickhouse.at(url) for url in copies))
    return Report((*found, *examine_world(config, bounds, subject, probe=probe)))


def _with_secrets(flags: Mapping[str, object]) -> tuple[Path, ...]:
    """The files that the configuration names for secrets, and its own where one stands in it."""
    own = file_with_secrets(flags)
    return secret_files(flags) if own is None else (*secret_files(flags), own)


def examine_config(
    flags: Mapping[str, object], environment: Mapping[str, str]
) -> tuple[Config | None, tuple[Finding, ...]]:
    """The configuration, where it holds, and findings about it. Raises ``ConfigError`` for a file that is no TOML."""
    unknown = unknown_keys(layers(flags), environment)
    try:
        config = load(flags)
    except ConfigError as error:
        return None, tuple(judge_config(error, unknown))
    secret = config.proxy.tenant_secret
    of_secret = judge_tenant_secret("" if secret is None else secret.get_secret_value())
    return config, (*judge_config(None, unknown), *of_secret, *_files(config))


def _files(config: Config) -> Iterator[Finding]:
    """Files of yours that whoever starts with them would reject."""
    read: tuple[tuple[Path | None, Callable[[Path], object], str], ...] = (
        (config.rules, load_rules, "fleetpulse rules check"),
        (config.prices, load_prices, "fleetpulse prices check"),
        (config.budgets, load_budgets, "fleetpulse budgets check"),
    )
    for path, load_file, check in read:
        if path is None:
            continue
        try:
            load_file(path)
        except ConfigError as error:
            says = f"is what processes end with: {str(error).splitlines()[0]}"
            yield wrong("config.file", str(path), says, f"{check} {shlex.quote(str(path))}")
        else:
            yield good("config.file", str(path), "is readable and valid")


def judge_config(error: ConfigError | None, unknown: Iterable[Unknown]) -> Iterator[Finding]:
    """Keys that nobody knows, and what cannot be used: ``error`` is what loading the configuration raised, which is
    about one of these keys or about something else. Pure."""
    keys = set[str]()
    for one in unknown:
        keys.add(one.key)
        yield wrong("config.key", one.name, f"is no setting ({one.place})", one.nearest or "fleetpulse config show")
    if error is not None and error.key not in keys:
        says = f"{without_credentials(repr(error.value))}: {error.bound}"
        yield wrong("config.value", error.key, says, f"fleetpulse config check   # {error.key}")
    if error is None and not keys:
        yield good("config", "settings", "all are known and within their bounds")


def judge_tenant_secret(secret: str) -> Iterator[Finding]:
    """A configured one that is long enough and can be guessed all the same. Pure."""
    if secret and can_be_guessed(secret):
        says = "can be guessed, and who has it can test names and API keys"
        mend = "openssl rand -hex 32   # set this; tenants and users get other names"
        yield wrong("config.value", "proxy.tenant_secret", says, mend)


def examine_world(config: Config, bounds: Bounds, subject: Subject, *, probe: bool) -> tuple[Finding, ...]:
    """Findings about this machine, Kafka and ClickHouse as this configuration names them."""
    groups = {f"{config.kafka.namespace}-{name}": topics for name, topics in subject.reads.items()}
    kafka, database, certificates = asyncio.run(_look(config, bounds, subject, list(groups), probe=probe))
    return (
        *_host(config, bounds, subject),
        *judge_certificates(certificates, subject.clock.now_ms() / 1_000),
        *judge_kafka(kafka, subject.topics, groups, bounds, config.limits, config.partitions),
        *judge_database(database, subject.wanted or wanted(config.limits), bounds),
    )


def _host(config: Config, bounds: Bounds, subject: Subject) -> Iterator[Finding]:
    try:
        yield from judge_host(look_at_host(config.data_dir, subject.secret_files), bounds)
    except StackError as error:
        away = shlex.join(["mv", str(config.data_dir), f"{config.data_dir}.old"])
        yield wrong("stack.file", str(config.data_dir), str(error), away)


async def _look(
    config: Config, bounds: Bounds, subject: Subject, groups: Sequence[str], *, probe: bool
) -> tuple[KafkaFacts, DatabaseFacts, tuple[CertificateFacts, ...]]:
    """Everything at once; each look ends by its own limits."""
    database = asyncio.to_thread(
        look_at_database,
        config.clickhouse,
        config.clickhouse_reader,
        subject.clock,
        within_s=bounds.within_s / 2,
        copies=subject.copies,
    )
    kafka = look_at_kafka(config.kafka, subject.topics, groups, subject.clock, within_s=bounds.within_s, probe=probe)
    certificates = asyncio.to_thread(look_at_certificates, config, within_s=bounds.within_s / 4)
    return await asyncio.gather(kafka, database, certificates)
