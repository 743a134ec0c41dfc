"""Why Kafka lets nobody in. aiokafka tells every failure to connect as one and the same; asked again by hand, one
connection at a time, it shows the cause."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka.conn import collect_hosts, create_conn
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

from runtime.config import KafkaConfig
from runtime.tls import alert_of, untrusted
from schemas.errors import ConfigError, ContractError, FleetpulseError, UnavailableError

WITHIN_S = 5.0
"""For each address."""
_SWALLOWED = "Unable to bootstrap"
"""What aiokafka says whatever the cause was."""
_TLS_ALERT = b"\x15\x03"
"""How the answer of a server begins that wanted TLS and got something else."""
_NO_RIGHT = (
    TopicAuthorizationFailedError,
    GroupAuthorizationFailedError,
    ClusterAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)


async def explained(
    kafka: KafkaConfig, error: BaseException, what: str = "does not answer as it should"
) -> FleetpulseError:
    """``error`` of a client of this Kafka as what the caller can do about it: ``ConfigError`` where it is a setting
    (login, authority, name, protocol, rights), else ``UnavailableError`` that it does not do ``what``. Connects again
    where the error ``is_untold``."""
    if isinstance(error, _NO_RIGHT):
        return no_right(kafka, str(error))
    refused = await why_refused(kafka) if is_untold(error) else None
    hint = "" if kafka.security_protocol == "PLAINTEXT" else f", and listen for {kafka.security_protocol}"
    return refused or UnavailableError(
        f"Kafka at {kafka.bootstrap} {what} ({error!r}); does it run{hint}? See `fleetpulse doctor`"
    )


def no_right(kafka: KafkaConfig, said: str) -> ConfigError:
    """That the brokers know us and forbid what we need."""
    user = kafka.sasl_username or "the certificate's subject"
    return ConfigError("kafka.sasl_username", user, f"must have the rights that docs/operations.md lists ({said})")


def untold_settings(topic: str, said: str) -> ContractError:
    """That a topic may be as the contract says, and nobody lets us see whether it is."""
    return ContractError(f"settings of topic {topic} cannot be read ({said}): the login needs DescribeConfigs")


async def demand_entry(kafka: KafkaConfig) -> None:
    """Raise ``ConfigError`` where the brokers turn us away; return where one lets us in, or nobody answers."""
    if isinstance(refused := await why_refused(kafka), ConfigError):
        raise refused


def is_untold(error: BaseException) -> bool:
    """Whether aiokafka has swallowed what really happened."""
    return isinstance(error, KafkaConnectionError) and _SWALLOWED in str(error)


async def why_refused(kafka: KafkaConfig) -> FleetpulseError | None:
    """What to change so that a broker lets us in; None where one does, or where none says anything definite."""
    found = None
    for host, port, _family in collect_hosts(kafka.bootstrap):
        error = await _tried(kafka, host, port)
        if error is None:
            return None
        found = found or told(kafka, f"{host}:{port}", error)
    return found


async def _tried(kafka: KafkaConfig, host: str, port: int) -> Exception | None:
    """The error of one connection, login included; None when there is none."""
    settings = kafka.client_settings()
    del settings["bootstrap_servers"]
    try:
        async with asyncio.timeout(WITHIN_S):
            connection = await create_conn(host, port, **settings)
    except (OSError, KafkaError, TimeoutError) as error:
        return error
    connection.close()
    return None


def told(kafka: KafkaConfig, at: str, error: Exception) -> FleetpulseError | None:
    """A connection's error as what to change; None where it may be the network's. Pure."""
    if isinstance(error, SaslAuthenticationFailed):
        bound = f"must be a login that {at} takes, with its sasl_password ({error.args[0]})"
        return ConfigError("kafka.sasl_username", kafka.sasl_username, bound)
    if isinstance(error, UnsupportedSaslMechanismError):
        return ConfigError("kafka.sasl_mechanism", kafka.sasl_mechanism, f"must be one that {at} offers")
    if isinstance(error, IllegalSaslStateError):
        return _protocol(kafka, f"{at}, which asks for no login by password")
    if _wanted_tls(error):
        return _protocol(kafka, f"{at}, which speaks TLS alone: SSL or SASL_SSL")
    if (alert := alert_of(error)) is not None:
        shown = None if kafka.ssl_certfile is None else str(kafka.ssl_certfile)
        return ConfigError("kafka.ssl_certfile", shown, f"must be a certificate that {at} takes (it says: {alert})")
    return untrusted(error, "kafka.bootstrap", at, "kafka.ssl_cafile", kafka.ssl_cafile)


def _protocol(kafka: KafkaConfig, speaks: str) -> ConfigError:
    return ConfigError("kafka.security_protocol", kafka.security_protocol, f"must be that of {speaks}")


def _wanted_tls(error: Exception) -> bool:
    """Whether what was taken for the length of an answer is the beginning of a TLS alert."""
    cause: Any = error.__cause__
    if not isinstance(cause, asyncio.IncompleteReadError) or cause.expected is None:
        return False
    return cause.expected.to_bytes(8, "big")[-4:].startswith(_TLS_ALERT)
