"""From records to inserts: nothing is lost or made up, and every row says where it came from."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import native
from schemas.codec.build import block_from_rows
from schemas.contract.headers import Identity
from schemas.contract.record import Record
from schemas.errors import ContractError
from schemas.limits import DAY_MS, DEFAULT_LIMITS
from schemas.rows.costs import COSTS
from schemas.rows.tables import ACTIONS, ALERT_HISTORY, BOOKS, PARTIALS, PRODUCER_BOOKS, REJECTED, TABLES, Table
from schemas.rows.usage import USAGE
from sinks.landing import (
    AHEAD_MS_MAX,
    BEHIND_MS_MAX,
    EDGE_TOPICS,
    TABLES_OF,
    Landing,
    land_derived,
    land_raw,
    together,
)
from sinks.service import _DERIVED
from tests.unit.sinks.landing_cases import LOG_IDS, NOW_MS, Row, derived, full, partials, requests, rows_landed

FIELDS = PARTIALS["llm.requests"].fields
SPOOL = "0123456789abcdef0123456789abcdef"
PLACE = ("source_partition", "source_offset_to", "log_id", "log_partition", "log_offset", "log_row")
WINDOW_MS = NOW_MS - NOW_MS % 10_000

a_row = st.fixed_dictionaries(
    {
        "window_ms": st.sampled_from([WINDOW_MS, WINDOW_MS - 10_000, WINDOW_MS - 3_600_000]),
        "grouping": st.sampled_from(["service", "engine"]),
        "event_count": st.integers(1, 1_000),
        "model": st.none() | st.sampled_from(["m1", "m2", "é"]),
        "ttft_us_min": st.none() | st.integers(0, 10**9),
        "ttft_us_bins": st.dictionaries(st.integers(0, 1_000), st.integers(1, 99), max_size=4).map(
            lambda bins: dict(sorted(bins.items()))
        ),
    }
)


def land(*records: Record) -> Landing:
    return land_derived(records, LOG_IDS, NOW_MS, DEFAULT_LIMITS)


@settings(max_examples=40, deadline=None)
@given(batches=st.lists(st.lists(a_row, max_size=5), min_size=1, max_size=6))
def test_one_insert_holds_exactly_the_rows_of_all_records(batches: list[list[Row]]) -> None:
    """Rows in order, each with (log id, partition, offset, row) and the source partition of its record."""
    records = [partials(rows, 100 + n, partition=n % 3, source_partition=n % 2) for n, rows in enumerate(batches)]
    expected = [
        {
            **full(FIELDS, row),
            "source_partition": n % 2,
            "source_offset_to": 101 + n,
            "log_id": "aaaa",
            "log_partition": n % 3,
            "log_offset": 100 + n,
            "log_row": number,
        }
        for n, rows in enumerate(batches)
        for number, row in enumerate(rows)
    ]

    landing = land(*records)

    assert [row for insert in landing.inserts for row in rows_landed(insert)] == expected
    assert len(landing.inserts) == (1 if expected else 0)
    assert landing.dirty == {("llm.requests", row["window_ms"] // 60_000 * 60_000) for row in expected}


def test_usage_lands_beside_partials_and_dirties_no_rollup() -> None:
    """In a table of its own, each row with its place in the log; older than partials are kept: counted."""
    row = {"window_ms": WINDOW_MS, "requests": 1, "prefill_tokens": 7, "cached_tokens": None, "tenant": "a"}
    old = row | {"window_ms": NOW_MS - DEFAULT_LIMITS.partials_ttl_ms}
    partial = {"window_ms": WINDOW_MS, "grouping": "service", "event_count": 1}

    landing = land(derived(USAGE, [row, old, row], "window.partials", 7, partition=2), partials([partial], 8))

    found = {insert.table: rows_landed(insert) for insert in landing.inserts}
    place = {"log_id": "aaaa", "log_partition": 2, "log_offset": 7}
    assert found["usage"] == [full(USAGE.fields, row) | place | {"log_row": number} for number in (0, 2)]
    assert len(found["llm_requests_partials"]) == 1
    assert landing.dirty == {("llm.requests", WINDOW_MS // 60_000 * 60_000)}
    assert landing.expired == {"usage": 1}


def test_rows_land_the_same_however_records_are_cut() -> None:
    """One record at a time or all together: the same rows with the same identity."""
    row = {"window_ms": WINDOW_MS, "grouping": "service", "event_count": 1}
    records = [partials([row] * n, n) for n in (1, 2, 3)]

    whole = [found for insert in land(*records).inserts for found in rows_landed(insert)]

    single = [found for record in records for insert in land(record).inserts for found in rows_landed(insert)]
    assert single == whole
    assert len({tuple(found[name] for name in PLACE) for found in whole}) == len(whole)


def test_every_table_has_its_own_insert() -> None:
    """Partials and books of one batch go to their tables; a record without rows goes nowhere."""
    landing = land(
        partials([], 1),
        partials([{"window_ms": WINDOW_MS, "grouping": "service", "event_count": 2}], 2),
        derived(BOOKS, [{"committed_ms": NOW_MS, "topic": "llm.requests", "events": 2}], "books", 5),
    )

    assert {insert.table: insert.rows for insert in landing.inserts} == {"llm_requests_partials": 1, "books": 1}


def test_producers_books_keep_their_own_identity() -> None:
    """(source, boot, topic) tells them apart; where they stood in the log does not matter."""
    row = {"at_ms": NOW_MS, "boot": 3, "events": 7, "source": SPOOL, "topic": "llm.requests"}

    (insert,) = land(derived(PRODUCER_BOOKS, [row], "books", 5)).inserts

    assert rows_landed(insert) == [full(PRODUCER_BOOKS.fields, row)]


def test_rows_past_their_time_are_counted_and_not_inserted() -> None:
    """The database would drop them unseen; one that is kept for another moment lands."""
    oldest = NOW_MS - DEFAULT_LIMITS.partials_ttl_ms
    rows = [{"window_ms": at, "grouping": "service", "event_count": 1} for at in (oldest, oldest + 1, WINDOW_MS)]

    landing = land(partials(rows, 1))

    assert [row["window_ms"] for row in rows_landed(landing.inserts[0])] == [oldest + 1, WINDOW_MS]
    assert landing.expired == {"llm_requests_partials": 1}


def test_a_record_of_an_unknown_schema_stops_the_sink() -> None:
    """It is not ours or we are too old: a person must look; the text names the place."""
    record = Record("window.partials", 2, 41, NOW_MS, None, b"x", (("schema", b"nonsense/9"),))

    with pytest.raises(ContractError, match=r"window.partials\[2\] offset 41 .*nonsense/9"):
        land(record)


def test_a_record_that_cannot_be_read_stops_the_sink() -> None:
    """Rows between our own processes are never guessed at."""
    headers = (("schema", PARTIALS["llm.requests"].schema.encode()), ("source-partition", b"0"), ("offsets", b"0-1"))
    record = Record("window.partials", 0, 7, NOW_MS, None, b"\x01\x01garbage", headers)

    with pytest.raises(ContractError, match=r"window.partials\[0\] offset 7 cannot be read"):
        land(record)


def test_every_derived_table_has_one_topic_that_the_sink_reads() -> None:
    """A new schema is a record that nobody may write until its topic is named; of these an edge writes books alone."""
    assert sorted(schema for tables in TABLES_OF.values() for schema in tables) == sorted(one.schema for one in TABLES)
    assert TABLES_OF.keys() == {*_DERIVED}
    assert sorted(EDGE_TOPICS) == ["books"]


OF_OTHERS = [one for one in TABLES if one not in (BOOKS, PRODUCER_BOOKS)]


@pytest.mark.parametrize("table", OF_OTHERS, ids=[one.name for one in OF_OTHERS])
def test_an_edge_writes_no_rows_of_other_topics(table: Table) -> None:
    """Bills, windows, history and audit go the way of jobs and people, whatever a record on ``books`` says it is."""
    stranger = derived(table, [{"version": 2**60, "at_ms": NOW_MS, "window_ms": WINDOW_MS}], "books", 5)

    landing = land(stranger)

    assert landing == Landing(unreadable=1)
    assert landing.first_unreadable == (
        f"books[0] offset 5 has schema '{table.schema}', which is none of this topic; who wrote it?"
    )


@pytest.mark.parametrize(
    ("topic", "table"), [("window.partials", COSTS), ("rejected", BOOKS), ("costs", ACTIONS), ("costs", ALERT_HISTORY)]
)
def test_a_record_of_another_topics_schema_stops_the_sink(topic: str, table: Table) -> None:
    """Where jobs alone write, a person must look."""
    with pytest.raises(ContractError, match="which is none of this topic"):
        land(derived(table, [{}], topic, 5))


GARBAGE = b"\x01\x01garbage"


@pytest.mark.parametrize(
    ("headers", "value"),
    [
        pytest.param((), b"x", id="no schema"),
        pytest.param((("schema", None),), b"x", id="a null schema"),
        pytest.param((("schema", b"\xff"),), b"x", id="a schema that is no text"),
        pytest.param((("schema", b"books/2"),), b"x", id="a schema of a later release, or of who wants it to seem so"),
        pytest.param((("schema", b"unread"),), b"", id="in place of a batch that is too large"),
        pytest.param((("schema", BOOKS.schema.encode()),), GARBAGE, id="damaged books"),
        pytest.param((("schema", PRODUCER_BOOKS.schema.encode()),), GARBAGE, id="damaged books of a producer"),
        pytest.param((("schema", REJECTED.schema.encode()),), b"", id="no rows of another topic"),
    ],
)
def test_no_record_of_an_edge_stops_the_sink(headers: Any, value: bytes) -> None:
    """It is counted, and those around it land."""
    bad = Record("books", 1, 8, NOW_MS, None, value, headers)
    rows = [{"committed_ms": NOW_MS, "topic": "llm.requests", "events": 2}]
    producers = [{"at_ms": NOW_MS, "boot": 3, "source": SPOOL, "topic": "llm.requests"}]
    around = [derived(BOOKS, rows, "books", 7), derived(BOOKS, rows, "books", 9)]
    around.append(derived(PRODUCER_BOOKS, producers, "books", 10))

    landing = land(around[0], bad, *around[1:])

    assert (landing.unreadable, land(bad)) == (1, Landing(unreadable=1))
    assert landing.first_unreadable.startswith("books[1] offset 8 ")
    landed = {insert.table: rows_landed(insert) for insert in landing.inserts}
    assert [row["log_offset"] for row in landed["books"]] == [7, 9]
    assert len(landed["producer_books"]) == 1


def test_a_defect_of_ours_costs_one_record_of_an_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a reader fails in a way nobody thought of: the record is counted, and the next one lands."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError("nobody thought of it")

    monkeypatch.setattr(native, "decode", fail)
    bad = Record("books", 1, 8, NOW_MS, None, GARBAGE, (("schema", BOOKS.schema.encode()),))

    landing = land(bad, derived(BOOKS, [{"committed_ms": NOW_MS, "topic": "llm.requests", "events": 2}], "books", 9))

    assert landing.unreadable == 1
    why = f"books[1] offset 8 cannot be read as {BOOKS.schema}: internal: ZeroDivisionError: nobody thought of it"
    assert (landing.first_unreadable, [insert.rows for insert in landing.inserts]) == (why, [1])


def test_books_of_days_to_come_are_left_out() -> None:
    """Each day is a partition of the table: of thousands of them in an insert the database takes none of its rows."""
    last_ms = NOW_MS + AHEAD_MS_MAX
    days = [{"committed_ms": last_ms + 1 + n * DAY_MS, "events": 1} for n in range(2_000)]
    mixed = [{"committed_ms": last_ms, "events": 2}, days[0]]

    landing = land(derived(BOOKS, days, "books", 7), derived(BOOKS, mixed, "books", 8))

    (insert,) = landing.inserts
    assert [(row["log_offset"], row["log_row"], row["events"]) for row in rows_landed(insert)] == [(8, 0, 2)]
    assert (landing.unreadable, landing.first_unreadable) == (2, "books[0] offset 7 is of a day to come")
    assert landing.dirty == {("books", last_ms - last_ms % 60_000)}


def test_a_record_of_the_year_9999_has_no_books_of_all_days_until_then() -> None:
    """Its time is what its sender says: lines of thousands of days, which the database takes none of, are left out."""
    last_ms = NOW_MS + BEHIND_MS_MAX + AHEAD_MS_MAX
    days = [{"committed_ms": last_ms + n * DAY_MS, "events": 1} for n in range(2_000)]
    record = derived(BOOKS, days, "books", 7)._replace(timestamp_ms=253_370_764_800_000)

    landing = land(record)

    assert ([insert.rows for insert in landing.inserts], landing.unreadable) == ([1], 1)
    assert landing.first_unreadable == "books[0] offset 7 is of a day to come"


def test_books_of_their_records_day_land_whatever_the_clock_says() -> None:
    """One that is days behind would leave out every record of them, for good."""
    rows = [{"committed_ms": NOW_MS, "topic": "llm.requests", "events": 2}]

    landing = land_derived([derived(BOOKS, rows, "books", 7)], LOG_IDS, NOW_MS - 3 * DAY_MS, DEFAULT_LIMITS)

    assert ([insert.rows for insert in landing.inserts], landing.unreadable) == ([1], 0)


def test_a_topic_without_log_id_stops_the_sink() -> None:
    """Without it rows of a topic that was made anew could not be told from the old ones."""
    record = partials([{"window_ms": WINDOW_MS, "grouping": "service"}], 1)

    with pytest.raises(ContractError, match="fleetpulse migrate"):
        land_derived([record], {}, NOW_MS, DEFAULT_LIMITS)


def test_a_newer_job_may_send_columns_this_sink_does_not_know() -> None:
    """They are skipped, and the known ones land."""
    table = PARTIALS["llm.requests"]
    row = full(table.fields, {"window_ms": WINDOW_MS, "grouping": "service", "event_count": 4})
    fields = (*reversed(table.fields), table.fields[0].__class__(**{**_as_dict(table.fields[1]), "name": "new_count"}))
    value = native.encode(fields, block_from_rows(fields, [{**row, "new_count": 9}]))
    record = partials([row], 3)._replace(value=value)

    (insert,) = land(record).inserts

    assert {name: rows_landed(insert)[0][name] for name in row} == row


def _as_dict(field: object) -> dict[str, object]:
    return {name: getattr(field, name) for name in field.__slots__}  # type: ignore[attr-defined]


def raw(*records: Record) -> list[Row]:
    landing = land_raw("llm.requests", records, LOG_IDS, NOW_MS, DEFAULT_LIMITS)
    return [row for insert in landing.inserts for row in rows_landed(insert)]


def test_a_raw_row_has_the_senders_identity_and_its_place() -> None:
    """(source, boot, seq, row) name the event; partition, offset and append time say where it lies in the log."""
    rows = raw(requests([NOW_MS - 5, NOW_MS - 4], 17, Identity(SPOOL, 2, 9, (2, 9)), partition=3))

    names = ("source", "boot", "seq", "row", "partition", "offset", "appended_ms", "verdict")
    assert [tuple(row[name] for name in names) for row in rows] == [
        (SPOOL, 2, 9, 0, 3, 17, NOW_MS, "accepted"),
        (SPOOL, 2, 9, 1, 3, 17, NOW_MS, "accepted"),
    ]


def test_a_raw_row_without_identity_is_known_by_its_place() -> None:
    """The log's id, the partition and the offset stand where a sender's identity would."""
    (row,) = raw(requests([NOW_MS], 17, partition=3))

    assert (row["source"], row["boot"], row["seq"], row["row"]) == ("log-dddd", 3, 17, 0)


def test_late_and_future_events_are_kept_and_say_so() -> None:
    """Raw tables hold every event that was not rejected."""
    times = [NOW_MS - 7 * 3_600_000, NOW_MS, NOW_MS + 60_000]

    assert [row["verdict"] for row in raw(requests(times, 1))] == ["late", "accepted", "future"]


@settings(max_examples=30, deadline=None)
@given(
    batches=st.lists(
        st.tuples(
            st.sampled_from([NOW_MS - 60_000, NOW_MS]), st.sampled_from(["1" * 32, "0" * 32, ""]), st.integers(1, 2)
        ),
        min_size=1,
        max_size=6,
    )
)
def test_raw_rows_come_in_the_order_of_their_table(batches: list[tuple[int, str, int]]) -> None:
    """By minute, sender, boot, number and row, so that the server need not sort; however the records come."""
    records = [
        requests([at - 3, at - 2], n, Identity(source, boot, 7 - n, (boot, 0)) if source else None, partition=n % 2)
        for n, (at, source, boot) in enumerate(batches)
    ]

    rows = raw(*records)

    keys = [(row["at_ms"] // 60_000, row["source"], row["boot"], row["seq"], row["row"]) for row in rows]
    assert keys == sorted(keys)
    assert len(set(keys)) == 2 * len(batches)
    assert {row["offset"] for row in rows} == set(range(len(batches)))
    assert raw(*reversed(records)) == rows


def test_rejected_events_do_not_land() -> None:
    """They stand in ``rejected``; the others of the same record land with the row they had."""
    record = requests([NOW_MS, -1, NOW_MS + 1], 1)

    assert [(row["at_ms"], row["row"]) for row in raw(record)] == [(NOW_MS, 0), (NOW_MS + 1, 2)]


def test_raw_events_past_their_time_are_counted() -> None:
    """By the append time: a sender's clock cannot make an event expire."""
    old = requests([NOW_MS], 1)._replace(timestamp_ms=NOW_MS - 8 * DAY_MS)

    landing = land_raw("llm.requests", [old], LOG_IDS, NOW_MS, DEFAULT_LIMITS)

    assert landing == Landing((), frozenset(), {"llm_requests": 1})


def test_landings_of_several_tables_become_one() -> None:
    """Inserts, buckets and counts of all."""
    one, two = Landing((), frozenset({("a", 1)}), {"x": 1}), Landing((), frozenset({("b", 2)}), {"y": 2})

    assert together([one, two]) == Landing((), frozenset({("a", 1), ("b", 2)}), {"x": 1, "y": 2})
