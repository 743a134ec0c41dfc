"""The runbook: what may be wrong with the pipeline itself, one name for each cause, and where to read what to do.

Log lines, ``/readyz``, the doctor, the pages and the Prometheus alerts all name a cause by these words, and link to the
section of docs/how-to/running.md that has them as its heading.
"""

from __future__ import annotations

from enum import StrEnum

from schemas.errors import (
    BrokenPartError,
    CertificateExpiredError,
    ConfigError,
    DiskFullError,
    FleetpulseError,
    TopicMissingError,
    UnavailableError,
)

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
    DEPLOYMENT = "Topics of another deployment"
    SETTING = "Setting rejected"
    CLOCK = "Clock off"
    REJECTED = "Records rejected"
    PRICE = "Price missing"
    SERIES = "Too many series"
    LAG = "Consumer lag grows"
    SLOW = "Kafka slow"
    DISK = "Disk full"
    PART = "ClickHouse part broken"
    SPOOL = "Spool full"
    GPU = "GPU not readable"
    CERTIFICATE = "Certificate expired"
    DELIVERY = "Alerts not delivered"

    @property
    def anchor(self) -> str:
        """The heading as an address names it."""
        return self.lower().replace(" ", "-")

    @property
    def url(self) -> str:
        """Where people read what to do; ``runbook_url`` of the configuration says where the page is."""
        return section(self.anchor)


FLEET_ALERTS = "alerts-about-the-fleet"
"""The section about what the alert job notifies of, in words as an address has them."""
QUARANTINE = "a-quarantined-partition"
"""That about partitions that stand still alone; why has names of its own there."""


def section(anchor: str) -> str:
    """Where people read this section."""
    return f"{_READ_AT[0]}#{anchor}"


def read_at(page: str) -> None:
    """From now on links of this process lead to this copy of the page."""
    _READ_AT[0] = page


def cause_of(error: BaseException) -> Cause | None:
    """The cause that an error of ours names; None where it is none of these."""
    if isinstance(error, ConfigError):
        return _REJECTED.get(error.key, Cause.SETTING if _is_setting(error.key) else None)
    if (cause := _OF_ERRORS.get(type(error))) is not None:
        return cause
    if not isinstance(error, UnavailableError):
        return None
    server = str(error).partition(" ")[0]
    return {"Kafka": Cause.KAFKA, "ClickHouse": Cause.CLICKHOUSE}.get(server)


def named(error: FleetpulseError) -> str:
    """The error's text behind the name of its cause."""
    cause, text = cause_of(error), str(error)
    return text if cause is None or text.startswith(cause) else f"{cause}: {text}"


def _is_setting(key: str) -> bool:
    """Whether it is one of the configuration, or a file that one names; an argument of a command is none."""
    return key == "file" or ("." in key and " " not in key)


_OF_ERRORS: dict[type[BaseException], Cause] = {
    TopicMissingError: Cause.TOPIC,
    DiskFullError: Cause.DISK,
    BrokenPartError: Cause.PART,
    CertificateExpiredError: Cause.CERTIFICATE,
}
_REJECTED = {
    "kafka.sasl_username": Cause.KAFKA_LOGIN,
    "kafka.sasl_mechanism": Cause.KAFKA_LOGIN,
    "kafka.deployment": Cause.DEPLOYMENT,
    "clickhouse.user": Cause.CLICKHOUSE_LOGIN,
}
