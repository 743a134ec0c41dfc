"""The row type of shares: what it says, and how it is kept."""

from __future__ import annotations

from schemas.ddl.stored import LANDED, LOG_IDENTITY, kept_of
from schemas.events.machine_events import GPU_PROCESSES
from schemas.fields import Role
from schemas.limits import DEFAULT_LIMITS
from schemas.rows.gpu_shares import SHARES, SHARES_AMOUNTS, SHARES_KEY
from schemas.rows.tables import BY_TABLE_SCHEMA


def test_labels_are_those_of_the_process_and_counts_are_never_unknown() -> None:
    """Nothing is translated on the way; a figure that nobody told is null, never 0."""
    labels = tuple(field for field in SHARES.fields if field.role is Role.DIMENSION)
    amounts = [field for field in SHARES.fields if field.role is Role.DIFFERENCE]

    assert labels == tuple(GPU_PROCESSES.field(name) for name in SHARES_KEY)
    assert tuple(field.name for field in amounts) == SHARES_AMOUNTS
    assert [field.name for field in amounts if field.kind.optional] == ["memory_bytes", "sm_util_pct"]


def test_it_is_found_by_its_header_and_kept_as_long_as_usage() -> None:
    """A rerate needs both."""
    assert BY_TABLE_SCHEMA["gpu_shares/1"] is SHARES
    assert LANDED["gpu_shares/1"].fields == (*SHARES.fields, *LOG_IDENTITY)
    assert kept_of("gpu_shares", DEFAULT_LIMITS) == kept_of("usage", DEFAULT_LIMITS)
