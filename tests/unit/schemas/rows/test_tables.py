"""Tables of single rows: exemplars and the history of alerts."""

from __future__ import annotations

from schemas.contract.alerts import SCHEMA
from schemas.ddl.stored import LANDED, kept_of
from schemas.events.event_types import LLM_REQUESTS
from schemas.limits import DEFAULT_LIMITS
from schemas.rows.tables import ALERT_HISTORY, BY_TABLE_SCHEMA, EXEMPLAR_METRICS, EXEMPLARS, EXEMPLARS_MAX


def test_an_exemplar_says_of_a_request_what_its_event_says() -> None:
    """The same names and kinds as in llm.requests, so that nothing is translated on the way."""
    event = {field.name: field for field in LLM_REQUESTS.fields}

    own = [field.name for field in EXEMPLARS.fields if event.get(field.name) != field]

    assert own == ["window_ms", "value_us", "metric"]


def test_every_metric_of_exemplars_has_a_limit() -> None:
    """None is kept without bound."""
    assert tuple(EXEMPLARS_MAX) == EXEMPLAR_METRICS
    assert sum(EXEMPLARS_MAX.values()) == 8


def test_rows_of_alerts_are_not_the_records_of_the_topic() -> None:
    """The topic carries JSON under its own schema; who reads by schema must not take it for a block."""
    assert SCHEMA not in BY_TABLE_SCHEMA
    assert BY_TABLE_SCHEMA[ALERT_HISTORY.schema] is ALERT_HISTORY


def test_both_are_landed_under_their_place_in_the_log_and_kept_for_their_time() -> None:
    """Exemplars go with the raw requests they point at; alerts stay as long as rollups."""
    for table in (EXEMPLARS, ALERT_HISTORY):
        names = [field.name for field in LANDED[table.schema].fields]
        assert names[-4:] == ["log_id", "log_partition", "log_offset", "log_row"]
    assert kept_of("exemplars", DEFAULT_LIMITS) == ("window_ms", DEFAULT_LIMITS.raw_ttl_ms)
    assert kept_of("alerts", DEFAULT_LIMITS) == ("at_ms", DEFAULT_LIMITS.rollup_ttl_ms)
