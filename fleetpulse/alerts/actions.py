"""What people do to stored results is recorded before it is done: who, and the command line.

The records stand on topic ``alert.commands`` beside the silences, kept for ever, with the broker's time; the sink lands
them in table ``actions``. A command that cannot be recorded does not begin.
"""

from __future__ import annotations

import asyncio
import getpass
import secrets
import socket
from collections.abc import Mapping

from fleetpulse.alerts.view import checked, publish
from runtime.config import KafkaConfig
from schemas.contract.alert_commands import TEXT_CHARS_MAX, Command
from schemas.errors import without_credentials


def who() -> str:
    """User and host of whoever sits here, as far as the system knows."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = ""
    return f"{user}@{socket.gethostname()}"[:TEXT_CHARS_MAX]


def run_of(command: str, options: Mapping[str, object]) -> Command:
    """The record of a run; options that were not given, None, are left out, and so are credentials of an address."""
    given = ((name, str(value)) for name, value in options.items() if value is not None)
    text = " ".join((command, *(f"{name} {without_credentials(value)}" for name, value in given)))
    return checked(Command("ran", f"r-{secrets.token_hex(4)}", reason=text[:TEXT_CHARS_MAX], by=who()))


def record_run(kafka: KafkaConfig, command: str, options: Mapping[str, object]) -> None:
    """Record that this command begins; acknowledged when this returns. Raises ``FleetpulseError`` where Kafka does not
    answer or the login may not write."""
    asyncio.run(publish(kafka, run_of(command, options)))
