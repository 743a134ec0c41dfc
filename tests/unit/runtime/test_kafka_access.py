"""What an error of a connection to Kafka says that somebody must change. The connections themselves are made in
tests/integration/test_secured.py."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
from aiokafka.errors import (
    IllegalSaslStateError,
    KafkaConnectionError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)
from pydantic import SecretStr

from runtime.config import KafkaConfig
from runtime.kafka_access import explained, is_untold, told
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
    """As aiokafka tells that a connection broke."""
    error = KafkaConnectionError(f"Connection at {AT} closed")
    error.__cause__ = cause
    return error


ALERT = ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required (_ssl.c:1)")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        pytest.param(
            SaslAuthenticationFailed("invalid credentials"),
            "kafka.sasl_username = 'me': must be a login that broker:9093 takes, with its sasl_password (invalid cred",
            id="a wrong password",
        ),
        pytest.param(UnsupportedSaslMechanismError("x"), "kafka.sasl_mechanism = 'SCRAM-SHA-512'", id="the mechanism"),
        pytest.param(IllegalSaslStateError("x"), "which asks for no login by password", id="no login wanted"),
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
    found = told(KAFKA, AT, error)

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
    assert told(KAFKA, AT, error) is None


async def test_missing_rights_are_a_setting() -> None:
    """The login is known: its rights are not enough."""
    found = await explained(KAFKA, TopicAuthorizationFailedError("books"))

    assert isinstance(found, ConfigError)
    assert "kafka.sasl_username = 'me': must have the rights that docs/operations.md lists" in str(found)


async def test_another_error_is_told_as_it_is_without_asking_again() -> None:
    """With what the brokers have to listen for, where that is not the usual."""
    found = await explained(KAFKA, KafkaConnectionError("gone"), "does not tell")

    assert isinstance(found, UnavailableError)
    assert str(found).startswith("Kafka at broker:9093 does not tell (KafkaConnectionError('gone')); does it run, and")
    assert "listen for SASL_SSL" in str(found)
    assert "listen" not in str(await explained(KafkaConfig(), TimeoutError()))


def test_only_a_failed_first_connection_hides_its_cause() -> None:
    """That is what has to be asked again."""
    assert is_untold(KafkaConnectionError("Unable to bootstrap from [('broker', 9093)]"))
    assert not is_untold(KafkaConnectionError("Connection at broker:9093 closed"))
    assert not is_untold(OSError("Unable to bootstrap"))


@pytest.mark.parametrize("missing", ["ca.pem", "certificate.pem"])
def test_a_file_that_is_missing_is_named(tmp_path: Path, missing: str) -> None:
    """Before anybody connects."""
    field = "ssl_cafile" if missing == "ca.pem" else "ssl_certfile"

    with pytest.raises(ConfigError, match="must be readable PEM files") as caught:
        KafkaConfig(security_protocol="SSL", **{field: tmp_path / missing}).client_settings()

    assert str(tmp_path / missing) in str(caught.value)
