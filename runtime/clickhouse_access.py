"""Why ClickHouse lets nobody in: the login, or the certificate of its server."""

from __future__ import annotations

from runtime.config import ClickHouseConfig
from runtime.tls import untrusted
from schemas.errors import ConfigError, FleetpulseError, UnavailableError

LOGIN = {
    192: "UNKNOWN_USER",
    193: "WRONG_PASSWORD",
    194: "REQUIRED_PASSWORD",
    497: "ACCESS_DENIED",
    516: "AUTHENTICATION_FAILED",
}
"""Error codes that a change of user, password or grants mends."""


def refused(error: BaseException, config: ClickHouseConfig) -> FleetpulseError | None:
    """What to change so that the server lets us in; None where ``error`` is another.

    Keys are those of section ``clickhouse``; a reader with a login of its own has the same in ``clickhouse_reader``.
    """
    code = getattr(error, "code", None)
    if code in LOGIN:
        bound = f"must be a login that {config.url} takes ({LOGIN[code]}: {first_line(error)})"
        return ConfigError("clickhouse.user", config.user, bound)
    return untrusted(error, "clickhouse.url", config.url, "clickhouse.ca_file", config.ca_file)


def unreachable(error: BaseException, config: ClickHouseConfig) -> FleetpulseError:
    """``refused``, or that nobody answers there."""
    return refused(error, config) or UnavailableError(
        f"ClickHouse at {config.url} does not answer ({first_line(error)}); is it up? See `fleetpulse doctor`"
    )


def first_line(error: BaseException) -> str:
    """What the error says in its first line."""
    return (str(error).splitlines() or [repr(error)])[0]
