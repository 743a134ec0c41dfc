"""The login of people's SQL, and its settings profile: what one statement may use on the server.

``up``, ``deploy/make_secrets.py`` and ``migrate --reader`` write it, ``doctor`` compares the server with it. A
statement may ask for less and never for more: every limit is its own constraint.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from runtime.config import ClickHouseConfig, Config
from schemas.errors import ConfigError

PROFILE = "fleetpulse_reader"
READONLY = 2
"""Reads only; settings may be changed within their constraints."""
LIMITS: Mapping[str, int] = MappingProxyType(
    {
        "max_execution_time": 30,
        "max_memory_usage": 8 * 2**30,
        "max_memory_usage_for_user": 16 * 2**30,
        "max_rows_to_read": 2_000_000_000,
        "max_bytes_to_read": 200_000_000_000,
        "max_result_rows": 100_000_000,
        "max_concurrent_queries_for_user": 50,
    }
)
"""Seconds, bytes of a statement and of all at once, rows, bytes, rows, statements under way at once."""

OF_RESULTS = "max_result_rows"
"""To read a view over shards, a server asks the others with 0, which they raise to the least value that their profile
allows: 1 would fail every such query. So 0 itself is disallowed in a users file, which leaves what they have. SQL has
no words for that: a profile made by it has no least value here where there are shards."""

Setting = tuple[str, str | None]
"""Value and greatest value of a setting, as ``system.settings`` of the user has them."""


def login_of_people(config: Config, *, as_writer: bool = False) -> ClickHouseConfig:
    """The login that runs people's SQL. Raises ``ConfigError`` where none is configured that may only read, unless
    ``as_writer``."""
    if config.clickhouse_reader is None and config.clickhouse.unset is None and not as_writer:
        bound = (
            "must be the URL of a login that may only read: people's SQL does not run as the writer. Make a user, set "
            "clickhouse_reader.* and run `fleetpulse migrate --reader`; or say --as-writer"
        )
        raise ConfigError("clickhouse_reader.url", "", bound)
    return config.reading


def profile_xml(name: str) -> str:
    """The profile for a users file."""
    values = "".join(f"\n      <{each}>{most}</{each}>" for each, most in LIMITS.items())
    bounds = "".join(f"\n        <{each}>{_least(each)}<max>{most}</max></{each}>" for each, most in LIMITS.items())
    return (
        f"    <{name}>\n      <readonly>{READONLY}</readonly>{values}\n"
        f"      <constraints>{bounds}\n      </constraints>\n    </{name}>"
    )


def _least(name: str) -> str:
    return "<disallowed>0</disallowed>" if name == OF_RESULTS else "<min>1</min>"


def statements(user: str, database: str, *, sharded: bool = False) -> tuple[str, ...]:
    """SQL that gives ``user`` the profile and, in place of its rights, those to read ``database`` alone; both at once,
    as a user without rights would fail meanwhile. Needs the right ACCESS MANAGEMENT."""
    limits = ", ".join(
        f"{name} = {most}{'' if sharded and name == OF_RESULTS else ' MIN 1'} MAX {most}"
        for name, most in LIMITS.items()
    )
    return (
        f"CREATE SETTINGS PROFILE OR REPLACE {PROFILE} SETTINGS readonly = {READONLY}, {limits}",
        f"ALTER USER {_quoted(user)} SETTINGS PROFILE '{PROFILE}'",
        f"GRANT SELECT, dictGet, SHOW ON {_quoted(database)}.* TO {_quoted(user)} WITH REPLACE OPTION",
    )


def unlimited(found: Mapping[str, Setting]) -> list[str]:
    """Limits that a user has not, or that a statement may lift."""
    return [name for name in LIMITS if not _bounded(*found.get(name, ("0", None)))]


def _bounded(value: str, most: str | None) -> bool:
    return value.isdigit() and int(value) > 0 and most is not None and most.isdigit() and int(most) > 0


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace("`", "\\`")
    return f"`{escaped}`"
