"""Clients of Kafka: the one place where they are made, and what their errors mean.

``make_*`` return clients that are not started, ``started`` runs one, ``open_*`` do both and raise errors that say what
to change. What every client shares is set here; a caller passes only what differs.

aiokafka reports every failure to connect as one and the same error, so ``explained`` connects once more by hand, one
address at a time, and finds the cause.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.conn import AIOKafkaConnection, collect_hosts
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
    UnsupportedSaslMechanismError,
)

from runtime import runbook
from runtime.config import KafkaConfig
from runtime.health import Readiness
from runtime.tls import alert_of, untrusted
from runtime.topic_prefix import PrefixedAdmin, PrefixedConsumer, PrefixedProducer
from schemas.errors import ConfigError, ContractError, FleetpulseError, UnavailableError

_log = logging.getLogger(__name__)

SESSION_TIMEOUT_MS = 10_000
"""After so long without a heartbeat a member of a group is dead and its partitions are assigned to others."""
HEARTBEAT_MS = 2_000
METADATA_MAX_AGE_MS = 30_000
"""So soon a client finds the partitions that a topic has gained."""
FOLLOW_EVERY_S, FOLLOW_WITHIN_S = 10.0, 13.0
"""So often a broker is asked whether it answers, and so long it may take."""
FOLLOW_REQUEST_MS = 4_000
"""Each address of them, so that a dead one leaves time for the next, and a slow one is not taken for dead."""
CONNECT_WITHIN_S = 5.0
"""For each address, where the cause of a failure is looked for."""
CLOSE_WITHIN_S = 1.0
"""So long a broker has to answer the end of such a connection, and a client to end whose stop is cancelled; then it is
left alone."""
STOP_WITHIN_S, _STARTED_WITHIN_S = 2.0, 2.0
FAILED = "does not answer as it should"
_NO_CAUSE = "Unable to bootstrap"
"""aiokafka's message, whatever the cause was."""
_TLS_ALERT = b"\x15\x03"
"""First bytes of the response of a server that expects TLS and received something else."""
_NO_RIGHT = (
    TopicAuthorizationFailedError,
    GroupAuthorizationFailedError,
    ClusterAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)


# Making and running clients


def make_consumer(kafka: KafkaConfig, *topics: str, group: str | None = None, **differing: Any) -> AIOKafkaConsumer:
    """A consumer that reads committed records from the earliest on and commits only explicitly. ``group``:
    None reads without a group. ``differing``: settings of aiokafka in place of ours. Raises ``ConfigError`` for
    certificates that cannot be read."""
    settings = {
        "client_id": _client_id(kafka),
        "isolation_level": "read_committed",
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "session_timeout_ms": SESSION_TIMEOUT_MS,
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "metadata_max_age_ms": METADATA_MAX_AGE_MS,
    }
    given = kafka.client_settings() | settings | differing
    if kafka.topic_prefix:
        return PrefixedConsumer(kafka.topic_prefix, *topics, group_id=group, **given)
    return AIOKafkaConsumer(*topics, group_id=group, **given)


def make_producer(kafka: KafkaConfig, **differing: Any) -> AIOKafkaProducer:
    """An idempotent producer that waits for all replicas. Arguments and errors as ``make_consumer``."""
    settings = {
        "client_id": _client_id(kafka),
        "acks": "all",
        "enable_idempotence": True,
        "metadata_max_age_ms": METADATA_MAX_AGE_MS,
    }
    given = kafka.client_settings() | settings | differing
    return PrefixedProducer(kafka.topic_prefix, **given) if kafka.topic_prefix else AIOKafkaProducer(**given)


def static_member(worker: str | None, partitions: int) -> str | None:
    """The name under which a worker joins its group (static membership), which changes as its topics grow.

    A member that returns under its name within its session keeps its partitions, and the brokers ask nobody for a new
    assignment: where it led the group, partitions gained meanwhile would have no reader until the next rebalance
    (KIP-814, which aiokafka does not have). ``partitions``: of all topics that the group reads. None: any name.
    """
    return None if worker is None else f"{worker}.{partitions}"


def make_admin(kafka: KafkaConfig) -> AIOKafkaAdminClient:
    """An admin client. Errors as ``make_consumer``."""
    given = {**kafka.client_settings(), "client_id": _client_id(kafka)}
    return PrefixedAdmin(kafka.topic_prefix, **given) if kafka.topic_prefix else AIOKafkaAdminClient(**given)


def _client_id(kafka: KafkaConfig) -> str:
    """The name by which brokers log a client and limit its rate."""
    return f"fleetpulse-{kafka.namespace}"


@contextlib.contextmanager
def slips_raised() -> Iterator[None]:
    """A ``CancelledError`` within the block that nobody asked of this task leaves as ``KafkaConnectionError``: aiokafka
    lets those of its own tasks slip now and then, and who took one for his own would end, and say nothing."""
    task = asyncio.current_task()
    asked = 0 if task is None else task.cancelling()
    try:
        yield
    except asyncio.CancelledError as error:
        if task is None or task.cancelling() > asked:
            raise
        raise KafkaConnectionError("the client was cancelled from within") from error


@contextlib.asynccontextmanager
async def started(client: Any) -> AsyncIterator[Any]:
    """The client, started; closed at the end, also one that could not start. ``slips_raised`` in the block; one at the
    end is left out."""
    try:
        with slips_raised():
            await client.start()
            yield client
    finally:
        admin = isinstance(client, AIOKafkaAdminClient)  # close() of one that could not start leaves connections open
        try:
            with slips_raised():
                await (client._client.close() if admin else client.stop())
        except KafkaConnectionError as error:
            _log.debug("a client did not stop in order", exc_info=error)


async def stop_client(stop: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Stop a client of aiokafka for what it is worth: with the broker away it may hang, and now and then it lets a
    CancelledError of its own tasks slip, which must not be taken for ours."""
    task = asyncio.create_task(stop())
    done, _ = await asyncio.wait({task}, timeout=STOP_WITHIN_S)
    if not done:
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=CLOSE_WITHIN_S)  # else its loop may be closed before it ends
    if done and not task.cancelled() and (error := task.exception()) is not None:
        _log.debug("a client did not stop in order", exc_info=error)


async def start_or_close(client: Any) -> None:
    """Start it; who is cancelled meanwhile first lets it finish, if only for a moment: a client of aiokafka that is
    cancelled while it connects leaves its connection open."""
    starting = asyncio.create_task(client.start())
    try:
        await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait({starting}, timeout=_STARTED_WITHIN_S)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        raise


@contextlib.asynccontextmanager
async def _opened(kafka: KafkaConfig, client: Any, failed: str) -> AsyncIterator[Any]:
    try:
        async with started(client):
            yield client
    except KafkaError as error:
        raise await explained(kafka, error, failed) from error


def open_consumer(
    kafka: KafkaConfig, *, failed: str = FAILED, **differing: Any
) -> contextlib.AbstractAsyncContextManager[Any]:
    """``make_consumer`` without a group, started for a block. A ``KafkaError`` within it leaves as ``explained``."""
    return _opened(kafka, make_consumer(kafka, **differing), failed)


def open_producer(
    kafka: KafkaConfig, *, failed: str = FAILED, **differing: Any
) -> contextlib.AbstractAsyncContextManager[Any]:
    """``make_producer``, as ``open_consumer``."""
    return _opened(kafka, make_producer(kafka, **differing), failed)


def open_admin(kafka: KafkaConfig) -> contextlib.AbstractAsyncContextManager[Any]:
    """``make_admin``, as ``open_consumer``."""
    return _opened(kafka, make_admin(kafka), FAILED)


async def follow(kafka: KafkaConfig, stop: asyncio.Event, readiness: Readiness) -> None:
    """Say until ``stop`` whether a broker answers: consumers whose brokers are gone retry for ever, and raise
    nothing."""
    asked = kafka.model_copy(update={"request_timeout_ms": min(kafka.request_timeout_ms, FOLLOW_REQUEST_MS)})
    while True:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), FOLLOW_EVERY_S)
            return
        try:
            async with asyncio.timeout(FOLLOW_WITHIN_S), started(make_admin(asked)) as admin:
                await admin.describe_cluster()
        except (KafkaError, OSError, TimeoutError, ConfigError) as error:  # the last: a file may be put back
            why = await explained(kafka, error)
            if not readiness.keeps("Kafka"):
                facts = {"server": "Kafka", "error": str(why), "cause": runbook.cause_of(why)}
                _log.warning("server unavailable, retrying; offsets are not committed", extra=facts)
            readiness.hold("Kafka", runbook.named(why), runbook.cause_of(why))
        else:
            readiness.release("Kafka")


# What errors mean


async def explained(kafka: KafkaConfig, error: BaseException, failed: str = FAILED) -> FleetpulseError:
    """``error`` of a client of this Kafka as what the caller can do about it: ``ConfigError`` where a setting is wrong
    (login, authority, name, protocol, rights), else ``UnavailableError``, in which Kafka ``failed``. Connects again
    where the error ``has_no_cause``; an error of ours says it already."""
    if isinstance(error, FleetpulseError):
        return error
    if isinstance(error, _NO_RIGHT):
        return no_right(kafka, str(error))
    rejected = await why_rejected(kafka) if has_no_cause(error) else None
    hint = "" if kafka.security_protocol == "PLAINTEXT" else f", and listen for {kafka.security_protocol}"
    return rejected or UnavailableError(
        f"Kafka at {kafka.bootstrap} {failed} ({error!r}); does it run{hint}? See `fleetpulse doctor`"
    )


def no_right(kafka: KafkaConfig, detail: str) -> ConfigError:
    """The brokers accept our login and forbid what we need."""
    user = kafka.sasl_username or "the certificate's subject"
    return ConfigError("kafka.sasl_username", user, f"must have the rights in docs/how-to/operations.md ({detail})")


def settings_unreadable(topic: str, detail: str) -> ContractError:
    """A topic may be as the contract requires, but its settings cannot be read."""
    return ContractError(f"settings of topic {topic} cannot be read ({detail}): the login needs DescribeConfigs")


async def check_login(kafka: KafkaConfig) -> None:
    """Raise ``ConfigError`` where the brokers reject us; return where one accepts us, or none responds."""
    if isinstance(rejected := await why_rejected(kafka), ConfigError):
        raise rejected


def has_no_cause(error: BaseException) -> bool:
    """Whether aiokafka has dropped the cause of this error."""
    return isinstance(error, KafkaConnectionError) and _NO_CAUSE in str(error)


async def why_rejected(kafka: KafkaConfig) -> FleetpulseError | None:
    """What to change so that a broker accepts us; None where one does, or where none gives a definite reason."""
    try:
        settings = kafka.client_settings()
    except ConfigError as unreadable:
        return unreadable
    del settings["bootstrap_servers"]
    found = None
    for host, port, _family in collect_hosts(kafka.bootstrap):
        error = await _connection_error(settings, host, port)
        if error is None:
            return None
        found = found or cause_of(kafka, f"{host}:{port}", error)
    return found


async def _connection_error(settings: dict[str, Any], host: str, port: int) -> Exception | None:
    """The error of one connection, login included; None when there is none."""
    closed: list[bool] = []  # whether there was anything to close
    connection = AIOKafkaConnection(host, port, **settings, on_close=lambda *_why: closed.append(True))
    error = None
    try:
        async with asyncio.timeout(CONNECT_WITHIN_S):
            await connection.connect()
    except (OSError, KafkaError, TimeoutError) as failed:
        error = failed
    ended = connection.close()
    if closed:
        await asyncio.wait([ended], timeout=CLOSE_WITHIN_S)
    return error


def cause_of(kafka: KafkaConfig, at: str, error: Exception) -> FleetpulseError | None:
    """A connection's error as what to change; None where it may be the network's. Pure."""
    if isinstance(error, SaslAuthenticationFailed):
        bound = f"must be a login that {at} accepts, with its sasl_password ({error.args[0]})"
        return ConfigError("kafka.sasl_username", kafka.sasl_username, bound)
    if isinstance(error, UnsupportedSaslMechanismError):
        return ConfigError("kafka.sasl_mechanism", kafka.sasl_mechanism, f"must be one that {at} offers")
    if isinstance(error, IllegalSaslStateError):
        return _protocol(kafka, f"{at}, which takes no login by password")
    if _expected_tls(error):
        return _protocol(kafka, f"{at}, which speaks TLS alone: SSL or SASL_SSL")
    if (alert := alert_of(error)) is not None:
        shown = None if kafka.ssl_certfile is None else str(kafka.ssl_certfile)
        return ConfigError("kafka.ssl_certfile", shown, f"must be a certificate that {at} accepts (its alert: {alert})")
    return untrusted(error, "kafka.bootstrap", at, "kafka.ssl_cafile", kafka.ssl_cafile)


def _protocol(kafka: KafkaConfig, speaks: str) -> ConfigError:
    return ConfigError("kafka.security_protocol", kafka.security_protocol, f"must be that of {speaks}")


def _expected_tls(error: Exception) -> bool:
    """Whether what was taken for the length of a response is the beginning of a TLS alert."""
    cause: Any = error.__cause__
    if not isinstance(cause, asyncio.IncompleteReadError) or cause.expected is None:
        return False
    return cause.expected.to_bytes(8, "big")[-4:].startswith(_TLS_ALERT)
