"""Settings that all clients of Kafka share, and what an error of a connection says that somebody must change. The
connections themselves are made in tests/integration/test_secured.py."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiokafka.client
import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import (
    IllegalSaslStateError,
    KafkaConnectionError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)
from pydantic import SecretStr, ValidationError

from runtime import kafka_clients
from runtime.config import KafkaConfig
from runtime.counters import COUNTERS
from runtime.health import Readiness
from runtime.kafka_clients import (
    cause_of,
    explained,
    has_no_cause,
    make_admin,
    make_consumer,
    make_producer,
    open_consumer,
    started,
    static_member,
    stop_client,
    why_rejected,
)
from runtime.runbook import Cause
from runtime.topic_prefix import on_wire
from schemas.errors import ConfigError, UnavailableError

AT = "broker:9093"
PASSWORD = "hush-hush"
KAFKA = KafkaConfig(
    bootstrap=AT,
    security_protocol="SASL_SSL",
    sasl_username="me",
    sasl_password=SecretStr(PASSWORD),
    ssl_cafile="ca.pem",
)


def closed(cause: BaseException) -> KafkaConnectionError:
    """As aiokafka reports that a connection broke."""
    error = KafkaConnectionError(f"Connection at {AT} closed")
    error.__cause__ = cause
    return error


ALERT = ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required (_ssl.c:1)")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        pytest.param(
            SaslAuthenticationFailed("invalid credentials"),
            "kafka.sasl_username = 'me': must be a login that broker:9093 accepts, with its sasl_password (invalid",
            id="a wrong password",
        ),
        pytest.param(UnsupportedSaslMechanismError("x"), "kafka.sasl_mechanism = 'SCRAM-SHA-512'", id="the mechanism"),
        pytest.param(IllegalSaslStateError("x"), "which takes no login by password", id="no login wanted"),
        pytest.param(closed(ALERT), "kafka.ssl_certfile = None: must be a certificate that", id="no certificate"),
        pytest.param(
            closed(asyncio.IncompleteReadError(b"\x02\x02\x50", 0x15030300)),
            "kafka.security_protocol = 'SASL_SSL': must be that of broker:9093, which speaks TLS alone",
            id="a TLS alert read as a length",
        ),
    ],
)
def test_a_refusal_names_the_setting(error: Exception, says: str) -> None:
    """And never shows the password."""
    found = cause_of(KAFKA, AT, error)

    assert isinstance(found, ConfigError)
    assert says in str(found)
    assert PASSWORD not in str(found)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ConnectionRefusedError(111, "refused"), id="nobody listens"),
        pytest.param(TimeoutError(), id="nobody answers"),
        pytest.param(closed(asyncio.IncompleteReadError(b"", 4)), id="it hung up"),
        pytest.param(closed(asyncio.IncompleteReadError(b"", None)), id="it hung up before a length"),
        pytest.param(closed(OSError("reset")), id="it broke off"),
    ],
)
def test_what_may_be_the_network_is_no_refusal(error: Exception) -> None:
    """Trying again may help."""
    assert cause_of(KAFKA, AT, error) is None


async def test_missing_rights_are_a_setting() -> None:
    """The login is known: its rights are not enough."""
    found = await explained(KAFKA, TopicAuthorizationFailedError("books"))

    assert isinstance(found, ConfigError)
    assert "kafka.sasl_username = 'me': must have the rights in docs/how-to/operations.md" in str(found)


async def test_another_error_is_shown_as_it_is_without_connecting_again() -> None:
    """With what the brokers have to listen for, where that is not the usual."""
    found = await explained(KAFKA, KafkaConnectionError("gone"), "does not list")

    assert isinstance(found, UnavailableError)
    assert str(found).startswith("Kafka at broker:9093 does not list (KafkaConnectionError('gone')); does it run, and")
    assert "listen for SASL_SSL" in str(found)
    assert "listen" not in str(await explained(KafkaConfig(), TimeoutError()))


def test_only_a_failed_first_connection_hides_its_cause() -> None:
    """That is when another connection has to be made."""
    assert has_no_cause(KafkaConnectionError("Unable to bootstrap from [('broker', 9093)]"))
    assert not has_no_cause(KafkaConnectionError("Connection at broker:9093 closed"))
    assert not has_no_cause(OSError("Unable to bootstrap"))


@pytest.mark.parametrize("missing", ["ca.pem", "certificate.pem"])
def test_a_file_that_is_missing_is_named(tmp_path: Path, missing: str) -> None:
    """Before anybody connects."""
    field = "ssl_cafile" if missing == "ca.pem" else "ssl_certfile"

    with pytest.raises(ConfigError, match="must be readable PEM files") as caught:
        KafkaConfig(security_protocol="SSL", **{field: tmp_path / missing}).client_settings()

    assert str(tmp_path / missing) in str(caught.value)


async def test_clients_share_security_name_and_guarantees() -> None:
    """What a caller passes is put in place of ours."""
    kafka = KAFKA.model_copy(update={"security_protocol": "SASL_PLAINTEXT", "request_timeout_ms": 7_000})
    consumer, admin = make_consumer(kafka, "t", group="g", auto_offset_reset="none"), make_admin(kafka)
    idempotent, producer = make_producer(kafka), make_producer(kafka, acks=1, enable_idempotence=False)

    clients = [consumer._client, producer.client, idempotent.client, admin._client]
    assert {(one._client_id, one._request_timeout_ms, one._sasl_plain_username) for one in clients} == {
        ("fleetpulse-local", 7_000, "me")
    }
    assert (consumer._isolation_level, consumer._enable_auto_commit, consumer._auto_offset_reset) == (
        "read_committed",
        False,
        "none",
    )
    assert (consumer._group_id, consumer._session_timeout_ms, consumer._heartbeat_interval_ms) == ("g", 10_000, 2_000)
    assert (idempotent._sender._acks, producer._sender._acks, idempotent._txn_manager is None) == (-1, 1, False)
    await asyncio.gather(consumer.stop(), idempotent.stop(), producer.stop())


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """No broker is there."""

    async def refuse(_: AIOKafkaClient) -> None:
        raise KafkaConnectionError(f"Connection at {AT} refused")

    monkeypatch.setattr(AIOKafkaClient, "bootstrap", refuse)


@pytest.mark.usefixtures("nobody")
@pytest.mark.parametrize("make", [make_consumer, make_producer, make_admin])
async def test_a_client_that_cannot_start_is_closed(
    make: Callable[[KafkaConfig], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connections too, which aiokafka's admin client would leave open."""
    closed_clients: list[AIOKafkaClient] = []
    close = AIOKafkaClient.close

    async def closing(client: AIOKafkaClient) -> None:
        closed_clients.append(client)
        await close(client)

    monkeypatch.setattr(AIOKafkaClient, "close", closing)
    with pytest.raises(KafkaConnectionError):
        async with started(make(KafkaConfig(bootstrap=AT))):
            pass

    assert len(closed_clients) == 1


class Slipping:
    """A client that at one point lets a CancelledError of its own tasks slip, as aiokafka does."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.stopped = False

    async def start(self) -> None:
        await self.at("start")

    async def at(self, point: str) -> None:
        await asyncio.sleep(0)
        if point == self._where:
            raise asyncio.CancelledError

    async def stop(self) -> None:
        self.stopped = True
        await self.at("stop")


@pytest.mark.parametrize("where", ["start", "block"])
async def test_what_a_client_cancels_itself_is_an_error_of_kafka(where: str) -> None:
    """Who runs it is not asked to end, and can say why it does."""
    client = Slipping(where)

    with pytest.raises(KafkaConnectionError, match="cancelled from within"):
        async with started(client):
            await client.at("block")

    assert client.stopped


async def test_a_client_that_cancels_itself_while_it_stops_changes_nothing() -> None:
    """What was done with it was done."""
    client = Slipping("stop")

    async with started(client):
        pass

    assert client.stopped


@pytest.mark.parametrize("where", ["nowhere", "stop"])
async def test_who_is_asked_to_end_ends_and_his_client_is_stopped(where: str) -> None:
    """Also when the loop ends in the same moment, and with it every task that has not begun."""
    client, within = Slipping(where), asyncio.Event()

    async def run() -> None:
        async with started(client):
            within.set()
            await asyncio.Event().wait()

    running = asyncio.create_task(run())
    await within.wait()
    before = asyncio.all_tasks()
    running.cancel()
    await asyncio.sleep(0)
    for task in asyncio.all_tasks() - before | {running}:
        task.cancel()
    await asyncio.wait({running})

    assert (running.cancelled(), client.stopped) == (True, True)


async def test_following_goes_on_after_a_client_that_cancelled_itself(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It would end whoever follows, without a word."""
    monkeypatch.setattr(kafka_clients, "FOLLOW_EVERY_S", 0.001)
    stop, readiness, asked = asyncio.Event(), Readiness(), list[str]()

    class Admin(Slipping):
        async def describe_cluster(self) -> None:
            asked.append("cluster")
            if len(asked) == 2:
                stop.set()
                return
            await self.at("describe")

    async def why(_kafka: KafkaConfig, error: BaseException) -> UnavailableError:
        return UnavailableError(str(error))

    monkeypatch.setattr(kafka_clients, "make_admin", lambda _kafka: Admin("describe"))
    monkeypatch.setattr(kafka_clients, "explained", why)

    await kafka_clients.follow(KafkaConfig(), stop, readiness)

    assert (len(asked), readiness.why()) == (2, None)
    (line,) = [one for one in caplog.records if one.levelname == "WARNING"]
    assert "cancelled from within" in line.__dict__["error"]


@pytest.mark.usefixtures("nobody")
async def test_an_error_within_an_opened_client_says_what_failed() -> None:
    """And where."""
    with pytest.raises(UnavailableError, match=r"Kafka at broker:9093 does not list .* does it run\?"):
        async with open_consumer(KafkaConfig(bootstrap=AT), failed="does not list"):
            pass


async def test_files_that_are_gone_are_what_to_change(tmp_path: Path) -> None:
    """No connection is made, and the error is returned, not raised."""
    gone = KAFKA.model_copy(update={"ssl_cafile": tmp_path / "ca.pem"})

    assert isinstance(why := await why_rejected(gone), ConfigError)
    assert "kafka.ssl_*" in str(why)
    assert "ca.pem" in str(why)


def test_a_member_comes_back_under_its_name_until_its_topics_grow() -> None:
    """The brokers keep the assignment of a name that comes back, so a grown topic needs a name of its own."""
    assert static_member("worker-0", 16) == static_member("worker-0", 16)
    assert static_member("worker-0", 16) != static_member("worker-0", 20)
    assert static_member("worker-1", 16) != static_member("worker-0", 16)
    assert static_member(None, 16) is None


def test_a_prefix_is_the_clients_alone() -> None:
    """Without one the clients are those of aiokafka; with one groups and transactional ids begin with it too."""
    plain, blue = KafkaConfig(bootstrap=AT), KafkaConfig(bootstrap=AT, deployment="blue", topic_prefix="blue.")

    async def made(kafka: KafkaConfig) -> list[str]:
        consumer, producer, admin = make_consumer(kafka), make_producer(kafka), make_admin(kafka)
        names = [on_wire(client, "llm.requests") for client in (consumer, producer, admin)]
        await consumer.stop()
        await producer.stop()
        return names

    assert asyncio.run(made(plain)) == ["llm.requests"] * 3
    assert asyncio.run(made(blue)) == ["blue.llm.requests"] * 3
    assert (plain.namespace, blue.namespace) == ("local", "blue.blue")


@pytest.mark.parametrize("prefix", ["blue/", "blue*", " ", "b" * 101])
def test_a_prefix_that_no_topic_can_have_is_rejected(prefix: str) -> None:
    """Before anything is asked of a broker."""
    with pytest.raises(ValidationError, match="topic_prefix"):
        KafkaConfig(topic_prefix=prefix)


class Admin:
    """A client of brokers that are away for the first two times; ``stop`` is set once they answer."""

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop
        self.said: list[tuple[str | None, float]] = []
        self.readiness = Readiness()

    async def start(self) -> None:
        self.said.append((self.readiness.why(), COUNTERS.value("cause", cause=Cause.KAFKA)))
        if len(self.said) <= 2:
            raise KafkaConnectionError("nobody listens")

    async def describe_cluster(self) -> None:
        self._stop.set()

    async def stop(self) -> None:
        """Nothing is open."""


async def test_brokers_that_are_gone_are_named_though_consumers_raise_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In /readyz and /metrics as long as it lasts, in the log once; and no more when one answers again."""
    stop = asyncio.Event()
    admin = Admin(stop)
    monkeypatch.setattr(kafka_clients, "make_admin", lambda _kafka: admin)
    monkeypatch.setattr(kafka_clients, "FOLLOW_EVERY_S", 0.001)

    await kafka_clients.follow(KafkaConfig(), stop, admin.readiness)

    (first, *others) = admin.said
    assert first == (None, 0)
    assert len(others) == 2
    assert all(why is not None and why.startswith("Kafka unavailable: ") and counted for why, counted in others)
    assert (admin.readiness.why(), COUNTERS.value("cause", cause=Cause.KAFKA)) == (None, 0)
    (line,) = caplog.records
    assert (line.getMessage(), line.__dict__["cause"]) == (
        "server unavailable, retrying; offsets are not committed",
        Cause.KAFKA,
    )


async def test_a_file_that_cannot_be_read_for_a_while_does_not_end_a_running_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is named until it is back."""
    stop = asyncio.Event()
    admin = Admin(stop)
    admin.said = [(None, 0), (None, 0)]  # its brokers answer
    unreadable = ConfigError("kafka.ssl_*", "ca.pem", "must be readable PEM files")
    errors, seen = [unreadable], []

    def make(_kafka: KafkaConfig) -> Admin:
        seen.append(admin.readiness.why())
        if errors:
            raise errors.pop()
        return admin

    monkeypatch.setattr(kafka_clients, "make_admin", make)
    monkeypatch.setattr(kafka_clients, "FOLLOW_EVERY_S", 0.001)

    await kafka_clients.follow(KafkaConfig(), stop, admin.readiness)

    assert seen == [None, f"{Cause.SETTING}: {unreadable}"]
    assert admin.readiness.why() is None


async def test_a_dead_broker_of_several_is_no_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one gives no answer, the next is asked before the time is over."""
    stop, asked = asyncio.Event(), []

    async def connect(_host: str, port: int, *, request_timeout_ms: int, **_: Any) -> None:
        asked.append(port)
        await asyncio.sleep(request_timeout_ms / 1_000)
        raise TimeoutError

    async def once(_kafka: KafkaConfig, _error: BaseException) -> UnavailableError:
        stop.set()
        return UnavailableError("Kafka does not answer")

    monkeypatch.setattr(aiokafka.client, "create_conn", connect)
    monkeypatch.setattr(kafka_clients, "explained", once)
    monkeypatch.setattr(kafka_clients, "FOLLOW_EVERY_S", 0.001)
    monkeypatch.setattr(kafka_clients, "FOLLOW_REQUEST_MS", kafka_clients.FOLLOW_REQUEST_MS / 10)
    monkeypatch.setattr(kafka_clients, "FOLLOW_WITHIN_S", kafka_clients.FOLLOW_WITHIN_S / 10)

    await kafka_clients.follow(KafkaConfig(bootstrap="127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"), stop, Readiness())

    assert sorted(asked) == [1, 2, 3]


async def test_an_error_of_ours_is_explained_already() -> None:
    """It is not wrapped in another."""
    ours = UnavailableError("Kafka at broker:9093 does not return its log ids")

    assert await explained(KAFKA, ours) is ours


async def test_a_client_that_hangs_has_ended_before_it_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes its loop some turns to cancel it: who comes back at once may close the loop before."""
    monkeypatch.setattr(kafka_clients, "STOP_WITHIN_S", 0.01)
    ended: list[bool] = []

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            ended.append(True)

    await stop_client(hang)

    assert ended == [True]
