"""The row type of usage: what it says, and how it is kept."""

from __future__ import annotations

from schemas.ddl.stored import LANDED, LOG_IDENTITY, kept_of
from schemas.events.event_types import LLM_REQUESTS
from schemas.fields import Role
from schemas.limits import DEFAULT_LIMITS
from schemas.rows.tables import BY_TABLE_SCHEMA
from schemas.rows.usage import USAGE, USAGE_AMOUNTS, USAGE_KEY


def test_labels_are_those_of_the_request() -> None:
    """The same names and kinds as in llm.requests, so that nothing is translated on the way."""
    labels = tuple(field for field in USAGE.fields if field.role is Role.DIMENSION)

    assert labels == tuple(LLM_REQUESTS.field(name) for name in USAGE_KEY)


def test_what_adds_is_told_and_only_requests_are_never_unknown() -> None:
    """Unknown tokens are null, never 0."""
    amounts = [field for field in USAGE.fields if field.role is Role.DIFFERENCE]

    assert tuple(field.name for field in amounts) == USAGE_AMOUNTS
    assert [field.name for field in amounts if not field.kind.optional] == ["requests"]


def test_it_is_found_by_its_header_and_landed_under_its_place_in_the_log() -> None:
    """Kept as long as the partials beside it: a rerate needs both."""
    assert BY_TABLE_SCHEMA["usage/1"] is USAGE
    assert LANDED["usage/1"].fields == (*USAGE.fields, *LOG_IDENTITY)
    assert kept_of("usage", DEFAULT_LIMITS) == kept_of("llm_requests_partials", DEFAULT_LIMITS)
