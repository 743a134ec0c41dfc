"""Records of ``window.finals``: their schemas and headers.

Four kinds stand in its one partition, each written in the transaction of the source partition it comes from:

- *finals*, schema ``llm_requests_finals/1`` and so on: one Native block with the fields of ``tables.PARTIALS``,
  rows of one window, one per grouping set and series, merged over all that one partition of ``window.partials`` (the
  *upstream*) held. Exemplars, schema ``exemplars/1``, have the same headers. A value-less record of schema
  ``finals_progress/1`` only carries ``through``, or says in ``window`` what was lost;
- *passed on*, schema ``gpu.events/1`` or ``engine.events/1``: one Native block of the accepted events of one source
  record, re-sends left out;
- *commands*, schema ``alert.commands/1``: the JSON as it was sent;
- *spend*, schema ``spend/1``: one Native block, by how much bills of topic ``costs`` changed (``schemas.rows.spend``).

====================  =================================================================================
header                meaning
====================  =================================================================================
``schema``            what the value is
``content-type``      Native, or JSON of commands
``upstream``          finals: partition of ``window.partials``
``window``            finals: start of the window in ms; of progress alone 0, or, before a greater ``through``: this
                      upstream has lost rows of windows that end by then, of those that it was not through with
``revision``          finals: source offset of the last change of the window; a later one replaces a row
``complete``          finals: 1 when every source has passed the window, 0 when it was closed without some
``through``           finals: ms; this upstream has emitted all windows that end at or before it. Never falls;
                      0 (nothing new) on every record of a commit but the last
``rows``              rows in the value
``at``                passed on, commands, spend: append time of the source record in ms
====================  =================================================================================

A window comes again while it is hot, with the rows of those series alone that have changed, each whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from schemas.contract.headers import NATIVE
from schemas.contract.record import Headers, unknown_schema
from schemas.contract.topics import ALERT_COMMANDS
from schemas.errors import ContractError
from schemas.events.event_types import EVENTS
from schemas.limits import MINUTE_MS, WINDOW_MS
from schemas.rows.spend import SPEND
from schemas.rows.tables import EXEMPLARS, PARTIALS, Table

JSON = "application/json"
AHEAD_MS = 10 * MINUTE_MS
"""Times in a record are no later than its append time by more; else somebody's clock is wrong."""
PROGRESS_SCHEMA = "finals_progress/1"
"""Of a record without rows: it carries ``through`` alone."""
COMMANDS_SCHEMA = f"{ALERT_COMMANDS}/1"
PASSED_ON_TOPICS = ("gpu.events", "engine.events")
"""Source topics whose accepted events are passed on as they happen."""


def finals_schema(topic: str) -> str:
    """Schema of the finals of a source topic: ``llm.requests`` -> ``llm_requests_finals/1``."""
    return PARTIALS[topic].schema.replace("_partials/", "_finals/")


TOPIC_BY_SCHEMA: dict[str, str] = {finals_schema(topic): topic for topic in PARTIALS}
"""Source topic by schema of its finals."""
TABLE_BY_SCHEMA: dict[str, Table] = {
    **{schema: PARTIALS[topic] for schema, topic in TOPIC_BY_SCHEMA.items()},
    EXEMPLARS.schema: EXEMPLARS,
}
"""The fields of a finals or exemplars record's block, by its schema."""
PASSED_ON_SCHEMAS: dict[str, str] = {event.schema: event.topic for event in EVENTS if event.topic in PASSED_ON_TOPICS}
"""Source topic by schema of a passed-on record."""


@dataclass(frozen=True, slots=True)
class FinalsHeaders:
    """Of a record of finals or exemplars, or of progress alone (``rows`` is 0, and ``window_ms`` but for what was
    lost)."""

    schema: str
    upstream: int
    window_ms: int
    revision: int
    complete: bool
    through_ms: int
    rows: int

    def encode(self) -> Headers:
        """As headers of a record, in canonical order."""
        return (
            ("schema", self.schema.encode()),
            ("content-type", NATIVE.encode()),
            ("upstream", b"%d" % self.upstream),
            ("window", b"%d" % self.window_ms),
            ("revision", b"%d" % self.revision),
            ("complete", b"%d" % self.complete),
            ("through", b"%d" % self.through_ms),
            ("rows", b"%d" % self.rows),
        )


@dataclass(frozen=True, slots=True)
class PassedOnHeaders:
    """Of a passed-on record, spend, or a command (``rows`` is 1)."""

    schema: str
    at_ms: int
    rows: int

    def encode(self) -> Headers:
        """As headers of a record, in canonical order."""
        content_type = JSON if self.schema == COMMANDS_SCHEMA else NATIVE
        return (
            ("schema", self.schema.encode()),
            ("content-type", content_type.encode()),
            ("at", b"%d" % self.at_ms),
            ("rows", b"%d" % self.rows),
        )


def decode(headers: Headers, where: str, at_ms: int | None = None) -> FinalsHeaders | PassedOnHeaders:
    """The headers of a record of ``window.finals``; headers we do not know are left out. ``at_ms`` is when it was
    appended; None: its times are not compared with that.

    Raises ``ContractError``, which names ``where``, for a record that none of our jobs wrote, or of times that cannot
    be: between windows, or ``AHEAD_MS`` and more after ``at_ms``.
    """
    found = dict(headers)
    schema = found.get("schema", b"").decode("ascii", "replace")
    try:
        if schema in PASSED_ON_SCHEMAS or schema in (COMMANDS_SCHEMA, SPEND.schema):
            return PassedOnHeaders(schema, int(found["at"]), int(found["rows"]))
        if schema in TABLE_BY_SCHEMA or schema == PROGRESS_SCHEMA:
            finals = FinalsHeaders(
                schema=schema,
                upstream=int(found["upstream"]),
                window_ms=int(found["window"]),
                revision=int(found["revision"]),
                complete=found["complete"] == b"1",
                through_ms=int(found["through"]),
                rows=int(found["rows"]),
            )
            _check_times(finals, where, at_ms)
            return finals
    except (KeyError, ValueError) as error:
        raise ContractError(f"{where}: a header of schema {schema} is missing or no number: {error}") from error
    known = (*PASSED_ON_SCHEMAS, COMMANDS_SCHEMA, SPEND.schema, *TABLE_BY_SCHEMA, PROGRESS_SCHEMA)
    raise unknown_schema(where, schema, known)


def _check_times(headers: FinalsHeaders, where: str, at_ms: int | None) -> None:
    for name, time_ms in (("window", headers.window_ms), ("through", headers.through_ms)):
        if time_ms < 0 or time_ms % WINDOW_MS:
            raise ContractError(f"{where}: {name} {time_ms} is between windows of {WINDOW_MS} ms; who wrote it?")
        if at_ms is not None and time_ms > at_ms + AHEAD_MS:
            raise ContractError(f"{where}: {name} {time_ms} is more than {AHEAD_MS} ms after it was written, {at_ms}")
