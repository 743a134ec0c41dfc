"""Alerts for people: what is open (read from the compacted topic), what was, silences, and marks of deployments."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any

from aiokafka import TopicPartition

from producers.batch import Batch, batches_of, key_of
from runtime.config import KafkaConfig
from runtime.contract_record import check_deployment
from runtime.kafka_clients import open_consumer, open_producer
from schemas.codec.build import block_from_rows
from schemas.contract import alert_commands
from schemas.contract.alert_commands import Command
from schemas.contract.alerts import SEVERITIES, Alert, decode_valid
from schemas.contract.placement import place
from schemas.contract.record import Headers
from schemas.contract.topics import ALERT_COMMANDS, ALERTS_TOPIC
from schemas.errors import ConfigError, RejectedError, UnavailableError
from schemas.events.event_types import ENGINE_EVENTS

Keyed = tuple[bytes | None, bytes | None]
"""Key and value of a record."""
READ_WITHIN_S = 60.0
_FINGERPRINT = re.compile("[0-9a-f]{16}")
_QUIET_MS, _EMPTY_MAX = 1_500, 3
HISTORY = """
SELECT at_ms, transition, severity, rule, summary, fingerprint, number, opened_ms, since_ms, resolved_ms, record
FROM alerts FINAL
WHERE at_ms >= {from_ms:Int64} AND at_ms < {to_ms:Int64}
ORDER BY at_ms DESC, opened_ms DESC, fingerprint, number DESC
LIMIT {limit:UInt32}
"""


# reading


async def newest(kafka: KafkaConfig, topic: str = ALERTS_TOPIC) -> list[Alert]:
    """The newest record of every alert on the topic, those lately resolved among them."""
    return of_records(await records_of(kafka, topic))


async def records_of(kafka: KafkaConfig, topic: str = ALERTS_TOPIC) -> list[Keyed]:
    """The topic from its beginning to where it ends now. Alerts have one order, so it has one partition. Raises
    ``TimeoutError`` where the broker does not give all of it in time."""
    at = TopicPartition(topic, 0)
    await check_deployment(kafka, (topic,))
    async with asyncio.timeout(READ_WITHIN_S), open_consumer(kafka) as consumer:
        if topic not in await consumer.topics():
            raise UnavailableError(f"topic {topic} does not exist; run `fleetpulse migrate`")
        consumer.assign([at])
        await consumer.seek_to_beginning(at)
        return [pair async for pair in _to_end(consumer, at)]


async def _to_end(consumer: Any, at: TopicPartition) -> AsyncIterator[Keyed]:
    """All before the end as it is now. Markers of transactions are never given out: where the broker answers, and has
    nothing to give, none but those are left, which is likely where the end is one away. One that is silent is waited
    for."""
    end, empty = (await consumer.end_offsets([at]))[at], 0
    while (left := end - await consumer.position(at)) > 0:
        answered_ms = consumer.last_poll_timestamp(at)
        fetched = await consumer.getmany(at, timeout_ms=_QUIET_MS)
        for message in fetched.get(at, ()):
            yield message.key, message.value
        empty = 0 if fetched else empty + (consumer.last_poll_timestamp(at) != answered_ms)
        if empty >= (1 if left == 1 else _EMPTY_MAX):
            return


def of_records(records: Iterable[Keyed]) -> list[Alert]:
    """The last alert of each key, in order of opening."""
    return sorted((alert for alert, _ in newest_of(records)), key=lambda alert: (alert.opened_ms, alert.fingerprint))


def newest_of(records: Iterable[Keyed]) -> list[tuple[Alert, bytes]]:
    """The last alert of each key, and its record. What is no alert is left out; an empty value takes one away."""
    found: dict[bytes, tuple[Alert, bytes]] = {}
    for key, value in records:
        if key is not None and value is None:
            found.pop(key, None)
        elif key is not None and value is not None:
            with contextlib.suppress(RejectedError):
                found[key] = (decode_valid(value), value)
    return list(found.values())


def open_of(alerts: Iterable[Alert]) -> list[Alert]:
    """Those that are not resolved, the worst first, then the newest."""
    going_on = [alert for alert in alerts if alert.transition != "resolved"]
    return sorted(going_on, key=lambda a: (-SEVERITIES.index(a.severity), -a.opened_ms, a.fingerprint))


def find(alerts: Sequence[Alert], fingerprint: str) -> Alert:
    """The alert whose fingerprint begins like this. Raises ``ConfigError`` when none or several do."""
    found = [alert for alert in alerts if fingerprint and alert.fingerprint.startswith(fingerprint)]
    if len(found) == 1:
        return found[0]
    why = f"fits {len(found)} alerts; give more of it" if found else "is no alert; see `fleetpulse alerts`"
    raise ConfigError("FINGERPRINT", fingerprint, why)


# showing


def moment(at_ms: int | None, zone: tzinfo = UTC) -> str | None:
    """To the second: ``2026-01-31 13:00:00``; None for None."""
    return None if at_ms is None else f"{datetime.fromtimestamp(at_ms / 1_000, zone):%Y-%m-%d %H:%M:%S}"


def zoned(at_ms: int | None, zone: tzinfo = UTC) -> str | None:
    """The same with the zone as it is then: ``2026-01-31 13:00:00 CET``."""
    return None if at_ms is None else f"{datetime.fromtimestamp(at_ms / 1_000, zone):%Y-%m-%d %H:%M:%S %Z}"


def row_of(alert: Alert, now_ms: int) -> tuple[str, str, str]:
    """A row of the table of open alerts, two lines to a cell."""
    silenced = alert.muted_until_ms is not None and alert.muted_until_ms > now_ms
    return (
        f"{alert.fingerprint}\n{'silenced' if silenced else alert.severity}",
        f"{alert.summary}\n{alert.rule}" + (f", {len(alert.members)} more with it" if alert.members else ""),
        f"{moment(alert.since_ms)}",
    )


def lines_of(
    alert: Alert, touched: Mapping[str, Any] | None = None, said: Callable[[int | None], str | None] = zoned
) -> list[tuple[str, object]]:
    """Everything about an alert as (what, value), for people; ``touched`` is what the tables say of its requests.
    ``said`` writes moments."""
    lines: list[tuple[str, object]] = [
        ("alert", alert.fingerprint),
        ("state", f"{alert.transition} ({alert.severity}), record {alert.number} at {said(alert.at_ms)}"),
        ("summary", alert.summary),
        ("what to do", alert.advice or None),
        ("likely cause", alert.note or None),
        ("rule", alert.rule),
        ("where", "\n".join(f"{name} = {value}" for name, value in sorted(alert.labels.items())) or None),
        ("since", f"{said(alert.since_ms)}, opened {said(alert.opened_ms)}"),
        ("resolved", said(alert.resolved_ms)),
        ("silenced until", said(alert.muted_until_ms)),
        ("value", _values(alert)),
        ("with it", "\n".join(_member(member) for member in alert.members) or None),
    ]
    lines += [(f"evidence: {kind}", found) for kind, found in sorted(alert.evidence.items())]
    lines.append(("touched, by the tables", touched))
    return [(what, value) for what, value in lines if value is not None]


def _values(alert: Alert) -> str | None:
    if alert.value is None:
        return None
    named = (("usual", alert.baseline), ("from", alert.low), ("to", alert.high))
    others = ", ".join(f"{name} {value:,.4g}" for name, value in named if value is not None)
    return f"{alert.value:,.4g} {alert.unit}".rstrip() + (f" ({others})" if others else "")


def _member(member: Any) -> str:
    until = "goes on" if member.until_ms is None else f"until {moment(member.until_ms)}"
    return f"{member.summary or member.rule} ({member.severity}, since {moment(member.since_ms)}, {until})"


# publishing


def labels_of(words: Sequence[str]) -> dict[str, str]:
    """``LABEL=VALUE`` words as labels. Raises ``ConfigError`` for any other word, and a label with several values."""
    labels: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise ConfigError("LABEL=VALUE", word, "must be a label and its value, such as host=gpu-017")
        if labels.get(name, value) != value:
            raise ConfigError(
                "LABEL=VALUE", word, f"beside {name}={labels[name]} fits no alert: silence each by itself"
            )
        labels[name] = value
    return labels


async def with_whole_fingerprint(kafka: KafkaConfig, labels: Mapping[str, str]) -> Mapping[str, str]:
    """The labels, in place of the beginning of a ``fingerprint`` that of its alert: silences compare whole ones. Raises
    as ``find``."""
    given = labels.get("fingerprint")
    if given is None or _FINGERPRINT.fullmatch(given):
        return labels
    return {**labels, "fingerprint": find(await newest(kafka), given).fingerprint}


async def silences_of(kafka: KafkaConfig, topic: str = ALERT_COMMANDS) -> dict[str, Command]:
    """Every silence that was ever sent as a command, by its id."""
    found = {}
    for _, value in await records_of(kafka, topic):
        with contextlib.suppress(RejectedError):
            if value is not None and (command := alert_commands.decode(value)).command == "mute":
                found[command.id] = command
    return found


def checked(command: Command) -> Command:
    """The command as the job will read it. Raises ``ConfigError`` for one that it would reject."""
    try:
        return alert_commands.decode(alert_commands.encode(command))
    except RejectedError as error:
        raise ConfigError("silence", command.id, error.detail) from error


async def publish(kafka: KafkaConfig, command: Command, topic: str = ALERT_COMMANDS) -> None:
    """Put a command on its topic; acknowledged when this returns."""
    headers: Headers = (("schema", alert_commands.SCHEMA.encode()), ("content-type", b"application/json"))
    await _send(kafka, topic, 0, None, alert_commands.encode(command), headers)


def mark_batch(row: Mapping[str, Any]) -> Batch:
    """A mark as the batch of one engine event. Raises ``ConfigError`` for a value that the event cannot hold."""
    try:
        block = block_from_rows(ENGINE_EVENTS.fields, [row])
        (batch,) = batches_of(ENGINE_EVENTS, key_of(ENGINE_EVENTS, row), block)
    except RejectedError as error:
        raise ConfigError("mark", row, error.detail) from error
    return batch


async def mark(kafka: KafkaConfig, batch: Batch, partitions: Mapping[str, int]) -> None:
    """Publish a mark as a record without identity: it counts outside the guarantee, and is acknowledged by now."""
    headers: Headers = (("schema", batch.schema.encode()), ("content-type", batch.content_type.encode()))
    await _send(kafka, batch.topic, place(batch.key, partitions[batch.topic]), batch.key, batch.value, headers)


async def _send(
    kafka: KafkaConfig, topic: str, partition: int, key: bytes | None, value: bytes, headers: Headers
) -> None:
    await check_deployment(kafka, (topic,))
    async with open_producer(kafka) as producer:
        await producer.send_and_wait(topic, value, key=key, partition=partition, headers=list(headers))
