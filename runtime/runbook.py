"""The runbook: what may be wrong with the pipeline itself, one name for each cause, and where to read what to do.

Log lines, ``/readyz``, the doctor, the pages and the Prometheus alerts all name a cause by these words, and link to the
section of docs/how-to/running.md that has them as its heading.
"""

from __future__ import annotations

from enum import StrEnum

from schemas.errors import ConfigError, FleetpulseError, UnavailableError

PAGE = "docs/how-to/running.md"
_READ_AT = [PAGE]


class Cause(StrEnum):
    """The name of a cause is the heading of its section."""

    PROCESS = "Process not running"
    KAFKA = "Kafka unavailable"
    KAFKA_LOGIN = "Kafka rejected the login"
    CLICKHOUSE = "ClickHouse unavailable"
    CLICKHOUSE_LOGIN = "ClickHouse rejected the login"
    TOPIC = "Topic missing"

    @property
    def anchor(self) -> str:
        """The heading as an address names it."""
        return self.lower().replace(" ", "-")

    @property
    def url(self) -> str:
        """Where people read what to do; ``runbook_url`` of the configuration says where the page is."""
        return f"{_READ_AT[0]}#{self.anchor}"


def read_at(page: str) -> None:
    """From now on links of this process lead to this copy of the page."""
    _READ_AT[0] = page


def cause_of(error: BaseException) -> Cause | None:
    """The cause that an error of ours names; None where it is none of these."""
    if isinstance(error, ConfigError):
        return _REJECTED.get(error.key)
    if not isinstance(error, UnavailableError):
        return None
    server = str(error).partition(" ")[0]
    return {"Kafka": Cause.KAFKA, "ClickHouse": Cause.CLICKHOUSE}.get(server)


def named(error: FleetpulseError) -> str:
    """The error's text behind the name of its cause."""
    cause = cause_of(error)
    return str(error) if cause is None else f"{cause}: {error}"


_REJECTED = {
    "kafka.sasl_username": Cause.KAFKA_LOGIN,
    "kafka.sasl_mechanism": Cause.KAFKA_LOGIN,
    "clickhouse.user": Cause.CLICKHOUSE_LOGIN,
}
